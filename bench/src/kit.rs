//! The line put together from its parts, with a fixed seed, and what sends frames down it.
//!
//! A [`Kit`] is the stages over one cache without driver, threads or misses: what is timed is the stages'
//! work alone. A [`RigFeed`] sends frames through a worker and the memory driver.

use std::sync::Arc;

use pmdns_config::Stretch;
use pmdns_engine::clock::Clock;
use pmdns_engine::line::{Line, Stages};
use pmdns_engine::station::StageTimer;
use pmdns_engine::testing::{BareStages, Rig, StageNeeds, config};
use pmdns_nics::hugepage::{Arena, ArenaReport};
use pmdns_nics::{Burst, HeapPool};
use pmdns_stages::cache::{Cache, Entry, Writer};
use pmdns_stages::cookie::{Calendar, Cookies};
use pmdns_stages::ports::Port;
use pmdns_stages::testing::OUR_MAC;
use pmdns_stages::vlan::Vlans;
use pmdns_stages::wire::layout::Layout;
use pmdns_stages::wire::name::Seed;
use pmdns_stages::{Answer, Batch, Context, Exits, MAX_BATCH, Packet, Stage, StageName, Step};

use crate::cycles::typical_of;
use crate::mixed::Mixed;
use crate::traffic::entry_number;

/// What a cache of so many one-record answers takes, with some room: 147 bytes each, and index spill.
pub fn cache_bytes(names: usize) -> usize {
    whole_pages(names * 160)
}

/// What a cache of these answers takes, with some room for the index.
fn mixed_bytes(mixed: &Mixed) -> usize {
    whole_pages(mixed.questions().len() * 320)
}

fn whole_pages(bytes: usize) -> usize {
    bytes.next_multiple_of(2 << 20) + (2 << 20)
}

/// The stages over one cache.
pub struct Kit {
    /// One of each stage.
    pub stages: Stages,
    /// The cache.
    pub cache: Arc<Cache>,
    /// Its writer.
    pub writer: Writer,
    /// What the cache's memory is.
    pub arena: ArenaReport,
    /// What the stages see of the time.
    pub context: Context,
    /// The clock.
    pub clock: Clock,
}

impl Kit {
    /// The stages that `settings` describe, TOML as for [`config`], over a cache of so many bytes.
    pub fn new(settings: &str, bytes: usize) -> Self {
        let config = config(settings);
        let clock = Clock::start();
        let seed = Seed::new(*b"the same always.");
        let (arena, report) =
            Arena::new(bytes, config.cache.pages, None).expect("there is memory for the bench");
        let addresses = config.ports[0].addresses.iter().map(|address| address.address);
        let vlans = Vlans::of(&config.ports[0].vlans);
        let port = Port { vlans, ..Port::new(OUR_MAC, addresses) };
        let cookies = Cookies::new(*b"sixteen letters!", None, false, Calendar::default());
        let cookies = Some(cookies);
        let ticks_per_second = clock.ticks_per_second();
        let needs = StageNeeds { port, arena, seed, cookies, ticks_per_second };
        let bare = BareStages::new(&config, needs).expect("the bench's rules are lawful");
        let BareStages { stages, cache, writer, .. } = bare;
        // Nobody takes the notes of hits here; what they cost is timed apart.
        let stages = Stages { lookup: stages.lookup.with_samples(false), ..stages };
        let context = Context { now: 0, seconds: 1 };
        Self { stages, cache, writer, arena: report, context, clock }
    }

    /// A kit without settings, with the first `names` names cached.
    pub fn filled(names: usize) -> Self {
        let mut kit = Self::new("", cache_bytes(names));
        kit.fill(names);
        kit
    }

    /// A kit without settings, with all answers to mixed questions cached.
    pub fn mixed(mixed: &Mixed) -> Self {
        let mut kit = Self::new("", mixed_bytes(mixed));
        kit.keep(mixed.entries(kit.cache.seed()));
        kit
    }

    /// Caches the first `names` names.
    pub fn fill(&mut self, names: usize) {
        let seed = self.cache.seed();
        self.keep((0..names).map(|number| entry_number(number, seed)));
    }

    fn keep(&mut self, entries: impl Iterator<Item = Entry>) {
        for entry in entries {
            self.writer.insert(&self.stages.encode.rules().respond_again(entry));
        }
    }

    /// A line of its own.
    pub fn line(&self) -> Line {
        self.stages.line_for(Stretch::ALL)
    }

    /// Sends a batch down a line.
    #[inline]
    pub fn process(&self, line: &mut Line, batch: &mut Batch) {
        line.process(batch, &self.context, &mut StageTimer::start(self.clock, self.context.now));
    }

    /// Takes a batch to the stage `last`, which is not done any more.
    pub fn bring_to(&mut self, last: StageName, batch: &mut Batch) {
        self.stages.process_until(Some(last), batch, &self.context);
    }

    /// Says to the terminal on which pages the cache is, if not on those it should be on.
    #[expect(clippy::print_stderr, reason = "a bench reports to its terminal")]
    pub fn note_pages(&self) {
        if let Some(warning) = &self.arena.warning {
            eprintln!("note: {warning}");
        }
    }
}

/// Has a stage act on a batch, its exits uncounted.
#[inline]
pub fn act<S: Stage>(stage: &mut S, batch: &mut Batch, context: &Context) {
    stage.process(batch, context, &mut Exits::default());
}

