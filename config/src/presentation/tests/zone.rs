//! Zone files: what a record has from the lines before it, directives, and mistakes.

use super::{hex, read};
use crate::presentation::{Zone, type_name};

const ORIGIN: &[u8] = b"\x07example\0";

/// The records of a zone file, as `owner TTL type data`.
fn records(text: &str) -> Result<Vec<String>, (u64, String)> {
    let mut zone = Zone::new(text.as_bytes(), ORIGIN.to_vec());
    let mut all = Vec::new();
    while let Some((record, _)) = zone.next()? {
        let (name, rtype) = (crate::name::readable(&record.name), type_name(record.rtype));
        all.push(format!("{name} {} {rtype} {}", record.ttl, hex(&record.data)));
    }
    Ok(all)
}

#[test]
fn ttls_are_those_of_the_record_or_of_the_directive_or_of_the_last() {
    let soa = "@ SOA a. b. 1 2 3 4 77\n";
    let ttls = |text: &str| -> Vec<String> {
        let records = records(text).unwrap();
        records.iter().map(|record| record.split(' ').nth(1).unwrap().to_owned()).collect()
    };
    assert_eq!(ttls(&format!("{soa}a A 192.0.2.1\n")), ["77", "77"], "the SOA record's minimum");
    assert_eq!(ttls(&format!("{soa}a 5 A 192.0.2.1\nb A 192.0.2.1\n")), ["77", "5", "77"]);
    assert_eq!(ttls("@ 9 SOA a. b. 1 2 3 4 77\na A 192.0.2.1\n"), ["9", "9"], "the last one");
    assert_eq!(ttls(&format!("$TTL 1m\n{soa}a 5 A 192.0.2.1\nb A 192.0.2.1\n")), ["60", "5", "60"]);
    assert_eq!(ttls("a A 192.0.2.1\n"), ["3600"]);
    assert_eq!(ttls("a 5 A 192.0.2.1\nb A 192.0.2.1\n"), ["5", "5"]);
}

/// `named-checkzone -D` of 9.18 was asked.
#[test]
fn the_first_record_of_a_set_decides_its_ttl_and_that_of_what_follows() {
    let ttls = |text: &str| -> Vec<String> {
        let records = records(text).unwrap();
        records.iter().map(|record| record.split(' ').nth(1).unwrap().to_owned()).collect()
    };
    assert_eq!(ttls("a 300 A 1.1.1.1\na 60 A 1.1.1.2\nb A 1.1.1.3\n"), ["300", "300", "300"]);
    assert_eq!(
        ttls("a 300 A 1.1.1.1\n 50 TXT x\n 60 A 1.1.1.2\n A 1.1.1.3\nb TXT y\n"),
        ["300", "50", "300", "300", "300"]
    );
    assert_eq!(ttls("$TTL 5\na 300 A 1.1.1.1\na A 1.1.1.2\nb A 1.1.1.3\n"), ["300", "300", "5"]);
    assert_eq!(ttls("a 300 A 1.1.1.1\nA 60 A 1.1.1.2\n"), ["300", "60"], "another spelling");
    let generated = "a 300 A 1.1.1.1\n$GENERATE 2-2 a 60 A 1.1.1.$\na 20 A 1.1.1.9\nb A 1.1.1.1\n";
    assert_eq!(ttls(generated), ["300", "60", "300", "300"]);
    let signed = |ttl: u32, of: &str| format!("a {ttl} RRSIG {of} 5 3 {ttl} 1 0 1 @ AQ==\n");
    let signed = [signed(300, "A"), signed(60, "TXT"), signed(10, "A")].concat();
    assert_eq!(ttls(&signed), ["300", "60", "300"], "a set for each type that is signed");
}

#[test]
fn ttl_and_class_stand_in_any_order() {
    for line in
        ["a 5 IN A 1.2.3.4", "a IN 5 A 1.2.3.4", "a in 5s a 1.2.3.4", "a 5 CLASS1 TYPE1 1.2.3.4"]
    {
        assert_eq!(records(line).unwrap(), ["a.example 5 A 01020304"], "{line}");
    }
    assert_eq!(records("in 5 IN A 1.2.3.4\n 7 TXT x").unwrap()[1], "in.example 7 TXT 0178");
}

#[test]
fn directives_generate_records_and_move_the_origin() {
    let text = "$TTL 5\n$GENERATE 1-2 host$ A 192.0.2.$\n$ORIGIN 2.0.192.in-addr.arpa.\n\
                $GENERATE 0-4/2 ${1,3} 60 IN PTR h-${0,2,x}.$$.\n$ORIGIN b\n$origin c\nx A 1.2.3.4";
    assert_eq!(
        records(text).unwrap(),
        [
            "host1.example 5 A c0000201",
            "host2.example 5 A c0000202",
            "001.2.0.192.in-addr.arpa 60 PTR 04682d3030012400",
            "003.2.0.192.in-addr.arpa 60 PTR 04682d3032012400",
            "005.2.0.192.in-addr.arpa 60 PTR 04682d3034012400",
            "x.c.b.2.0.192.in-addr.arpa 5 A 01020304",
        ]
    );
    let one = |line: &str| records(line).unwrap().concat();
    assert_eq!(one("$GENERATE 26-26 ${0,7,n} 1 A 1.2.3.4"), "a.1.0.0.example 1 A 01020304");
    assert_eq!(one("$GENERATE 26-26 ${0,0,N} 1 A 1.2.3.4"), "a.1.example 1 A 01020304");
    assert_eq!(one("$GENERATE 7-7 a 1 MX \"$ b\\$$.\""), "a.example 1 MX 00070362243700");
    assert_eq!(one("$GENERATE 7-7 a 1 MX $ b$."), "a.example 1 MX 000702623700");
    assert_eq!(one("$GENERATE 7-7 a 1 TXT \"\\\"x $\\\"\""), "a.example 1 TXT 03782037");
    assert_eq!(one("$GENERATE 9-9 a${-2} 1 TXT ${0,3,o}"), "a7.example 1 TXT 03303131");
}

