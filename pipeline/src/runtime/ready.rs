//! Names of run time, made ready for the cores.

use pmdns_changes::Refused;
use pmdns_changes::names::NameTable;
use pmdns_config::{BlockAction, Config};
use pmdns_control::answers::NameEntry;
use pmdns_control::{EntryKind, EntryScope, Refusal, RuleAction};
use pmdns_stages::policy::{RuntimeEntry, RuntimeNames};
use pmdns_stages::wire::name::Seed;

/// Names that can be looked up. `None`: nothing is said.
pub(crate) fn ready(
    names: &NameTable,
    config: &Config,
    seed: Seed,
) -> Result<Option<RuntimeNames>, Refused> {
    if names.is_empty() {
        return Ok(None);
    }
    let entry = |(name, NameEntry { entry, .. }): (&[u8], &NameEntry)| RuntimeEntry {
        name: name.into(),
        below: entry.scope == EntryScope::Suffix,
        action: (entry.kind == EntryKind::Block).then(|| action_of(entry.action)),
        views: config.view_set(&entry.views),
    };
    let entries = names.all_entries().map(entry).collect();
    let records = names.all_records()?;
    RuntimeNames::new(entries, records, config.policy.auto_ptr, seed)
        .map(Some)
        .map_err(|error| (Refusal::Wrong, error.to_string()))
}

fn action_of(action: RuleAction) -> BlockAction {
    match action {
        RuleAction::Nxdomain => BlockAction::Nxdomain,
        RuleAction::Nodata => BlockAction::Nodata,
        RuleAction::Refused => BlockAction::Refused,
        RuleAction::Null => BlockAction::Null,
        RuleAction::Drop => BlockAction::Drop,
    }
}
