//! The rules in use, for those who want to say which list a rule came from.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use pmdns_config::files::ListSummary;
use pmdns_config::{Config, view_at};
use pmdns_stages::policy::{Digest, ListNumber, Ruleset};

/// The sources of rules: a configuration, and the contents of its lists when they were read.
#[derive(Clone, Debug, Default)]
pub struct ListNames {
    config: Arc<Config>,
    lists: Arc<[ListFile]>,
    zones: Arc<[ListFile]>,
    summaries: Arc<[Option<ListSummary>]>,
    forwards: ZoneNames,
}

/// Names of zones in wire format and in lower case, the longest first.
pub type ZoneNames = Arc<[Box<[u8]>]>;

/// The zones that a configuration forwards.
pub fn forward_zones(config: &Config) -> ZoneNames {
    let names = config.forwards.iter().filter_map(|forward| forward.wire_zone().ok());
    let mut names: Vec<Box<[u8]>> = names.map(|name| name.to_ascii_lowercase().into()).collect();
    names.sort_by_key(|name| Reverse(name.len()));
    names.into()
}

/// A file with a list.
#[derive(Clone, Debug)]
struct ListFile {
    path: PathBuf,
    /// When it was written, in seconds since 1970, as of when the rules were read.
    modified: Option<u64>,
    /// Whether it comes from a server. Then its time is also that of the server's last word, which needs no new rules.
    is_fetched: bool,
}

