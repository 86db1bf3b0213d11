//! The secrets that messages to and from a primary are signed with.

use std::path::Path;

use domain::utils::base64;
use serde::Deserialize;

use crate::cookies::read_secret;
use crate::limits::{MAX_TSIG_SECRET, MIN_TSIG_SECRET};
use crate::problem::BrokenRule;
use crate::settings::Tsig;

/// A secret, written in base64.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct TsigSecret(pub Box<[u8]>);

impl Tsig {
    /// The secret of this key, read from its file if it names one.
    ///
    /// # Errors
    ///
    /// There is none, there are two, or the file has something else.
    pub fn secret(&self) -> Result<TsigSecret, BrokenRule> {
        match (&self.secret, &self.secret_file) {
            (Some(_), Some(_)) => Err(BrokenRule::Both { other: "secret" }),
            (Some(secret), None) => Ok(secret.clone()),
            (None, Some(path)) => read(path),
            (None, None) => {
                let fix = "write either, as `openssl rand -base64 32` prints it";
                Err(BrokenRule::Without { other: "secret or secret_file", fix })
            }
        }
    }
}

fn read(path: &Path) -> Result<TsigSecret, BrokenRule> {
    let text = read_secret(path)?;
    TsigSecret::try_from(text.trim().to_owned())
        .map_err(|error| BrokenRule::secret_file(path, error))
}

/// The text of a secret is none. It is not repeated: it may be one, but for a slip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a TSIG secret is {MIN_TSIG_SECRET} to {MAX_TSIG_SECRET} bytes in base64, as `openssl rand -base64 32` prints them"
)]
pub struct TsigSecretError;

impl TryFrom<String> for TsigSecret {
    type Error = TsigSecretError;

    fn try_from(text: String) -> Result<Self, TsigSecretError> {
        let secret: Vec<u8> = base64::decode(&text).map_err(|_| TsigSecretError)?;
        match (MIN_TSIG_SECRET..=MAX_TSIG_SECRET).contains(&secret.len()) {
            true => Ok(Self(secret.into())),
            false => Err(TsigSecretError),
        }
    }
}

impl std::fmt::Debug for TsigSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TsigSecret(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "c2l4dGVlbiBsZXR0ZXJzIQ==";

    #[test]
    fn secrets_are_base64_of_a_lawful_length() {
        let secret = TsigSecret::try_from(SECRET.to_owned()).unwrap();
        assert_eq!(*secret.0, *b"sixteen letters!");
        assert!(!format!("{secret:?}").contains("105"), "nobody reads it in a log");
        for wrong in ["", "c2hvcnQ=", "no base64!", "c2l4dGVlbiBsZXR0ZXJzIQ"] {
            assert_eq!(TsigSecret::try_from(wrong.to_owned()), Err(TsigSecretError), "{wrong}");
        }
    }

    #[test]
    fn a_secret_stands_in_one_place() {
        let path = std::env::temp_dir().join(format!("pmdns-tsig-{}", std::process::id()));
        std::fs::write(&path, format!("{SECRET}\n")).unwrap();
        let secret = TsigSecret::try_from(SECRET.to_owned()).unwrap();
        let key = |secret: Option<&TsigSecret>, file: Option<&Path>| Tsig {
            name: "key".into(),
            algorithm: Default::default(),
            secret: secret.cloned(),
            secret_file: file.map(Path::to_owned),
        };
        assert_eq!(key(Some(&secret), None).secret(), Ok(secret.clone()));
        assert_eq!(key(None, Some(&path)).secret(), Ok(secret.clone()));
        assert!(matches!(key(Some(&secret), Some(&path)).secret(), Err(BrokenRule::Both { .. })));
        assert!(matches!(key(None, None).secret(), Err(BrokenRule::Without { .. })));
        std::fs::write(&path, "slip").unwrap();
        assert!(matches!(key(None, Some(&path)).secret(), Err(BrokenRule::SecretFile { .. })));
        std::fs::remove_file(path).unwrap();
    }
}