#[test]
fn mistakes_have_their_line_and_text() {
    for (text, line, problem) in [
        (
            "\n A 1.2.3.4",
            2,
            "the line begins with a blank, so its owner is that of the record before, and there is none; write the owner",
        ),
        ("a", 1, "a record type is missing after the owner"),
        ("a IN", 1, "a record type is missing after `IN`"),
        (
            "a BAD x",
            1,
            "there is no record type `BAD`; write a mnemonic like A or AAAA, or TYPE and a number with data like \\# 2 01ff",
        ),
        ("a CH A 1.2.3.4", 1, "the record is of class CH; only IN is served"),
        ("a MD b", 1, "the types MD and MF are obsolete (RFC 973); write an MX record"),
        (
            "a WKS 1.2.3.4 tcp gopher",
            1,
            "data of type WKS: `gopher` is not a service that we know; write its port",
        ),
        (
            "a HTTPS 1 . ALPN=h2",
            1,
            "data of type HTTPS: `ALPN` is no parameter; write a name like alpn, or key and its number",
        ),
        ("a OPT x", 1, "type OPT cannot stand in a zone"),
        ("a 4000w A 1.2.3.4", 1, "the TTL is 2419200000; allowed: 0 to 2147483647"),
        ("a MX (\n 10\n b..c )", 3, "data of type MX: `b..c` is not a domain name: empty label"),
        ("$TTL x", 1, "`x` is not a time in seconds or like 1h30m"),
        ("$TTL", 1, "$TTL is followed by one time"),
        ("$ORIGIN", 1, "$ORIGIN is followed by one name"),
        ("$ORIGIN a b", 1, "$ORIGIN is followed by one name"),
        (
            "$DATE 1",
            1,
            "`$DATE` is no directive; there are $ORIGIN, $TTL and $GENERATE; a name that begins with $ is written \\$",
        ),
        (
            "$GENERATE 1",
            1,
            "$GENERATE is followed by a range, an owner, a type and data, as in $GENERATE 1-9 host$ A 192.0.2.$",
        ),
        ("$GENERATE 2-1 a A 1.2.3.4", 1, "`2-1` is not a range like 1-254 or 0-254/2"),
        ("$GENERATE 1-2/0 a A 1.2.3.4", 1, "`1-2/0` is not a range like 1-254 or 0-254/2"),
        (
            "$GENERATE 0-1048576 a A 1.2.3.4",
            1,
            "$GENERATE makes at most 1048576 records; write a shorter range",
        ),
        ("$GENERATE 254-256 a A 1.2.3.$", 1, "data of type A: `1.2.3.256` is not an IPv4 address"),
        (
            "$GENERATE 1-1 ${x} A 1.2.3.4",
            1,
            "`${x}` is not a number like ${0}, ${0,3} or ${0,2,x}, with d, o, x, X, n or N",
        ),
    ] {
        assert_eq!(records(text), Err((line, problem.to_owned())), "{text}");
    }
}

#[test]
fn what_generate_makes_is_bounded() {
    let text = format!("$GENERATE 1-1 a TXT {}", "$".repeat(400));
    assert!(records(&text).is_ok(), "pairs are dollar signs");
    let text = format!("$GENERATE 1-1 a TXT {}", "a".repeat(2049));
    assert!(records(&text).unwrap_err().1.contains("at most 2048 bytes"));
    let text = format!("$GENERATE 1-1 a TXT {}", "${0,63}".repeat(200));
    assert!(records(&text).unwrap_err().1.contains("at most 8192 bytes"));
}

#[test]
fn no_text_makes_it_panic() {
    let characters =
        [" ", "\"", "\\", "(", ")", "\n", ";", "$", "@", "a", "0", "{", "-", "=", ",", "A "];
    let n = characters.len();
    let types =
        ["TXT", "MX", "HTTPS", "CAA", "NSEC", "LOC", "APL", "WKS", "A6", "HIP", "TYPE65280"];
    for number in 0..n.pow(4) {
        let text: String = (0..4).map(|place| characters[number / n.pow(place) % n]).collect();
        for start in ["", "a IN 60 MX ", "$GENERATE 1-2 a", "$GENERATE 1-2 a TXT $", "$INCLUDE "] {
            let _ = records(&format!("{start}{text}"));
        }
        for rtype in types {
            let _ = read(rtype, &text);
        }
    }
}
