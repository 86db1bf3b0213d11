//! The data of DNSSEC records (RFC 4034, RFC 5155), as views and small values.

use crate::message::{CanonicalRecord, be16, be32, rtype};
use crate::name;

/// A signature (RFC 4034 section 3.1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature<'r> {
    pub(crate) covered: u16,
    pub(crate) algorithm: u8,
    pub(crate) labels: u8,
    pub(crate) original_ttl: u32,
    pub(crate) expiration: u32,
    pub(crate) inception: u32,
    pub(crate) tag: u16,
    pub(crate) signer: &'r [u8],
    /// All but the signature itself: the signed data begins with it.
    pub(crate) head: &'r [u8],
    pub(crate) bytes: &'r [u8],
}

impl<'r> Signature<'r> {
    /// `None`: the record is no signature, or malformed.
    pub(crate) fn read(record: &'r CanonicalRecord) -> Option<Self> {
        if record.rtype != rtype::RRSIG || !record.is_sound {
            return None;
        }
        let data = &*record.data;
        let signer = data.get(18..)?;
        let (signer, bytes) = signer.split_at(name::length(signer)?);
        Some(Self {
            covered: be16(data, 0)?,
            algorithm: *data.get(2)?,
            labels: *data.get(3)?,
            original_ttl: be32(data, 4)?,
            expiration: be32(data, 8)?,
            inception: be32(data, 12)?,
            tag: be16(data, 16)?,
            signer,
            head: data.get(..18 + signer.len())?,
            bytes,
        })
    }

    /// What is wrong with its time, as an extended error, or how many seconds it is good for (RFC 4034 section
    /// 3.1.5: serial number arithmetic).
    pub(crate) fn seconds_left(&self, now: u64) -> Result<u32, u16> {
        let now = (now & 0xffff_ffff) as u32;
        let is_before = |one: u32, other: u32| one.wrapping_sub(other).cast_signed() < 0;
        if is_before(self.expiration, self.inception) || is_before(self.expiration, now) {
            return Err(crate::ede::EXPIRED);
        }
        if is_before(now, self.inception) {
            return Err(crate::ede::NOT_YET_VALID);
        }
        Ok(self.expiration.wrapping_sub(now))
    }
}

/// A key of a zone (RFC 4034 section 2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) tag: u16,
    pub(crate) algorithm: u8,
    pub(crate) data: Box<[u8]>,
}

impl Key {
    const ZONE: u16 = 0x100;
    /// RFC 5011 section 2.1.
    const REVOKED: u16 = 0x80;

    /// `None`: nothing may be validated with it.
    pub(crate) fn read(data: &[u8]) -> Option<Self> {
        let (flags, protocol, algorithm) = (be16(data, 0)?, *data.get(2)?, *data.get(3)?);
        let is_used = flags & Self::ZONE != 0 && flags & Self::REVOKED == 0 && protocol == 3;
        let tag = tag(data);
        (is_used && data.len() > 4).then(|| Self { tag, algorithm, data: data.into() })
    }

    /// The public key proper.
    pub(crate) fn public(&self) -> &[u8] {
        self.data.get(4..).unwrap_or_default()
    }
}

/// The key tag (RFC 4034 appendix B).
fn tag(data: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in data.chunks(2) {
        // 64 KiB of data at most: 2^15 times 2^16.
        sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
    }
    ((sum + (sum >> 16)) & 0xffff) as u16
}

/// The digest of a key (RFC 4034 section 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ds {
    pub(crate) tag: u16,
    pub(crate) algorithm: u8,
    pub(crate) digest_type: u8,
    pub(crate) digest: Box<[u8]>,
}

impl Ds {
    pub(crate) fn read(data: &[u8]) -> Option<Self> {
        let digest = data.get(4..)?.into();
        Some(Self { tag: be16(data, 0)?, algorithm: data[2], digest_type: data[3], digest })
    }
}

/// Which types a name has (RFC 4034 section 4.1.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Types<'r>(&'r [u8]);

impl<'r> Types<'r> {
    /// `None`: the windows are not in order or not whole.
    pub(crate) fn read(bitmap: &'r [u8]) -> Option<Self> {
        let (mut rest, mut next) = (bitmap, 0);
        while let Some((&window, after)) = rest.split_first() {
            let (&length, after) = after.split_first()?;
            if u16::from(window) < next || !(1..=32).contains(&length) {
                return None;
            }
            next = u16::from(window) + 1;
            rest = after.get(usize::from(length)..)?;
        }
        Some(Self(bitmap))
    }

    pub(crate) fn has(self, rtype: u16) -> bool {
        let [window, low] = rtype.to_be_bytes();
        let mut rest = self.0;
        while let [this, length, after @ ..] = rest {
            let (bits, after) = after.split_at(usize::from(*length).min(after.len()));
            if *this == window {
                let bits = bits.get(usize::from(low / 8)).copied().unwrap_or(0);
                return bits & (0x80 >> (low % 8)) != 0;
            }
            rest = after;
        }
        false
    }

    /// Whether these are the types of a delegation, seen from above.
    pub(crate) fn is_delegation(self) -> bool {
        self.has(rtype::NS) && !self.has(rtype::SOA)
    }

    /// Whether names below have their records elsewhere (RFC 6840 section 4.1).
    pub(crate) fn ends_names(self) -> bool {
        self.is_delegation() || self.has(rtype::DNAME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_from_whole_windows_in_order() {
        let types = Types::read(b"\0\x01\x62\x01\x01\x80").unwrap();
        assert!(types.has(1) && types.has(2) && types.has(6) && types.has(256));
        assert!(!types.has(3) && !types.has(257) && !types.has(48));
        for bad in [&b"\0"[..], b"\0\0", b"\0\x02\x40", b"\x01\x01\x80\0\x01\x40", b"\0\x21"] {
            assert_eq!(Types::read(bad), None, "{bad:?}");
        }
    }
}
