//! Settings that are valid but seldom intended: a warning, not an error.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::settings::Config;

impl Config {
    /// What the operator should know before this configuration is used.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let is_limited = self.ratelimit.queries_per_second > 0 && !self.ratelimit.dry_run;
        if self.acl.is_open() && !is_limited {
            warnings.push(
                "`acl` lets every client ask, and `ratelimit.queries_per_second` sets no limit: forged queries can \
                 have this server flood others; list the clients in `acl.allow`, or set a limit"
                    .to_owned(),
            );
        }
        let cookies = self.cookies.secret_file.iter().map(|file| ("cookies.secret_file", file));
        let keys = self.tsig.iter().filter_map(|key| key.secret_file.as_ref());
        let secrets = cookies.chain(keys.map(|file| ("tsig.secret_file", file)));
        warnings.extend(secrets.filter(|(_, file)| is_open(file)).map(|(key, file)| {
            let file = file.display();
            format!("`{key}` is {file}, which every user can read; keep secrets: `chmod o= {file}`")
        }));
        warnings
    }
}

/// Whether every user can read the file.
fn is_open(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|facts| facts.permissions().mode() & 0o004 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Access, Acl};

    /// Whether there is a warning with these prefixes allowed.
    fn warns(default: Access, allow: &[&str], queries_per_second: u32, dry_run: bool) -> bool {
        let allow = allow.iter().map(|prefix| prefix.parse().unwrap()).collect();
        let mut config =
            Config { acl: Acl { default, allow, ..Acl::default() }, ..Config::default() };
        (config.ratelimit.queries_per_second, config.ratelimit.dry_run) =
            (queries_per_second, dry_run);
        !config.warnings().is_empty()
    }

    #[test]
    fn a_secret_that_everybody_can_read_is_warned_of() {
        let path = std::env::temp_dir().join(format!("pmdns-secret-{}", std::process::id()));
        std::fs::write(&path, "secret").unwrap();
        let mut config = Config::default();
        config.cookies.secret_file = Some(path.clone());
        let warnings_at = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            config.warnings()
        };
        assert!(warnings_at(0o640).is_empty());
        let told = warnings_at(0o644);
        assert!(
            told[0].contains("`cookies.secret_file`") && told[0].contains("chmod o="),
            "{told:?}"
        );
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn audit_09_who_may_ask_has_to_be_said() {
        assert_eq!(Acl::default().default, Access::Refuse);
        assert!(Config::default().warnings().is_empty());
    }

    #[test]
    fn audit_09_an_open_list_without_a_limit_is_warned_of() {
        assert!(warns(Access::Allow, &[], 0, false));
        assert!(warns(Access::Refuse, &["10.0.0.0/8", "0.0.0.0/0"], 0, false));
        assert!(warns(Access::Drop, &["::/0"], 0, false));
        assert!(warns(Access::Allow, &[], 10, true), "a dry run limits nobody");
        assert!(!warns(Access::Allow, &[], 10, false));
        assert!(!warns(Access::Refuse, &["10.0.0.0/8", "fd00::/8"], 0, false));
    }
}
