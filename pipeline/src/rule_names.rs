//! The rules in use, for those who want to say which list a rule came from.

use std::sync::{Arc, Mutex, PoisonError};

use pmdns_config::Config;
use pmdns_stages::policy::{ListNumber, Ruleset};

/// The names of the lists of a configuration.
#[derive(Clone, Debug, Default)]
pub struct ListNames {
    lists: Vec<String>,
    zones: Vec<String>,
}

impl ListNames {
    /// The names in a configuration: of block lists and policy zones, their files.
    pub fn of(config: &Config) -> Self {
        let lists = config.blocklists.iter().map(|list| list.file.display().to_string());
        let zones = config.rpz.iter().map(|zone| zone.file.display().to_string());
        Self { lists: lists.collect(), zones: zones.collect() }
    }

    fn name(&self, number: ListNumber) -> Option<&str> {
        match number {
            ListNumber::Runtime => Some("run time"),
            ListNumber::Block => Some("block.names"),
            ListNumber::Canary => Some("policy.doh_canary"),
            ListNumber::List(number) => self.lists.get(usize::from(number)).map(|name| &**name),
            ListNumber::Zone(number) => self.zones.get(usize::from(number)).map(|name| &**name),
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
