//! Data of every type, from text to bytes and back.

mod zone;

use super::words::{Word, ZoneFileEntries};
use super::{read_data, suits, type_name, type_number};

const ORIGIN: &[u8] = b"\x07example\0";

/// The data that a text stands for, or the problem.
fn read(rtype: &str, text: &str) -> Result<Vec<u8>, String> {
    let mut entries = ZoneFileEntries::new(text.as_bytes());
    let words: Vec<Word<'_>> = match entries.next().map_err(|(_, problem)| problem)? {
        Some(entry) => entry.words().to_vec(),
        None => Vec::new(),
    };
    read_data(type_number(rtype).unwrap(), &words, Some(ORIGIN)).map_err(|(_, problem)| problem)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A text of each type, and its data in hexadecimal digits.
const DATA: &[(&str, &str, &str)] = &[
    ("A", "192.0.2.1", "c0000201"),
    ("NS", "@", "076578616d706c6500"),
    ("MD", "a", "0161076578616d706c6500"),
    ("MF", "a.", "016100"),
    ("CNAME", "@", "076578616d706c6500"),
    (
        "SOA",
        "@ a. 1 2h 1m30s 4 1W",
        "076578616d706c6500016100000000010000 1c200000005a0000000400093a80",
    ),
    ("MB", "a.", "016100"),
    ("MG", "a.", "016100"),
    ("MR", "a.", "016100"),
    ("NULL", "\\# 1 00", "00"),
    ("WKS", "192.0.2.1 tcp 0 smtp 26", "c00002010680000060"),
    ("WKS", "192.0.2.1 17", "c000020111"),
    ("PTR", "@", "076578616d706c6500"),
    ("HINFO", "a \"b c\"", "016103622063"),
    ("MINFO", "a. b.", "016100016200"),
    ("MX", "10 @", "000a076578616d706c6500"),
    ("TXT", "\"a;\\\"\" @ \\065 \"\"", "03613b220140014100"),
    ("RP", "a. .", "01610000"),
    ("AFSDB", "1 a.", "0001016100"),
    ("X25", "311061700956", "0c333131303631373030393536"),
    ("ISDN", "150862028003217 004", "0f31353038363230323830303332313703303034"),
    ("ISDN", "1", "0131"),
    ("RT", "2 a.", "0002016100"),
    ("NSAP", "0x47.0005.80.005a00", "47000580005a00"),
    ("NSAP-PTR", "a.", "016100"),
    ("SIG", "A 5 1 60 1 2 3 . AQ==", "000105010000003c0000000100000002000300 01"),
    ("KEY", "ZONE DNSSEC RSASHA1 AQ==", "0100030501"),
    ("KEY", "NOKEY 3 0", "c0000300"),
    ("PX", "10 a. b.", "000a016100016200"),
    ("GPOS", "-32.6882 116.8652 10.0", "082d33322e36383832083131362e383635320431302e30"),
    ("AAAA", "2001:db8::1", "20010db8000000000000000000000001"),
    ("LOC", "42 21 54 N 71 06 18 W -24m 30m", "0033161389172dd070be15f000988d20"),
    ("LOC", "0 N 0 E 0", "0012161380000000800000000098 9680"),
    ("NXT", "a. A NXT", "01610040000002"),
    ("EID", "e32c6f78163a93", "e32c6f78163a93"),
    ("NIMLOC", "32 25", "3225"),
    ("SRV", "1 2 53 @", "000100020035076578616d706c6500"),
    ("ATMA", "39.246f", "0039246f"),
    ("ATMA", "+61.2", "01363132"),
    (
        "NAPTR",
        "1 2 u E2U+sip \"!^.*$!\\\\1!\" .",
        "00010002017507453255 2b736970 09215e2e2a24215c3121 00",
    ),
    ("KX", "1 a.", "0001016100"),
    ("CERT", "PGP 0 RSASHA256 AQ==", "000300000801"),
    ("A6", "64 ::1234:5678:9abc:def0 a.", "40123456789abcdef0016100"),
    ("A6", "0 2001:db8::1", "0020010db8000000000000000000000001"),
    ("A6", "128 a.", "80016100"),
    ("DNAME", "@", "076578616d706c6500"),
    ("SINK", "1 2 3 AQ==", "01020301"),
    (
        "APL",
        "1:192.168.32.0/21 !1:192.168.38.0/28 2:ff00::/8",
        "00011503c0a82000011c83c0a826000208 01ff",
    ),
    ("APL", "", ""),
    (
        "DS",
        "60485 5 SHA-1 2bb183af5f22588179a53b0a98631fad1a292118",
        "ec4505012bb183af5f22588179a53b0a98631fad1a292118",
    ),
    ("SSHFP", "1 1 00ff", "010100ff"),
    ("IPSECKEY", "10 1 2 192.0.2.38 AQ==", "0a0102c000022601"),
    ("IPSECKEY", "10 0 2 . AQ==", "0a000201"),
    ("IPSECKEY", "10 3 2 a. AQ==", "0a030201610001"),
    (
        "RRSIG",
        "TYPE65280 13 2 60 20240101000000 20231201000000 1 @ AQ==",
        "ff000d020000003c65920080 656922000001076578616d706c650001",
    ),
    (
        "NSEC",
        "@ A TYPE1234",
        "076578616d706c6500000140 041b000000000000000000000000000000000000000000000000000020",
    ),
    ("DNSKEY", "257 3 ECDSAP256SHA256 AQ ==", "0101030d01"),
    ("DHCID", "AQID", "010203"),
    (
        "NSEC3",
        "1 1 12 aabbccdd 2t7b4g4vsa5smi47k61mv5bv1a22bojr NS",
        "0101000c04aabbccdd14174eb2409fe28bcb4887a1836f957f0a8425e27b000120",
    ),
    (
        "NSEC3",
        "SHA-1 0 0 - 2t7b4g4vsa5smi47k61mv5bv1a22bojr",
        "010000000014174eb2409fe28bcb4887a1836f957f0a8425e27b",
    ),
    ("NSEC3PARAM", "1 0 12 aabb", "0100000c02aabb"),
    ("TLSA", "3 1 1 00ff", "03010100ff"),
    ("SMIMEA", "3 1 1 00 ff", "03010100ff"),
    ("HIP", "2 200100107B1A AQID a. b.", "0602000320010010 7b1a010203016100016200"),
    ("NINFO", "a", "0161"),
    ("RKEY", "0 3 5 AQ==", "0000030501"),
    ("TALINK", "a. b.", "016100016200"),
    ("CDS", "0 0 0 00", "0000000000"),
    ("CDNSKEY", "0 3 0 AA==", "0000030000"),
    ("OPENPGPKEY", "AQ==", "01"),
    ("CSYNC", "66 3 A NS", "0000004200030001 60"),
    ("ZONEMD", "1 1 1 00ff", "00000001010100ff"),
    ("DSYNC", "CDS NOTIFY 53 a.", "003b010035016100"),
    ("HHIT", "AQ==", "01"),
    ("BRID", "AQ==", "01"),
    ("SPF", "\"v=spf1 -all\"", "0b763d73706631202d616c6c"),
    ("NID", "10 0014:4fff:ff20:ee64", "000a00144fffff20ee64"),
    ("L32", "10 10.1.2.0", "000a0a010200"),
    ("L64", "10 2001:db8:1140:1000", "000a20010db811401000"),
    ("LP", "10 a.", "000a016100"),
    ("EUI48", "00-00-5e-00-53-2a", "00005e00532a"),
    ("EUI64", "00-00-5e-ef-10-00-00-2A", "00005eef1000002a"),
    ("URI", "10 1 \"ftp://a/\"", "000a00016674703a2f2f612f"),
    ("CAA", "0 issue \"ca.example; a=b\"", "0005697373756563612e6578616d706c653b20613d62"),
    ("AVC", "a b", "01610162"),
    ("DOA", "0 1 2 \"text/plain\" -", "0000000000000001020a746578742f706c61696e"),
    ("AMTRELAY", "10 1 1 192.0.2.1", "0a81c0000201"),
    ("AMTRELAY", "10 0 0 .", "0a00"),
    ("AMTRELAY", "10 0 3 a.", "0a03016100"),
    ("RESINFO", "qnamemin exterr=15", "08716e616d656d696e096578746572723d3135"),
    ("WALLET", "BTC x", "0342544301 78"),
    ("TA", "1 8 2 00", "0001080200"),
    ("DLV", "1 8 2 00", "0001080200"),
    ("TYPE65280", "\\# 3 01 ff02", "01ff02"),
    ("A", "\\# 4 C0000201", "c0000201"),
    // RFC 9460 appendix D.
    ("HTTPS", "0 foo.example.com.", "000003666f6f076578616d706c6503636f6d00"),
    ("SVCB", "1 .", "000100"),
    ("SVCB", "16 foo.example.com. port=53", "001003666f6f076578616d706c6503636f6d00000300020035"),
    (
        "SVCB",
        "1 foo.example.com. key667=hello",
        "000103666f6f076578616d706c6503636f6d00029b000568656c6c6f",
    ),
    (
        "SVCB",
        "1 foo.example.com. key667=\"hello\\210qoo\"",
        "000103666f6f076578616d706c6503636f6d00029b000968656c6c6fd2716f6f",
    ),
    (
        "SVCB",
        "1 a. ipv6hint=\"2001:db8::1,2001:db8::53:1\"",
        "00010161000006002020010db800000000000000000000000120010db8000000000000000000530001",
    ),
    (
        "SVCB",
        "16 foo.example.org. ( alpn=h2,h3-19 mandatory=ipv4hint,alpn ipv4hint=192.0.2.1 )",
        "001003666f6f076578616d706c65036f726700000000040001000400010009026832056833 2d313900040004c0000201",
    ),
    (
        "SVCB",
        "16 foo.example.org. alpn=\"f\\\\\\\\oo\\\\,bar,h2\"",
        "001003666f6f076578616d706c65036f72670000010 00c08665c6f6f2c626172026832",
    ),
    (
        "SVCB",
        "16 foo.example.org. alpn=f\\\\\\092oo\\092,bar,h2",
        "001003666f6f076578616d706c65036f72670000010 00c08665c6f6f2c626172026832",
    ),
    (
        "HTTPS",
        "1 . alpn=h2 no-default-alpn ech=AQID dohpath=/q{?dns} ohttp key65535",
        "0001000001000302683200020000000500030102030007000 82f717b3f646e737d00080000ffff0000",
    ),
    ("HTTPS", "1 . key1=\\002h2", "00010000010003026832"),
];

