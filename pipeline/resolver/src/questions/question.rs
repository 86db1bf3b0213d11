//! Questions: what clients ask, and what those under way are found by.

use std::hash::{Hash, Hasher};

use pmdns_stages::answer::LocalRef;
use pmdns_stages::cache::{Entry, Key, NameBuffer};
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::dns::{CLASS_IN, rtype};
use pmdns_stages::wire::name::Seed;
use pmdns_stages::wire::subnet::Subnet;

/// What rules make of a question. Questions that differ in it have different answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rule {
    /// It is asked upstream, and rules about answers hold.
    #[default]
    None,
    /// The answer is this alias, and what it leads to in this view.
    Alias(LocalRef, u8),
    /// It is asked upstream, and no rule about answers holds of policy zones from this number on.
    Exempt(u8),
}

impl Rule {
    /// What there is to hash of it.
    fn as_number(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Alias(found, view) => Some(found.as_number() << 8 | u64::from(view)),
            Self::Exempt(zone) => Some(!u64::from(zone)),
        }
    }
}

/// A question, owned: what pending questions and remembered failures are found by.
///
/// It hashes as its cache key does and the network it is asked for, with the process's seed, and compares in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// Lower case.
    name: Box<[u8]>,
    qtype: u16,
    qclass: u16,
    flags: u8,
    /// Whether answers are validated, unless clients say that they do so themselves.
    validates: bool,
    hash: u64,
    /// The network it is asked for (RFC 7871), if for one in particular.
    subnet: Option<Subnet>,
    rule: Rule,
    /// Hash of all that.
    pub(crate) full_hash: u64,
}

impl Question {
    /// What the client of `miss` asks, for no network in particular.
    pub(crate) fn of(miss: &Miss, seed: Seed) -> Self {
        let key = miss.key();
        Self::new(key, key.hash(seed, miss.key))
    }

    /// What the cache has under `key`.
    pub(crate) fn of_key(key: Key<'_>, seed: Seed) -> Self {
        Self::new(key, key.hash(seed, seed.hash(key.name)))
    }

    fn new(key: Key<'_>, hash: u64) -> Self {
        Self {
            name: key.name.to_ascii_lowercase().into(),
            qtype: key.qtype,
            qclass: key.qclass,
            flags: key.flags,
            validates: false,
            hash,
            subnet: None,
            rule: Rule::None,
            full_hash: hash,
        }
    }

    /// The same where answers are validated, or not.
    pub(crate) fn validating(self, validates: bool) -> Self {
        Self { validates, ..self }
    }

    /// Whether the answer is validated: the client does not say that it does so itself (RFC 4035 section 4.9.2).
    pub(crate) fn is_checked(&self) -> bool {
        self.validates && self.flags & Key::CD == 0
    }

    /// The key, with a name in the zone that is asked.
    pub(crate) fn zone(&self) -> Key<'_> {
        self.zone_of(self.key())
    }

    /// Another key that is asked as this one is, with a name in the zone that is asked. Who validates asks for a
    /// delegation's DS records where they are: in the zone above (RFC 4035 section 3.1.4.1).
    pub(crate) fn zone_of<'k>(&self, key: Key<'k>) -> Key<'k> {
        match key.name.split_first() {
            Some((label @ 1.., rest)) if self.validates && key.qtype == rtype::DS => {
                Key { name: rest.get(usize::from(*label)..).unwrap_or(key.name), ..key }
            }
            _ => key,
        }
    }

    /// The flags that it is asked with, as in its key. A validator wants the data even if the upstream's own
    /// validation refuses them (RFC 6840 section 5.9).
    pub(crate) fn asked_flags(&self) -> u8 {
        if self.is_checked() { self.flags | Key::DO | Key::CD } else { self.flags }
    }

    /// What probes ask: the root's SOA record, which is short, and which every resolver knows.
    pub(crate) fn probe() -> Self {
        Self::new(Key { name: &[0], qtype: rtype::SOA, qclass: CLASS_IN, flags: 0 }, 0)
    }

    /// What an entry of the cache answers.
    pub(crate) fn of_entry(entry: &Entry) -> Self {
        let mut buffer = NameBuffer::default();
        Self::new(entry.key(&mut buffer), entry.head().hash)
    }

    /// Makes it the same question for this network, or for none in particular.
    pub(crate) fn ask_for(&mut self, subnet: Option<Subnet>, seed: Seed) {
        self.subnet = subnet;
        self.hash_again(seed);
    }

    /// The same question where rules make this of it.
    pub(crate) fn under(mut self, rule: Rule, seed: Seed) -> Self {
        self.rule = rule;
        self.hash_again(seed);
        self
    }

    /// What rules make of it.
    pub(crate) fn rule(&self) -> Rule {
        self.rule
    }

    fn hash_again(&mut self, seed: Seed) {
        let words = self.subnet.into_iter().flat_map(Subnet::words).chain(self.rule.as_number());
        self.full_hash = words.fold(self.hash, |hash, word| seed.mix(hash, word));
    }

    /// The network it is asked for.
    pub(crate) fn subnet(&self) -> Option<Subnet> {
        self.subnet
    }

    /// The cache key.
    pub(crate) fn key(&self) -> Key<'_> {
        Key { name: &self.name, qtype: self.qtype, qclass: self.qclass, flags: self.flags }
    }

    /// Hash of the cache key.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}

impl Hash for Question {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.full_hash);
    }
}
