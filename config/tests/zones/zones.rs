//! Zone files from seeds: an SOA record, then entries of every type and directive, in every way to write them.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Data of each type, as zone files have it.
pub(crate) const EXAMPLES: &[(&str, &str)] = &[
    ("A", "192.0.2.1"),
    ("A", "\\# 4 C0 00 02 01"),
    ("AAAA", "2001:db8::192.0.2.1"),
    ("AFSDB", "1 @"),
    ("AMTRELAY", "10 1 1 192.0.2.1"),
    ("AMTRELAY", "10 0 0 ."),
    ("AMTRELAY", "10 0 2 2001:db8::15"),
    ("AMTRELAY", "128 1 3 relay"),
    ("APL", "1:192.168.32.0/21 !1:192.168.38.0/28 2:ff00::/8 1:0.0.0.0/0"),
    ("ATMA", "39.246f00"),
    ("ATMA", "+61.200"),
    ("AVC", "\"app-name:WOLFGANG|app-class:OAM\""),
    ("A6", "64 ::1234:5678:9abc:def0 net"),
    ("A6", "0 2001:db8::1"),
    ("A6", "57 ::ffff:5678:9abc:def0 net"),
    ("CAA", "128 issuewild \"ca.example; account=230123\""),
    ("CAA", "0 iodef mailto:sec@example.com"),
    ("CDNSKEY", "0 3 0 AA=="),
    ("CDS", "0 0 0 00"),
    ("CDS", "30795 1 1 310D27F4D82C1FC2400704EA9939FE6E1CEAA3B9"),
    ("CERT", "IPGP 65535 PRIVATEOID 1234"),
    ("CERT", "65534 0 0 MxFcby9k/yvedMfQgKzhH5er0Mu/vILz45Ik 5vXG+Q=="),
    ("CNAME", "@"),
    ("CSYNC", "66 3 A NS AAAA"),
    ("DHCID", "AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA="),
    ("DLV", "30795 1 1 310D27F4D82C1FC2400704EA9939FE6E1CEAA3B9"),
    ("DNAME", "other.@"),
    (
        "DNSKEY",
        "ZONE|KSK DNSSEC RSASHA256 AQMFD5raczCJHViKtLYhWGz8hMY9UGRuniJDBzC7w0aRyzWZriO6i2od",
    ),
    ("DNSKEY", "257 3 13 ( AQMFD5raczCJHViKtLYhWGz8hMY\n 9UGRuniJDBzC7w0aRyzWZriO6i2od )"),
    ("DOA", "0 1 2 \"\" aHR0cHM6Ly93d3cuaXNjLm9yZy8="),
    ("DOA", "4294967295 1 2 \"image/gif\" -"),
    (
        "DS",
        "12892 ECDSAP256SHA256 SHA-256 26584835CA80C81C91999F31CFAF2A0E89D4FF1C8FAFD0DDB31A85C719277C13",
    ),
    ("DS", "12892 5 SHA1 7AA4A3F416C2F2391FB7AB0D434F762CD62D1390"),
    ("EID", "12 89 AB"),
    ("EUI48", "01-23-45-67-89-ab"),
    ("EUI64", "01-23-45-67-89-AB-cd-ef"),
    ("GPOS", "-22.6882 116.8652 \"250.0\""),
    ("HINFO", "\"Generic PC clone\" NetBSD-1.4"),
    (
        "HIP",
        "2 200100107B1A74DF365639CC39F1D578 AwEAAbdxyhNuSutc5EMzxTs9LBPCIkOFH8cIvM4p9+LrV4e1 rvs @",
    ),
    ("HTTPS", "0 ."),
    ("HTTPS", "1 . alpn=\"h2,h3\" port=8443 ipv4hint=192.0.2.1,192.0.2.2"),
    ("HTTPS", "1 . mandatory=ALPN,Port alpn=h2 port=1"),
    ("HTTPS", "1 svc key65444=\"a b\\\"c\\007\" mandatory=port,alpn port=1 alpn=h3"),
    ("IPSECKEY", "10 1 2 192.0.2.38 AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ=="),
    ("IPSECKEY", "10 0 2 . AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ=="),
    ("IPSECKEY", "10 2 2 2001:db8::2002 AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ=="),
    ("IPSECKEY", "10 3 2 @ AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ=="),
    ("ISDN", "\"isdn-address\""),
    ("ISDN", "\"isdn-address\" subaddress"),
    ("KEY", "512 255 1 AQMFD5raczCJHViKtLYhWGz8hMY9UGRuniJDBzC7w0aRyzWZriO6i2od"),
    ("KEY", "NOAUTH|HOST|SIG3 TLS DSA AQMF"),
    ("KX", "10 @"),
    ("LOC", "60 9 N 24 39 E 10 20 2000 20"),
    ("LOC", "60 9 0.510 N 24 39 0.000 E 10.00m 90000000.00m 2000m 20m"),
    ("LOC", "90 S 180 W -100000.00m 0.01m 0m 1.99m"),
    ("LOC", "42 21 54 N 71 6 18 W 42849672.95m 0.09 12345.67m"),
    ("LP", "10 l64"),
    ("L32", "10 10.1.2.0"),
    ("L64", "10 14:4fff:ff20:ee64"),
    ("MB", "@"),
    ("MG", "mg"),
    ("MINFO", "rm.net em"),
    ("MR", "mrname"),
    ("MX", "10 @"),
    ("MX", "0 ."),
    ("NAPTR", "65535 65535 \"blurgh\" blorf \"!^(.*)$!\\\\1!\" @"),
    ("NID", "10 0014:4fff:ff20:ee64"),
    ("NIMLOC", "12 89 AB"),
    ("NINFO", "foo \"\""),
    ("NSAP", "0x47.0005.80.005a00.0000.0001.e133.ffffff000161.00"),
    ("NSAP-PTR", "@"),
    ("NSEC", "a.@ NS SOA MX LOC URI TYPE65280 NSEC"),
    ("NSEC3", "1 1 12 aabbccdd H9P7U7TR2U91D0V0LJS9L1GIDNP90U3H NS TYPE1234"),
    ("NSEC3PARAM", "1 1 12 aabbccdd"),
    ("NSEC3PARAM", "1 0 0 -"),
    ("NULL", "\\# 3 000102"),
    ("NXT", "a.secure A NS SOA NXT"),
    ("NXT", ". ( 127 16 017 TYPE7 A )"),
    ("OPENPGPKEY", "AQMFD5raczCJHViKtLYhWGz8hMY9UGRuniJDBzC7w0aRyzWZriO6i2od"),
    ("PTR", "@"),
    ("PX", "65535 foo bar."),
    ("RKEY", "0 255 1 AQMFD5raczCJHViKtLYhWGz8hMY9UGRuniJDBzC7w0aRyzWZriO6i2od"),
    ("RP", "mbox-dname txt-dname"),
    // BIND refuses signers with more labels than the second number.
    (
        "RRSIG",
        "NSEC 1 15 3600 20000102030405 19961211100908 2143 @ MxFcby9k/yvedMfQgKzhH5er0Mu/vILz45IkskceFGgiWCn/GxHhai6V",
    ),
    ("RRSIG", "TYPE65280 RSASHA512 15 3600 4294967295 0 65535 a. AQ=="),
    ("RT", "65535 a"),
    ("SIG", "NXT 1 4 3600 20000102030405 19961211100908 2143 foo AQ=="),
    ("SINK", "8 0 2 l4ik"),
    ("SMIMEA", "3 1 1 92003ba34942dc74152e2f2c408d29eca5a520e7f2e06bb944f4dca346baf63c"),
    ("SPF", "\"v=spf1 -all\" \"foo\""),
    ("SRV", "65535 65535 65535 old-slow-box"),
    ("SSHFP", "4 2 C76D8329954DA2835751E371544E963EFDA099080D6C58DD2BFD9A31 6E162C83"),
    ("SVCB", "7 test alpn=\"f\\\\\\\\oo\\\\,bar,h2\" no-default-alpn key667=\"hello\\210qoo\""),
    ("SVCB", "1 . ech=AQID dohpath=/q{?dns} ipv6hint=2001:db8::1,::192.0.2.1 alpn=h2"),
    ("TA", "30795 1 1 310D27F4D82C1FC2400704EA9939FE6E1CEAA3B9"),
    ("TALINK", "talink0 talink1"),
    ("TLSA", "3 1 1 92003ba34942dc74152e2f2c408d29eca5a520e7f2e06bb944f4dca346baf63c"),
    ("TXT", "\"foo;( \\\" \\\\ \\255\" bar\\ baz @ \"\" ü"),
    ("URI", "10 20 \"https://www.isc.org/\""),
    ("WKS", "10.0.0.1 tcp telnet ftp 0 1 2"),
    ("WKS", "10.0.0.1 17 domain 65535"),
    ("WKS", "10.0.0.2 tcp 65535"),
    ("X25", "123456789"),
    (
        "ZONEMD",
        "2019020700 1 1 C220B8A6ED5728A971902F7E3D4FD93ADEEA88B0453C2E8E8C863D465AB06CF34EB95B266398C98B59124FA239CB7EEB",
    ),
    ("TYPE65280", "\\# 0"),
    ("TYPE65280", "\\# 5 0102 030405"),
];

