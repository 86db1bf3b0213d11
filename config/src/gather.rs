//! All mistakes of a text at once. Unreadable parts are told and taken out, and the rest is read on.

use std::collections::BTreeSet;

use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer};

use crate::error::ConfigError;
use crate::explain::{misread, wrong_bracket};
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
        let table = match &error {
            ConfigError::UnknownKey { nearest: Some(nearest), .. } if !path.contains('.') => {
                nearest
            }
            _ => path.split(['.', '[']).next().unwrap_or_default(),
        };
        // A key that is like none of the table is nobody's slip: the rest of its table is as it was meant.
        let is_foreign = matches!(&error, ConfigError::UnknownKey { nearest: None, .. });
        if !is_foreign || !path.contains('.') {
            gathered.damaged.insert(table.to_owned());
        }
        // A key that is missing because it was taken out is no mistake of its own.
        let follows = matches!(&error, ConfigError::MissingKey { key, .. } if taken_out.contains(&format!("{path}.{key}")));
        if !follows {
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
