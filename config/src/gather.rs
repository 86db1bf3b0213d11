//! All mistakes of a text at once. Unreadable parts are told and taken out, and the rest is read on.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer};

use crate::error::ConfigError;
use crate::explain::{has_its_brackets, misread, wrong_bracket};
use crate::limits::MAX_MISTAKES;
use crate::locate::key_at;
use crate::settings::Config;

/// The readable parts of a text, and its mistakes.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// The settings; what could not be read has its default. `None`: nothing could be read.
    pub(crate) config: Option<Config>,
    /// What could not be read.
    pub(crate) errors: Vec<ConfigError>,
    /// The tables that something was taken out of. What else seems wrong with them may follow from that.
    pub(crate) damaged: BTreeSet<String>,
    /// Unknown keys that were read as the ones they are like: the paths of these, and the paths as they are written.
    pub(crate) meant: BTreeMap<String, String>,
}

impl Gathered {
    /// Whether a mistake at this path, as it is written, is about a key whose name was wrong already.
    fn is_reported(&self, path: &str) -> bool {
        self.meant.values().any(|written| written.contains('.') && is_below(path, written))
    }

    /// The path in the text of a key of the settings; `None`: that key was reported already.
    pub(crate) fn written(&self, key: &str) -> Option<String> {
        let Some((meant, written)) = self.meant.iter().find(|(meant, _)| is_below(key, meant))
        else {
            return Some(key.to_owned());
        };
        (!written.contains('.')).then(|| format!("{written}{}", &key[meant.len()..]))
    }
}

/// Whether a path is this one or leads on from it.
fn is_below(path: &str, start: &str) -> bool {
    path.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Reads the tables of `text`, which `root` is.
pub(crate) fn gather(text: &str, mut root: Spanned<DeTable<'_>>) -> Gathered {
    let mut gathered = Gathered::default();
    let mut taken_out = BTreeSet::new();
    for error in wrong_bracket(text, root.get_ref()) {
        if let ConfigError::WrongValue { key, .. } = &error {
            root.get_mut().remove(&**key);
            gathered.damaged.insert(key.clone());
        }
        gathered.errors.push(error);
    }
    while gathered.errors.len() < MAX_MISTAKES {
        let error = match Config::deserialize(Deserializer::from(root.clone())) {
            Ok(config) => {
                gathered.config = Some(config);
                break;
            }
            Err(error) => error,
        };
        let (error, offset) = misread(text, &error);
        let path = key_at(text, offset).unwrap_or_default();
        if let ConfigError::UnknownKey { nearest: Some(nearest), .. } = &error
            && rename(root.get_mut(), offset, nearest)
        {
            let (meant, path) = match path.rsplit_once('.') {
                Some((table, _)) => (format!("{table}.{nearest}"), path),
                // The path of a table in two brackets has the number of its first.
                None => (nearest.clone(), path.split('[').next().unwrap_or_default().to_owned()),
            };
            taken_out.insert(meant.clone());
            gathered.meant.insert(meant, path);
            gathered.errors.push(error);
            continue;
        }
        let table = match &error {
            ConfigError::UnknownKey { nearest: Some(nearest), .. } if !path.contains('.') => {
                nearest
            }
            _ => path.split(['.', '[']).next().unwrap_or_default(),
        };
        let read_as = gathered.meant.iter().find(|(_, written)| *written == table);
        let table = read_as.map_or(table, |(meant, _)| meant).to_owned();
        // The rest of its table is as it was meant: it is like no key there, or like one that is there as well.
        let is_foreign = matches!(&error, ConfigError::UnknownKey { .. });
        if !is_foreign || !path.contains('.') {
            gathered.damaged.insert(table);
        }
        // A key that is missing because it was taken out is no mistake of its own.
        let follows = matches!(&error, ConfigError::MissingKey { key, .. } if taken_out.contains(&format!("{path}.{key}")));
        if !follows && !gathered.is_reported(&path) {
            gathered.errors.push(error);
        }
        let (rest, has_shrunk) = table_without(std::mem::take(root.get_mut()), offset);
        *root.get_mut() = rest;
        taken_out.insert(path);
        if !has_shrunk {
            break;
        }
    }
    gathered
}

/// Gives the key at `offset` the name that was meant, and whether that could be: not if the table has such a key, or if
/// a table has other brackets than one of that name.
fn rename(table: &mut DeTable<'_>, offset: usize, meant: &str) -> bool {
    let here = table.keys().find(|key| key.span().contains(&offset)).cloned();
    if let Some(key) = here {
        let is_free = !table.contains_key(meant);
        if let Some(value) = table.get(&key)
            && is_free
            && has_its_brackets(meant, value.get_ref())
            && let Some(value) = table.remove(&key)
        {
            table.insert(Spanned::new(key.span(), Cow::Owned(meant.to_owned())), value);
            return true;
        }
        return false;
    }
    table.iter_mut().any(|(_, value)| rename_in(value.get_mut(), offset, meant))
}

/// The same in a value.
fn rename_in(value: &mut DeValue<'_>, offset: usize, meant: &str) -> bool {
    match value {
        DeValue::Table(table) => rename(table, offset, meant),
        DeValue::Array(array) => {
            array.iter_mut().any(|element| rename_in(element.get_mut(), offset, meant))
        }
        _ => false,
    }
}

/// The table without the innermost key, element or table that `offset` belongs to, and whether there was one.
fn table_without(table: DeTable<'_>, offset: usize) -> (DeTable<'_>, bool) {
    let mut found = false;
    let mut rest = DeTable::new();
    for (key, value) in table {
        if found {
            rest.insert(key, value);
        } else if key.span().contains(&offset) {
            found = true;
        } else {
            let (value, is_inside) = value_without(value, offset);
            found = is_inside;
            rest.extend(value.map(|value| (key, value)));
        }
    }
    (rest, found)
}

/// The same for a value; `None` if it has to go itself.
fn value_without(
    mut value: Spanned<DeValue<'_>>,
    offset: usize,
) -> (Option<Spanned<DeValue<'_>>>, bool) {
    let is_here = value.span().contains(&offset);
    let mut found = false;
    match value.get_mut() {
        DeValue::Table(table) => {
            (*table, found) = table_without(std::mem::take(table), offset);
        }
        DeValue::Array(array) => {
            let elements =
                std::mem::replace(array, DeArray::new()).into_iter().filter_map(|element| {
                    if found {
                        return Some(element);
                    }
                    let (element, is_inside) = value_without(element, offset);
                    found = is_inside;
                    element
                });
            *array = elements.collect();
        }
        _ => {}
    }
    match found || !is_here {
        true => (Some(value), found),
        false => (None, true),
    }
}
