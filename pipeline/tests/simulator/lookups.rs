//! Lookups beside the line: what `pmdns lookup` says of a query just before the line decides about it, and whether that comes true.
//!
//! An observer of each core takes every query that leaves one of the first stations through a line of lookups, with the rules that
//! the core has. The other stations of the core work on it in the same turn, so it has to leave each of them as was foretold.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pmdns::lookup::{DecidedBy, Verdict};
use pmdns_engine::clock::Clock;
use pmdns_engine::lookup_line::{Left, LookupLine, NoPassage, Passage, message};
use pmdns_engine::observe::{Departure, Observer, Sent};
use pmdns_engine::rule_names::RuleNames;
use pmdns_engine::testing::Rig;
use pmdns_stages::{Answer, Batch, MAX_BATCH, Packet, Reason, StageName, Step, Tick};

/// What has come of the lookups of a history.
#[derive(Clone, Default)]
pub(crate) struct Lookups {
    /// Queries that the line has decided about as a lookup said.
    right: Arc<AtomicU64>,
    /// Queries that were looked up, without those that a limit has ended.
    all: Arc<AtomicU64>,
    wrong: Arc<Mutex<Option<String>>>,
}

/// The observer of a core.
struct Beside {
    of: Lookups,
    line: RefCell<LookupLine>,
    names: RuleNames,
    clock: Clock,
    /// What was foretold of the queries of this batch, by the place of their frames.
    foretold: HashMap<usize, Passage>,
}

impl Lookups {
    /// Has an observer on each core.
    pub(crate) fn beside(rig: &Rig) -> Self {
        let in_use = rig.gauges.names.in_use().expect("the rig has rules");
        let (all, line) = (Self::default(), rig.lookups.under(&in_use, MAX_BATCH));
        let observer = |_| {
            Box::new(Beside {
                of: all.clone(),
                line: RefCell::new(line.clone()),
                names: rig.gauges.names.clone(),
                clock: rig.gauges.clock,
                foretold: HashMap::new(),
            }) as Box<dyn Observer>
        };
        rig.observers.lend(observer).expect("nobody else observes");
        all
    }

    /// How many were right so far, and how many there were.
    pub(crate) fn counts(&self) -> [u64; 2] {
        [&self.right, &self.all].map(|count| count.load(Ordering::Relaxed))
    }

    /// The first that was wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.wrong.lock().expect("nobody panics").take().map_or(Ok(()), Err)
    }
}

impl Beside {
    fn foretell(&self, packet: &Packet, now: Tick) -> Result<Passage, NoPassage> {
        let query = &packet.frame.bytes()[packet.layout.dns()..];
        let client = packet.layout.client(packet.frame.bytes());
        let client = match <[u8; 4]>::try_from(client) {
            Ok(v4) => IpAddr::from(v4),
            Err(_) => IpAddr::from(<[u8; 16]>::try_from(client).expect("it has a family")),
        };
        self.line.borrow_mut().ask(Some(client), query, &self.clock.context(now))
    }

    fn note_wrong(&self, packet: &Packet, why: &str) {
        let query = packet.query();
        let asked = format!("{} {}", query.name().escape_ascii(), query.qtype());
        let mut wrong = self.of.wrong.lock().expect("nobody panics");
        wrong.get_or_insert(format!("a lookup of {asked} says otherwise: {why}"));
    }
}

impl Observer for Beside {
    fn left(&mut self, departure: &Departure<'_>) {
        let Departure { packet, stage, now, .. } = *departure;
        let place = packet.frame.bytes().as_ptr() as usize;
        if let Some(foretold) = self.foretold.remove(&place) {
            if is_limited(&foretold, stage, packet) {
                self.of.all.fetch_sub(1, Ordering::Relaxed);
            } else if let Err(why) = compare(&foretold, stage, packet) {
                self.note_wrong(packet, &why);
            } else if packet.step.is_on_the_line() {
                self.foretold.insert(place, foretold);
            } else {
                self.of.right.fetch_add(1, Ordering::Relaxed);
            }
        } else if stage < StageName::Lookup
            && packet.step.stage().is_some_and(|next| next <= StageName::Lookup)
            && packet.step != Step::at(StageName::Neighbor)
        {
            self.of.all.fetch_add(1, Ordering::Relaxed);
            match self.foretell(packet, now) {
                Ok(passage) => drop(self.foretold.insert(place, passage)),
                Err(why) => self.note_wrong(packet, &why.to_string()),
            }
        }
    }

    fn sent(&mut self, _: &Sent<'_>) {}

    fn leave(&mut self, _: &Batch, _: bool, _: Tick) {
        self.foretold.clear();
    }

    fn watches_stations(&self) -> bool {
        true
    }

    /// A core asks this when it has just taken the rules that were lent to it.
    fn has_ended(&self) -> bool {
        if let Some(in_use) = self.names.in_use()
            && in_use.rules.generation() != self.line.borrow().generation()
        {
            let under = self.line.borrow().under(&in_use, MAX_BATCH);
            self.line.replace(under);
        }
        false
    }
}

/// Whether a limit has decided, which lookups do not look at. Policy also has rules that truncate.
fn is_limited(foretold: &Passage, stage: StageName, packet: &Packet) -> bool {
    let limits = [Reason::RateLimited, Reason::MissRateLimited, Reason::ErrorLimited];
    let is_truncated = |left: Left| left.answer == Answer::Truncated;
    let is_by_rule = foretold.left(stage).is_some_and(is_truncated);
    packet.answer == Answer::Truncated && !is_by_rule
        || packet.step.reason().is_some_and(|reason| limits.contains(&reason))
}

/// Compares a packet that has left a station with what was foretold of it.
fn compare(foretold: &Passage, stage: StageName, packet: &Packet) -> Result<(), String> {
    let left = Left::of(packet);
    if foretold.left(stage) != Some(left) {
        return Err(format!("it leaves {stage:?} as {left:?}, not {:?}", foretold.left(stage)));
    }
    if packet.step.is_on_the_line() {
        return Ok(());
    }
    let verdict = Verdict::of(&foretold.packet);
    let answer = message(packet);
    let is_alike = answer == foretold.message()
        && answer.map(|answer| answer[3] & 0xf) == verdict.rcode.map(|rcode| rcode.0)
        && match (packet.step, packet.answer) {
            (Step::SLOW_PATH, Answer::Local(_)) => verdict.by.is_none(),
            (Step::SLOW_PATH, _) => verdict.by == Some(DecidedBy::Upstreams),
            (_, Answer::Cached(_)) => verdict.by == Some(DecidedBy::Cache),
            _ => verdict.by != Some(DecidedBy::Upstreams),
        };
    match is_alike {
        true => Ok(()),
        false => Err(format!("{verdict:?} for {left:?}: {answer:02x?}")),
    }
}
