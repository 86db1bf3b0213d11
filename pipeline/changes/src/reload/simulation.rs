//! Histories of reloads, each decided by a seed: files that are good, bad or change while they are read, cores that take their
//! time, operators that change upstreams meanwhile. Disks refuse, and processes end at any moment: the next one has what the bytes
//! of the journal say.

mod disk;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pmdns_config::{Config, Upstream};
use pmdns_control::answers::Done;
use pmdns_control::{CallReply, Caller, NewUpstream, UpstreamState};

use super::*;
use crate::overlay::UpstreamChange;
use crate::testing::{author, config};
use crate::{Askers, JournalLine, KeptChanges, OperatorChange, Receipt, Subject, Waiting};
use disk::Disk;

/// Upstreams that come and go.
const UPSTREAMS: [&str; 4] = ["192.0.2.1:53", "192.0.2.2:53", "192.0.2.3:53", "192.0.2.4:53"];

/// A small generator of numbers that look random (xorshift64*).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(number).unwrap() % end
    }
}

/// The world around a reload.
struct World {
    reload: Reload<u32>,
    chance: Chance,
    now: Instant,
    /// Whether the file stays as it is, and the journal has room: then all that is kept holds again.
    is_calm: bool,
    /// The file: its upstreams, or that it is half written.
    file: Option<Vec<&'static str>>,
    /// What is being read.
    reading: Option<ReloadSource>,
    /// The configuration whose rules are on their way, and the one that every core has.
    lent: Option<Config>,
    in_use: Config,
    /// The file as the last good reload has read it.
    read: Vec<&'static str>,
    /// Numbers of askers, and how often each was told.
    told: BTreeMap<u32, u32>,
    /// Askers whose changes end with the process.
    passing: Vec<u32>,
    /// Changes that are in use since the start.
    done: Vec<String>,
    disk: Disk,
    /// Whether the disk has the change under way; `None`: it is not to have it.
    receipt: Option<Receipt>,
    askers: Askers,
    /// Askers whose changes are in use, and what they are told.
    replies: Vec<Reply>,
    counts: Counts,
}

/// What somebody is told about a change that is in use.
struct Reply {
    asker: u32,
    poll: Box<dyn FnMut() -> Option<CallReply>>,
}

/// What has come up in a history.
#[derive(Default)]
struct Counts {
    done: usize,
    kept: usize,
    not_kept: usize,
    crashes: usize,
    came_back: usize,
}

fn subject(address: &str) -> Subject {
    Subject::Upstream(address.to_owned())
}

/// The change of a subject among those that hold.
fn of(overlay: &Overlay, subject: &Subject) -> Option<OperatorChange> {
    overlay.changes().find(|one| one.what.subject().key() == subject.key())
}

fn base(upstreams: &[&str]) -> Config {
    let mut config = config("");
    let upstream = |address: &&str| Upstream::at(address.parse().unwrap());
    config.upstreams = upstreams.iter().map(upstream).collect();
    config
}

fn addresses(config: &Config) -> Vec<(String, bool)> {
    config.upstreams.iter().map(|one| (one.address.to_string(), one.is_drained)).collect()
}

impl World {
    fn new(seed: u64) -> Self {
        let file = UPSTREAMS[..2].to_vec();
        let first = base(&file);
        Self {
            reload: Reload::new(first.clone(), first.clone(), Overlay::default()),
            // No seed is zero.
            chance: Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            now: Instant::now(),
            is_calm: seed.is_multiple_of(2),
            read: file.clone(),
            file: Some(file),
            reading: None,
            lent: None,
            in_use: first,
            told: BTreeMap::new(),
            passing: Vec::new(),
            done: Vec::new(),
            disk: Disk::new(KeptChanges::default()),
            receipt: None,
            askers: Askers::default(),
            replies: Vec::new(),
            counts: Counts::default(),
        }
    }

    fn asker(&mut self) -> u32 {
        let number = u32::try_from(self.told.len()).unwrap();
        self.told.insert(number, 0);
        number
    }

    /// Somebody does something.
    fn act(&mut self) {
        let address = UPSTREAMS[self.chance.below(UPSTREAMS.len())].to_owned();
        let state = |drained| UpstreamState { drained: Some(drained), weight: None };
        let change = match self.chance.below(10) {
            0 | 1 => {
                let asker = self.asker();
                return self.reload.ask_for(asker);
            }
            2 => return self.reload.ask(),
            3 => return self.reload.note_news(),
            4 | 5 if self.is_calm => return,
            4 => return self.file = None,
            5 => {
                let first = self.chance.below(UPSTREAMS.len());
                let count = 1 + self.chance.below(3);
                let file = UPSTREAMS.iter().cycle().skip(first).take(count);
                return self.file = Some(file.copied().collect());
            }
            6 => UpstreamChange::Add(NewUpstream { address, group: None }),
            7 => UpstreamChange::Remove(address),
            8 => UpstreamChange::Set(address, state(true)),
            _ => UpstreamChange::Set(address, state(false)),
        };
        let asker = self.asker();
        let until_restart = self.chance.below(3) == 0;
        self.passing.extend(until_restart.then_some(asker));
        let author = Author { until_restart, ..author() };
        self.reload.change(ConfigChange::Upstream(change), asker, author);
    }

