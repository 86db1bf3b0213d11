//! The rule that decides about a name, with its file and line.

use pmdns_config::files::{FoundRule, Scope, find_in_list, find_in_policy_zone};
use pmdns_config::{Config, readable};
use pmdns_stages::policy::RuleSource;
use pmdns_stages::wire::layout::Who;
use pmdns_stages::wire::name::suffixes;

use super::RuleReport;

/// The rule about a name, as far as the configuration and its files tell.
pub(super) fn rule(
    config: &Config,
    source: RuleSource,
    name: &[u8],
    who: Who,
) -> Option<RuleReport> {
    match source {
        RuleSource::RunTime | RuleSource::Local => None,
        RuleSource::PolicyZone { number, of_client } => {
            let zone = config.rpz.get(usize::from(number))?;
            let file = zone.file.display().to_string();
            if of_client {
                let note = Some("a rule about the client".to_owned());
                return Some(RuleReport { file: Some(file), note, ..RuleReport::default() });
            }
            // A zone that was transferred and not kept has no line, and neither has one that has changed since.
            let found = find_in_policy_zone(&zone.file, zone.origin.as_deref(), name);
            Some(match found.ok().flatten() {
                Some(found) => report(file, &found),
                None => RuleReport { file: Some(file), ..RuleReport::default() },
            })
        }
        RuleSource::Blocked => Some(blocked(config, name, who.view())),
    }
}

/// The rule that blocks a name, found in the files as they are now.
fn blocked(config: &Config, name: &[u8], view: u8) -> RuleReport {
    let own = config.block.wire_names().unwrap_or_default();
    let own = suffixes(name).find(|suffix| own.iter().any(|own| **own == **suffix));
    let mut best: Option<(String, FoundRule)> = own.map(|name| {
        ("block.names".to_owned(), FoundRule { line: 0, scope: Scope::Below, name: name.into() })
    });
    for list in config.blocklists.iter().filter(|list| config.view_set(&list.views).has(view)) {
        let found = find_in_list(&list.file, list.format, name).ok().flatten();
        if let Some(found) = found
            && best.as_ref().is_none_or(|(_, best)| found.rank() > best.rank())
        {
            best = Some((list.file.display().to_string(), found));
        }
    }
    let Some((file, found)) = best.filter(|(_, best)| best.scope != Scope::Except) else {
        let note = "the lists that block it have changed since they were read; reload";
        return RuleReport { note: Some(note.to_owned()), ..RuleReport::default() };
    };
    report(file, &found)
}

fn report(file: String, FoundRule { line, scope, name }: &FoundRule) -> RuleReport {
    let below = if *scope == Scope::Below { " and all names below it" } else { "" };
    RuleReport {
        file: Some(file),
        line: (*line > 0).then_some(*line),
        listed: Some(readable(name)),
        note: Some(format!("the name{below}")),
    }
}
