//! Redirection of names that do not exist: which names, in which views, and the addresses that clients get.
//!
//! Programs rely on NXDOMAIN. So some kinds of names are left alone, even if the operator writes them. They are names with
//! a special use, names of services, and names by which hosts look for something. The reasons are in
//! docs/adr/0056-nxdomain-redirect.md.

use std::net::IpAddr;

use pmdns_config::narrow::to_u8;
use pmdns_config::{Redirect as Settings, ViewSet};

use super::local::Entries;
use super::local_error::LocalDataError;
use super::names::{Listing, Names};
use super::zone::Reply;
use crate::cache::{Head, Key};
use crate::wire::dns::{CLASS_IN, Rcode, rtype};
use crate::wire::name::{Seed, equal, suffixes};

/// Names that are never redirected, nor is anything below them.
const SPECIAL: [&[u8]; 9] = [
    b"\x04arpa\0",      // reverse names, home.arpa, resolver.arpa: RFC 3172 section 2
    b"\x05local\0",     // RFC 6762 section 3
    b"\x05onion\0",     // RFC 7686 section 2
    b"\x04test\0",      // RFC 6761 section 6.2
    b"\x07invalid\0",   // RFC 6761 section 6.4
    b"\x09localhost\0", // RFC 6761 section 6.3
    b"\x08internal\0",  // reserved by ICANN for private use
    b"\x03alt\0",       // RFC 9476 section 2
    b"\x13use-application-dns\x03net\0", // asked by browsers, see `policy.doh_canary`
];
/// First labels by which hosts look for a service of their network. They trust the holder of the address with their traffic.
const DISCOVERY: [&[u8]; 2] = [b"\x04wpad", b"\x06isatap"];
/// So many short labels of hexadecimal digits in front are an address backwards: a question to a list of addresses (RFC 5782
/// section 2). An answer means that the address is listed.
const ADDRESS_LABELS: usize = 4;
/// The longest label of an address: a decimal byte.
const MAX_ADDRESS_LABEL: usize = 3;
/// The first label of web sites, with its length.
const WWW: &[u8] = b"\x03www";

/// The value of a name that a redirection is limited to.
pub(super) const ONLY: u32 = 1;
/// That of one it leaves alone.
pub(super) const EXCEPT: u32 = 2;

/// All redirections, in the order of the file; the first that is about a name decides.
#[derive(Debug)]
pub(super) struct Redirects {
    all: Box<[Redirect]>,
    seed: Seed,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Redirect {
    views: ViewSet,
    only_www: bool,
    /// Whether it is about the names below, and no others.
    is_limited: bool,
    names: Names,
    /// The numbers of the answers to A and AAAA queries; `None`: it has no such addresses.
    entries: [Option<u32>; 2],
}

/// The redirection that decides, by its place, and the number of the answer: `None` is an answer without records.
pub(super) type FoundRedirect = (u8, Option<u32>);

impl Redirects {
    /// These, in this order.
    pub(super) fn new(all: Vec<Redirect>, seed: Seed) -> Self {
        Self { all: all.into(), seed }
    }

    /// Whether nothing is redirected.
    pub(super) fn are_none(&self) -> bool {
        self.all.is_empty()
    }

    /// What a client in `view` gets instead of this answer to `key`, if it is redirected.
    #[inline]
    pub(super) fn find(&self, key: Key<'_>, answer: &Head, view: u8) -> Option<FoundRedirect> {
        if self.are_none() || !is_denial(answer) {
            return None;
        }
        let family = family_of(key)?;
        if is_left_alone(key.name) {
            return None;
        }
        let is_meant = |one: &Redirect| one.views.has(view) && one.is_about(key.name, self.seed);
        let place = self.all.iter().position(is_meant)?;
        Some((to_u8(place), self.all[place].entries[family]))
    }
}

impl Redirect {
    /// A redirection of `names`, each with [`ONLY`] or [`EXCEPT`].
    pub(super) fn new(
        settings: &Settings,
        views: ViewSet,
        names: Listing,
        entries: &mut Entries,
        seed: Seed,
    ) -> Result<Self, LocalDataError> {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for address in &settings.addresses {
            match address {
                IpAddr::V4(address) => v4.push(address.octets()),
                IpAddr::V6(address) => v6.push(address.octets()),
            }
        }
        let v4 = v4.iter().map(|octets| &octets[..]).collect();
        let v6 = v6.iter().map(|octets| &octets[..]).collect();
        let mut add = |rtype, data: Vec<&[u8]>| {
            let reply = (!data.is_empty()).then(|| Reply::of_all(rtype, settings.ttl, data));
            reply.map(|reply| entries.add(&reply, 0)).transpose()
        };
        Ok(Self {
            views,
            only_www: settings.only_www,
            is_limited: !settings.names.is_empty() || settings.file.is_some(),
            names: names.build(seed, |earlier, later| earlier | later),
            entries: [add(rtype::A, v4)?, add(rtype::AAAA, v6)?],
        })
    }