    /// What reader and cores have done, and what follows.
    fn step(&mut self) {
        self.now += Duration::from_millis(self.chance.below(2000) as u64);
        if self.lent.is_some() && self.chance.below(3) == 0 {
            self.in_use = self.lent.take().unwrap();
            self.reload.give_back(self.now);
        }
        // As long as rules are on their way, no others are lent.
        if self.lent.is_none() && self.reading.is_some() && self.chance.below(3) == 0 {
            let read = self.read_now();
            self.reload.take_read(read, self.now);
            if self.reload.is_lent() {
                self.lent = Some(Config::clone(self.reload.config()));
            }
        }
        self.reload.turn(self.now);
        self.carry_out();
        if self.chance.below(3) == 0 {
            self.disk.write(&mut self.chance);
        }
        self.notify();
    }

    /// Answers those whose changes are in use, when the disk has said what it did.
    fn notify(&mut self) {
        self.askers.turn(0);
        let Self { replies, told, counts, passing, .. } = self;
        replies.retain_mut(|Reply { asker, poll }| {
            let Some(reply) = poll() else { return true };
            *told.get_mut(asker).unwrap() += 1;
            match reply {
                CallReply::Done(_) if passing.contains(asker) => {}
                CallReply::Done(_) => counts.kept += 1,
                CallReply::Refused(Refusal::Unable, why) => {
                    assert!(why.contains("is not kept") && !passing.contains(asker), "{why}");
                    counts.not_kept += 1;
                }
                other => panic!("{other:?}"),
            }
            false
        });
    }

    /// The process ends, and another one begins with what the disk has and the file.
    fn crash(&mut self, seed: u64) {
        let kept = self.disk.crash(&mut self.chance);
        for address in UPSTREAMS {
            let (read, after) = (kept.of(&subject(address)), self.disk.after(&subject(address)));
            assert!(
                after.iter().any(|one| one.as_ref() == read),
                "seed {seed}: {read:?}: {after:?}"
            );
        }
        // No process starts with half a file.
        let file = self.file.get_or_insert_with(|| self.read.clone()).clone();
        let is_expected = self.is_calm && self.disk.is_settled();
        let (overlay, left_out) = Overlay::of_kept(&kept, &base(&file));
        let mut held = kept;
        for one in left_out {
            // Who was told that a change is kept has it, unless the file says otherwise.
            assert!(!is_expected, "seed {seed}: {}", one.why);
            held.take(JournalLine::Unset(one.subject));
        }
        for address in UPSTREAMS {
            let (change, kept) = (of(&overlay, &subject(address)), held.of(&subject(address)));
            assert_eq!(change.is_some(), kept.is_some(), "seed {seed}: {address}");
            assert!(change.is_none_or(|one| !one.author.until_restart), "seed {seed}: {address}");
        }
        overlay.changes().for_each(|one| held.take(JournalLine::Set(Box::new(one))));
        self.counts.came_back += overlay.changes().count();
        self.counts.crashes += 1;
        let config = overlay.apply(&base(&file)).unwrap();
        self.reload = Reload::new(config.clone(), base(&file), overlay);
        (self.in_use, self.read, self.disk) = (config, file, Disk::new(held));
        (self.reading, self.lent, self.receipt) = (None, None, None);
        // Nobody waits any more: the connections are gone.
        (self.askers, self.replies) = (Askers::default(), Vec::new());
        self.told.values_mut().for_each(|times| *times = (*times).max(1));
        self.done.clear();
    }