impl ListFile {
    fn new(path: &Path, is_fetched: bool) -> Self {
        Self { path: path.to_owned(), modified: modified(path), is_fetched }
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

/// When a file was written, in seconds since 1970.
fn modified(path: &Path) -> Option<u64> {
    let modified = path.metadata().and_then(|facts| facts.modified()).ok()?;
    modified.duration_since(UNIX_EPOCH).ok().map(|since_1970| since_1970.as_secs())
}

impl ListNames {
    /// Those of a configuration.
    pub fn of(config: &Config) -> Self {
        let lists = config.blocklists.iter();
        let lists = lists.map(|list| ListFile::new(&list.file, list.url.is_some()));
        let zones = config.rpz.iter();
        let zones = zones.map(|zone| ListFile::new(&zone.file, !zone.primaries.is_empty()));
        Self {
            lists: lists.collect(),
            zones: zones.collect(),
            forwards: forward_zones(config),
            summaries: Arc::default(),
            config: Arc::new(config.clone()),
        }
    }

    /// The same, of whose files this was read.
    pub fn read(self, digest: &Digest) -> Self {
        Self { summaries: digest.lists.as_slice().into(), ..self }
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

    /// The name of a list: of block lists and policy zones, their files.
    pub fn name(&self, number: ListNumber) -> Option<String> {
        match number {
            ListNumber::Runtime => Some("run time".to_owned()),
            ListNumber::Block => Some("block.names".to_owned()),
            ListNumber::Canary => Some("policy.doh_canary".to_owned()),
            ListNumber::Redirect(number) => {
                let is_there = usize::from(number) < self.config.redirects.len();
                is_there.then(|| format!("redirect[{number}]"))
            }
            ListNumber::List(_) | ListNumber::Zone(_) => Some(self.file(number)?.name()),
        }
    }

    /// What each block list had when it was read, in the order of the configuration; `None`: it was not fetched yet.
    pub fn summaries(&self) -> &[Option<ListSummary>] {
        &self.summaries
    }
}

/// The rules in use with the names of their lists. Copies show the same. No data core asks.
#[derive(Clone, Debug, Default)]
pub struct RuleNames(Arc<Mutex<CurrentRules>>);

#[derive(Debug, Default)]
struct CurrentRules {
    rules: Option<Arc<Ruleset>>,
    lists: ListNames,
}

/// The rules in use, and what they were made from.
#[derive(Clone, Debug)]
pub struct RulesInUse {
    /// The rules.
    pub rules: Arc<Ruleset>,
    /// The names of their lists.
    pub lists: ListNames,
}

impl RulesInUse {
    /// The configuration that they were made from.
    pub fn config(&self) -> &Config {
        &self.lists.config
    }
}

impl RuleNames {
    fn lock(&self) -> MutexGuard<'_, CurrentRules> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Other rules are in use.
    pub(crate) fn set_rules(&self, rules: &Arc<Ruleset>) {
        self.lock().rules = Some(Arc::clone(rules));
    }

    /// The rules were made from these lists.
    pub fn set_lists(&self, lists: ListNames) {
        self.lock().lists = lists;
    }

    /// All of it, as it is now. `None`: there are no rules yet.
    pub fn in_use(&self) -> Option<RulesInUse> {
        let CurrentRules { rules, lists } = &*self.lock();
        let rules = Arc::clone(rules.as_ref()?);
        Some(RulesInUse { rules, lists: lists.clone() })
    }

    /// The names of all lists, and when each was written, or confirmed by its server.
    pub fn lists(&self) -> Vec<(ListNumber, String, Option<u64>)> {
        // Nobody waits for the disk.
        let lists = self.lock().lists.clone();
        let named = |number| {
            let time = lists.file(number).and_then(|file| match file.is_fetched {
                true => modified(&file.path),
                false => file.modified,
            });
            Some((number, lists.name(number)?, time))
        };
        ListNumber::all().filter_map(named).collect()
    }

    /// The names of the views, by number; the first stands for none, and those of views that are gone are empty.
    pub fn views(&self) -> Vec<String> {
        let in_use = self.lock();
        let views = in_use.lists.config.views.iter().map(|view| view.name.clone());
        ["none".to_owned()].into_iter().chain(views).collect()
    }

    /// The name of a view; empty: of the one that stands for none.
    pub fn view(&self, number: u8) -> String {
        let in_use = self.lock();
        let view = view_at(number, &in_use.lists.config.views);
        view.map(|view| view.name.clone()).unwrap_or_default()
    }

    /// The zones that are forwarded.
    pub fn forwards(&self) -> ZoneNames {
        Arc::clone(&self.lock().lists.forwards)
    }

    /// The name of the list with the rule that decides about a query, if there is one.
    pub fn list_of(&self, name: &[u8], qtype: u16, client: &[u8], view: u8) -> Option<String> {
        let in_use = self.lock();
        let number = in_use.rules.as_ref()?.list_of(name, qtype, client, view)?;
        in_use.lists.name(number)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::testing::{Rig, config};

    #[test]
    fn a_fetched_list_is_as_old_as_its_servers_last_word_and_another_as_its_rules() {
        let path = |name| std::env::temp_dir().join(format!("pmdns-{name}-{}", std::process::id()));
        let [own, fetched] = [path("own-list"), path("fetched-list")];
        let set = |file: &Path, seconds| {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            std::fs::File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
        };
        for file in [&own, &fetched] {
            std::fs::write(file, "a.example\n").unwrap();
            set(file, 1_000_000);
        }
        let rig = Rig::new(&config(&format!(
            "[[blocklist]]\nfile = {own:?}\n\
             [[blocklist]]\nfile = {fetched:?}\nurl = \"https://lists.example/a\"\n"
        )));
        let times = || {
            let lists = rig.gauges.names.lists();
            let time_of = |file: &Path| {
                lists.iter().find(|(_, name, _)| *name == file.display().to_string()).unwrap().2
            };
            [time_of(&own), time_of(&fetched)]
        };
        assert_eq!(times(), [Some(1_000_000); 2]);
        set(&own, 2_000_000);
        set(&fetched, 2_000_000);
        assert_eq!(times(), [Some(1_000_000), Some(2_000_000)]);
        std::fs::remove_file(&fetched).unwrap();
        assert_eq!(times(), [Some(1_000_000), None]);
        std::fs::remove_file(&own).unwrap();
    }
}
