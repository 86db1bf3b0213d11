//! Extended DNS errors that validation gives (RFC 8914 section 4).

/// A budget is used up, so the reply is not judged. There is no code for budgets.
pub const INDETERMINATE: u16 = 5;
/// Signatures or proofs are wrong.
pub const BOGUS: u16 = 6;
/// All signatures have expired.
pub const EXPIRED: u16 = 7;
/// No signature is valid yet.
pub const NOT_YET_VALID: u16 = 8;
/// DS records match no key of the zone.
pub const DNSKEY_MISSING: u16 = 9;
/// There is no signature by the zone.
pub const RRSIGS_MISSING: u16 = 10;
/// The denial is not proved.
pub const NSEC_MISSING: u16 = 12;
/// DS or DNSKEY records could not be fetched.
pub const UNREACHABLE: u16 = 22;