#[test]
fn every_type_has_its_own_form() {
    for (rtype, text, wire) in DATA {
        let data = read(rtype, text).unwrap_or_else(|problem| panic!("{rtype} {text}: {problem}"));
        assert_eq!(hex(&data), wire.replace(' ', ""), "{rtype} {text}");
        let generic = format!("\\# {} {}", data.len(), hex(&data));
        assert_eq!(read(rtype, &generic).as_ref(), Ok(&data), "{rtype} {text}");
    }
    // Every type with a form is there.
    for number in 0..=u16::MAX {
        let problem = read(&format!("TYPE{number}"), "").err().unwrap_or_default();
        let has_form = !problem.contains("no form of its own");
        let is_there = DATA.iter().any(|(rtype, ..)| type_number(rtype) == Some(number));
        assert!(is_there || !has_form, "{}", type_name(number));
    }
}

#[test]
fn a_word_too_many_is_told() {
    // Types that end with what may be absent, or with as much as there is.
    let open =
        ["WKS", "TXT", "ISDN", "NXT", "APL", "HIP", "SPF", "NINFO", "AVC", "RESINFO", "WALLET"];
    for (rtype, text, _) in DATA.iter().filter(|(_, text, _)| !text.starts_with("\\#")) {
        let problem = read(rtype, &format!("{text} ~")).err();
        assert!(problem.is_some() || open.contains(rtype), "{rtype} {text} ~");
    }
}

