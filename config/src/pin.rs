//! The fingerprint of a server's public key, as written in `pin = ["sha256/..."]`.

use std::fmt;
use std::str::FromStr;

use domain::utils::base64;

/// SHA-256 of a certificate's SubjectPublicKeyInfo (RFC 7858 appendix A, RFC 7469 section 2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin(pub [u8; 32]);

/// Why a pin could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a pin. Write sha256/ and the 44 characters of base64 that \
     `openssl x509 -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64` \
     prints for the certificate"
)]
pub struct PinError(String);

impl FromStr for Pin {
    type Err = PinError;

    fn from_str(text: &str) -> Result<Self, PinError> {
        let bytes =
            text.strip_prefix("sha256/").and_then(|text| base64::decode::<Vec<u8>>(text).ok());
        let pin = bytes.and_then(|bytes| bytes.try_into().ok());
        pin.map(Self).ok_or_else(|| PinError(text.to_owned()))
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256/{}", base64::encode_string(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_32_bytes_in_base64() {
        let text = format!("sha256/{}=", "A".repeat(43));
        assert_eq!(text.parse(), Ok(Pin([0; 32])));
        assert_eq!(Pin([0; 32]).to_string(), text);
        let short = format!("sha256/{}==", "A".repeat(42));
        for wrong in [&text[7..], &short, "sha256/", "sha256/*", "sha1/AAAA"] {
            assert_eq!(wrong.parse::<Pin>(), Err(PinError(wrong.to_owned())));
        }
    }
}
