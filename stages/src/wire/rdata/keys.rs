//! Keys, signatures' companions and digests.

use super::pieces::Head;

/// The flags of a KEY record that has no key (RFC 2535 section 3.1.2).
const NO_KEY: u8 = 0xc0;
/// The algorithm whose keys begin with a name (RFC 4034 appendix A.1.1).
const PRIVATE_DNS: u8 = 253;
/// Flags, protocol, algorithm.
const KEY_HEAD: usize = 4;

/// A KEY record.
pub(super) fn key(rest: &[u8]) -> Option<Head> {
    let [flags, _, _, _] = rest.first_chunk()?;
    let has_no_key = flags & NO_KEY == NO_KEY;
    (has_no_key == (rest.len() == KEY_HEAD)).then(|| zone_key(rest))?
}

/// A DNSKEY or CDNSKEY record, up to its key.
pub(super) fn zone_key(rest: &[u8]) -> Option<Head> {
    let [_, _, _, algorithm] = rest.first_chunk()?;
    Some((KEY_HEAD, *algorithm == PRIVATE_DNS))
}

/// An RKEY record, up to its key: its flags are zero.
pub(super) fn record_key(rest: &[u8]) -> Option<Head> {
    if rest.starts_with(&[0, 0]) { zone_key(rest) } else { None }
}

/// A HIP record up to its servers (RFC 8005 section 5): length of the tag, algorithm, length of the key, both.
pub(super) fn host_identity(rest: &[u8]) -> Option<Head> {
    let [tag, _, high, low] = *rest.first_chunk()?;
    let key = u16::from_be_bytes([high, low]);
    (tag > 0 && key > 0).then_some((4 + usize::from(tag) + usize::from(key), false))
}

/// A DS or DLV record.
pub(super) fn digest(rest: &[u8]) -> bool {
    rest.get(3).is_some_and(|kind| *kind != 0) && child_digest(rest)
}

/// A CDS record, which may also say that there shall be none (RFC 8078 section 4).
pub(super) fn child_digest(rest: &[u8]) -> bool {
    let Some(([_, _, _, kind], digest)) = rest.split_first_chunk() else { return false };
    match kind {
        1 => digest.len() == 20,
        2 | 3 => digest.len() == 32,
        4 => digest.len() == 48,
        _ => !digest.is_empty(),
    }
}

/// An SSHFP record (RFC 4255, RFC 6594).
pub(super) fn fingerprint(rest: &[u8]) -> bool {
    let Some(([_, kind], fingerprint)) = rest.split_first_chunk() else { return false };
    match kind {
        1 => fingerprint.len() == 20,
        2 => fingerprint.len() == 32,
        _ => true,
    }
}

/// A ZONEMD record (RFC 8976 section 2.2).
pub(super) fn zone_digest(rest: &[u8]) -> bool {
    let Some(([_, _, _, _, scheme, algorithm], digest)) = rest.split_first_chunk() else {
        return false;
    };
    let fits = match algorithm {
        0 => false,
        1 => digest.len() == 48,
        2 => digest.len() == 64,
        _ => digest.len() >= 12,
    };
    *scheme != 0 && fits
}
