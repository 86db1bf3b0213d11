//! The secrets that DNS cookies are made with.

use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;

use crate::files::open_regular;
use crate::limits::MAX_SECRET_FILE;
use crate::problem::BrokenRule;
use crate::settings::CookieSettings;

/// A secret of 128 bits (RFC 9018 section 4.4), written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct CookieSecret(pub [u8; 16]);

/// The secret that makes cookies, and older ones that are right as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CookieSecrets {
    /// `None`: to be drawn at start.
    pub secret: Option<CookieSecret>,
    /// The secret before, or the one to come.
    pub accepted: Option<CookieSecret>,
}

impl CookieSettings {
    /// The secrets that these settings speak of, read from their file if they name one.
    ///
    /// # Errors
    ///
    /// What is wrong with the file.
    pub fn secrets(&self) -> Result<CookieSecrets, BrokenRule> {
        match &self.secret_file {
            Some(path) => read(path),
            None => Ok(CookieSecrets { secret: self.secret, accepted: self.accepted_secret }),
        }
    }
}

/// The secrets in a file of one or two lines.
fn read(path: &Path) -> Result<CookieSecrets, BrokenRule> {
    let text = read_secret(path)?;
    let lines = text.lines().map(|line| CookieSecret::try_from(line.trim().to_owned()));
    let secrets = lines
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| BrokenRule::secret_file(path, error))?;
    match secrets[..] {
        [secret] => Ok(CookieSecrets { secret: Some(secret), accepted: None }),
        [secret, accepted] => Ok(CookieSecrets { secret: Some(secret), accepted: Some(accepted) }),
        _ => Err(BrokenRule::secret_file(path, "a secret file has one line or two")),
    }
}

/// The text of a file with a secret.
pub(crate) fn read_secret(path: &Path) -> Result<String, BrokenRule> {
    let mut text = String::new();
    let read =
        open_regular(path).and_then(|file| file.take(MAX_SECRET_FILE).read_to_string(&mut text));
    read.map_err(|error| BrokenRule::secret_file(path, error))?;
    Ok(text)
}

/// The text of a secret is none. It is not repeated: it may be one, but for a slip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cookie secret is 32 hexadecimal digits, as `openssl rand -hex 16` prints them")]
pub struct SecretError;

impl TryFrom<String> for CookieSecret {
    type Error = SecretError;

    fn try_from(text: String) -> Result<Self, SecretError> {
        if text.len() != 32 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(SecretError);
        }
        u128::from_str_radix(&text, 16)
            .map(|secret| Self(secret.to_be_bytes()))
            .map_err(|_| SecretError)
    }
}

impl std::fmt::Debug for CookieSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CookieSecret(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";
    const SECOND: &str = "445536BCD2513298075A5D379663C962";

    fn secret(text: &str) -> Result<CookieSecret, SecretError> {
        CookieSecret::try_from(text.to_owned())
    }

    /// The contents of a file with this text.
    fn from_file(name: &str, text: &str) -> Result<CookieSecrets, BrokenRule> {
        let path = std::env::temp_dir().join(format!("pmdns-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let cookies =
            CookieSettings { secret_file: Some(path.clone()), ..CookieSettings::default() };
        let secrets = cookies.secrets();
        std::fs::remove_file(path).unwrap();
        secrets
    }

    #[test]
    fn secrets_are_thirty_two_hexadecimal_digits() {
        assert_eq!(secret(FIRST).unwrap().0[..3], [0xe5, 0xe9, 0x73]);
        assert_eq!(secret(SECOND).unwrap().0[13..], [0x63, 0xc9, 0x62]);
        for wrong in ["", "00", "+5e973e5a6b2a43f48e7dc849e37bfcf", &FIRST.replace('f', "g")] {
            assert_eq!(secret(wrong), Err(SecretError), "{wrong}");
        }
        assert_eq!(secret(&format!("{FIRST}00")), Err(SecretError));
        assert!(!format!("{:?}", secret(FIRST)).contains("e5"), "nobody reads it in a log");
    }

    #[test]
    fn a_file_has_the_secret_and_maybe_another() {
        let (first, second) = (secret(FIRST).unwrap(), secret(SECOND).unwrap());
        let one = CookieSecrets { secret: Some(first), accepted: None };
        assert_eq!(from_file("one", &format!("{FIRST}\n")), Ok(one));
        let two = CookieSecrets { accepted: Some(second), ..one };
        assert_eq!(from_file("two", &format!("{FIRST}\n{SECOND}")), Ok(two));
        for (name, text) in [("none", ""), ("wrong", "secret"), ("blank", "\n\n")] {
            assert!(from_file(name, text).is_err(), "{name}");
        }
        let three = format!("{FIRST}\n{FIRST}\n{FIRST}\n");
        let error = from_file("three", &three).unwrap_err().to_string();
        assert!(error.ends_with("a secret file has one line or two"), "{error}");
        let nowhere = CookieSettings {
            secret_file: Some("/nonexistent/secret".into()),
            ..CookieSettings::default()
        };
        let error = nowhere.secrets().unwrap_err().to_string();
        assert!(error.contains("/nonexistent/secret"), "{error}");
    }
}
