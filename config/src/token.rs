//! The tokens by which clients of the API are known.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::cookies::read_secret;
use crate::limits::MIN_TOKEN;
use crate::problem::BrokenRule;
use crate::settings::Token;

/// The secret of a token, or its digest.
#[derive(Clone, PartialEq, Eq)]
pub enum TokenSecret {
    /// The token.
    Text(String),
    /// Its SHA-256.
    Digest([u8; 32]),
}

impl std::fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenSecret(secret)")
    }
}

impl Token {
    /// The token, read from its file, or its digest.
    ///
    /// # Errors
    ///
    /// There is none, there are two, or others can read it.
    pub fn secret(&self) -> Result<TokenSecret, BrokenRule> {
        match (&self.secret_file, &self.sha256) {
            (Some(_), Some(_)) => Err(BrokenRule::Both { other: "sha256" }),
            (Some(file), None) => read(file).map(TokenSecret::Text),
            (None, Some(text)) => digest(text).map(TokenSecret::Digest).ok_or(BrokenRule::NoDigest),
            (None, None) => {
                let fix = "write either; `openssl rand -hex 32` makes a token, and `sha256sum` its digest";
                Err(BrokenRule::Without { other: "secret_file or sha256", fix })
            }
        }
    }
}

fn read(file: &Path) -> Result<String, BrokenRule> {
    let text = read_secret(file)?;
    let facts = std::fs::metadata(file).map_err(|error| BrokenRule::secret_file(file, error))?;
    if facts.permissions().mode() & 0o027 != 0 {
        let fix = "other users can read it, or its group can write it: `chmod u=rw,g=r,o=`";
        return Err(BrokenRule::secret_file(file, fix));
    }
    let token = text.trim();
    let is_token = token.len() >= MIN_TOKEN && token.bytes().all(|byte| byte.is_ascii_graphic());
    match is_token {
        true => Ok(token.to_owned()),
        false => {
            let fix = format!(
                "a token is {MIN_TOKEN} characters or more without blanks, as `openssl rand -hex 32` prints them"
            );
            Err(BrokenRule::secret_file(file, fix))
        }
    }
}

fn digest(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (index, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::path::PathBuf;

    use super::*;
    use crate::settings::Role;

    fn token(secret_file: Option<PathBuf>, sha256: Option<&str>) -> Token {
        let sha256 = sha256.map(str::to_owned);
        Token { name: "t".into(), role: Role::Read, secret_file, sha256 }
    }

    #[test]
    fn a_token_that_others_can_read_is_refused() {
        let path = std::env::temp_dir().join(format!("pmdns-token-{}", std::process::id()));
        std::fs::write(&path, "0123456789abcdef0123456789abcdef\n").unwrap();
        let with_mode = |mode| {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            token(Some(path.clone()), None).secret()
        };
        let secret = TokenSecret::Text("0123456789abcdef0123456789abcdef".into());
        assert!(!format!("{secret:?}").contains("0123"), "nobody reads it in a log");
        for mode in [0o600, 0o640, 0o400] {
            assert_eq!(with_mode(mode), Ok(secret.clone()), "{mode:o}");
        }
        for mode in [0o644, 0o660, 0o602] {
            assert!(with_mode(mode).unwrap_err().to_string().contains("chmod"), "{mode:o}");
        }
        std::fs::write(&path, "short").unwrap();
        assert!(with_mode(0o600).unwrap_err().to_string().contains("32 characters"));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_digest_is_sixty_four_digits() {
        let digits = "0f".repeat(32);
        assert_eq!(token(None, Some(&digits)).secret(), Ok(TokenSecret::Digest([15; 32])));
        for wrong in ["", "0f", &"zz".repeat(32), &"+f".repeat(32)] {
            assert_eq!(token(None, Some(wrong)).secret(), Err(BrokenRule::NoDigest), "{wrong}");
        }
        assert!(token(None, None).secret().is_err());
        assert!(token(Some("/x".into()), Some(&digits)).secret().is_err());
    }
}
