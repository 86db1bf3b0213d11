//! The rule that decides about a name, with its file and line.

use pmdns_config::files::{FoundRule, Scope, find_in_list, find_in_policy_zone};
use pmdns_config::readable;
use pmdns_control::EntryScope;
use pmdns_control::date::date;
use pmdns_stages::policy::{Explained, ListNumber, RuleOutcome, RuleSource};
use pmdns_stages::wire::name::suffixes;

use super::RuleReport;
use crate::runtime::NamesInUse;

/// The file of a list has no rule that could have decided.
const CHANGED: &str = "the list has changed since it was read; reload";

/// The rule about a name that decides or lets a query pass, as far as the configuration and its files tell. `None`: there is none,
/// or local records of the configuration decide.
pub(crate) fn rule(
    in_use: &NamesInUse,
    explained: &Explained,
    name: &[u8],
    qtype: u16,
    view: u8,
) -> Option<RuleReport> {
    match (explained.source, explained.list) {
        (source, Some(list)) => {
            let of_client = matches!(source, RuleSource::PolicyZone { of_client: true, .. });
            Some(rule_of(in_use, list, of_client, name, view))
        }
        (RuleSource::RunTime, None) => Some(match explained.outcome {
            RuleOutcome::Pass => entry(in_use, name, view),
            _ => record(in_use, name, qtype),
        }),
        _ => None,
    }
}

/// The rule of a list about a name; `of_client`: it is about the client.
pub(crate) fn rule_of(
    in_use: &NamesInUse,
    list: ListNumber,
    of_client: bool,
    name: &[u8],
    view: u8,
) -> RuleReport {
    let config = in_use.made.config();
    let found = match list {
        ListNumber::Runtime => return entry(in_use, name, view),
        ListNumber::Block => {
            let own = config.block.wire_names().unwrap_or_default();
            let own = suffixes(name).find(|suffix| own.iter().any(|own| **own == **suffix));
            own.map(|name| FoundRule {
                line: 0,
                scope: Scope::Below,
                is_important: false,
                name: name.into(),
            })
        }
        ListNumber::List(place) => config.blocklists.get(usize::from(place)).and_then(|list| {
            let found = find_in_list(&list.file, list.format, name);
            found.ok().flatten().filter(|found| !found.scope.is_exception())
        }),
        ListNumber::Zone(_) if of_client => {
            return note(in_use, list, Some("a rule about the client"));
        }
        // A zone that was transferred and not kept has no line, and neither has one that has changed since.
        ListNumber::Zone(place) => match config.rpz.get(usize::from(place)) {
            Some(zone) => match find_in_policy_zone(&zone.file, zone.origin.as_deref(), name) {
                Ok(Some(found)) => Some(found),
                _ => return note(in_use, list, None),
            },
            None => None,
        },
        ListNumber::Canary | ListNumber::Redirect(_) => return note(in_use, list, None),
    };
    match (found, in_use.made.lists.name(list)) {
        (Some(found), Some(file)) => report(file, &found),
        _ => note(in_use, list, Some(CHANGED)),
    }
}

/// A list without the rule.
pub(crate) fn note(in_use: &NamesInUse, list: ListNumber, text: Option<&str>) -> RuleReport {
    let (file, note) = (in_use.made.lists.name(list), text.map(str::to_owned));
    RuleReport { file, note, ..RuleReport::default() }
}

/// The record of run time that answers.
fn record(in_use: &NamesInUse, name: &[u8], qtype: u16) -> RuleReport {
    let record = in_use.said.record_of(name, qtype);
    // The PTR record of an address: nobody has added it.
    let note = record.map_or_else(
        || "it follows from a record of run time".to_owned(),
        |record| format!("a record added by {}", attribution(&record.by, record.since)),
    );
    let listed = record.map(|record| record.record.name.clone());
    RuleReport { listed, note: Some(note), ..RuleReport::default() }
}

/// The entry that blocks or allows a name at run time.
fn entry(in_use: &NamesInUse, name: &[u8], view: u8) -> RuleReport {
    let Some(entry) = in_use.said.entry_about(name, view, in_use.made.config()) else {
        return note(in_use, ListNumber::Runtime, Some("it was removed meanwhile"));
    };
    let below = match entry.entry.scope {
        EntryScope::Suffix => " and all names below it",
        EntryScope::Exact => "",
    };
    let (done, by) = (entry.entry.kind, attribution(&entry.by, entry.since));
    let place = match entry.entry.views.first() {
        Some(view) => format!(" in view {view}"),
        None => String::new(),
    };
    RuleReport {
        listed: Some(entry.entry.name.clone()),
        note: Some(format!("the name{below}, {done}{place} by {by}")),
        ..RuleReport::default()
    }
}

/// Who said something, and when.
fn attribution(by: &str, since: u64) -> String {
    format!("{by} at {}Z", date(since))
}