/// Data that neither reads.
pub(crate) const WRONG: &[(&str, &str)] = &[
    ("NXT", ". 128"),
    ("NSEC", ". 127"),
    // A key in base64 of a length that there is none of.
    ("HIP", "2 200100107B1A74DF365639CC39F1D578 AwEAAbd rvs @"),
    ("L32", "10 10.1.02.0"),
    // Keys are in lower case (RFC 9460 section 2.1).
    ("HTTPS", "1 . ALPN=h2"),
    ("HTTPS", "1 . KEY667=x"),
    ("HTTPS", "1 . mandatory=KEY667 key667=x"),
    // Obsolete since RFC 973 section 2: it is written MX.
    ("MD", "@"),
    ("MF", "@"),
    ("TYPE4", "\\# 1 00"),
];

/// Owners; `{}` is a number that makes each another one.
const OWNERS: [&str; 12] = [
    "n{}",
    "N{}.Sub",
    "n{}.zone.example.",
    "*.n{}",
    "n{}\\.dot",
    "n{}\\032\\009\\255",
    "_n{}._tcp",
    "in.n{}",
    "1h.n{}",
    "n{}.a.b.c.d.e.f",
    "\\$n{}",
    "n{}\\;\\\"\\(\\@",
];

/// What stands between owner and type.
const HEADS: [&str; 9] =
    ["", "IN", "300", "300 IN", "IN 1h30m", "in 0", "CLASS1 2D", "1w in", "2147483647"];

