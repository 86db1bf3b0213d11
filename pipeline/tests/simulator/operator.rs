//! An operator and the transfer of zones: both replace rules.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pmdns::control::reload::{Reloader, Written};
use pmdns::runtime::NameOverrides;
use pmdns_changes::lasting;
use pmdns_changes::overlay::{ConfigChange, UpstreamChange};
use pmdns_config::{Config, ConfigText};
use pmdns_control::{
    Call, CallReply, Caller, EntryChoice, EntryKind, EntryRequest, EntryScope, Refusal, RuleAction,
    UpstreamState,
};
use pmdns_engine::rules::RulesPublisher;
use pmdns_hierarchy::Rng;
use pmdns_stages::wire::name::Seed;
use tokio::sync::oneshot::{self, error::TryRecvError};

use crate::blocks::{self, Blocks};
use crate::setup::{LAB, lab};
use crate::stepping::Stepping;
use crate::trace::Trace;

/// The files of one history.
pub(crate) struct Files {
    folder: PathBuf,
}

/// Replaces the rules.
pub(crate) struct Operator {
    files: Files,
    /// The configuration of the start, and as it was written last.
    first: String,
    text: String,
    reloader: Reloader,
    runtime: NameOverrides,
    /// The names that are blocked by turns; none: no list is in use.
    pub(crate) blocks: Option<Blocks>,
    began: Instant,
    /// The first version that may still be in use, and the last that was written.
    pub(crate) versions: (u16, u16),
    /// Whether the zone's file, and that of the configuration, are as they should be.
    are_whole: [bool; 2],
    /// Callers of reloads and of changes of upstreams that nobody has told yet.
    asked: Vec<Asked>,
    /// Whether a file was not as it should be since they were told last.
    was_broken: bool,
    /// Replies that nobody expects.
    wrong: Vec<String>,
    /// What callers were told of upstreams: whether each is drained.
    drained: BTreeMap<String, bool>,
    trace: Trace,
}

/// A caller who waits.
struct Asked {
    /// The upstream, and whether it is to be drained; `None`: a reload was asked for.
    drain: Option<(String, bool)>,
    told: oneshot::Receiver<CallReply>,
}

impl Files {
    /// A new folder.
    pub(crate) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let name = format!("pmdns-simulator-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let files = Self { folder };
        files.write_zone(1);
        write(&files.list(), "nothing.here\n");
        files
    }

    /// The zone that changes.
    pub(crate) fn zone(&self) -> PathBuf {
        self.folder.join("zone")
    }

    /// The list that changes.
    pub(crate) fn list(&self) -> PathBuf {
        self.folder.join("list")
    }

    fn config(&self) -> PathBuf {
        self.folder.join("config")
    }