fn report(file: String, FoundRule { line, scope, name, .. }: &FoundRule) -> RuleReport {
    let below = if *scope == Scope::Below { " and all names below it" } else { "" };
    RuleReport {
        file: Some(file),
        line: (*line > 0).then_some(*line),
        listed: Some(readable(name)),
        note: Some(format!("the name{below}")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pmdns_config::{Config, wire_name};
    use pmdns_control::{Call, EntryKind, EntryRequest, RecordRequest};
    use pmdns_engine::rule_names::{ListNames, RulesInUse};
    use pmdns_engine::testing::config;
    use pmdns_stages::policy::Ruleset;
    use pmdns_stages::wire::layout::Who;
    use pmdns_stages::wire::name::Seed;

    use super::*;
    use crate::runtime::ready;
    use pmdns_changes::Author;
    use pmdns_changes::names::NameTable;

    fn in_use(config: &Config, calls: &[Call]) -> NamesInUse {
        let seed = Seed::new([7; 16]);
        let (rules, digest) = Ruleset::load(config, seed, 1).unwrap();
        let author = Author { by: "user 0".into(), since: 951_827_696, until_restart: false };
        let said = NameTable::after(calls, config, &author).unwrap();
        let rules = rules.with_runtime(2, ready(&said, config, seed).unwrap().map(Arc::new));
        let lists = ListNames::of(config).read(&digest);
        let made = RulesInUse { rules: Arc::new(rules), lists };
        NamesInUse { made, said: Arc::new(said) }
    }

    /// The rule about an A query for a name in a view, as people read it.
    fn note_of(in_use: &NamesInUse, name: &str, view: u8) -> String {
        let name = wire_name(name).unwrap();
        let who = Who::in_view(view, 0);
        let explained = in_use.made.rules.explain(&name, 1, &[192, 0, 2, 1], who);
        let rule = rule(in_use, &explained, &name, 1, view);
        rule.map(|rule| rule.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_list_that_decides_is_named_and_the_canary_is_no_list() {
        let file = std::env::temp_dir().join(format!("pmdns-told-{}", std::process::id()));
        std::fs::write(&file, "# ads\nads.example\n").unwrap();
        let config = config(&format!(
            "[[view]]\nname = \"kids\"\nclients = [\"192.0.2.0/24\"]\n\
             [block]\nnames = [\"blocked.example\"]\n\
             [policy]\ndoh_canary = [\"default\"]\n\
             [[blocklist]]\nfile = {file:?}\nviews = [\"kids\"]\n"
        ));
        let in_use = in_use(&config, &[]);
        let canary = "use-application-dns.net";
        assert_eq!(note_of(&in_use, canary, 0), "policy.doh_canary");
        assert_eq!(note_of(&in_use, canary, 1), "", "it is for another view");
        let below = "the name and all names below it";
        let blocked = format!("block.names, blocked.example, {below}");
        assert_eq!(note_of(&in_use, "x.blocked.example", 1), blocked);
        let listed = format!("{}, line 2, ads.example, {below}", file.display());
        assert_eq!(note_of(&in_use, "x.ads.example", 1), listed);
        assert_eq!(note_of(&in_use, "x.ads.example", 0), "");
        std::fs::write(&file, "@@||ads.example^\n").unwrap();
        let changed = format!("{}, {CHANGED}", file.display());
        assert_eq!(note_of(&in_use, "x.ads.example", 1), changed);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(note_of(&in_use, "x.ads.example", 1), changed);
    }

    #[test]
    fn what_is_said_at_run_time_is_told_with_its_author_and_its_time() {
        let config = config(
            "[[view]]\nname = \"kids\"\nclients = [\"192.0.2.0/24\"]\nqueries_per_second = 50\n\
             [policy]\nauto_ptr = true\n",
        );
        let entry = |name: &str, kind, scope, views: &[&str]| EntryRequest {
            name: name.to_owned(),
            kind,
            scope,
            action: pmdns_control::RuleAction::default(),
            views: views.iter().map(|view| (*view).to_owned()).collect(),
        };
        let record = RecordRequest {
            name: "www.lan.example".to_owned(),
            r#type: "A".to_owned(),
            ttl: 300,
            data: "192.0.2.7".to_owned(),
        };
        let entries = vec![
            entry("example", EntryKind::Block, EntryScope::Suffix, &[]),
            entry("good.example", EntryKind::Allow, EntryScope::Exact, &[]),
            entry("kids.example", EntryKind::Allow, EntryScope::Suffix, &["kids"]),
            entry("court.example", EntryKind::Block, EntryScope::Exact, &[]),
            entry("court.example", EntryKind::Allow, EntryScope::Exact, &["kids"]),
        ];
        let in_use = in_use(&config, &[Call::AddEntries(entries), Call::AddRecords(vec![record])]);
        let by = "by user 0 at 2000-02-29T12:34:56Z";
        let blocked = format!("example, the name and all names below it, blocked {by}");
        for (name, view, expected) in [
            ("x.example", 0, blocked.clone()),
            ("good.example", 0, format!("good.example, the name, allowed {by}")),
            ("x.good.example", 0, blocked.clone()),
            ("x.kids.example", 0, blocked),
            (
                "x.kids.example",
                1,
                format!("kids.example, the name and all names below it, allowed in view kids {by}"),
            ),
            ("court.example", 0, format!("court.example, the name, blocked {by}")),
            ("court.example", 1, format!("court.example, the name, allowed in view kids {by}")),
            ("www.lan.example", 1, format!("www.lan.example, a record added {by}")),
            ("7.2.0.192.in-addr.arpa", 0, "it follows from a record of run time".to_owned()),
            ("other", 0, String::new()),
        ] {
            assert_eq!(note_of(&in_use, name, view), expected, "{name} in view {view}");
        }
    }
}
