//! Questions of clients, and the keys of the pending table.

use std::fmt;
use std::hash::{Hash, Hasher};

use pmdns_config::narrow::to_u8;
use pmdns_stages::answer::LocalRef;
use pmdns_stages::cache::{Entry, Key, NameBuffer};
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::dns::{CLASS_IN, rtype};
use pmdns_stages::wire::name::{MAX_NAME, Seed, lower};
use pmdns_stages::wire::subnet::Subnet;

/// The rule that applies to a question. Questions with different rules have different answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rule {
    /// It is asked upstream, and all rules about answers apply.
    #[default]
    None,
    /// The answer is this alias, followed by its target's records in this view.
    Alias(LocalRef, u8),
    /// The answer is an alias of the reverse name of an IPv4 address, followed by that name's records in this view.
    Reverse(u8),
    /// It is asked upstream. Rules about answers of policy zones from this number on do not apply.
    Exempt(u8),
}

/// The bit that tells a rule about a reverse name from others, whose numbers have fewer bits or nearly all.
const REVERSE: u64 = 1 << 62;

impl Rule {
    /// Its contribution to the question's hash.
    fn as_number(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Alias(found, view) => Some(found.as_number() << 8 | u64::from(view)),
            Self::Reverse(view) => Some(REVERSE | u64::from(view)),
            Self::Exempt(zone) => Some(!u64::from(zone)),
        }
    }
}

/// Room for a name, in whole words.
const NAME_ROOM: usize = MAX_NAME.next_multiple_of(8);

/// A name in wire format and lower case, which takes no memory of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Name {
    len: u8,
    /// Zeros behind the name.
    bytes: [u8; NAME_ROOM],
}

impl Name {
    fn new(name: &[u8]) -> Self {
        let mut bytes = [0; NAME_ROOM];
        let len = name.len().min(MAX_NAME);
        debug_assert_eq!(len, name.len(), "names are short");
        bytes[..len].copy_from_slice(&name[..len]);
        for word in &mut bytes.as_chunks_mut::<8>().0[..len.div_ceil(8)] {
            *word = lower(u64::from_le_bytes(*word)).to_le_bytes();
        }
        Self { len: to_u8(len), bytes }
    }

    fn get(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().escape_ascii().fmt(f)
    }
}

/// A question, owned. It is the key of pending questions and of remembered failures.
///
/// Its hash covers the cache key, the rule and the network it is asked for, with the process's seed. Equality compares
/// all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    name: Name,
    qtype: u16,
    qclass: u16,
    flags: u8,
    /// Whether its answer is validated, unless the client says that it validates itself.
    pub(crate) validates: bool,
    hash: u64,
    /// Hash of the part that replies repeat: name, type and class.
    kin: u64,
    /// The network it is asked for (RFC 7871), if for one in particular.
    subnet: Option<Subnet>,
    rule: Rule,
    /// Hash of all that.
    pub(crate) full_hash: u64,
}

impl Question {
    /// The question of the client of `miss`, for no network in particular.
    pub(crate) fn of(miss: &Miss, seed: Seed) -> Self {
        Self::of_hashed(miss.key(), miss.key, seed)
    }

    /// The question that an entry under `key` answers.
    pub(crate) fn of_key(key: Key<'_>, seed: Seed) -> Self {
        Self::of_hashed(key, seed.hash(key.name), seed)
    }

    fn of_hashed(key: Key<'_>, name_hash: u64, seed: Seed) -> Self {
        let kin = Key { flags: 0, ..key }.hash(seed, name_hash);
        Self::new(key, key.hash(seed, name_hash), kin)
    }

    fn new(key: Key<'_>, hash: u64, kin: u64) -> Self {
        Self {
            name: Name::new(key.name),
            qtype: key.qtype,
            qclass: key.qclass,
            flags: key.flags,
            validates: false,
            hash,
            kin,
            subnet: None,
            rule: Rule::None,
            full_hash: hash,
        }
    }

    /// The same question, with or without validation.
    pub(crate) fn validating(self, validates: bool) -> Self {
        Self { validates, ..self }
    }

    /// Whether the answer is validated: the client does not say that it does so itself (RFC 4035 section 4.9.2).
    pub(crate) fn is_checked(&self) -> bool {
        self.validates && self.flags & Key::CD == 0
    }

    /// The key, with a name in the zone whose upstreams are asked. DS records stand on the upper side of a zone cut (RFC 4035
    /// section 3.1.4.1), so they are asked for in the zone above. The zone itself has the proof of another side, or none.
    pub(crate) fn zone(&self) -> Key<'_> {
        zone_of(self.key())
    }

    /// The flags that it is asked with, as in its key. A validator needs the data even if the upstream's own validation
    /// refuses them (RFC 6840 section 5.9).
    pub(crate) fn asked_flags(&self) -> u8 {
        if self.is_checked() { self.flags | Key::DO | Key::CD } else { self.flags }
    }

    /// The question of probes: the root's SOA record, which is short, and which every resolver knows.
    pub(crate) fn probe() -> Self {
        Self::new(Key { name: &[0], qtype: rtype::SOA, qclass: CLASS_IN, flags: 0 }, 0, 0)
    }

    /// The question that an entry of the cache answers.
    pub(crate) fn of_entry(entry: &Entry, seed: Seed) -> Self {
        let mut buffer = NameBuffer::default();
        Self::of_key(entry.key(&mut buffer), seed)
    }

    /// Makes it the same question for this network, or for none in particular.
    pub(crate) fn ask_for(&mut self, subnet: Option<Subnet>, seed: Seed) {
        self.subnet = subnet;
        self.hash_again(seed);
    }

    /// The same question under another rule.
    pub(crate) fn under(mut self, rule: Rule, seed: Seed) -> Self {
        self.apply(rule, seed);
        self
    }

    /// Makes it the same question under another rule.
    pub(crate) fn apply(&mut self, rule: Rule, seed: Seed) {
        self.rule = rule;
        self.hash_again(seed);
    }

    /// The rule that applies to it.
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
        Key { name: self.name.get(), qtype: self.qtype, qclass: self.qclass, flags: self.flags }
    }

    /// Hash of what it has in common with its variants, to which the same reply might belong.
    pub(crate) fn kin(&self) -> u64 {
        self.kin
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

/// As [`Question::zone`], for any key.
pub(crate) fn zone_of(key: Key<'_>) -> Key<'_> {
    match key.name.split_first() {
        Some((label @ 1.., rest)) if key.qtype == rtype::DS => {
            Key { name: rest.get(usize::from(*label)..).unwrap_or(key.name), ..key }
        }
        _ => key,
    }
}