/// Lines between records.
const LINES: [&str; 13] = [
    "",
    "; a comment ( \" with ü",
    "   \t ; another",
    "$TTL 1h",
    "$TTL 86400 ; a day",
    "$ORIGIN sub",
    "$ORIGIN zone.example.",
    "$origin a.b.zone.example.",
    "$GENERATE 1-3 g{}-$ A 192.0.2.$",
    "$GENERATE 0-8/4 ${0,3,d}.g{} 60 IN CNAME ${1,0,x}.${0,5,n}.x$$.",
    "$GENERATE 10-12 g{}-${-5,2,o} TXT \"a ${0,4,X} \\\"b $\\\"\"",
    "$GENERATE 1-2 g{}-${300,7,N} MX \"$ mail-$\"",
    "$GENERATE 1-4 g{}-${-3} TXT \"${-3,5} ${-3,0,x} ${-3,9,o} ${-3,0,X} ${-3,21,n}\"",
];

/// Owners of sets, whose records stand at several places of a file. Two of them are one name.
const SET_OWNERS: [&str; 5] = ["set{}", "set", "Set", "*.set", "set.zone.example."];

/// Records of sets, some of them twice.
const SETS: [(&str, &[&str]); 4] = [
    ("A", &["192.0.2.1", "192.0.2.2", "192.0.2.3"]),
    ("TXT", &["one", "\"one\"", "( two\n three )"]),
    ("MX", &["10 a", "10 a.zone.example.", "20 b.zone.example."]),
    (
        "RRSIG",
        &[
            "A 5 15 60 20300102030405 20200101000000 1 @ AQ==",
            "TXT 5 15 60 20300102030405 20200101000000 1 @ AQ==",
            "A 5 15 60 20300102030405 20200101000000 2 @ AQ==",
        ],
    ),
];

