//! What a file has kept of the changes of operators, as a start finds it.
//!
//! The configuration may have been edited since. What it says by now is dropped, and so is what contradicts it: with a sentence in
//! the log, and a copy of the file if something is lost by that.
//! No start fails for it (ADR 0079).

use std::path::PathBuf;

use pmdns_changes::names::NameTable;
use pmdns_changes::overlay::{DroppedChange, Overlay};
use pmdns_changes::{
    JournalError, JournalLine, KeptChanges, OperatorChange, What, ZoneLimitKept, read,
};
use pmdns_config::{Config, LocalRecord, view_number};
use pmdns_control::RecordRequest;
use pmdns_stages::policy::{Ruleset, RuntimeNames};
use pmdns_stages::wire::name::Seed;

/// The contents of the file, over a configuration.
#[derive(Debug)]
pub struct OpenChanges {
    pub(super) path: Option<PathBuf>,
    pub(super) kept: KeptChanges,
    /// Whether that is all that the file has and could be used.
    pub(super) is_all: bool,
    pub(super) names: NameTable,
    /// The changes of upstreams and lists.
    pub overlay: Overlay,
    /// The configuration with them.
    pub config: Config,
    /// Limits on zones.
    pub limits: Vec<OperatorChange>,
    /// Prefixes of the client table.
    pub clients: Vec<OperatorChange>,
}

impl OpenChanges {
    /// Reads the file that `base` names, at this time in seconds since 1970.
    ///
    /// # Errors
    ///
    /// The file cannot be used.
    pub fn read(base: &Config, now: u64) -> Result<Self, JournalError> {
        let path = base.control.entries.clone();
        let kept = path.as_deref().map(read).transpose()?.unwrap_or_default();
        Ok(Self::over(base, (path, kept), now))
    }

    fn over(base: &Config, (path, mut kept): (Option<PathBuf>, KeptChanges), now: u64) -> Self {
        let (mut overlay, left_out) = Overlay::of_kept(&kept, base);
        // What could be wrong with lists may pass, so the file keeps them.
        let check = |config: &Config| Ruleset::check_lists(config).map_err(|why| why.to_string());
        overlay.hold_back_lists(base, check);
        for (list, why) in overlay.unusable_lists() {
            let name = &list.name;
            tracing::warn!(
                "list {name}, which was added at run time, is left out until the next start: {why}; mend that and restart, or \
                 remove the list: pmdns list remove {name}"
            );
        }
        let contradicting = [without_view(&kept, base), unlike_others(&kept, base)].concat();
        let mut is_all = true;
        for DroppedChange { subject, why, is_needless } in left_out.into_iter().chain(contradicting)
        {
            tracing::warn!("a change of run time ends: {why}");
            is_all &= is_needless;
            kept.take(JournalLine::Unset(subject));
        }
        // As they fit the file by now.
        overlay.changes().for_each(|change| kept.take(JournalLine::Set(Box::new(change))));
        let (names, no_names) = NameTable::of_kept(&kept);
        for (subject, why) in no_names {
            tracing::warn!("a change of run time ends: {why}");
            is_all = false;
            kept.take(JournalLine::Unset(subject));
        }
        let config = overlay.apply(base).unwrap_or_else(|why| {
            debug_assert!(false, "it was tried: {why}");
            base.clone()
        });
        let (mut limits, mut clients) = (Vec::new(), Vec::new());
        let mut over = Vec::new();
        for change in kept.iter() {
            match &change.what {
                What::Limit(ZoneLimitKept { until: Some(until), .. }) if *until <= now => {
                    tracing::info!(
                        "a change of run time ends, as its time is over: {}",
                        change.what
                    );
                    over.push(change.what.subject());
                }
                What::Limit(_) => limits.push(change.clone()),
                What::Client(_) => clients.push(change.clone()),
                _ => {}
            }
        }
        over.into_iter().for_each(|subject| kept.take(JournalLine::Unset(subject)));
        Self { path, kept, is_all, names, overlay, config, limits, clients }
    }
}

fn dropped(change: &OperatorChange, why: &str) -> DroppedChange {
    let why = format!("{}, by {}: {why}", change.what, change.author.by);
    DroppedChange { subject: change.what.subject(), why, is_needless: false }
}

/// Names and clients of views that the file has no more.
fn without_view(kept: &KeptChanges, base: &Config) -> Vec<DroppedChange> {
    let is_without = |change: &&OperatorChange| {
        let views = match &change.what {
            What::Entry(entry) => entry.views.first(),
            What::Client(client) => client.view.as_ref(),
            _ => None,
        };
        views.is_some_and(|view| view_number(view, &base.views).is_none())
    };
    kept.iter().filter(is_without).map(|one| dropped(one, "the view is gone")).collect()
}

