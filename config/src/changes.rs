//! The keys that a reload takes over, and which of the others another version of the file has changed.

use toml::{Table, Value};

/// The keys that a reload takes over: whole tables, and keys of others.
const RELOADED: [&str; 33] = [
    "acl",
    "block",
    "blocklist",
    "cache.max_long_share",
    "cache.max_negative_share",
    "cache.max_negative_ttl",
    "cache.max_ttl",
    "cache.min_ttl",
    "cache.nxdomain_cut",
    "cache.serve_stale",
    "cache.stale_backoff_seconds",
    "cache.stale_client_timeout_ms",
    "cache.stale_ttl",
    "cache.stale_window_seconds",
    "cookies",
    "dns64",
    "forward",
    "group",
    "health",
    "local",
    "metrics",
    "policy",
    "ratelimit",
    "rebinding",
    "redirect",
    "rpz",
    "slowpath.bootstrap",
    "slowpath.queries_per_port",
    "token",
    "tsig",
    "upstream",
    "view",
    "zone",
];

/// The keys of a file that need another process, with their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FixedKeys(Table);

impl FixedKeys {
    pub(crate) fn of(text: &str) -> Self {
        Self(without_reloaded(text.parse().unwrap_or_default()))
    }

    /// The paths of the keys whose values differ, as in `port[1].device`. A table that only one of the two has is one.
    pub fn changed(&self, other: &Self) -> Vec<String> {
        let mut paths = Vec::new();
        compare_tables("", &self.0, &other.0, &mut paths);
        paths
    }
}

/// The part that needs another process.
pub(crate) fn without_reloaded(table: Table) -> Table {
    part(table, |path| !is_reloaded(path))
}

/// The part that a reload takes over.
pub(crate) fn without_fixed(table: Table) -> Table {
    part(table, is_reloaded)
}

/// The keys at the paths that are kept. Tables that lose all their keys are left out.
fn part(mut table: Table, keep: impl Fn(&str) -> bool) -> Table {
    table.retain(|name, value| {
        let Value::Table(table) = value else { return keep(name) };
        table.retain(|key, _| keep(&format!("{name}.{key}")));
        !table.is_empty()
    });
    table
}

/// Whether a reload takes over the key at this path, as `cache.min_ttl` or `view[1].name`. Of a table with keys of both
/// kinds the table itself needs another process.
pub fn is_reloaded(path: &str) -> bool {
    let mut names = path.split('.').map(|step| step.split('[').next().unwrap_or_default());
    let table = names.next().unwrap_or_default();
    let key = names.next().map(|key| format!("{table}.{key}"));
    RELOADED.contains(&table) || key.is_some_and(|key| RELOADED.contains(&&*key))
}

pub(crate) fn compare_tables(path: &str, one: &Table, other: &Table, paths: &mut Vec<String>) {
    let only_other = other.keys().filter(|key| !one.contains_key(*key));
    for key in one.keys().chain(only_other) {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        compare(path, one.get(key), other.get(key), paths);
    }
}

fn compare(path: String, one: Option<&Value>, other: Option<&Value>, paths: &mut Vec<String>) {
    match (one, other) {
        (Some(Value::Table(one)), Some(Value::Table(other))) => {
            compare_tables(&path, one, other, paths);
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) if holds_tables(one, other) => {
            for index in 0..one.len().max(other.len()) {
                compare(format!("{path}[{index}]"), one.get(index), other.get(index), paths);
            }
        }
        (one, other) if one != other => paths.push(path),
        _ => {}
    }
}

fn holds_tables(one: &[Value], other: &[Value]) -> bool {
    one.iter().chain(other).all(Value::is_table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d08_keys_that_need_another_process_are_told_one_by_one() {
        let before = FixedKeys::of(
            "[[port]]\nname = \"edge\"\n[cache]\nsize = \"1MiB\"\n[acl]\nallow = []\n[frames]\nbatch = 8\n\
             [[upstream]]\naddress = \"192.0.2.1:53\"\n\
             [[view]]\nname = \"kids\"\nclients = [\"192.0.2.0/24\"]\n[slowpath]\ncores = [1]\n",
        );
        assert_eq!(before.changed(&before), Vec::<String>::new());
        let after = FixedKeys::of(
            "[[port]]\nname = \"edge\"\nquery_sources = [\"192.0.2.60\"]\ngateways = [\"192.0.2.254\"]\n\
             [cache]\nsize = \"2MiB\"\nmin_ttl = 5\n[acl]\nallow = [\"192.0.2.7/32\"]\n[health]\nfailures = 1\n\
             [[upstream]]\naddress = \"192.0.2.1:53\"\nsource = \"192.0.2.9\"\n\
             [[upstream]]\naddress = \"192.0.2.2:53\"\n[[view]]\nname = \"kids\"\nclients = []\n\
             burst = 9\n[slowpath]\ncores = [1, 2]\n",
        );
        let expected =
            ["cache.size", "frames", "port[0].gateways", "port[0].query_sources", "slowpath.cores"];
        assert_eq!(before.changed(&after), expected);
        assert_eq!(after.changed(&before).len(), expected.len());
    }

    #[test]
    fn a_table_whose_keys_all_change_in_the_process_needs_no_other() {
        let (with, without) = (FixedKeys::of("[cache]\nmin_ttl = 5\n"), FixedKeys::of(""));
        assert_eq!(with.changed(&without), Vec::<String>::new());
        assert!(is_reloaded("cache.min_ttl") && is_reloaded("upstream[1].address"));
        assert!(is_reloaded("view[0].clients") && is_reloaded("forward[2]"));
        for fixed in ["cache", "cache.size", "port[0].device", "streams.tcp"] {
            assert!(!is_reloaded(fixed), "{fixed}");
        }
    }
}