/// Records that are of another zone, with lines that go on with their owners.
const OUTSIDE: [&str; 3] = [
    "x{}.other.example. 60 A 192.0.2.1\n",
    "x{}.other.example. A 192.0.2.1\n 2h TXT out\n",
    "$ORIGIN other.example.\nx{} 60 A 192.0.2.1\n$ORIGIN zone.example.\n TXT out\n",
];

/// A zone file.
pub(crate) fn zone() -> impl Strategy<Value = String> {
    let soa = select(
        &[
            "@ SOA ns admin 1 2 3 4 77\n",
            "@ 1h IN SOA @ admin.@ ( 2024010101 ; serial\n 1h 15m\n\t1w 300 )\n",
            "$TTL 1D\nzone.example. IN SOA ns.zone.example. a\\.b ( 4294967295 1H30M 4 5w 0 )\n",
        ][..],
    );
    (soa, vec(part(), 1..40), any::<bool>()).prop_map(|(soa, parts, has_crlf)| {
        let parts = parts.iter().enumerate();
        let text: String =
            parts.map(|(number, part)| part.replace("{}", &number.to_string())).collect();
        let text = format!("{soa}@ NS ns.zone.example.\nns.zone.example. A 192.0.2.53\n{text}");
        if has_crlf { text.replace('\n', "\r\n") } else { text }
    })
}

/// A record, or a line between records.
fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => record(),
        2 => set(),
        1 => select(&OUTSIDE[..]).prop_map(str::to_owned),
        1 => select(&LINES[..]).prop_map(|line| format!("{line}\n")),
    ]
}

fn record() -> impl Strategy<Value = String> {
    // The owner of an NSEC3 record is a hash, which BIND checks beside its form: `EXAMPLES` has it at such a name.
    let data = select(EXAMPLES).prop_filter("at any name", |(rtype, _)| *rtype != "NSEC3");
    let letters = any::<bool>();
    (select(&OWNERS[..]), select(&HEADS[..]), data, letters, spacing()).prop_map(
        |(owner, head, (rtype, data), is_lower, [one, two, three])| {
            let rtype = if is_lower { rtype.to_ascii_lowercase() } else { rtype.to_owned() };
            let comment = if two.contains('(') { ") ; )\n" } else { "\n" };
            format!("{owner}{one}{head} {rtype}{two}{data}{three}{comment}")
        },
    )
}

/// Records of one owner, most of them of lines that begin with a blank.
fn set() -> impl Strategy<Value = String> {
    let record = (select(&SETS[..]), any::<Index>(), select(&HEADS[..]), any::<bool>());
    (select(&SET_OWNERS[..]), vec(record, 1..6)).prop_map(|(owner, records)| {
        let records = records.iter().enumerate();
        let lines = records.map(|(number, ((rtype, data), at, head, is_named))| {
            let owner = if number == 0 || *is_named { owner } else { "\t" };
            format!("{owner} {head} {rtype} {}\n", data[at.index(data.len())])
        });
        lines.collect()
    })
}

/// Blanks between words: within one line, or over several in parentheses.
fn spacing() -> impl Strategy<Value = [&'static str; 3]> {
    const BLANKS: [[&str; 3]; 6] = [
        [" ", " ", ""],
        ["\t", "  \t", " "],
        [" ", " ", " ; why ( \""],
        [" ", " (", "\n "],
        [" ", " ( ; two\n\n\t", " "],
        [" ", " ((\n", ") "],
    ];
    any::<Index>().prop_map(|at| BLANKS[at.index(BLANKS.len())])
}
