//! A configuration in the making: tables of TOML, and where each line came from.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::source::{Origin, SettingPosition, Sources};

/// The tables in the order they are written; those of `true` may stand several times.
const TABLES: [(&str, bool); 27] = [
    ("port", true),
    ("answers", false),
    ("cookies", false),
    ("client_subnet", false),
    ("cache", false),
    ("prefetch", false),
    ("slowpath", false),
    ("upstream", true),
    ("group", true),
    ("forward", true),
    ("health", false),
    ("dnssec", false),
    ("acl", false),
    ("view", true),
    ("ratelimit", false),
    ("local", true),
    ("block", false),
    ("policy", false),
    ("zone", true),
    ("rpz", true),
    ("dns64", true),
    ("rebinding", true),
    ("tsig", true),
    ("streams", false),
    ("control", false),
    ("metrics", false),
    ("query_log", false),
];

/// Why a setting is listed that no part of the importer has read.
const UNREAD: &str = "import does not know it, so it may decide who may ask, or what they are told";

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    Text(String),
    Number(u64),
    Switch(bool),
}

impl Value {
    /// As TOML has it.
    fn written(&self) -> String {
        match self {
            Self::Text(text) => quoted(text),
            Self::Number(number) => number.to_string(),
            Self::Switch(switch) => switch.to_string(),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Value {
    fn from(switch: bool) -> Self {
        Self::Switch(switch)
    }
}

/// A value, and the setting it was made of; none: what the operator has to fill in.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) value: Value,
    pub(crate) origin: Option<Origin>,
}

/// A key with its value, or with the elements of its list.
#[derive(Clone, Debug)]
pub(crate) struct DraftKey {
    pub(crate) key: &'static str,
    is_list: bool,
    pub(crate) items: Vec<Item>,
    /// The values of the list: it may be long.
    known: BTreeSet<Value>,
}

/// One table.
#[derive(Clone, Debug)]
pub(crate) struct DraftTable {
    pub(crate) name: &'static str,
    pub(crate) entries: Vec<DraftKey>,
    pub(crate) origin: Option<Origin>,
    /// A sentence above it.
    pub(crate) note: String,
    /// Keys with texts that the operator may want. They are written as comments.
    proposals: Vec<(&'static str, String, Origin)>,
}

impl DraftTable {
    /// Sets a key. What it was before is returned.
    pub(crate) fn set(
        &mut self,
        key: &'static str,
        value: impl Into<Value>,
        origin: Option<Origin>,
    ) -> Option<Item> {
        let item = Item { value: value.into(), origin };
        match self.entries.iter_mut().find(|entry| entry.key == key) {
            Some(entry) => entry.items.first_mut().map(|first| std::mem::replace(first, item)),
            None => {
                let (items, known) = (vec![item], BTreeSet::new());
                self.entries.push(DraftKey { key, is_list: false, items, known });
                None
            }
        }
    }

    /// Adds to the list of a key what is not in it yet.
    pub(crate) fn push(
        &mut self,
        key: &'static str,
        value: impl Into<Value>,
        origin: Option<Origin>,
    ) {
        let item = Item { value: value.into(), origin };
        match self.entries.iter_mut().find(|entry| entry.key == key) {
            Some(entry) => {
                if entry.known.insert(item.value.clone()) {
                    entry.items.push(item);
                }
            }
            None => {
                let known = [item.value.clone()].into();
                self.entries.push(DraftKey { key, is_list: true, items: vec![item], known });
            }
        }
    }

    /// The values of a key.
    pub(crate) fn values(&self, key: &str) -> impl Iterator<Item = &Value> {
        let entries = self.entries.iter().filter(move |entry| entry.key == key);
        entries.flat_map(|entry| entry.items.iter().map(|item| &item.value))
    }

    /// The first value of a key, if it is a text.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        match self.values(key).next() {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The texts among the values of a key.
    pub(crate) fn texts(&self, key: &str) -> Vec<String> {
        let text = |value: &Value| match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        };
        self.values(key).filter_map(text).collect()
    }

    /// The same with these views, where any are named.
    pub(crate) fn in_views(&mut self, views: &[String], origin: &Origin) {
        for view in views {
            self.push("views", &**view, Some(origin.clone()));
        }
    }
}

/// A setting, and why it is in one of the lists.
#[derive(Clone, Debug)]
pub(crate) struct Remark {
    pub(crate) origin: Origin,
    pub(crate) why: String,
    /// Whether it decides who may ask, what they are told, or whom we ask: access, or privacy.
    pub(crate) is_decisive: bool,
}

/// The contents of a line of the TOML, so that it can be taken out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Other,
    Table(usize),
    Item(usize, usize, usize),
}

/// The tables so far, and the settings that are not in them.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) tables: Vec<DraftTable>,
    /// Settings without a counterpart, or with one that differs.
    pub(crate) unmapped: Vec<Remark>,
    /// Settings that pmdns needs no counterpart of.
    pub(crate) unneeded: Vec<Origin>,
    /// All settings of the files.
    parsed: Vec<Origin>,
    /// Those that were read together with another one.
    read: BTreeSet<SettingPosition>,
}