/// A batch of packets that is made ready again and again from queries prepared ahead.
pub struct Feed {
    frames: Vec<Vec<u8>>,
    next: usize,
    /// The packets.
    pub batch: Batch,
}

impl Feed {
    /// A feed of these frames, so many at a time.
    pub fn new(frames: Vec<Vec<u8>>, size: usize) -> Self {
        let mut feed = Self { frames, next: 0, batch: Batch::new() };
        feed.resize(size);
        feed
    }

    /// Makes the batch as large as this.
    pub fn resize(&mut self, size: usize) {
        let pool = HeapPool::new(size.min(MAX_BATCH));
        let frames = std::iter::from_fn(|| pool.take());
        self.batch = frames.map(|frame| Packet::arrived(frame, 0)).collect();
        self.rearm();
    }

    /// Puts the next queries into the batch's frames, as if they had just arrived.
    pub fn rearm(&mut self) {
        for packet in &mut self.batch {
            let bytes = &self.frames[self.next];
            self.next = if self.next + 1 == self.frames.len() { 0 } else { self.next + 1 };
            packet.frame.resize(bytes.len()).expect("a query fits a frame");
            packet.frame.bytes_mut().copy_from_slice(bytes);
            packet.key = 0;
            packet.received = 0;
            packet.answer = Answer::None;
            packet.extended_error = None;
            packet.layout = Layout::default();
            packet.step = Step::at(StageName::Parse);
        }
    }

    /// How many packets of the batch take `step`.
    pub fn taking(&self, step: Step) -> usize {
        self.batch.iter().filter(|packet| packet.step == step).count()
    }
}

/// Sends frames prepared ahead through the first worker of a rig, a batch at a time.
pub struct RigFeed {
    /// The rig.
    pub rig: Rig,
    frames: Vec<Vec<u8>>,
    next: usize,
    size: usize,
    spare: Burst,
    clock: Clock,
}

impl RigFeed {
    /// A feed of these frames into a rig with `names` names cached, so many at a time.
    pub fn new(settings: &str, names: usize, frames: Vec<Vec<u8>>, size: usize) -> Self {
        Self::into_rig(rig(settings, names), frames, size)
    }

    /// A feed of `queries` mixed queries into a rig with all their answers cached.
    pub fn mixed(mixed: &Mixed, queries: usize, size: usize) -> Self {
        let rig = rig_with("", mixed_bytes(mixed), |seed| mixed.entries(seed));
        Self::into_rig(rig, mixed.frames(queries), size)
    }

    fn into_rig(rig: Rig, frames: Vec<Vec<u8>>, size: usize) -> Self {
        Self { rig, frames, next: 0, size, spare: Burst::new(), clock: Clock::start() }
    }

    /// Sends one batch, and says how many cycles the worker's turn took and how many frames came back. That
    /// is the line, the memory driver's queues, and giving dropped frames back to their pool.
    pub fn turn(&mut self) -> (u64, usize) {
        while self.spare.len() < self.size {
            self.spare.push(self.rig.pool.take().expect("dropped frames go back to the pool"));
        }
        for frame in &mut self.spare {
            let bytes = &self.frames[self.next];
            self.next = if self.next + 1 == self.frames.len() { 0 } else { self.next + 1 };
            frame.resize(bytes.len()).expect("a query fits a frame");
            frame.bytes_mut().copy_from_slice(bytes);
        }
        self.rig.offer(0, &mut self.spare);
        let start = self.clock.now();
        self.rig.workers[0].turn();
        let took = self.clock.now() - start;
        let answered = self.rig.far.rx[0].receive(&mut self.spare, self.size);
        (took, answered)
    }

    /// The cycles of a packet that so many turns typically take, each after `wait`.
    ///
    /// # Panics
    ///
    /// If not all packets are answered.
    pub fn cycles(&mut self, turns: usize, mut wait: impl FnMut()) -> f64 {
        let mut answers = 0;
        let mut cycles: Vec<u64> = (0..turns)
            .map(|_| {
                wait();
                let (took, answered) = self.turn();
                answers += answered;
                took
            })
            .collect();
        assert!(answers * 1000 >= turns * self.size * 999, "{answers} answers: not all are hits");
        typical_of(&mut cycles) / self.size as f64
    }
}

/// A rig with the first `names` names cached. Its seed is random, as in the product.
pub fn rig(settings: &str, names: usize) -> Rig {
    rig_with(settings, cache_bytes(names.max(10_000)), |seed| {
        (0..names).map(move |number| entry_number(number, seed))
    })
}

/// A rig whose cache of so many bytes has the entries made for its seed.
fn rig_with<E: Iterator<Item = Entry>>(
    settings: &str,
    bytes: usize,
    entries: impl FnOnce(Seed) -> E,
) -> Rig {
    let mut rig =
        Rig::new(&config(&format!("{settings}\n[cache]\nsize = \"{}MiB\"\n", bytes >> 20)));
    let seed = rig.slow_path[0].resolver.cache.seed();
    let now = rig.gauges.clock.context(rig.gauges.clock.now()).seconds;
    for entry in entries(seed) {
        let entry = Entry::restored(entry.words(), seed, 0, now);
        rig.keep(entry.expect("an entry can be restored"));
    }
    rig
}
