//! What the differential lab asks: every name of its zones in every type, and each of those the way clients differ.

use std::collections::BTreeSet;

use pmdns_stages::testing::{QueryFrame, name_of, query};
use pmdns_stages::wire::dns::flag;

use crate::harness::{data, unzip};

/// Of the generator: the same questions each time.
pub(crate) const SEED: u64 = 0x706d_646e_735f_6469;

/// What `example.test` has not: long chains, a chain into another zone, sets that just fit and just do not, more types.
pub(crate) const ZONE: &str = r#"$ORIGIN diff.test.
$TTL 600
@ SOA ns1 hostmaster 1 3600 900 604800 120
@ NS ns1
@ NS ns2
ns1 A 127.0.0.10
ns2 AAAA ::10
@ MX 10 mx1
@ MX 20 mx2
mx1 A 192.0.2.21
mx2 A 192.0.2.22
mx2 AAAA 2001:db8::22
chain0 CNAME chain1
chain1 CNAME chain2
chain2 CNAME chain3
chain3 CNAME chain4
chain4 CNAME chain5
chain5 CNAME chain6
chain6 CNAME chain7
chain7 A 192.0.2.7
chain7 AAAA 2001:db8::7
short 30 CNAME long
long 3000 A 192.0.2.8
elsewhere CNAME n7.bulk.test.
nowhere CNAME no-such-name.bulk.test.
*.w CNAME chain6
under.ent TXT "below an empty name"
mixed 10 A 192.0.2.30
mixed 10 A 192.0.2.31
mixed 700 AAAA 2001:db8::30
svc1 HTTPS 0 svc2
svc2 HTTPS 1 . alpn=h2,h3 port=8443 ipv4hint=192.0.2.1,192.0.2.2 ipv6hint=2001:db8::1
svc2 SVCB 2 mx1 mandatory=alpn alpn=dot
_25._tcp.mx1 TLSA 3 1 1 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
_sip._udp SRV 10 60 5060 mx1
_sip._udp SRV 20 40 5060 mx2
h SSHFP 4 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
h URI 10 1 "https://diff.test/"
h EUI48 00-00-5e-00-53-2a
h TYPE65280 \# 5 c00c000102
h CAA 128 issuewild ";"
h TXT "one" "two" "" "four"
h NAPTR 10 100 "S" "SIP+D2U" "" _sip._udp
h LOC 37 23 30.900 N 121 59 19.000 W 7.00m 100.00m 100.00m 2.00m
h DS 12345 13 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
1.2.0.192.in-addr PTR host
xn--bcher-kva A 192.0.2.40
_ A 192.0.2.41
0 A 192.0.2.42
"#;

/// Names of [`ZONE`], and some that are not in it.
const NAMES: [&str; 31] = [
    "",
    "ns1.",
    "ns2.",
    "mx1.",
    "chain0.",
    "chain3.",
    "chain7.",
    "short.",
    "long.",
    "elsewhere.",
    "nowhere.",
    "a.w.",
    "b.c.w.",
    "w.",
    "under.ent.",
    "ent.",
    "mixed.",
    "svc1.",
    "svc2.",
    "_25._tcp.mx1.",
    "_tcp.mx1.",
    "_sip._udp.",
    "h.",
    "1.2.0.192.in-addr.",
    "xn--bcher-kva.",
    "_.",
    "0.",
    "nx.",
    "nx.ent.",
    "deep.er.nx.",
    "below.long.",
];

/// Types that are asked of each name. Not ANY, which both answer as they like (RFC 8482), nor AXFR and the like, which are
/// not questions.
const TYPES: [u16; 28] = [
    1, 2, 5, 6, 12, 13, 15, 16, 28, 29, 33, 35, 39, 43, 44, 48, 52, 59, 61, 64, 65, 99, 108, 256,
    257, 65_280, 65_281, 65_400,
];

/// How a client asks: EDNS size and DO if any, and flags besides RD.
const MANNERS: [(Option<(u16, bool)>, u16); 7] = [
    (None, 0),
    (Some((512, false)), 0),
    (Some((1232, false)), 0),
    (Some((4096, false)), flag::AD),
    (Some((1232, true)), 0),
    (Some((1232, true)), flag::CD),
    (None, flag::CD | flag::AD),
];

/// All queries. Each name and type is asked in two ways, each with a letter case of its own. Each host and each name
/// that does not exist is asked in one way.
pub(crate) fn all() -> Vec<QueryFrame> {
    let mut random = Random(SEED);
    let mut questions = Vec::new();
    for (name, qtype) in kinds() {
        for _ in 0..if is_one_of_many(&name) { 1 } else { 2 } {
            questions.push(dress(&name, qtype, &mut random));
        }
    }
    questions
}

/// So many of them, drawn by the seed.
pub(crate) fn sample(count: usize) -> Vec<QueryFrame> {
    let (mut all, mut random) = (all(), Random(SEED ^ 1));
    for at in 0..count.min(all.len()) {
        let other = at + random.below(all.len() - at);
        all.swap(at, other);
    }
    all.truncate(count);
    all
}

/// Every name and type: those of the zone here, and those that are listed for `example.test`.
fn kinds() -> BTreeSet<(String, u16)> {
    let mut kinds = BTreeSet::new();
    for name in NAMES {
        kinds.extend(TYPES.map(|qtype| (format!("{name}diff.test."), qtype)));
    }
    let listed = String::from_utf8(unzip(&data("lab-example-test.txt.gz"))).unwrap();
    for line in listed.lines() {
        let (name, qtype) = line.split_once(' ').unwrap();
        match qtype {
            "A" => kinds.extend([(name.to_owned(), 1)]),
            // One of the types that only the interesting names are listed with.
            "TXT" => kinds.extend(TYPES.map(|qtype| (name.to_owned(), qtype))),
            _ => {}
        }
    }
    kinds
}

/// Whether the name is like hundreds of others: `h17` or `nx17`.
fn is_one_of_many(name: &str) -> bool {
    let number = name.strip_prefix("nx").or_else(|| name.strip_prefix('h'));
    number.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
}

/// The question of some client, its letters upper or lower case by chance.
fn dress(name: &str, qtype: u16, random: &mut Random) -> QueryFrame {
    let (edns, flags) = MANNERS[random.below(MANNERS.len())];
    let mut name = name_of(name);
    for byte in &mut name {
        if random.below(2) == 1 {
            byte.make_ascii_uppercase();
        }
    }
    let id = random.below(1 << 16) as u16;
    QueryFrame { name, qtype, id, flags: flag::RD | flags, edns, ..query(". A") }
}

/// Numbers that look random: SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(number ^ number >> 31) * bound as u128) >> 64) as usize
    }
}