#[test]
fn what_a_type_cannot_have_is_refused_with_the_text_at_fault() {
    for (rtype, text, problem) in [
        ("A", "192.0.2.999", "`192.0.2.999` is not an IPv4 address"),
        ("A", "", "an IPv4 address is missing here"),
        ("A", "192.0.2.1 x", "`x` is too much; leave it out"),
        ("MX", "10", "a name is missing after `10`"),
        ("MX", "ten a.", "`ten` is not a number up to 65535"),
        ("MX", "65536 a.", "`65536` is not a number up to 65535"),
        ("MX", "10 a..b", "`a..b` is not a domain name: empty label"),
        ("SOA", "a. b. 1 1h30 3 4 5", "`1h30` is not a time in seconds or like 1h30m"),
        ("TXT", "", "a text is missing here"),
        ("TXT", "a\\25", "`\\25` is no escape; write \\ and three digits up to 255"),
        ("DS", "1 8 2 0", "there should be pairs of hexadecimal digits here"),
        ("DS", "1 RSA 2 00", "`RSA` is not a DNSSEC algorithm like 13 or ECDSAP256SHA256"),
        ("DNSKEY", "257 3 8 AQ=", "there should be base64 here, with its `=` at the end"),
        ("CAA", "0 is-sue x", "`is-sue` is not a tag of letters and digits"),
        (
            "NULL",
            "x",
            "data of type NULL has no form of its own; write it as \\# and its length and bytes in \
             hexadecimal digits, as in \\# 2 01ff",
        ),
        ("A", "\\# 3 c00002", "a record of type A cannot have this data"),
        ("TYPE65280", "\\# 3 0102", "there are 2 bytes, but the length says 3"),
        ("LOC", "90 0 1 N 0 E 0", "an angle is more than 90 degrees"),
        ("LOC", "1 2 3 X 0 E 0", "`X` is not N or S"),
        ("LOC", "1 N 181 E 0", "`181` is not degrees, 0 to 180"),
        (
            "LOC",
            "1 N 1 E 0.001",
            "`0.001` is not an altitude in metres, -100000.00m to 42849672.95m",
        ),
        ("NSEC", "a.", "at least one record type is missing"),
        ("NXT", "a. TYPE128", "an NXT record has types up to 127 only"),
        (
            "EUI48",
            "00-00-5e-00-53",
            "`00-00-5e-00-53` is not a hardware address: 6 pairs of hexadecimal digits with `-` between them",
        ),
        ("HTTPS", "1 . alpn=h2 alpn=h3", "the parameter alpn is there twice"),
        ("HTTPS", "1 . alpn=", "`` is no value of the parameter alpn"),
        ("HTTPS", "1 . alpn=h2,,h3", "`h2,,h3` is no value of the parameter alpn"),
        ("HTTPS", "1 . port=65536", "`65536` is no value of the parameter port"),
        ("HTTPS", "1 . no-default-alpn", "the parameter no-default-alpn needs alpn beside it"),
        (
            "HTTPS",
            "1 . mandatory=port",
            "the parameter port is mandatory, so it must be there as well",
        ),
        (
            "HTTPS",
            "1 . mandatory=mandatory",
            "the parameter mandatory is mandatory, so it must be there as well",
        ),
        (
            "HTTPS",
            "1 . key01=x",
            "`key01` is no parameter; write a name like alpn, or key and its number",
        ),
        ("HTTPS", "1 . key3=x", "the value of the parameter port is not as it should be"),
    ] {
        assert_eq!(read(rtype, text), Err(problem.to_owned()), "{rtype} {text}");
    }
}

