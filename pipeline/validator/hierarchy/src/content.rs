//! The content of a zone: names for every kind of proof that can go wrong.

use crate::name::Name;
use crate::rtype::{
    A, AAAA, CAA, CNAME, DNAME, DNSKEY, DS, HTTPS, MX, NAPTR, NS, PTR, SOA, SRV, TXT, UNKNOWN,
};
use crate::zone::{MINIMUM, Zone};

/// Names in front of the apex that are worth a question, with types; they exist or not.
pub(crate) const QUESTIONS: &[(&str, &[u16])] = &[
    ("", &[SOA, NS, MX, TXT, A, DNSKEY, DS]),
    ("www", &[A, AAAA, MX, DS]),
    ("mail", &[MX, A]),
    ("_sip._tcp", &[SRV, A]),
    ("_tcp", &[A]),
    ("txt", &[TXT]),
    ("many", &[CAA, NAPTR, PTR, HTTPS, UNKNOWN, A]),
    ("deep.a.ent", &[A, AAAA]),
    ("a.ent", &[A]),
    ("ent", &[A, TXT]),
    ("x.ent", &[A]),
    ("none", &[A, DS]),
    ("zzz", &[A]),
    ("a.b.c.none", &[A]),
    ("below.www", &[A]),
    ("wild", &[A, TXT]),
    ("*.wild", &[A, AAAA]),
    ("any.wild", &[A, TXT, AAAA, DS]),
    ("a.b.wild", &[A, AAAA]),
    ("host.wild", &[A, TXT]),
    ("x.host.wild", &[A]),
    ("any.wildalias", &[A, AAAA, CNAME, MX]),
    ("any.wildnone", &[A]),
    ("alias", &[A, AAAA, CNAME, MX]),
    ("alias2", &[A]),
    ("to-none", &[A]),
    ("to-wild", &[A, AAAA]),
    ("to-dname", &[A]),
    ("dn", &[A, DNAME, CNAME]),
    ("www.dn", &[A, AAAA, MX]),
    ("none.dn", &[A]),
    ("deep.a.ent.away", &[A]),
    ("www.away", &[A, CNAME]),
    ("out", &[A, AAAA]),
    ("out-none", &[A]),
    ("out-open", &[A]),
    ("out-bogus", &[A]),
];

/// Fills a zone; aliases lead out of it to `secure`, `insecure` and `bogus` zones.
pub(crate) fn fill(zone: &mut Zone, number: u8, [secure, insecure, bogus]: [&str; 3]) {
    let apex = zone.apex.clone();
    let own = |labels: &str| apex.below(labels).wire().to_vec();
    let foreign = |name: &str| Name::new(name).wire().to_vec();
    let numbers = [1, 3600, 600, 86_400, MINIMUM].map(u32::to_be_bytes).concat();
    zone.add("", SOA, [&*own("NS"), &own("hostmaster"), &numbers].concat());
    zone.add("", NS, own("Ns"));
    zone.add("", NS, own("ns2"));
    zone.add("", MX, [&[0, 10], &*own("MaIl")].concat());
    zone.add("", TXT, *b"\x05apex!");
    zone.add("ns", A, [192, 0, 2, number]);
    zone.add("ns", AAAA, ipv6(number, 1));
    zone.add("ns2", A, [192, 0, 2, number]);
    zone.add("www", A, [198, 51, 100, number]);
    zone.add("www", A, [198, 51, 100, 255 - number]);
    zone.add("www", AAAA, ipv6(number, 2));
    for preference in [20, 5, 10] {
        zone.add("mail", MX, [&[0, preference], &*own("www")].concat());
    }
    zone.add("_sip._tcp", SRV, [&[0, 1, 0, 2, 0x13, 0xc4], &*own("WWW")].concat());
    zone.add("txt", TXT, *b"\x03one\x03two");
    zone.add("txt", TXT, *b"\x00");
    zone.add("txt", TXT, *b"\x02zz");
    zone.add("many", CAA, *b"\x00\x05issueca.test");
    zone.add("many", NAPTR, [b"\0\x01\0\x02\x01u\x07E2U+sip\0", &*own("www")].concat());
    zone.add("many", PTR, own("WwW"));
    zone.add("many", HTTPS, *b"\0\x01\0\0\x01\0\x03\x02h2");
    zone.add("many", UNKNOWN, [number, 0, 255, 1]);
    zone.add("deep.a.ent", A, [203, 0, 113, number]);
    zone.add("*.wild", A, [203, 0, 113, 100]);
    zone.add("*.wild", TXT, *b"\x04wild");
    zone.add("host.wild", A, [203, 0, 113, 101]);
    zone.add("*.wildalias", CNAME, own("www"));
    zone.add("*.wildnone", TXT, *b"\x04none");
    zone.add("alias", CNAME, own("wWw"));
    zone.add("alias2", CNAME, own("alias"));
    zone.add("to-none", CNAME, own("none"));
    zone.add("to-wild", CNAME, own("some.wild"));
    zone.add("to-dname", CNAME, own("www.dn"));
    zone.add("dn", DNAME, own(""));
    zone.add("away", DNAME, foreign(secure));
    zone.add("out", CNAME, foreign(&format!("www.{secure}")));
    zone.add("out-none", CNAME, foreign(&format!("none.{secure}")));
    zone.add("out-open", CNAME, foreign(&format!("www.{insecure}")));
    zone.add("out-bogus", CNAME, foreign(&format!("www.{bogus}")));
}

/// A few records, for zones that are below others.
pub(crate) fn fill_small(zone: &mut Zone, number: u8, secure: &str) {
    let apex = zone.apex.clone();
    let own = |labels: &str| apex.below(labels).wire().to_vec();
    let numbers = [1, 3600, 600, 86_400, MINIMUM].map(u32::to_be_bytes).concat();
    zone.add("", SOA, [&*own("ns"), &own("hostmaster"), &numbers].concat());
    zone.add("", NS, own("ns"));
    zone.add("ns", A, [192, 0, 2, number]);
    zone.add("www", A, [198, 51, 100, number]);
    zone.add("www", TXT, *b"\x05small");
    zone.add("*.wild", A, [203, 0, 113, number]);
    zone.add("alias", CNAME, own("www"));
    zone.add("out", CNAME, Name::new(&format!("www.{secure}")).wire());
}

/// Names in such a zone that are worth a question.
pub(crate) const SMALL_QUESTIONS: &[(&str, &[u16])] = &[
    ("", &[SOA, NS, A, DNSKEY, DS]),
    ("www", &[A, TXT, AAAA]),
    ("none", &[A]),
    ("any.wild", &[A, AAAA]),
    ("alias", &[A]),
    ("out", &[A]),
    ("below.www", &[A]),
];

fn ipv6(number: u8, host: u8) -> [u8; 16] {
    let mut address = [0; 16];
    address[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
    (address[7], address[15]) = (number, host);
    address
}
