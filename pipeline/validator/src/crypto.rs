//! Signatures, digests and hashes, by algorithm (RFC 8624). Nothing here panics on a zone's data.

use ed448_goldilocks::{Signature as Ed448Signature, VerifyingKey};
use ring::digest::{self, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519,
    RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
    RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey,
};

use crate::message::be16;
use crate::rdata::{Ds, Key};

/// Octets of an RSA modulus, at most (RFC 3110 section 2).
const MAX_MODULUS: usize = 512;

/// Whether signatures of this algorithm can be checked.
pub(crate) fn knows_algorithm(algorithm: u8) -> bool {
    matches!(algorithm, 5 | 7 | 8 | 10 | 13..=16)
}

/// Whether digests of this kind can be checked.
pub(crate) fn knows_digest(digest_type: u8) -> bool {
    digest_of(digest_type).is_some()
}

/// The approximate microseconds of a check with this key, for the budgets of zones. Measured on a core of an AMD EPYC
/// of 2023; RSA with the longest exponent that is accepted.
pub(crate) fn check_us(key: &Key) -> u32 {
    const RSA_2048: usize = 8 + 256;
    match key.algorithm {
        5 | 7 | 8 | 10 if key.data.len() > RSA_2048 => 250,
        14 => 800,
        16 => 1300,
        _ => 60,
    }
}

/// Whether the signature over `data` is the key's.
pub(crate) fn verify(key: &Key, data: &[u8], signature: &[u8]) -> bool {
    let public = key.public();
    match key.algorithm {
        5 | 7 => rsa(&RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY, public, data, signature),
        8 => rsa(&RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, public, data, signature),
        10 => rsa(&RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY, public, data, signature),
        13 | 14 => {
            let algorithm = if key.algorithm == 13 {
                &ECDSA_P256_SHA256_FIXED
            } else {
                &ECDSA_P384_SHA384_FIXED
            };
            // RFC 6605 section 4: the point, without the octet that says it is not compressed.
            let point = [&[4], public].concat();
            UnparsedPublicKey::new(algorithm, point).verify(data, signature).is_ok()
        }
        15 => UnparsedPublicKey::new(&ED25519, public).verify(data, signature).is_ok(),
        16 => ed448(public, data, signature).is_some(),
        _ => false,
    }
}

fn rsa(parameters: &RsaParameters, public: &[u8], data: &[u8], signature: &[u8]) -> bool {
    let check = || {
        // RFC 3110 section 2: the exponent's length is in one octet, or in the two octets after a zero.
        let (length, rest) = match *public.first()? {
            0 => (usize::from(be16(public, 1)?), public.get(3..)?),
            length => (usize::from(length), &public[1..]),
        };
        let (e, n) = (strip(rest.get(..length)?), strip(rest.get(length..)?));
        if n.len() > MAX_MODULUS {
            return None;
        }
        RsaPublicKeyComponents { n, e }.verify(parameters, data, signature).ok()
    };
    check().is_some()
}

/// Without zeros in front.
fn strip(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

/// RFC 8080 section 4.
fn ed448(public: &[u8], data: &[u8], signature: &[u8]) -> Option<()> {
    let key = VerifyingKey::from_bytes(public.try_into().ok()?).ok()?;
    let signature = Ed448Signature::try_from(signature).ok()?;
    key.verify_raw(&signature, data).ok()
}

fn digest_of(digest_type: u8) -> Option<&'static digest::Algorithm> {
    match digest_type {
        1 => Some(&SHA1_FOR_LEGACY_USE_ONLY),
        2 => Some(&SHA256),
        4 => Some(&SHA384),
        _ => None,
    }
}

/// Whether this is the digest of the key of `zone` (RFC 4034 section 5.1.4).
pub(crate) fn is_digest_of(ds: &Ds, zone: &[u8], key: &Key) -> bool {
    let Some(algorithm) = digest_of(ds.digest_type) else { return false };
    let mut context = digest::Context::new(algorithm);
    context.update(zone);
    context.update(&key.data);
    context.finish().as_ref() == &*ds.digest
}

/// Octets of an NSEC3 hash.
pub(crate) const HASH_LEN: usize = 20;

/// The hash of a name (RFC 5155 section 5).
pub(crate) fn nsec3_hash(name: &[u8], salt: &[u8], iterations: u16) -> [u8; HASH_LEN] {
    let round = |data: &[u8]| {
        let mut context = digest::Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        context.update(data);
        context.update(salt);
        let mut hash = [0; HASH_LEN];
        hash.copy_from_slice(context.finish().as_ref());
        hash
    };
    (0..iterations).fold(round(name), |hash, _| round(&hash))
}

/// The cost of one hash: the blocks that SHA-1 takes in.
pub(crate) fn nsec3_cost(name: &[u8], salt: &[u8], iterations: u16) -> u32 {
    // Nine octets of padding; names and salts have 255 at most.
    let blocks =
        |length: usize| u32::try_from((length + salt.len() + 9).div_ceil(64)).unwrap_or(u32::MAX);
    blocks(name.len()) + u32::from(iterations) * blocks(HASH_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::name;

    #[test]
    fn names_hash_as_in_rfc_5155() {
        // Appendix A: H(example) and H(a.example) with 12 iterations.
        let salt = [0xaa, 0xbb, 0xcc, 0xdd];
        let hash = nsec3_hash(&name("example"), &salt, 12);
        assert_eq!(crate::nsec3::base32(&hash), *b"0p9mhaveqvm6t7vbl5lop2u3t2rp3tom");
        assert_eq!(nsec3_cost(&name("example"), &salt, 12), 13);
    }

    #[test]
    fn keys_of_any_length_do_no_harm() {
        for algorithm in 0..=17 {
            for length in [0, 1, 2, 3, 31, 32, 33, 56, 57, 58, 63, 64, 65, 96, 130, 600] {
                for fill in [0, 1, 3, 255] {
                    let data = [&[1, 0, 3, algorithm], &*vec![fill; length]].concat();
                    let key = Key { tag: 0, algorithm, data: data.into() };
                    assert!(!verify(&key, b"data", &vec![fill; length]), "{algorithm} {length}");
                    assert!(!verify(&key, b"data", &[fill; 114]), "{algorithm} {length}");
                }
            }
        }
    }
}