#[test]
fn bytes_that_are_no_data_of_a_type_do_not_suit_it() {
    for (rtype, text, _) in DATA {
        let number = type_number(rtype).unwrap();
        let data = read(rtype, text).unwrap();
        assert!(suits(number, &data), "{rtype} {text}");
        for len in 0..data.len() {
            // No cut makes it panic. What stays may be data of the type too.
            let _ = suits(number, &data[..len]);
        }
    }
    let no =
        |rtype: &str, data: &[u8]| assert!(!suits(type_number(rtype).unwrap(), data), "{rtype}");
    no("A", &[1, 2, 3]);
    no("A", &[1, 2, 3, 4, 5]);
    // A compression pointer.
    no("NS", &[0xc0, 0]);
    no("MX", &[0, 0, 0xc0, 2]);
    no("NS", &[1]);
    no("NS", &[0, 0]);
    no("TXT", &[]);
    no("TXT", &[2, b'a']);
    no("NSEC", &[0]);
    no("NSEC", &[0, 0, 1, 0]);
    no("NSEC", &[0, 0, 33, 1]);
    no("NSEC3", &[1, 0, 0, 0, 0, 0]);
    no("HTTPS", &[0, 1, 0, 0, 3, 0, 1, 0]);
    no("HTTPS", &[0, 1, 0, 0, 3, 0, 2, 0, 1, 0, 1, 0, 3, 2, b'h', b'2']);
    no("APL", &[0, 1, 33, 0]);
    no("APL", &[0, 1, 8, 1, 0]);
    no("LOC", &[0; 15]);
    no("CAA", &[0, 0]);
    let long = [&[63; 64][..], &[63; 64], &[63; 64], &[63; 64], &[0]].concat();
    no("NS", &long);
}