/// Records that contradict later ones: they never held together, as one of them was hidden until the restart.
fn unlike_others(kept: &KeptChanges, base: &Config) -> Vec<DroppedChange> {
    let record = |change: &OperatorChange| match &change.what {
        What::Record(RecordRequest { name, r#type, ttl, data }) => {
            LocalRecord::new(name, r#type, *ttl, data).ok()
        }
        _ => None,
    };
    let records = kept.iter().filter_map(|change| Some((change, record(change)?)));
    let mut records: Vec<(&OperatorChange, LocalRecord)> = records.collect();
    records.reverse();
    let (mut agreed, mut left_out) = (Vec::new(), Vec::new());
    // What agrees is taken in at once. What does not is halved, down to the record that does not.
    let mut parts = vec![&*records];
    while let Some(part) = parts.pop() {
        let before = agreed.len();
        agreed.extend(part.iter().map(|(_, record)| record.clone()));
        let made = RuntimeNames::new(
            Vec::new(),
            agreed.clone(),
            base.policy.auto_ptr,
            Seed::new(Default::default()),
        );
        let Err(error) = made else { continue };
        agreed.truncate(before);
        match part {
            [(change, _)] => left_out.push(dropped(change, &error.to_string())),
            _ => {
                let (first, second) = part.split_at(part.len() / 2);
                parts.extend([second, first]);
            }
        }
    }
    left_out
}

#[cfg(test)]
mod tests {
    use pmdns_changes::Author;
    use pmdns_config::Blocklist;
    use pmdns_control::{ClientChange, EntryKind, EntryRequest, NewList};
    use pmdns_engine::testing::config;

    use super::*;

    #[test]
    fn a_limit_ends_at_its_time_although_nothing_ran_then() {
        let mut kept = KeptChanges::default();
        for (zone, until) in
            [("a.example", Some(100)), ("b.example", Some(101)), ("c.example", None)]
        {
            let what = What::Limit(ZoneLimitKept { zone: zone.to_owned(), rate: 1, until });
            let author = Author { by: "user 0".into(), since: 7, until_restart: false };
            kept.take(JournalLine::Set(Box::new(OperatorChange { what, author })));
        }
        let open = OpenChanges::over(&config(""), (None, kept), 100);
        let zones: Vec<_> = open.limits.iter().map(|limit| limit.what.subject()).collect();
        let zone = |zone: &str| pmdns_changes::Subject::Limit(zone.to_owned());
        assert_eq!(zones, [zone("b.example"), zone("c.example")]);
        assert_eq!((open.kept.len(), open.is_all), (2, true));
    }

    fn change(what: What) -> JournalLine {
        let author = Author { by: "user 0".into(), since: 7, until_restart: false };
        JournalLine::Set(Box::new(OperatorChange { what, author }))
    }

    #[test]
    fn a_list_that_cannot_be_read_is_left_out_and_kept_and_the_rest_comes_up() {
        let folder = std::env::temp_dir().join(format!("pmdns-kept-lists-{}", std::process::id()));
        // Not even root can read a folder as a list.
        std::fs::create_dir_all(folder.join("broken")).unwrap();
        std::fs::write(folder.join("good"), "a.example\n").unwrap();
        let mut base = config("");
        base.control.lists = Some(folder.clone());
        let mut kept = KeptChanges::default();
        for name in ["broken", "good", "new"] {
            kept.take(change(What::List(NewList {
                name: name.to_owned(),
                url: format!("https://lists.example/{name}"),
                address: None,
                refresh_seconds: None,
                views: Vec::new(),
            })));
        }
        let open = OpenChanges::over(&base, (None, kept), 100);
        let loaded = Ruleset::load(&open.config, Seed::new(Default::default()), 1);
        let files: Vec<_> = open.config.blocklists.iter().map(|list| &list.file).collect();
        assert_eq!(files, [&folder.join("good"), &folder.join("new")]);
        assert_eq!(loaded.unwrap().1.blocked_names, 1);
        assert_eq!((open.kept.len(), open.is_all), (3, true), "the next start tries it again");
        let [(list, why)] = open.overlay.unusable_lists().collect::<Vec<_>>()[..] else { panic!() };
        assert!(list.name == "broken" && why.contains("cannot be read"), "{why}");
        // If the file names one that cannot be read, the start says so.
        base.blocklists = vec![Blocklist { file: folder.join("broken"), ..Blocklist::default() }];
        base.blocklists[0].file.push("gone");
        let open = OpenChanges::over(&base, (None, open.kept), 100);
        assert_eq!(open.overlay.unusable_lists().count(), 0);
        assert!(Ruleset::load(&open.config, Seed::new(Default::default()), 1).is_err());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_contradicts_the_file_or_a_later_record_ends_and_the_rest_holds() {
        let mut kept = KeptChanges::default();
        let record = |name: &str, r#type: &str, data: &str| {
            let [name, r#type, data] = [name, r#type, data].map(str::to_owned);
            What::Record(RecordRequest { name, r#type, ttl: 60, data })
        };
        let entry = |name: &str, view: Option<&str>| {
            What::Entry(EntryRequest {
                name: name.to_owned(),
                kind: EntryKind::Block,
                scope: Default::default(),
                action: Default::default(),
                views: view.map(str::to_owned).into_iter().collect(),
            })
        };
        let client = |view: &str| {
            What::Client(ClientChange { prefix: "192.0.2.1".into(), view: Some(view.to_owned()) })
        };
        for what in [
            record("b.lan", "A", "192.0.2.1"),
            record("a.lan", "A", "192.0.2.2"),
            record("c.lan", "A", "192.0.2.3"),
            record("a.lan", "CNAME", "b.lan."),
            entry("a.example", None),
            entry("b.example", Some("gone")),
            client("gone"),
        ] {
            kept.take(change(what));
        }
        let base = config("");
        let open = OpenChanges::over(&base, (None, kept), 100);
        assert!(!open.is_all, "a copy stays");
        let holds: Vec<_> = open.kept.iter().map(|change| change.what.clone()).collect();
        let expected = [
            record("b.lan", "A", "192.0.2.1"),
            record("c.lan", "A", "192.0.2.3"),
            record("a.lan", "CNAME", "b.lan."),
            entry("a.example", None),
        ];
        assert_eq!(holds, expected);
        let seed = Seed::new(Default::default());
        assert!(crate::runtime::ready(&open.names, &base, seed).unwrap().is_some());
    }
}
