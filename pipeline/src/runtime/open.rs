//! The changes of operators, as a start finds them: what a file has kept, or what has passed in a hand-over.
//!
//! The configuration may have been edited since. What it says by now is dropped, and so is what contradicts it: with a sentence in
//! the log, and a copy of the file if something is lost by that.
//! No start fails for it (ADR 0079).

use std::collections::BTreeSet;
use std::path::PathBuf;

use pmdns_changes::names::NameTable;
use pmdns_changes::overlay::{DroppedChange, Overlay};
use pmdns_changes::{JournalError, JournalLine, KeptChanges, OperatorChange, What, read};
use pmdns_config::{Config, LocalRecord, view_number};
use pmdns_control::RecordRequest;
use pmdns_stages::policy::{Ruleset, RuntimeNames};
use pmdns_stages::wire::name::Seed;

use super::PassedChanges;

/// What is kept and what holds, over a configuration.
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
    /// Prefixes of the client table that the file has kept.
    pub clients: Vec<OperatorChange>,
    /// Those that hold, whatever files have kept. `None`: those of files do.
    pub passed_clients: Option<Vec<OperatorChange>>,
}

/// Changes that fit a configuration.
struct FittingChanges {
    changes: KeptChanges,
    /// Whether nothing is lost of those that were to fit.
    is_all: bool,
    names: NameTable,
    overlay: Overlay,
}

impl FittingChanges {
    /// Those of `changes` that fit, and hold at this time in seconds since 1970. `ended` gets the sentences about the others.
    fn of(mut changes: KeptChanges, base: &Config, now: u64, ended: &mut BTreeSet<String>) -> Self {
        let (overlay, left_out) = Overlay::of_kept(&changes, base);
        let contradicting = [without_view(&changes, base), unlike_others(&changes, base)].concat();
        let mut is_all = true;
        for DroppedChange { subject, why, is_needless } in left_out.into_iter().chain(contradicting)
        {
            ended.insert(why);
            is_all &= is_needless;
            changes.take(JournalLine::Unset(subject));
        }
        // As they fit the configuration by now.
        overlay.changes().for_each(|change| changes.take(JournalLine::Set(Box::new(change))));
        let (names, no_names) = NameTable::of_kept(&changes);
        for (subject, why) in no_names {
            ended.insert(why);
            is_all = false;
            changes.take(JournalLine::Unset(subject));
        }
        let end = |change: &OperatorChange| match &change.what {
            What::Limit(limit) => limit.until,
            _ => None,
        };
        let is_over = |change: &&OperatorChange| end(change).is_some_and(|end| end <= now);
        let over: Vec<_> = changes.iter().filter(is_over).map(|one| one.what.clone()).collect();
        for what in over {
            tracing::info!("a change of run time ends, as its time is over: {what}");
            changes.take(JournalLine::Unset(what.subject()));
        }
        Self { changes, is_all, names, overlay }
    }

    /// Those of a kind.
    fn those(&self, is_it: impl Fn(&What) -> bool) -> Vec<OperatorChange> {
        self.changes.iter().filter(|change| is_it(&change.what)).cloned().collect()
    }
}

impl OpenChanges {
    /// Reads the file that `base` names, at this time in seconds since 1970. What the process before has `passed` holds in its
    /// place.
    ///
    /// # Errors
    ///
    /// The file cannot be used.
    pub fn read(
        base: &Config,
        now: u64,
        passed: Option<PassedChanges>,
    ) -> Result<Self, JournalError> {
        let path = base.control.entries.clone();
        let kept = path.as_deref().map(read).transpose()?.unwrap_or_default();
        Ok(Self::over(base, (path, kept), passed, now))
    }

