//! The arguments of a call. What nobody has asked for is left, and gets listed.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::lua::Value;
use crate::meaning::{Forwarder, NONE};
use crate::source::{Origin, shown};

/// A call, and which of its arguments were read.
pub(super) struct Call<'v> {
    arguments: &'v [Value],
    /// Arguments by their places; of tables the keys.
    read: RefCell<BTreeSet<(usize, Option<String>)>>,
}

impl<'v> Call<'v> {
    pub(super) fn new(arguments: &'v [Value]) -> Self {
        Self { arguments, read: RefCell::default() }
    }

    /// The argument at this place, with all that is in it.
    pub(super) fn argument(&self, at: usize) -> Option<&'v Value> {
        self.read.borrow_mut().insert((at, None));
        self.arguments.get(at)
    }

    /// The text or number at this place.
    pub(super) fn text(&self, at: usize) -> Option<&'v str> {
        let text = self.arguments.get(at)?.text()?;
        self.read.borrow_mut().insert((at, None));
        Some(text)
    }

    /// The texts at this place.
    pub(super) fn texts(&self, at: usize) -> Option<Vec<&'v str>> {
        let texts = self.arguments.get(at)?.texts()?;
        self.read.borrow_mut().insert((at, None));
        Some(texts)
    }

    /// The value behind a key of the table at this place.
    pub(super) fn option(&self, at: usize, key: &str) -> Option<&'v Value> {
        self.read.borrow_mut().insert((at, Some(key.to_owned())));
        self.arguments.get(at)?.key(key)
    }

    /// Options of the table at this place that need no counterpart.
    pub(super) fn skip(&self, at: usize, keys: &[&str]) {
        self.read.borrow_mut().extend(keys.iter().map(|key| (at, Some((*key).to_owned()))));
    }

    /// Lists what nobody has asked for.
    pub(super) fn list_rest(&self, origin: &Origin, forwarder: &mut Forwarder) {
        let read = self.read.borrow();
        for (at, value) in self.arguments.iter().enumerate() {
            if read.contains(&(at, None)) {
                continue;
            }
            let names: Vec<String> = match value {
                Value::Table(fields) => fields
                    .iter()
                    .filter(|(key, _)| !read.contains(&(at, key.clone())))
                    .map(|(key, _)| {
                        key.clone().unwrap_or_else(|| "a value without a name".to_owned())
                    })
                    .collect(),
                other => vec![other.name()],
            };
            for name in names {
                forwarder.draft.unmapped(origin, format!("`{}`: {NONE}", shown(&name)));
            }
        }
    }
}