    fn is_about(&self, name: &[u8], seed: Seed) -> bool {
        if self.only_www && !has_first(name, WWW) {
            return false;
        }
        let listed =
            suffixes(name).filter_map(|name| self.names.find(seed.hash_loosely(name), name));
        let said = listed.fold(0, |all, one| all | one);
        said & EXCEPT == 0 && (said & ONLY != 0 || !self.is_limited)
    }
}

/// Whether an answer says that a name does not exist, and nobody has shown that it is true. An alias exists, also one to nowhere
/// (RFC 6604 section 2). What a rule has made of an answer is wanted so.
fn is_denial(answer: &Head) -> bool {
    const UNTOUCHED: u8 = Head::AUTHENTIC | Head::REWRITTEN | Head::TOO_LONG;
    let [answers, ..] = answer.counts();
    answer.rcode == Rcode::NXDOMAIN && answer.flags & UNTOUCHED == 0 && answers == 0
}

/// The place of the addresses that a query is for. `None`: it is for none, or its client validates for itself.
fn family_of(key: Key<'_>) -> Option<usize> {
    let validates = key.flags & (Key::DO | Key::CD) != 0;
    match (key.qtype, key.qclass) {
        _ if validates => None,
        (rtype::A, CLASS_IN) => Some(0),
        (rtype::AAAA, CLASS_IN) => Some(1),
        _ => None,
    }
}

/// Whether a name is of a kind that no redirection is about.
fn is_left_alone(name: &[u8]) -> bool {
    // A name of one label is a top-level domain, a probe of a browser, or one of the client's own network.
    let has_one_label = suffixes(name).nth(2).is_none();
    let is_special =
        || suffixes(name).any(|name| SPECIAL.iter().any(|special| equal(special, name)));
    let is_service = || labels(name).any(|label| label.first() == Some(&b'_'));
    let is_discovery = || DISCOVERY.iter().any(|label| has_first(name, label));
    let is_part =
        |label: &[u8]| label.len() <= MAX_ADDRESS_LABEL && label.iter().all(u8::is_ascii_hexdigit);
    let is_address = || labels(name).take_while(|label| is_part(label)).count() >= ADDRESS_LABELS;
    has_one_label || is_service() || is_discovery() || is_address() || is_special()
}

/// The labels of a name, the root's not included.
fn labels(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    suffixes(name).filter_map(|name| {
        let (len, rest) = name.split_first()?;
        rest.get(..usize::from(*len)).filter(|label| !label.is_empty())
    })
}

/// Whether a name begins with this label, which has its length in front.
fn has_first(name: &[u8], label: &[u8]) -> bool {
    name.get(..label.len()).is_some_and(|first| first.eq_ignore_ascii_case(label))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::name_of;

    #[test]
    fn names_that_programs_rely_on_are_left_alone() {
        for name in [
            ".",
            "com.",
            "qxzvjk.",
            "www.",
            "1.2.0.192.in-addr.arpa.",
            "www.HOME.arpa.",
            "arpa.",
            "www.resolver.arpa.",
            "printer.local.",
            "www.x.Onion.",
            "www.test.",
            "a.invalid.",
            "x.localhost.",
            "www.corp.internal.",
            "www.x.alt.",
            "use-application-dns.NET.",
            "www.use-application-dns.net.",
            "_dmarc.example.com.",
            "www._tcp.example.com.",
            "wpad.example.com.",
            "WPAD.example.com.",
            "isatap.example.com.",
            "2.0.0.127.list.example.",
            "254.0.0.127.list.example.",
            "1.0.0.0.f.e.list.example.",
        ] {
            assert!(is_left_alone(&name_of(name)), "{name}");
        }
        for name in [
            "www.example.",
            "a.b.example.",
            "wpads.example.",
            "x.wpad.example.",
            "mylocal.example.",
            "www.local.example.",
            "x_y.example.",
            "2.0.0.www.example.",
            "2.0.0.1277.example.",
        ] {
            assert!(!is_left_alone(&name_of(name)), "{name}");
        }
    }

    proptest! {
        #[test]
        fn nothing_below_a_special_name_is_ever_redirected(
            special in 0..SPECIAL.len(),
            above in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..20), 0..6),
            capitals in any::<bool>(),
        ) {
            let mut name: Vec<u8> = Vec::new();
            for label in &above {
                name.push(label.len() as u8);
                name.extend(label);
            }
            name.extend(SPECIAL[special]);
            if capitals {
                name.make_ascii_uppercase();
            }
            prop_assert!(is_left_alone(&name));
        }

        #[test]
        fn no_bytes_make_it_panic(name in proptest::collection::vec(any::<u8>(), 0..300)) {
            is_left_alone(&name);
            has_first(&name, WWW);
        }
    }
}
