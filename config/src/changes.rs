//! The keys that a reload does not take over, and which of them another version of the file has changed.

use toml::{Table, Value};

/// Tables that a reload takes over.
const RELOADED: [&str; 11] = [
    "acl",
    "ratelimit",
    "local",
    "block",
    "policy",
    "zone",
    "blocklist",
    "rpz",
    "dns64",
    "tsig",
    "token",
];
/// The keys of a `[[view]]` that a reload takes over.
const RELOADED_OF_VIEWS: &str = "clients";

/// The keys of a file that need a restart, with their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FixedKeys(Table);

impl FixedKeys {
    pub(crate) fn of(text: &str) -> Self {
        Self(without_reloaded(text.parse().unwrap_or_default()))
    }

    /// The paths of the keys whose values differ, as in `upstream[1].address`. A table that only one of the two has is one.
    pub fn changed(&self, other: &Self) -> Vec<String> {
        let mut paths = Vec::new();
        compare_tables("", &self.0, &other.0, &mut paths);
        paths
    }
}

/// What needs a restart.
pub(crate) fn without_reloaded(mut table: Table) -> Table {
    table.retain(|name, _| !is_of_reload(name));
    views_of(&mut table).for_each(|view| view.retain(|key, _| *key != *RELOADED_OF_VIEWS));
    table
}

/// What a reload takes over.
pub(crate) fn without_fixed(mut table: Table) -> Table {
    table.retain(|name, _| name == "view" || is_of_reload(name));
    views_of(&mut table).for_each(|view| view.retain(|key, _| *key == *RELOADED_OF_VIEWS));
    table
}

fn is_of_reload(table: &str) -> bool {
    RELOADED.contains(&table)
}

fn views_of(table: &mut Table) -> impl Iterator<Item = &mut Table> {
    let views = table.get_mut("view").and_then(Value::as_array_mut);
    views.into_iter().flatten().filter_map(Value::as_table_mut)
}

/// Whether a reload takes over the key at this path.
pub(crate) fn is_reloaded(path: &str) -> bool {
    let table = path.split(['.', '[']).next().unwrap_or_default();
    let is_of_view = table == "view" && path.ends_with(&format!("].{RELOADED_OF_VIEWS}"));
    is_of_view || is_of_reload(table)
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
    fn d08_keys_that_need_a_restart_are_told_one_by_one() {
        let before = FixedKeys::of(
            "[[port]]\nname = \"edge\"\n[cache]\nsize = \"1MiB\"\n[acl]\nallow = []\n[frames]\nbatch = 8\n\
             [[upstream]]\naddress = \"192.0.2.1:53\"\n\
             [[view]]\nname = \"kids\"\nclients = [\"192.0.2.0/24\"]\n[slowpath]\ncores = [1]\n",
        );
        assert_eq!(before.changed(&before), Vec::<String>::new());
        let after = FixedKeys::of(
            "[[port]]\nname = \"edge\"\nquery_sources = [\"192.0.2.60\"]\ngateways = [\"192.0.2.254\"]\n\
             [cache]\nsize = \"2MiB\"\n[acl]\nallow = [\"192.0.2.7/32\"]\n\
             [[upstream]]\naddress = \"192.0.2.1:53\"\nsource = \"192.0.2.9\"\nport = \"edge\"\n\
             [[upstream]]\naddress = \"192.0.2.2:53\"\n[[view]]\nname = \"kids\"\nclients = []\n[slowpath]\ncores = [1, 2]\n",
        );
        let expected = [
            "cache.size",
            "frames",
            "port[0].gateways",
            "port[0].query_sources",
            "slowpath.cores",
            "upstream[0].port",
            "upstream[0].source",
            "upstream[1]",
        ];
        assert_eq!(before.changed(&after), expected);
        assert_eq!(after.changed(&before).len(), expected.len());
    }
}