    /// The file stays as it is: what it has and does not hold comes back with a restart. What holds and is not in it, as the disk
    /// was full or there was no file, gets into it with the next change of the same thing.
    fn over(
        base: &Config,
        (path, kept): (Option<PathBuf>, KeptChanges),
        passed: Option<PassedChanges>,
        now: u64,
    ) -> Self {
        let is_client = |what: &What| matches!(what, What::Client(_));
        let mut ended = BTreeSet::new();
        let of_file = FittingChanges::of(kept, base, now, &mut ended);
        let clients = of_file.those(is_client);
        let mut passed_clients = None;
        let mut holding = None;
        if let Some(PassedChanges { holds, has_clients }) = passed {
            let holds = FittingChanges::of(holds, base, now, &mut ended);
            passed_clients = has_clients.then(|| holds.those(is_client));
            holding = Some(holds);
        }
        ended.iter().for_each(|why| tracing::warn!("a change of run time ends: {why}"));
        let limits =
            holding.as_ref().unwrap_or(&of_file).those(|what| matches!(what, What::Limit(_)));
        let FittingChanges { changes: kept, is_all, names, overlay } = of_file;
        let (names, mut overlay) = holding.map_or((names, overlay), |one| (one.names, one.overlay));
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
        overlay.hold_back_kept(&kept);
        let config = overlay.apply(base).unwrap_or_else(|why| {
            debug_assert!(false, "it was tried: {why}");
            base.clone()
        });
        Self { path, kept, is_all, names, overlay, config, limits, clients, passed_clients }
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
    use pmdns_changes::{Author, ZoneLimitKept};
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
        let open = OpenChanges::over(&config(""), (None, kept), None, 100);
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
        let open = OpenChanges::over(&base, (None, kept), None, 100);
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
        let open = OpenChanges::over(&base, (None, open.kept), None, 100);
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
        let open = OpenChanges::over(&base, (None, kept), None, 100);
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

    #[test]
    fn what_has_passed_holds_and_the_file_stays_as_it_is() {
        let text = |text: &str| text.to_owned();
        let limit =
            |rate| What::Limit(ZoneLimitKept { zone: text("a.example"), rate, until: None });
        let entry = |name: &str| {
            What::Entry(EntryRequest {
                name: text(name),
                kind: EntryKind::Block,
                scope: Default::default(),
                action: Default::default(),
                views: Vec::new(),
            })
        };
        let client = |last: u8| {
            let (prefix, view) = (format!("192.0.2.{last}/32"), Some(text("default")));
            What::Client(ClientChange { prefix, view })
        };
        let mut kept = KeptChanges::default();
        for what in [entry("both.example"), entry("removed.example"), limit(1), client(1)] {
            kept.take(change(what));
        }
        let author = Author { by: text("user 7"), since: 9, until_restart: true };
        let until_restart =
            |what| JournalLine::Set(Box::new(OperatorChange { what, author: author.clone() }));
        let mut holds = KeptChanges::default();
        holds.take(change(entry("both.example")));
        // The disk had no room for it.
        holds.take(change(entry("memory.example")));
        for what in [entry("passing.example"), limit(2), client(2)] {
            holds.take(until_restart(what));
        }
        let open = |has_clients| {
            let passed = PassedChanges { holds: holds.clone(), has_clients };
            OpenChanges::over(&config(""), (None, kept.clone()), Some(passed), 100)
        };
        let opened = open(true);
        assert!(opened.kept.iter().eq(kept.iter()) && opened.is_all);
        let names: Vec<_> = opened.names.all_changes().collect();
        let expected = ["both", "memory", "passing"].map(|one| entry(&format!("{one}.example")));
        assert!(names.iter().map(|one| &one.what).eq(&expected), "{names:?}");
        assert_eq!(names[2].author, author);
        let limits: Vec<_> = opened.limits.iter().map(|one| (&one.what, &one.author)).collect();
        assert_eq!(limits, [(&limit(2), &author)]);
        let clients =
            |of: &[OperatorChange]| of.iter().map(|one| one.what.clone()).collect::<Vec<_>>();
        assert_eq!(clients(&opened.clients), [client(1)]);
        assert_eq!(opened.passed_clients.as_deref().map(clients), Some(vec![client(2)]));
        assert!(open(false).passed_clients.is_none());
    }
}