impl Draft {
    /// The table that stands once.
    pub(crate) fn single(&mut self, name: &'static str) -> &mut DraftTable {
        let at = match self.tables.iter().position(|table| table.name == name) {
            Some(at) => at,
            None => {
                self.add(name, None);
                self.tables.len() - 1
            }
        };
        &mut self.tables[at]
    }

    /// The port; its name and device are for the operator to change.
    pub(crate) fn port(&mut self) -> &mut DraftTable {
        let port = self.single("port");
        if port.entries.is_empty() {
            port.note = "Write the PCI address of your NIC (`pmdns doctor` lists them), and the prefix length behind each address."
                .to_owned();
            port.set("name", "edge", None);
            port.set("device", "0000:01:00.0", None);
        }
        port
    }

    /// One more table of this name.
    pub(crate) fn add(&mut self, name: &'static str, origin: Option<Origin>) -> &mut DraftTable {
        let at = self.tables.len();
        let (entries, note, proposals) = (Vec::new(), String::new(), Vec::new());
        self.tables.push(DraftTable { name, entries, origin, note, proposals });
        &mut self.tables[at]
    }

    /// All tables of a name.
    pub(crate) fn all(&self, name: &'static str) -> impl Iterator<Item = &DraftTable> {
        self.tables.iter().filter(move |table| table.name == name)
    }

    /// Sets a key of a table that stands once. A second setting replaces the first, which is listed.
    pub(crate) fn set(
        &mut self,
        table: &'static str,
        key: &'static str,
        value: impl Into<Value>,
        origin: &Origin,
    ) {
        let value = value.into();
        let before = self.single(table).set(key, value.clone(), Some(origin.clone()));
        if let Some(Item { origin: Some(origin), .. }) = &before {
            self.read.insert(origin.place);
        }
        if let Some(Item { value: other, origin: Some(origin) }) = before
            && other != value
        {
            self.unmapped(&origin, format!("a later setting of `{table}.{key}` replaces it"));
        }
    }

    /// Adds to a list of a table that stands once.
    pub(crate) fn push(
        &mut self,
        table: &'static str,
        key: &'static str,
        value: impl Into<Value>,
        origin: &Origin,
    ) {
        self.read(origin);
        self.single(table).push(key, value, Some(origin.clone()));
    }

    /// Proposes a key of a table that stands once.
    pub(crate) fn propose(
        &mut self,
        table: &'static str,
        key: &'static str,
        text: impl Into<String>,
        origin: &Origin,
    ) {
        self.single(table).proposals.push((key, text.into(), origin.clone()));
    }

    /// Lists a setting that is lost, or differs.
    pub(crate) fn unmapped(&mut self, origin: &Origin, why: impl Into<String>) {
        let (origin, why) = (origin.clone(), why.into());
        self.unmapped.push(Remark { origin, why, is_decisive: false });
    }

    /// Lists a setting that is lost, or differs, and decides about access or privacy.
    pub(crate) fn decisive(&mut self, origin: &Origin, why: impl Into<String>) {
        let (origin, why) = (origin.clone(), why.into());
        self.unmapped.push(Remark { origin, why, is_decisive: true });
    }

    /// Notes a setting of a file. One that nothing is made of, and that is in no list, is listed in the end.
    pub(crate) fn parsed(&mut self, origin: &Origin) {
        self.parsed.push(origin.clone());
    }

    /// Notes that a setting was read together with another one.
    pub(crate) fn read(&mut self, origin: &Origin) {
        self.read.insert(origin.place);
    }

