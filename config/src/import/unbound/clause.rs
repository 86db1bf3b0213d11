//! A clause of unbound.conf, and its settings.

use crate::import::source::Origin;

/// A setting: `key: value value`.
pub(super) struct Setting {
    pub(super) key: String,
    pub(super) values: Vec<String>,
    pub(super) origin: Origin,
}

impl Setting {
    /// The first value; empty if there is none.
    pub(super) fn value(&self) -> &str {
        self.values.first().map_or("", String::as_str)
    }

    /// The value at this place.
    pub(super) fn nth(&self, at: usize) -> &str {
        self.values.get(at).map_or("", String::as_str)
    }
}

/// A clause, as in `server:`.
pub(super) struct Clause {
    pub(super) name: String,
    pub(super) settings: Vec<Setting>,
    pub(super) origin: Origin,
}

impl Clause {
    /// The settings of a key.
    pub(super) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Setting> {
        self.settings.iter().filter(move |setting| setting.key == key)
    }

    /// The last value of a key.
    pub(super) fn last(&self, key: &str) -> Option<&str> {
        self.settings.iter().rfind(|setting| setting.key == key).map(Setting::value)
    }
}
