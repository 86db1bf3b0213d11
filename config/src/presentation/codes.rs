//! Numbers that have names in zone files: registries of IANA, as BIND writes them.

use super::number::decimal;

/// A registry: numbers and their names.
type Registry = &'static [(u16, &'static str)];

/// DNS Security Algorithm Numbers.
pub(super) const ALGORITHMS: Registry = &[
    (1, "RSAMD5"),
    (2, "DH"),
    (3, "DSA"),
    (5, "RSASHA1"),
    (6, "NSEC3DSA"),
    (6, "DSA-NSEC3-SHA1"),
    (7, "NSEC3RSASHA1"),
    (7, "RSASHA1-NSEC3-SHA1"),
    (8, "RSASHA256"),
    (10, "RSASHA512"),
    (12, "ECCGOST"),
    (12, "ECC-GOST"),
    (13, "ECDSAP256SHA256"),
    (13, "ECDSA256"),
    (14, "ECDSAP384SHA384"),
    (14, "ECDSA384"),
    (15, "ED25519"),
    (16, "ED448"),
    (252, "INDIRECT"),
    (253, "PRIVATEDNS"),
    (254, "PRIVATEOID"),
];

/// Digest algorithms of DS records.
pub(super) const DIGESTS: Registry = &[
    (1, "SHA-1"),
    (1, "SHA1"),
    (2, "SHA-256"),
    (2, "SHA256"),
    (3, "GOST"),
    (4, "SHA-384"),
    (4, "SHA384"),
    (5, "GOST-2012"),
    (5, "GOST2012"),
    (6, "SM3"),
];

/// Hash algorithms of NSEC3 records.
pub(super) const HASHES: Registry = &[(1, "SHA-1")];

/// Types of CERT records (RFC 4398 section 2.1).
pub(super) const CERTIFICATES: Registry = &[
    (1, "PKIX"),
    (2, "SPKI"),
    (3, "PGP"),
    (4, "IPKIX"),
    (5, "ISPKI"),
    (6, "IPGP"),
    (7, "ACPKIX"),
    (8, "IACPKIX"),
    (253, "URI"),
    (254, "OID"),
];

/// Protocols of KEY and DNSKEY records (RFC 2535 section 3.1.3).
pub(super) const PROTOCOLS: Registry =
    &[(0, "NONE"), (1, "TLS"), (2, "EMAIL"), (3, "DNSSEC"), (4, "IPSEC"), (255, "ALL")];

/// Schemes of DSYNC records (RFC 9859).
pub(super) const SCHEMES: Registry = &[(1, "NOTIFY")];

/// Flags of KEY and DNSKEY records (RFC 2535 section 3.1.2), joined by `|`. Names of two bits exclude each other.
const KEY_FLAGS: [(u16, &str, u16); 16] = [
    (0x4000, "NOCONF", 0xc000),
    (0x8000, "NOAUTH", 0xc000),
    (0xc000, "NOKEY", 0xc000),
    (0x2000, "FLAG2", 0x2000),
    (0x1000, "EXTEND", 0x1000),
    (0x0800, "FLAG4", 0x0800),
    (0x0400, "FLAG5", 0x0400),
    (0x0000, "USER", 0x0300),
    (0x0100, "ZONE", 0x0300),
    (0x0200, "HOST", 0x0300),
    (0x0300, "NTYP3", 0x0300),
    (0x0080, "FLAG8", 0x0080),
    (0x0040, "FLAG9", 0x0040),
    (0x0020, "FLAG10", 0x0020),
    (0x0010, "FLAG11", 0x0010),
    (0x0001, "KSK", 0x0001),
];

/// The lowest bits of key flags, which sign requests: `SIG0` to `SIG15`.
const SIGNATORY: u16 = 0x000f;

/// The number that a text names, in a registry of numbers up to `max`.
pub(super) fn number_of(registry: Registry, max: u16, text: &str) -> Option<u16> {
    let named = || registry.iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
    decimal(text).filter(|number| *number <= max).or_else(|| named().map(|(number, _)| *number))
}

/// Key flags: a number, or names joined by `|`.
pub(super) fn key_flags(text: &str) -> Option<u16> {
    if let Some(number) = decimal(text) {
        return Some(number);
    }
    let (mut flags, mut taken) = (0, 0);
    for word in text.split('|') {
        let named = KEY_FLAGS.iter().find(|(_, name, _)| name.eq_ignore_ascii_case(word));
        let (value, mask) = match (named, word.get(..3)) {
            (Some((value, _, mask)), _) => (*value, *mask),
            (None, Some(sig)) if sig.eq_ignore_ascii_case("SIG") => {
                let value: u16 = decimal(&word[3..])?;
                (Some(value).filter(|value| *value <= SIGNATORY)?, SIGNATORY)
            }
            _ => return None,
        };
        if taken & mask != 0 {
            return None;
        }
        (flags, taken) = (flags | value, taken | mask);
    }
    Some(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_or_its_name_is_taken() {
        assert_eq!(number_of(ALGORITHMS, 255, "rsasha256"), Some(8));
        assert_eq!(number_of(ALGORITHMS, 255, "17"), Some(17));
        assert_eq!(number_of(ALGORITHMS, 255, "256"), None);
        assert_eq!(number_of(ALGORITHMS, 255, "RSA"), None);
        assert_eq!(number_of(DIGESTS, 255, "SHA-384"), Some(4));
    }

    #[test]
    fn flags_of_keys_have_names() {
        for (text, expected) in [
            ("257", Some(257)),
            ("ZONE|KSK", Some(257)),
            ("noconf|sig3", Some(0x4003)),
            ("ZONE|HOST", None),
            ("SIG16", None),
            ("", None),
            ("ZONE|", None),
            ("65536", None),
        ] {
            assert_eq!(key_flags(text), expected, "{text}");
        }
    }
}
