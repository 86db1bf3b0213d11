//! Settings that are valid but seldom intended: a warning, not an error.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::settings::Config;

impl Config {
    /// Warnings for the operator before this configuration is used.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let is_limited = self.ratelimit.queries_per_second > 0 && !self.ratelimit.dry_run;
        if self.acl.is_open() && !is_limited {
            warnings.push(
                "`acl` lets every client ask, and `ratelimit.queries_per_second` sets no limit. Forged queries can \
                 have this server flood others. List the clients in `acl.allow`, or set a limit"
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
        warnings.extend(unused_addresses(self));
        warnings
    }
}

/// Addresses to ask upstreams from, or through, on ports that no upstream is asked over.
fn unused_addresses(config: &Config) -> Vec<String> {
    let asked: Vec<_> = config.upstreams.iter().map(|one| config.upstream_port(one)).collect();
    let ports = config.ports.iter().enumerate();
    let unused = ports.filter(|(index, _)| !asked.contains(&Some(*index)));
    let warnings = unused.flat_map(|(index, port)| {
        let lists = [("query_sources", &port.query_sources), ("gateways", &port.gateways)];
        let written = lists.into_iter().filter(|(_, list)| !list.is_empty());
        let name = &port.name;
        written.map(move |(key, _)| {
            format!(
                "`port[{index}].{key}` has no effect: no upstream is asked over this port; write port = \"{name}\" \
                 into an [[upstream]], or leave it out"
            )
        })
    });
    warnings.collect()
}

/// Whether every user can read the file.
fn is_open(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|facts| facts.permissions().mode() & 0o004 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Access, AclSettings};

    /// Whether there is a warning with these prefixes allowed.
    fn warns(default: Access, allow: &[&str], queries_per_second: u32, dry_run: bool) -> bool {
        let allow = allow.iter().map(|prefix| prefix.parse().unwrap()).collect();
        let mut config = Config {
            acl: AclSettings { default, allow, ..AclSettings::default() },
            ..Config::default()
        };
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
    fn addresses_that_no_upstream_is_asked_from_are_warned_of() {
        let port = |name: &str, n: usize| {
            format!(
                "[[port]]\nname = \"{name}\"\ndevice = \"net_tap{n}\"\naddresses = [\"192.0.2.{n}/24\"]\n\
                 query_sources = [\"192.0.2.6{n}\"]\ngateways = [\"192.0.2.254\"]\n"
            )
        };
        let text = port("used", 1) + &port("idle", 2);
        let upstream = "[[upstream]]\naddress = \"203.0.113.1:53\"\n";
        let both = format!("{text}{upstream}port = \"used\"\n");
        let told = Config::from_toml(&both).unwrap().warnings();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("`port[1].query_sources` has no effect"), "{told:?}");
        assert!(told[1].contains("`port[1].gateways`") && told[1].contains("port = \"idle\""));
        let none = Config::from_toml(&format!("{text}{upstream}")).unwrap().warnings();
        assert_eq!(none.len(), 4, "{none:?}");
    }

    #[test]
    fn audit_09_who_may_ask_has_to_be_said() {
        assert_eq!(AclSettings::default().default, Access::Refuse);
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
