//! The rules in use, for those who want to say which list a rule came from.

use std::cmp::Reverse;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use pmdns_config::{Config, wire_name};
use pmdns_stages::policy::{ListNumber, Ruleset};

/// The names of the lists, views and forward zones of a configuration.
#[derive(Clone, Debug, Default)]
pub struct ListNames {
    lists: Vec<ListFile>,
    zones: Vec<ListFile>,
    redirects: Vec<String>,
    views: Vec<String>,
    forwards: ZoneNames,
}

/// Names of zones in wire format and in lower case, the longest first.
pub(crate) type ZoneNames = Arc<[Box<[u8]>]>;

/// The zones that a configuration forwards.
pub(crate) fn forward_zones(config: &Config) -> ZoneNames {
    let names = config.forwards.iter().filter_map(|forward| wire_name(&forward.zone).ok());
    let mut names: Vec<Box<[u8]>> = names.map(|name| name.to_ascii_lowercase().into()).collect();
    names.sort_by_key(|name| Reverse(name.len()));
    names.into()
}

/// A file with a list.
#[derive(Clone, Debug)]
struct ListFile {
    name: String,
    /// When it was written, in seconds since 1970, as of when the rules were read.
    modified: Option<u64>,
}

impl ListFile {
    fn new(file: &Path) -> Self {
        let modified = file.metadata().and_then(|facts| facts.modified()).ok();
        let since_1970 = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified = since_1970.map(|time| time.as_secs());
        Self { name: file.display().to_string(), modified }
    }
}

impl ListNames {
    /// The names in a configuration: of block lists and policy zones, their files.
    pub fn of(config: &Config) -> Self {
        let lists = config.blocklists.iter().map(|list| ListFile::new(&list.file));
        let zones = config.rpz.iter().map(|zone| ListFile::new(&zone.file));
        let views = config.views.iter().map(|view| view.name.clone());
        let redirects = (0..config.redirects.len()).map(|index| format!("redirect[{index}]"));
        Self {
            lists: lists.collect(),
            zones: zones.collect(),
            redirects: redirects.collect(),
            views: views.collect(),
            forwards: forward_zones(config),
        }
    }

    fn file(&self, number: ListNumber) -> Option<&ListFile> {
        match number {
            ListNumber::List(number) => self.lists.get(usize::from(number)),
            ListNumber::Zone(number) => self.zones.get(usize::from(number)),
            ListNumber::Runtime
            | ListNumber::Block
            | ListNumber::Canary
            | ListNumber::Redirect(_) => None,
        }
    }

    fn name(&self, number: ListNumber) -> Option<&str> {
        match number {
            ListNumber::Runtime => Some("run time"),
            ListNumber::Block => Some("block.names"),
            ListNumber::Canary => Some("policy.doh_canary"),
            ListNumber::Redirect(number) => {
                self.redirects.get(usize::from(number)).map(|name| &**name)
            }
            ListNumber::List(_) | ListNumber::Zone(_) => Some(&self.file(number)?.name),
        }
    }
}

/// The rules in use with the names of their lists. Copies show the same. No data core asks.
#[derive(Clone, Debug, Default)]
pub struct RuleNames(Arc<Mutex<InUse>>);

#[derive(Debug, Default)]
struct InUse {
    rules: Option<Arc<Ruleset>>,
    lists: ListNames,
}

impl RuleNames {
    /// Other rules are in use.
    pub(crate) fn set_rules(&self, rules: &Arc<Ruleset>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).rules = Some(Arc::clone(rules));
    }

    /// The lists of the rules have these names.
    pub(crate) fn set_lists(&self, lists: ListNames) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lists = lists;
    }

    /// The names of all lists, and when the file of each was written.
    pub(crate) fn lists(&self) -> Vec<(ListNumber, String, Option<u64>)> {
        let in_use = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let named = |number| {
            let modified = in_use.lists.file(number).and_then(|file| file.modified);
            Some((number, in_use.lists.name(number)?.to_owned(), modified))
        };
        ListNumber::all().filter_map(named).collect()
    }

    /// The names of the views, by number; the first stands for none, and those of views that are gone are empty.
    pub(crate) fn views(&self) -> Vec<String> {
        let in_use = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ["none".to_owned()].into_iter().chain(in_use.lists.views.iter().cloned()).collect()
    }

    /// The name of a view; empty: of the one that stands for none.
    pub(crate) fn view(&self, number: u8) -> String {
        let in_use = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = usize::from(number).checked_sub(1);
        index.and_then(|index| in_use.lists.views.get(index)).cloned().unwrap_or_default()
    }

    /// The zones that are forwarded.
    pub(crate) fn forwards(&self) -> ZoneNames {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner).lists.forwards)
    }

    /// The name of the list with the rule that decides about a query, if there is one.
    pub(crate) fn list_of(
        &self,
        name: &[u8],
        qtype: u16,
        client: &[u8],
        view: u8,
    ) -> Option<String> {
        let in_use = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = in_use.rules.as_ref()?.list_of(name, qtype, client, view)?;
        in_use.lists.name(number).map(str::to_owned)
    }
}