    /// The file is read at the end of a reading as well as at any other time.
    fn read_now(&mut self) -> Result<ReloadResult, String> {
        let result = |config, base| ReloadResult { config, base, done: String::new() };
        match self.reading.take().unwrap() {
            ReloadSource::File(overlay) => {
                let file = self.file.clone().ok_or("half a configuration")?;
                let config = overlay.apply(&base(&file))?;
                self.read.clone_from(&file);
                Ok(result(config, Some(base(&file))))
            }
            // A list may be missing, and an upstream have no room.
            ReloadSource::Latest(_) | ReloadSource::Upstreams(_) if self.chance.below(5) == 0 => {
                Err("no list".to_owned())
            }
            ReloadSource::Latest(config) | ReloadSource::Upstreams(config) => {
                Ok(result(*config, None))
            }
        }
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.reload.next_output() {
            let askers = match output {
                ReloadOutput::Read { source, stale } => {
                    assert!(self.reading.is_none() && self.lent.is_none() && stale.is_none());
                    self.reading = Some(source);
                    continue;
                }
                ReloadOutput::Clear(file) => panic!("{}", file.display()),
                ReloadOutput::Keep(line) => {
                    let subject = match &line {
                        JournalLine::Set(change) => change.what.subject(),
                        JournalLine::Unset(subject) => subject.clone(),
                    };
                    // What is kept is what holds.
                    let effect = of(self.reload.overlay(), &subject);
                    let has_room = self.is_calm || self.chance.below(16) > 0;
                    let keep = || self.disk.keep(line, (&subject, effect));
                    self.receipt =
                        Some(has_room.then(keep).unwrap_or_else(|| Receipt::known(false)));
                    continue;
                }
                ReloadOutput::Changed(asker, done) => {
                    // Whoever is told has it everywhere.
                    assert_eq!(addresses(&self.in_use), addresses(self.reload.config()));
                    let receipt = self.receipt.take();
                    assert_eq!(receipt.is_none(), self.passing.contains(&asker), "{done}");
                    let (caller, mut told) = Caller::new("somebody");
                    let receipt = receipt.unwrap_or_else(|| Receipt::known(true));
                    let reply = caller.prepare(Ok(Done { done: done.clone() }));
                    self.askers.push(Waiting { reply, version: 0, receipt });
                    let poll = Box::new(move || told.try_recv().ok());
                    self.replies.push(Reply { asker, poll });
                    self.done.push(done);
                    self.counts.done += 1;
                    continue;
                }
                ReloadOutput::Reloaded(askers, _) | ReloadOutput::Refused(askers, _) => askers,
            };
            for asker in askers {
                *self.told.get_mut(&asker).unwrap() += 1;
            }
        }
    }

    /// Lets everything come to rest, and checks what holds then.
    fn rest(&mut self, seed: u64) {
        let mut steps = 0;
        let is_busy =
            |this: &Self| this.lent.is_some() || this.reading.is_some() || !this.replies.is_empty();
        while !self.reload.is_over() || is_busy(self) {
            self.step();
            steps += 1;
            assert!(steps < 100_000, "seed {seed} does not come to rest: {:?}", self.reload);
        }
        for (asker, times) in &self.told {
            assert_eq!(*times, 1, "seed {seed}: asker {asker} is told once");
        }
        let overlay = self.reload.overlay();
        let expected = overlay.apply(&base(&self.read)).unwrap();
        assert_eq!(addresses(&self.in_use), addresses(&expected), "seed {seed}");
        // Of each upstream the last change that was told to be done holds.
        for address in UPSTREAMS {
            let about = format!("upstream {address} ");
            let last = self.done.iter().rev().find_map(|done| done.strip_prefix(&about));
            let found = addresses(&self.in_use).into_iter().find(|(one, _)| one == address);
            match last {
                Some("gets no new questions") if self.read.contains(&address) => {
                    assert_eq!(found, Some((address.to_owned(), true)), "seed {seed}");
                }
                Some("is not asked any more")
                    if overlay
                        .changes()
                        .any(|one| one.what.to_string() == format!("{about}removed")) =>
                {
                    assert_eq!(found, None, "seed {seed}");
                }
                Some("is asked") => {
                    assert_eq!(found, Some((address.to_owned(), false)), "seed {seed}");
                }
                _ => {}
            }
        }
    }
}

#[test]
fn histories_of_reloads_and_changes_come_to_rest_as_everybody_was_told() {
    let mut all = Counts::default();
    for seed in 0..300 {
        let mut world = World::new(seed);
        for _ in 0..200 {
            match world.chance.below(180) {
                0 => world.crash(seed),
                1..60 => world.act(),
                _ => world.step(),
            }
        }
        // A reload of what is whole has its way at the end.
        let upstreams = if world.is_calm { 2 } else { 3 };
        world.file = Some(UPSTREAMS[..upstreams].to_vec());
        world.reload.ask();
        world.rest(seed);
        world.crash(seed);
        let Counts { done, kept, not_kept, crashes, came_back } = world.counts;
        all.done += done;
        all.kept += kept;
        all.not_kept += not_kept;
        all.crashes += crashes;
        all.came_back += came_back;
    }
    let Counts { done, kept, not_kept, crashes, came_back } = all;
    println!("{done} changes, {kept} kept, {not_kept} not; {crashes} ends, {came_back} came back");
    assert!(done > 1000 && kept > 500 && not_kept > 100 && crashes > 400 && came_back > 300);
}

#[test]
fn a_flood_of_askers_is_refused_and_everybody_is_told() {
    let mut world = World::new(1);
    for _ in 0..2 * MAX_ASKERS {
        let (one, other) = (world.asker(), world.asker());
        world.reload.ask_for(one);
        let drain = UpstreamState { drained: Some(true), weight: None };
        let drain = UpstreamChange::Set(UPSTREAMS[0].to_owned(), drain);
        world.reload.change(ConfigChange::Upstream(drain), other, author());
    }
    world.carry_out();
    assert_eq!(world.told.values().sum::<u32>() as usize, 2 * MAX_ASKERS, "half of them");
    world.rest(1);
}
