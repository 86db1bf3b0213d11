//! What is said of names beside the rules in use, for whoever says where a rule comes from.

use std::sync::{Arc, Mutex, PoisonError};

use pmdns_changes::names::NameTable;
use pmdns_engine::rule_names::{RuleNames, RulesInUse};

/// What is said of names, as the rules in use have it. Copies show the same.
#[derive(Clone, Debug, Default)]
pub struct OverridesInUse(Arc<Mutex<Arc<NameTable>>>);

/// The rules in use, and what is said of names.
#[derive(Clone, Debug)]
pub struct NamesInUse {
    pub(crate) made: RulesInUse,
    pub(crate) said: Arc<NameTable>,
}

impl OverridesInUse {
    pub(super) fn set(&self, said: &Arc<NameTable>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(said);
    }

    /// All of it, as it is now. `None`: there are no rules yet.
    pub fn with_rules(&self, rules: &RuleNames) -> Option<NamesInUse> {
        let made = rules.in_use()?;
        let said = Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner));
        Some(NamesInUse { made, said })
    }
}
