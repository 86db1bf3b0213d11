//! The fields of the data of each record type that has a text form.

use super::field::Field::{self, *};

/// Types by their number. The others are written in the generic way only (RFC 3597 section 5).
const FORMS: &[(u16, &[Field])] = &[
    // A
    (1, &[V4]),
    // NS
    (2, &[Name]),
    // MD
    (3, &[Name]),
    // MF
    (4, &[Name]),
    // CNAME
    (5, &[Name]),
    // SOA
    (6, &[Name, Name, U32, Time, Time, Time, Time]),
    // MB
    (7, &[Name]),
    // MG
    (8, &[Name]),
    // MR
    (9, &[Name]),
    // WKS
    (11, &[Services]),
    // PTR
    (12, &[Name]),
    // HINFO
    (13, &[Text, Text]),
    // MINFO
    (14, &[Name, Name]),
    // MX
    (15, &[U16, Name]),
    // TXT
    (16, &[Texts]),
    // RP
    (17, &[Name, Name]),
    // AFSDB
    (18, &[U16, Name]),
    // X25
    (19, &[Digits]),
    // ISDN
    (20, &[Text, MaybeText]),
    // RT
    (21, &[U16, Name]),
    // NSAP
    (22, &[Nsap]),
    // NSAP-PTR
    (23, &[Name]),
    // SIG
    (24, &[Type, Algorithm, U8, U32, Stamp, Stamp, U16, Name, Base64]),
    // KEY
    (25, &[KeyFlags, Protocol, Algorithm, MaybeBase64]),
    // PX
    (26, &[U16, Name, Name]),
    // GPOS
    (27, &[Text, Text, Text]),
    // AAAA
    (28, &[V6]),
    // LOC
    (29, &[Location]),
    // NXT
    (30, &[Name, OldTypes]),
    // EID
    (31, &[Hex]),
    // NIMLOC
    (32, &[Hex]),
    // SRV
    (33, &[U16, U16, U16, Name]),
    // ATMA
    (34, &[Atm]),
    // NAPTR
    (35, &[U16, U16, Text, Text, Text, Name]),
    // KX
    (36, &[U16, Name]),
    // CERT
    (37, &[Certificate, U16, Algorithm, Base64]),
    // A6
    (38, &[A6]),
    // DNAME
    (39, &[Name]),
    // SINK
    (40, &[U8, U8, U8, MaybeBase64]),
    // APL
    (42, &[Prefixes]),
    // DS
    (43, &[U16, Algorithm, Digest, Hex]),
    // SSHFP
    (44, &[U8, U8, Hex]),
    // IPSECKEY
    (45, &[Gateway, MaybeBase64]),
    // RRSIG
    (46, &[Type, Algorithm, U8, U32, Stamp, Stamp, U16, Name, Base64]),
    // NSEC
    (47, &[Name, Types]),
    // DNSKEY
    (48, &[KeyFlags, Protocol, Algorithm, MaybeBase64]),
    // DHCID
    (49, &[Base64]),
    // NSEC3
    (50, &[HashAlgorithm, U8, U16, Salt, Hash, MaybeTypes]),
    // NSEC3PARAM
    (51, &[HashAlgorithm, U8, U16, Salt]),
    // TLSA
    (52, &[U8, U8, U8, Hex]),
    // SMIMEA
    (53, &[U8, U8, U8, Hex]),
    // HIP
    (55, &[Identity]),
    // NINFO
    (56, &[Texts]),
    // RKEY
    (57, &[KeyFlags, Protocol, Algorithm, MaybeBase64]),
    // TALINK
    (58, &[Name, Name]),
    // CDS
    (59, &[U16, Algorithm, Digest, Hex]),
    // CDNSKEY
    (60, &[KeyFlags, Protocol, Algorithm, MaybeBase64]),
    // OPENPGPKEY
    (61, &[Base64]),
    // CSYNC
    (62, &[U32, U16, MaybeTypes]),
    // ZONEMD
    (63, &[U32, U8, U8, Hex]),
    // SVCB
    (64, &[U16, Name, Parameters]),
    // HTTPS
    (65, &[U16, Name, Parameters]),
    // DSYNC
    (66, &[Type, Scheme, U16, Name]),
    // HHIT
    (67, &[Base64]),
    // BRID
    (68, &[Base64]),
    // SPF
    (99, &[Texts]),
    // NID
    (104, &[U16, Locator]),
    // L32
    (105, &[U16, V4]),
    // L64
    (106, &[U16, Locator]),
    // LP
    (107, &[U16, Name]),
    // EUI48
    (108, &[Eui48]),
    // EUI64
    (109, &[Eui64]),
    // URI
    (256, &[U16, U16, Value]),
    // CAA
    (257, &[U8, Tag, Value]),
    // AVC
    (258, &[Texts]),
    // DOA
    (259, &[U32, U32, U8, Text, MaybeBase64]),
    // AMTRELAY
    (260, &[Relay]),
    // RESINFO
    (261, &[Texts]),
    // WALLET
    (262, &[Texts]),
    // TA
    (32768, &[U16, Algorithm, Digest, Hex]),
    // DLV
    (32769, &[U16, Algorithm, Digest, Hex]),
];

/// The fields of a type's data, in their order.
pub(super) fn fields_of(rtype: u16) -> Option<&'static [Field]> {
    let at = FORMS.binary_search_by_key(&rtype, |(number, _)| *number).ok()?;
    FORMS.get(at).map(|(_, fields)| *fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presentation::type_name;

    #[test]
    fn forms_are_in_the_order_of_their_numbers_and_of_types_with_a_name() {
        assert!(FORMS.is_sorted_by_key(|(number, _)| *number));
        for (number, _) in FORMS {
            assert!(!type_name(*number).starts_with("TYPE"), "{number}");
        }
    }
}
