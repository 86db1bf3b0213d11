//! A clause of unbound.conf, and its settings.

use std::collections::BTreeMap;

use crate::source::Origin;

/// A setting: `key: value value`.
#[derive(Clone)]
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
#[derive(Default)]
pub(super) struct Clause {
    pub(super) name: String,
    pub(super) settings: Vec<Setting>,
    pub(super) origin: Origin,
    /// The places of the settings of each key.
    places: BTreeMap<String, Vec<usize>>,
}

impl Clause {
    pub(super) fn new(name: &str, origin: &Origin) -> Self {
        Self { name: name.to_owned(), origin: origin.clone(), ..Self::default() }
    }

    pub(super) fn push(&mut self, setting: Setting) {
        self.places.entry(setting.key.clone()).or_default().push(self.settings.len());
        self.settings.push(setting);
    }

    /// The settings of a key.
    pub(super) fn all<'a>(&'a self, key: &str) -> impl DoubleEndedIterator<Item = &'a Setting> {
        let places = self.places.get(key).map(Vec::as_slice).unwrap_or_default();
        places.iter().filter_map(|place| self.settings.get(*place))
    }

    /// The last value of a key.
    pub(super) fn last(&self, key: &str) -> Option<&str> {
        self.all(key).next_back().map(Setting::value)
    }
}

/// A file with those that it includes. Clauses that stand several times are one, but for those of zones.
pub(super) struct Conf {
    pub(super) server: Clause,
    pub(super) others: Vec<Clause>,
}

impl Conf {
    pub(super) fn of(clauses: Vec<Clause>) -> Self {
        let mut conf = Self { server: Clause::default(), others: Vec::new() };
        // The views, by name.
        let mut views: BTreeMap<String, usize> = BTreeMap::new();
        for clause in clauses {
            let name = clause.last("name").unwrap_or_default().to_owned();
            let known = if clause.name == "view" { views.get(&name).copied() } else { None };
            match known.and_then(|at| conf.others.get_mut(at)) {
                Some(view) => clause.settings.into_iter().for_each(|one| view.push(one)),
                None if clause.name == "server" => {
                    if conf.server.settings.is_empty() {
                        conf.server.origin = clause.origin;
                    }
                    clause.settings.into_iter().for_each(|one| conf.server.push(one));
                }
                None => {
                    if clause.name == "view" {
                        views.insert(name, conf.others.len());
                    }
                    conf.others.push(clause);
                }
            }
        }
        conf
    }

    /// The clauses of a name.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Clause> {
        self.others.iter().filter(move |clause| clause.name == name)
    }
}