    /// Lists every setting that nothing was made of and nothing said about. There is no silent loss.
    pub(crate) fn list_unread(&mut self) {
        let mut told = std::mem::take(&mut self.read);
        let origins = self.unmapped.iter().map(|one| &one.origin).chain(&self.unneeded);
        told.extend(origins.map(|origin| origin.place));
        for table in &self.tables {
            let proposed = table.proposals.iter().map(|(_, _, origin)| origin);
            let items = table.entries.iter().flat_map(|entry| &entry.items);
            let own = items.filter_map(|item| item.origin.as_ref());
            told.extend(own.chain(&table.origin).chain(proposed).map(|origin| origin.place));
        }
        let unread = std::mem::take(&mut self.parsed);
        for origin in unread.iter().filter(|one| !told.contains(&one.place)) {
            self.decisive(origin, UNREAD);
        }
    }

    /// Lists a setting that pmdns does not need.
    pub(crate) fn unneeded(&mut self, origin: &Origin) {
        self.unneeded.push(origin.clone());
    }

    /// The TOML, and of each of its lines what it is.
    pub(crate) fn write(&self, sources: &Sources<'_>) -> (String, Vec<Line>) {
        let mut out = Output { text: String::new(), lines: Vec::new() };
        for (name, is_many) in TABLES {
            let tables = self.tables.iter().enumerate();
            let has_lines =
                |table: &DraftTable| !table.entries.is_empty() || !table.proposals.is_empty();
            let of_name =
                tables.filter(|(_, table)| table.name == name && (is_many || has_lines(table)));
            for (at, table) in of_name {
                out.line("", Line::Other);
                if !table.note.is_empty() {
                    out.line(&format!("# {}", table.note), Line::Other);
                }
                let header = if is_many { format!("[[{name}]]") } else { format!("[{name}]") };
                out.line(&(header + &comment(table.origin.as_ref(), sources)), Line::Table(at));
                out.entries(at, table, sources);
                for (key, text, origin) in &table.proposals {
                    let place = comment(Some(origin), sources);
                    out.line(&format!("# {key} = {}{place}", quoted(text)), Line::Other);
                }
            }
        }
        (out.text, out.lines)
    }
}

/// Text, and what each of its lines is.
struct Output {
    text: String,
    lines: Vec<Line>,
}

impl Output {
    fn line(&mut self, text: &str, line: Line) {
        // What came from a file keeps no ends of lines: see `shown` and `quoted`.
        let _ = writeln!(self.text, "{text}");
        self.lines.push(line);
    }

    fn entries(&mut self, at: usize, table: &DraftTable, sources: &Sources<'_>) {
        for (entry_at, entry) in table.entries.iter().enumerate() {
            let key = entry.key;
            if let ([item], true) = (&entry.items[..], entry.is_list) {
                let value = item.value.written();
                // The origin of the table says it already.
                let note = match &table.origin {
                    Some(_) => String::new(),
                    None => comment(item.origin.as_ref(), sources),
                };
                self.line(&format!("{key} = [{value}]{note}"), Line::Item(at, entry_at, 0));
                continue;
            }
            if entry.is_list {
                self.line(&format!("{key} = ["), Line::Item(at, entry_at, 0));
            }
            for (item_at, item) in entry.items.iter().enumerate() {
                let value = item.value.written();
                let place = |origin: &Origin| origin.place;
                let is_known = table.origin.as_ref().map(place) == item.origin.as_ref().map(place);
                let note = match is_known {
                    true => String::new(),
                    false => comment(item.origin.as_ref(), sources),
                };
                let line = match entry.is_list {
                    true => format!("    {value},{note}"),
                    false => format!("{key} = {value}{note}"),
                };
                self.line(&line, Line::Item(at, entry_at, item_at));
            }
            if entry.is_list {
                self.line("]", Line::Other);
            }
        }
    }
}

/// Where a line came from, as a comment behind it.
fn comment(origin: Option<&Origin>, sources: &Sources<'_>) -> String {
    origin.map_or_else(String::new, |origin| format!("  # {}", sources.show(origin.place)))
}

/// A text as a basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            _ if character.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(character));
            }
            _ => quoted.push(character),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_from_toml() {
        for text in ["", "a\"b\\c", "line\nbreak", "\u{85}\u{0}\u{7f}", "ü \u{1f600}"] {
            let read: toml::Table = format!("a = {}", quoted(text)).parse().unwrap();
            assert_eq!(read["a"].as_str(), Some(text));
        }
    }
}
