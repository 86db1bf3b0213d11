//! The configuration in use as text, and where a file differs from it.

use toml::{Table, Value};

use crate::changes::{compare_tables, is_reloaded, without_fixed, without_reloaded};

/// The text instead of a secret.
const REDACTED: &str = "(not shown)";
/// Keys whose values are secrets.
const SECRETS: [&str; 3] = ["secret", "accepted_secret", "sha256"];

/// A configuration as it was written, without defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WrittenConfig(Table);

/// A key that two configurations differ in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDifference {
    /// Its path, as `upstream[192.0.2.1:53].weight`.
    pub key: String,
    /// Its value in one, if it has one, without secrets.
    pub one: Option<String>,
    /// Its value in the other.
    pub other: Option<String>,
    /// Whether a reload cannot change it in the process that runs.
    pub needs_restart: bool,
}

impl WrittenConfig {
    /// The configuration of this text.
    pub fn of(text: &str) -> Self {
        Self(text.parse().unwrap_or_default())
    }

    /// This configuration after a reload that has read `newer`: the keys that need another process stay.
    pub fn reloaded(&self, newer: &Self) -> Self {
        let mut fixed = without_reloaded(self.0.clone());
        for (name, fresh) in without_fixed(newer.0.clone()) {
            match (fixed.get_mut(&name), fresh) {
                (Some(Value::Table(old)), Value::Table(new)) => old.extend(new),
                (Some(_), _) => {}
                (None, fresh) => drop(fixed.insert(name, fresh)),
            }
        }
        Self(fixed)
    }

    /// Whether it says the same as another, as far as can be seen of one that is shown without secrets.
    pub fn is_like(&self, shown: &Self) -> bool {
        self.differences(shown).iter().all(|one| one.one == one.other)
    }

    /// As TOML, without secrets.
    pub fn to_toml(&self) -> String {
        let mut shown = Value::Table(self.0.clone());
        redact(&mut shown);
        toml::to_string_pretty(&shown).unwrap_or_default()
    }

    /// The keys that differ. A table of an array is called by what people know it by, and one that only one of both has is one
    /// difference.
    pub fn differences(&self, other: &Self) -> Vec<KeyDifference> {
        let mut paths = Vec::new();
        let aligned = aligned(&self.0, &other.0);
        compare_tables("", &self.0, &aligned, &mut paths);
        let is_gone = |table: &str| {
            let value = value_at(&aligned, table);
            value.and_then(Value::as_table).is_some_and(Table::is_empty)
        };
        for path in &mut paths {
            if let Some(end) = table_in(path).filter(|end| is_gone(&path[..*end])) {
                path.truncate(end);
            }
        }
        paths.dedup();
        let text = |table: &Table, path: &str| {
            let mut value = value_at(table, path)?.clone();
            match path.rsplit('.').next().is_some_and(|key| SECRETS.contains(&key)) {
                true => value = Value::String(REDACTED.to_owned()),
                false => redact(&mut value),
            }
            Some(value.to_string())
        };
        let difference = |path: String| KeyDifference {
            one: text(&self.0, &path),
            other: text(&aligned, &path).filter(|_| !is_gone(&path)),
            needs_restart: !is_reloaded(&path),
            key: known(&path, &self.0).or_else(|| known(&path, &aligned)).unwrap_or(path),
        };
        paths.into_iter().map(difference).collect()
    }
}

/// Where the table of an array ends in a path that begins with one that people know by a key.
fn table_in(path: &str) -> Option<usize> {
    let (array, _) = path.split_once('[')?;
    KNOWN_BY.iter().find(|(known, _)| *known == array)?;
    path.find(']').map(|end| end + 1)
}

/// The path with what people know its table by, as in `upstream[192.0.2.1:53].weight`.
fn known(path: &str, table: &Table) -> Option<String> {
    let end = table_in(path)?;
    let (array, _) = path.split_once('[')?;
    let (_, key) = KNOWN_BY.iter().find(|(known, _)| *known == array)?;
    let name = value_at(table, &path[..end])?.get(key)?.as_str()?.to_owned();
    Some(format!("{array}[{name}]{}", &path[end..]))
}

/// Arrays of tables, with the key by which people know one of these tables.
const KNOWN_BY: [(&str, &str); 4] =
    [("upstream", "address"), ("view", "name"), ("token", "name"), ("blocklist", "file")];

/// `other` with these arrays in the places of `one`: what only one of both has is next to nothing. So a table that has gone
/// is one difference, and those behind it are none. Where the order is another one, it is a difference, and places stay.
fn aligned(one: &Table, other: &Table) -> Table {
    let mut aligned = other.clone();
    for (array, key) in KNOWN_BY {
        let tables = |table: &Table| table.get(array).and_then(Value::as_array).cloned();
        if let (Some(one), Some(other)) = (tables(one), tables(other))
            && let Some(placed) = placed(&one, &other, key)
        {
            aligned.insert(array.to_owned(), Value::Array(placed));
        }
    }
    aligned
}

