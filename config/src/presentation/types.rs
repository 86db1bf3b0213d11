//! Record types: their numbers and names (RFC 6895; the registry of IANA).

use super::number::decimal;

/// All types with a name, by their number.
const TYPES: &[(u16, &str)] = &[
    (1, "A"),
    (2, "NS"),
    (3, "MD"),
    (4, "MF"),
    (5, "CNAME"),
    (6, "SOA"),
    (7, "MB"),
    (8, "MG"),
    (9, "MR"),
    (10, "NULL"),
    (11, "WKS"),
    (12, "PTR"),
    (13, "HINFO"),
    (14, "MINFO"),
    (15, "MX"),
    (16, "TXT"),
    (17, "RP"),
    (18, "AFSDB"),
    (19, "X25"),
    (20, "ISDN"),
    (21, "RT"),
    (22, "NSAP"),
    (23, "NSAP-PTR"),
    (24, "SIG"),
    (25, "KEY"),
    (26, "PX"),
    (27, "GPOS"),
    (28, "AAAA"),
    (29, "LOC"),
    (30, "NXT"),
    (31, "EID"),
    (32, "NIMLOC"),
    (33, "SRV"),
    (34, "ATMA"),
    (35, "NAPTR"),
    (36, "KX"),
    (37, "CERT"),
    (38, "A6"),
    (39, "DNAME"),
    (40, "SINK"),
    (41, "OPT"),
    (42, "APL"),
    (43, "DS"),
    (44, "SSHFP"),
    (45, "IPSECKEY"),
    (46, "RRSIG"),
    (47, "NSEC"),
    (48, "DNSKEY"),
    (49, "DHCID"),
    (50, "NSEC3"),
    (51, "NSEC3PARAM"),
    (52, "TLSA"),
    (53, "SMIMEA"),
    (55, "HIP"),
    (56, "NINFO"),
    (57, "RKEY"),
    (58, "TALINK"),
    (59, "CDS"),
    (60, "CDNSKEY"),
    (61, "OPENPGPKEY"),
    (62, "CSYNC"),
    (63, "ZONEMD"),
    (64, "SVCB"),
    (65, "HTTPS"),
    (66, "DSYNC"),
    (67, "HHIT"),
    (68, "BRID"),
    (99, "SPF"),
    (100, "UINFO"),
    (101, "UID"),
    (102, "GID"),
    (103, "UNSPEC"),
    (104, "NID"),
    (105, "L32"),
    (106, "L64"),
    (107, "LP"),
    (108, "EUI48"),
    (109, "EUI64"),
    (128, "NXNAME"),
    (249, "TKEY"),
    (250, "TSIG"),
    (251, "IXFR"),
    (252, "AXFR"),
    (253, "MAILB"),
    (254, "MAILA"),
    (255, "ANY"),
    (256, "URI"),
    (257, "CAA"),
    (258, "AVC"),
    (259, "DOA"),
    (260, "AMTRELAY"),
    (261, "RESINFO"),
    (262, "WALLET"),
    (263, "CLA"),
    (264, "IPN"),
    (32768, "TA"),
    (32769, "DLV"),
    (65533, "KEYDATA"),
];

/// What tells the sets of records of one owner apart: the type, and the type that a signature is about, or else 0.
pub(crate) type SetType = (u16, u16);

/// SIG and RRSIG (RFC 2535 section 4.1, RFC 4034 section 3.1): their data begins with the type that they are about.
const SIGNATURES: [u16; 2] = [24, 46];

/// The set that a record is one of.
pub(crate) fn set_type(rtype: u16, data: &[u8]) -> SetType {
    let covered = data.first_chunk().filter(|_| SIGNATURES.contains(&rtype));
    (rtype, covered.map_or(0, |covered| u16::from_be_bytes(*covered)))
}

/// Other names of types.
const OTHER_NAMES: [(&str, u16); 2] = [("NSAPPTR", 23), ("*", 255)];

/// The number of the record type that `text` names: a mnemonic, or TYPE and a number (RFC 3597).
pub(crate) fn type_number(text: &str) -> Option<u16> {
    let named = TYPES.iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
    let other = || OTHER_NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    let generic = || {
        let (word, number) = text.split_at_checked(4)?;
        word.eq_ignore_ascii_case("TYPE").then(|| decimal(number)).flatten()
    };
    named.map(|(number, _)| *number).or_else(|| other().map(|(_, number)| *number)).or_else(generic)
}

/// The name of the record type with this number.
pub(crate) fn type_name(number: u16) -> String {
    let at = TYPES.binary_search_by_key(&number, |(number, _)| *number);
    let named = at.ok().and_then(|at| TYPES.get(at));
    named.map_or_else(|| format!("TYPE{number}"), |(_, name)| (*name).to_owned())
}

/// Whether a type exists in queries only (RFC 6895 section 3.1): 0 is reserved, OPT and 128 to 255 are
/// meta-types or query types.
pub(crate) fn is_meta(number: u16) -> bool {
    matches!(number, 0 | 41 | 128..=255)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_in_the_order_of_their_numbers() {
        assert!(TYPES.is_sorted_by_key(|(number, _)| *number));
    }

    #[test]
    fn every_type_has_a_name_and_a_number() {
        for (number, name) in TYPES {
            assert_eq!(type_number(name), Some(*number));
            assert_eq!(type_number(&name.to_lowercase()), Some(*number));
            assert_eq!(type_name(*number), *name);
            assert_eq!(type_number(&format!("TYPE{number}")), Some(*number));
        }
        assert_eq!(type_name(65_280), "TYPE65280");
        for text in ["", "AAAAA", "TYPE", "TYPE65536", "TYPE+1", "TYPE-1", "Ä"] {
            assert_eq!(type_number(text), None, "{text}");
        }
    }

    #[test]
    fn the_names_are_those_that_the_domain_crate_knows() {
        use domain::base::iana::Rtype;
        for number in 0..=u16::MAX {
            let (ours, theirs) = (type_name(number), Rtype::from_int(number).to_string());
            // NSAP-PTR is written so in RFC 1706, and KEYDATA is BIND's own.
            assert!(ours == theirs || matches!(number, 23 | 65_533), "{ours} {theirs}");
        }
    }
}