    fn write_zone(&self, version: u16) {
        let [high, low] = version.to_be_bytes();
        let text = format!(
            "$ORIGIN here.\n@ 60 SOA ns admin 1 2 3 4 5\n@ 60 NS ns\nv 0 A 10.99.{high}.{low}\n"
        );
        write(&self.zone(), &text);
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Operator {
    /// One who has the rules of this configuration in use.
    pub(crate) fn new(
        files: Files,
        text: &str,
        config: &Config,
        line: &mut Stepping,
        trace: Trace,
    ) -> Self {
        let (nobody, _) = RulesPublisher::new(0, 0, Seed::new([0; 16]), 1);
        let publisher = std::mem::replace(&mut line.rig.rules, nobody);
        write(&files.config(), text);
        let written = ConfigText::read(&files.config());
        let written = written.map_or_else(|_| Written::default(), |text| Written::of(&text));
        Self {
            reloader: Reloader::new(&files.config(), (config, written), publisher, String::new()),
            first: text.to_owned(),
            text: text.to_owned(),
            files,
            runtime: NameOverrides::of_nothing(),
            blocks: text.contains("[[blocklist]]").then(Blocks::new),
            began: Instant::now(),
            versions: (1, 1),
            are_whole: [true; 2],
            asked: Vec::new(),
            was_broken: false,
            wrong: Vec::new(),
            drained: BTreeMap::new(),
            trace,
        }
    }

    /// Does something, or has something go wrong.
    pub(crate) fn act(&mut self, now: Duration, chance: &mut Rng) {
        match chance.below(10) {
            0 | 1 => self.transfer(now),
            2 => {
                self.trace.note(now, format_args!("the zone's file is not there for a while"));
                let _ = std::fs::remove_file(self.files.zone());
                self.are_whole[0] = false;
                self.was_broken = true;
                if chance.below(2) > 0 {
                    self.versions.1 += 1;
                    self.reloader.note_news();
                }
            }
            3 => {
                self.trace.note(now, format_args!("the configuration is half written"));
                write(&self.files.config(), "half of a new configurat");
                self.are_whole[1] = false;
                self.was_broken = true;
            }
            4 => self.mend(now),
            5 | 6 => self.change_upstreams(now, chance),
            7 | 8 => self.drain(now, chance),
            _ => {
                self.trace.note(now, format_args!("a reload is asked for"));
                let caller = self.caller(None);
                self.reloader.ask_for(caller);
            }
        }
    }

    /// One who is told once.
    fn caller(&mut self, drain: Option<(String, bool)>) -> Caller {
        let (caller, told) = Caller::new("operator");
        self.asked.push(Asked { drain, told });
        caller
    }

    /// Drains an upstream or resumes it, by a change of run time, whatever else is under way. A group keeps its first one.
    fn drain(&mut self, now: Duration, chance: &mut Rng) {
        let config = Arc::clone(self.reloader.config());
        let is_first = |place: usize, group: &str| {
            !config.upstreams[..place].iter().any(|one| one.group == group)
        };
        let others = config.upstreams.iter().enumerate();
        let others: Vec<_> = others.filter(|(at, one)| !is_first(*at, &one.group)).collect();
        if others.is_empty() {
            return;
        }
        let (_, upstream) = others[chance.below(others.len())];
        let (address, drained) = (upstream.address.to_string(), !upstream.is_drained);
        self.trace.note(now, format_args!("{address} is drained: {drained}"));
        let caller = self.caller(Some((address.clone(), drained)));
        let state = UpstreamState { drained: Some(drained), weight: None };
        let change = ConfigChange::Upstream(UpstreamChange::Set(address, state));
        self.reloader.change(change, caller);
    }

    /// Compares what callers are told with what has come of it.
    fn receive(&mut self) {
        for mut one in std::mem::take(&mut self.asked) {
            let drain = one.drain.clone();
            match one.told.try_recv() {
                Ok(told) if self.is_expected(drain.as_ref(), &told) => {}
                Err(TryRecvError::Empty) => self.asked.push(one),
                told => self.wrong.push(format!("{drain:?}: nobody expects this reply: {told:?}")),
            }
        }
    }

    fn is_expected(&mut self, drain: Option<&(String, bool)>, told: &CallReply) -> bool {
        match (drain, told) {
            (_, CallReply::Refused(Refusal::Busy, _)) => true,
            (None, CallReply::Done(done)) => *done == self.reloader.rules(),
            (None, CallReply::Refused(Refusal::Unable, _)) => self.was_broken,
            (Some((address, is_drained)), CallReply::Done(done)) => {
                self.drained.insert(address.clone(), *is_drained);
                // Of one that is resumed nothing is left that could end.
                let (what, lasting) = match is_drained {
                    true => ("no new questions", lasting(false, false)),
                    false => ("questions again", ""),
                };
                *done == format!("upstream {address} gets {what}{lasting}, by operator")
            }
            // The file has it no more.
            (Some((address, _)), CallReply::Refused(Refusal::Unknown, why)) => {
                why.starts_with(&format!("upstream {address} is not asked; "))
            }
            _ => false,
        }
    }

    /// Whether each who asked was told once and the truth, when nothing is under way. Upstreams are as callers were told last.
    pub(crate) fn check_told(&mut self) -> Result<(), String> {
        let waits = self.asked.iter().map(|one| format!("{:?}: its caller is not told", one.drain));
        let wrong = self.wrong.iter().cloned().chain(waits).next();
        wrong.map_or(Ok(()), Err)?;
        self.was_broken = self.are_whole != [true; 2];
        for (address, drained) in &self.drained {
            let mut upstreams = self.reloader.config().upstreams.iter();
            let found = upstreams.find(|one| one.address.to_string() == *address);
            if found.is_some_and(|one| one.is_drained != *drained) {
                return Err(format!("{address} is not drained: {drained}, as its caller was told"));
            }
        }
        Ok(())
    }

    /// A new version of the zone comes.
    pub(crate) fn transfer(&mut self, now: Duration) {
        self.versions.1 += 1;
        self.trace.note(now, format_args!("version {}", self.versions.1));
        self.files.write_zone(self.versions.1);
        self.are_whole[0] = true;
        self.reloader.note_news();
    }

    /// Blocks other names: by the list, by entries of run time, or by both.
    pub(crate) fn block(&mut self, now: Duration, chance: &mut Rng) {
        let Some(blocks) = &mut self.blocks else { return };
        let way = chance.below(3);
        if way != 0 {
            let blocked = blocks::some(chance);
            self.trace.note(now, format_args!("the list blocks {blocked:?}"));
            let mut text = "nothing.here\n".to_owned();
            blocked.iter().for_each(|number| text += &format!("{}\n", blocks::name(*number)));
            write(&self.files.list(), &text);
            blocks.write_list(blocked);
            self.reloader.note_news();
        }
        if way != 1 {
            let blocked = blocks::some(chance);
            self.trace.note(now, format_args!("entries block {blocked:?}"));
            let before = blocks.change_entries(blocked.clone());
            let entry = |number: &usize| EntryRequest {
                name: blocks::name(*number).to_string(),
                kind: EntryKind::Block,
                scope: EntryScope::Suffix,
                action: RuleAction::Nxdomain,
                views: Vec::new(),
            };
            let gone = before.difference(&blocked).map(|number| blocks::name(*number));
            for name in gone {
                self.change(&Call::RemoveEntry(EntryChoice { name: name.to_string(), view: None }));
            }
            let new: Vec<EntryRequest> = blocked.difference(&before).map(entry).collect();
            if !new.is_empty() {
                self.change(&Call::AddEntries(new));
            }
        }
    }

    fn change(&mut self, call: &Call) {
        let config = Arc::clone(self.reloader.config());
        let call = call.clone().with(Caller::of_nobody("operator"));
        self.runtime.answer(call, &config, self.reloader.seed());
    }

    /// Writes another configuration: upstreams leave or come back, and are asked in another way.
    fn change_upstreams(&mut self, now: Duration, chance: &mut Rng) {
        let keeps = |chance: &mut Rng| chance.below(3) > 0;
        let mut parts = self.first.split("[[upstream]]\n");
        let mut text = parts.next().unwrap_or_default().to_owned();
        let mut groups = Vec::new();
        for part in parts {
            // Behind the last upstream is the rest of the file. A group keeps its first upstream.
            let (upstream, rest) = part.split_at(part.find("[[group]]").unwrap_or(part.len()));
            let group = upstream.lines().find(|line| line.starts_with("group")).unwrap_or_default();
            if !groups.contains(&group) || keeps(chance) {
                text += "[[upstream]]\n";
                let timeout = [200, 400, 800].map(|ms| format!("timeout_ms = {ms}\n"));
                let other = &timeout[chance.below(timeout.len())];
                text +=
                    &timeout.iter().fold(upstream.to_owned(), |text, one| text.replace(one, other));
            }
            groups.push(group);
            text += rest;
        }
        let strategies = ["failover", "round_robin", "fastest", "parallel", "hedged"];
        let other = format!("strategy = \"{}\"", strategies[chance.below(strategies.len())]);
        let written = strategies.map(|one| format!("strategy = \"{one}\""));
        let written = written.iter().find(|one| text.contains(&**one));
        self.text = written.map_or_else(|| text.clone(), |one| text.replace(one, &other));
        let upstreams = self.text.matches("[[upstream]]").count();
        let views = self.change_views(chance);
        self.trace.note(now, format_args!("a reload with {upstreams} upstreams, {other}{views}"));
        write(&self.files.config(), &self.text);
        self.are_whole[1] = true;
        self.reloader.ask();
    }

    /// Gives the view another name, so that it is another view of the same clients, and puts one of nobody before it.
    fn change_views(&mut self, chance: &mut Rng) -> String {
        let before = lab(LAB);
        if !self.text.contains(&before) {
            return String::new();
        }
        let name = format!("lab{}", chance.below(4));
        let nobody = "[[view]]\nname = \"nobody\"\nclients = [\"10.99.0.0/24\"]\n\
                      group = \"lab\"\n";
        let first = if chance.below(2) > 0 { nobody } else { "" };
        self.text = self.text.replace(&before, &format!("{first}{}", lab(&name)));
        format!(", the view {name}")
    }

    /// Makes files whole again, and tells nobody.
    pub(crate) fn mend(&mut self, now: Duration) {
        if self.are_whole != [true; 2] {
            self.trace
                .note(now, format_args!("the files are whole, with version {}", self.versions.1));
            self.files.write_zone(self.versions.1);
            write(&self.files.config(), &self.text);
            self.are_whole = [true; 2];
        }
    }

    /// Goes on with a reload.
    pub(crate) fn turn(&mut self, now: Duration) {
        self.reloader.lend_overrides(&self.runtime);
        self.reloader.turn(self.began + now);
        for waiting in self.reloader.take_done() {
            self.runtime.askers().push(waiting);
        }
        self.runtime.turn(self.reloader.version());
        self.receive();
        // How long the thread takes that reads files must not matter.
        while self.reloader.is_reading() {
            std::thread::yield_now();
        }
        if let Some(blocks) = &mut self.blocks {
            let entries = self.reloader.version() == self.runtime.version();
            blocks.are_over((self.reloader.is_over(), entries), now);
        }
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a file can be written");
}