/// The tables of `other`, each in the place of the one that is known by the same value. `None`: their order is another one.
fn placed(one: &[Value], other: &[Value], key: &str) -> Option<Vec<Value>> {
    let known = |value: &Value| value.get(key).cloned();
    let (mut placed, mut next) = (Vec::new(), 0);
    for value in one {
        let name = known(value)?;
        match other.iter().position(|one| known(one).as_ref() == Some(&name)) {
            Some(at) if at >= next => {
                // Those that only `other` has stand at the end.
                next = at + 1;
                placed.push(other[at].clone());
            }
            Some(_) => return None,
            None => placed.push(Value::Table(Table::new())),
        }
    }
    let is_known = |value: &&Value| !one.iter().any(|one| known(one) == known(value));
    placed.extend(other.iter().filter(is_known).cloned());
    Some(placed)
}

/// The value at a path like `upstream[1].address`.
fn value_at<'t>(table: &'t Table, path: &str) -> Option<&'t Value> {
    let mut table = Some(table);
    let mut found = None;
    for part in path.split('.') {
        let (key, index) = match part.split_once('[') {
            Some((key, index)) => (key, index.trim_end_matches(']').parse::<usize>().ok()),
            None => (part, None),
        };
        found = table?.get(key);
        if let Some(index) = index {
            found = found?.get(index);
        }
        table = found.and_then(Value::as_table);
    }
    found
}

fn redact(value: &mut Value) {
    match value {
        Value::Table(table) => {
            for (key, value) in table.iter_mut() {
                match SECRETS.contains(&key.as_str()) {
                    true => *value = Value::String(REDACTED.to_owned()),
                    false => redact(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(redact),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "[cookies]\nsecret = \"e5e9\"\n[cache]\nsize = \"1MiB\"\n[block]\nnames = [\"a\"]\n\
        [[tsig]]\nname = \"k\"\nsecret = \"c2l4\"\n[[view]]\nname = \"v\"\nclients = []\ngroup = \"g\"\n";

    #[test]
    fn a_table_that_has_gone_is_no_difference_of_those_behind_it() {
        let upstreams = |addresses: &[&str]| {
            let one =
                |address: &&str| format!("[[upstream]]\naddress = \"{address}\"\nweight = 2\n");
            WrittenConfig::of(&addresses.iter().map(one).collect::<String>())
        };
        let keys = |one: &[&str], other: &[&str]| -> Vec<String> {
            let all = upstreams(one).differences(&upstreams(other));
            all.into_iter().map(|one| one.key).collect()
        };
        assert_eq!(keys(&["a", "b", "c"], &["a", "b", "c"]), Vec::<String>::new());
        assert_eq!(keys(&["a", "b", "c"], &["b", "c"]), ["upstream[a]"]);
        assert_eq!(keys(&["b", "c"], &["a", "b", "c"]), ["upstream[a]"]);
        let gone = upstreams(&["a", "b"]).differences(&upstreams(&["b"]));
        assert!(gone[0].one.as_ref().is_some_and(|one| one.contains("weight")), "{gone:?}");
        assert_eq!((gone[0].other.as_ref(), gone[0].needs_restart), (None, false));
        let other_order = keys(&["a", "b"], &["b", "a"]);
        assert_eq!(other_order, ["upstream[a].address", "upstream[b].address"], "it may decide");
        let other = WrittenConfig::of("[[upstream]]\naddress = \"a\"\nweight = 3\n");
        let weight = upstreams(&["a"]).differences(&other);
        assert_eq!(weight[0].key, "upstream[a].weight");
    }

    #[test]
    fn secrets_are_not_shown() {
        let (one, other) = (
            WrittenConfig::of(BEFORE),
            WrittenConfig::of("[cookies]\nsecret = \"ffff\"\n[[tsig]]\nsecret = \"d2l4\"\n"),
        );
        let told = format!("{} {:?}", one.to_toml(), one.differences(&other));
        for secret in ["e5e9", "c2l4", "ffff", "d2l4"] {
            assert!(!told.contains(secret), "{told}");
        }
        assert!(
            told.contains("secret = \"(not shown)\"") && told.contains("size = \"1MiB\""),
            "{told}"
        );
    }

    #[test]
    fn a_reload_changes_what_needs_no_other_process() {
        let before = WrittenConfig::of(BEFORE);
        let file = BEFORE
            .replace("1MiB", "2MiB")
            .replace("[\"a\"]", "[\"b\"]")
            .replace("clients = []", "clients = [\"192.0.2.0/24\"]");
        let file = WrittenConfig::of(&file.replace("group = \"g\"", "group = \"h\""));
        let running = before.reloaded(&file);
        let differences = running.differences(&file);
        let keys: Vec<_> = differences.iter().map(|one| (&*one.key, one.needs_restart)).collect();
        assert_eq!(keys, [("cache.size", true)]);
        assert_eq!(differences[0].one.as_deref(), Some("\"1MiB\""));
        assert_eq!(differences[0].other.as_deref(), Some("\"2MiB\""));
        let keys: Vec<_> =
            before.differences(&file).into_iter().map(|one| (one.key, one.needs_restart)).collect();
        assert!(keys.contains(&("block.names".to_owned(), false)), "{keys:?}");
        assert!(keys.contains(&("view[v].clients".to_owned(), false)), "{keys:?}");
        assert!(running.to_toml().contains("group = \"h\""), "{}", running.to_toml());
    }
}
