//! What a thread of the slow path is told to do with its shard of the cache: lose some answers, write all of them
//! down, take in what was written down. What it does by itself when it gets other rules: judge them again. Each is done
//! in slices between turns, so that misses never wait long.

use std::sync::Arc;

use pmdns_stages::cache::{Entry, EntryFate, Head, NameBuffer, Purge, Walk, Words};
use pmdns_stages::policy::Ruleset;

use crate::counters::add;
use crate::resolver::Resolver;

/// Entries looked at in one turn.
const STEPS: usize = 1024;
/// Entries judged again in one turn, which takes longer.
const JUDGED: usize = 256;
/// Words of a block of entries, beyond which it is sent.
const BLOCK_WORDS: usize = 8192;
/// Jobs under way at a time.
const MAX_UNDER_WAY: usize = 8;

/// Entries' words, one after another.
pub type Block = Vec<u64>;

/// A job on the thread's shard of the cache. What it brings goes through functions, which never wait.
pub enum Job {
    /// Lose these, and say how many there were.
    Purge(Purge, Box<dyn FnOnce(u64)>),
    /// Give every answer that can be found, in blocks, and then an empty one.
    Dump(Box<dyn FnMut(Block) -> Result<(), NotTaken>>),
    /// Take in what comes, as far as there is nothing newer, and say in the end how many answers were kept.
    Load(Box<dyn FnMut() -> Loaded>, Box<dyn FnOnce(u64)>),
}

/// Why a block was not taken.
pub enum NotTaken {
    /// There is no room for it now.
    Full(Block),
    /// Nobody wants it any more.
    Unwanted,
}

/// What there is to be taken in.
pub enum Loaded {
    /// These answers.
    Entries(Vec<Entry>),
    /// Nothing yet.
    Nothing,
    /// Nothing more.
    End,
}

/// A job, and how far it has come.
enum UnderWay {
    Purge {
        purge: Purge,
        walk: Walk,
        lost: u64,
        done: Option<Box<dyn FnOnce(u64)>>,
    },
    Dump {
        walk: Walk,
        block: Block,
        is_walked: bool,
        to: Box<dyn FnMut(Block) -> Result<(), NotTaken>>,
    },
    Load {
        from: Box<dyn FnMut() -> Loaded>,
        kept: u64,
        done: Option<Box<dyn FnOnce(u64)>>,
    },
}

/// The jobs of one thread.
#[derive(Default)]
pub(crate) struct Jobs {
    under_way: Vec<UnderWay>,
    /// How far the answers have been judged again, if that is under way.
    judging: Option<Walk>,
    /// Whether there have been other rules since that began.
    rules_changed: bool,
}

impl Resolver {
    /// Exchanges the rules in use for others. All answers in the cache are then judged again.
    pub fn exchange_rules(&mut self, rules: &mut Arc<Ruleset>) {
        self.responder.encode.swap_rules(rules);
        self.orders.rules_changed = true;
    }

    /// Goes on with the orders under way, and says how many there are.
    pub(crate) fn carry_out(&mut self) -> usize {
        self.judge_again() + self.go_on_with_orders()
    }

    /// Judges the next answers in the cache by the rules in use, and takes those out that a rule has rewritten, or would
    /// rewrite: what an upstream said of the former is not known any more.
    fn judge_again(&mut self) -> usize {
        // A walk is not begun anew before it has ended, or rules that change often would keep it from the newest answers.
        let rules = self.responder.encode.rules();
        if self.orders.judging.is_none() && std::mem::take(&mut self.orders.rules_changed) {
            self.orders.judging = Some(Walk::default());
            // Those for one network are few: they are judged all at once.
            let is_lost = |entry: &Entry| {
                judge(rules, &entry.words(), || Some(entry.clone())) == EntryFate::Forget
            };
            add(&self.counters.withdrawn, self.subnets.lose(is_lost, &self.counters));
        }
        let Some(walk) = &mut self.orders.judging else { return 0 };
        let mut withdrawn = 0;
        let is_done = self.writer.walk(walk, JUDGED, &mut withdrawn, |_, entry, _| {
            judge(rules, entry, || Entry::copy_of(entry))
        });
        if is_done {
            self.orders.judging = None;
        }
        add(&self.counters.withdrawn, withdrawn);
        self.cache_counters.publish(&self.writer.stats());
        1
    }

    /// Whether another job may begin.
    pub fn takes_jobs(&self) -> bool {
        self.orders.under_way.len() < MAX_UNDER_WAY
    }

    /// Begins a job.
    pub fn begin_job(&mut self, job: Job) {
        self.orders.under_way.push(UnderWay::new(job));
    }

    fn go_on_with_orders(&mut self) -> usize {
        if self.orders.under_way.is_empty() {
            return 0;
        }
        let mut under_way = std::mem::take(&mut self.orders.under_way);
        let count = under_way.len();
        under_way.retain_mut(|order| !self.go_on(order));
        self.orders.under_way = under_way;
        self.cache_counters.publish(&self.writer.stats());
        count
    }

    /// Goes on with an order, and says whether it is done.
    fn go_on(&mut self, order: &mut UnderWay) -> bool {
        match order {
            UnderWay::Purge { purge, walk, lost, done } => {
                let mut buffer = NameBuffer::default();
                let is_done = self.writer.walk(walk, STEPS, lost, |_, entry, _| {
                    if purge.matches(entry, &mut buffer) {
                        EntryFate::Forget
                    } else {
                        EntryFate::Stay
                    }
                });
                if is_done {
                    let matches = |entry: &Entry| purge.matches(&entry.words(), &mut buffer);
                    *lost += self.subnets.lose(matches, &self.counters);
                }
                if is_done && let Some(done) = done.take() {
                    done(*lost);
                }
                is_done
            }
            UnderWay::Dump { walk, block, is_walked, to } => {
                if block.len() < BLOCK_WORDS && !*is_walked {
                    *is_walked = self.write_down(walk, block);
                }
                if block.len() < BLOCK_WORDS && !*is_walked {
                    return false;
                }
                let is_last = block.is_empty();
                match to(std::mem::take(block)) {
                    Ok(()) => is_last,
                    Err(NotTaken::Full(rest)) => {
                        *block = rest;
                        false
                    }
                    Err(NotTaken::Unwanted) => true,
                }
            }
            UnderWay::Load { from, kept, done } => match from() {
                Loaded::Entries(entries) => {
                    *kept += entries
                        .into_iter()
                        .map(|entry| u64::from(self.take_back(entry)))
                        .sum::<u64>();
                    false
                }
                Loaded::Nothing => false,
                Loaded::End => {
                    if let Some(done) = done.take() {
                        done(*kept);
                    }
                    true
                }
            },
        }
    }

    /// Puts the next entries of a walk into a block.
    fn write_down(&mut self, walk: &mut Walk, block: &mut Block) -> bool {
        let (cache, stale, now) = (&self.cache, &self.stale, self.context.seconds);
        self.writer.walk(walk, STEPS, &mut 0, |found, entry, head| {
            if stale.usable_until(head.expires) > now
                && cache.find(head.hash) == Some(found)
                && let Some(mut entry) = Entry::copy_of(entry)
            {
                // Which rules let it pass means nothing to whoever reads it.
                entry.set_passed(0);
                block.extend(entry.words());
            }
            EntryFate::Stay
        })
    }

    /// Puts an answer of before into the cache, unless there is one for the same question by now, or it is not what an
    /// upstream said, or is of no use any more: it has expired, and expired answers are not served, or not for so long. What is said of the addresses in it are the rules in use.
    fn take_back(&mut self, entry: Entry) -> bool {
        let Head { hash, flags, expires, .. } = entry.head();
        let now = self.context.seconds;
        if flags & Head::REWRITTEN != 0 || self.stale.usable_until(expires) <= now {
            return false;
        }
        let present = self.cache.find(hash).map(|found| Head::read(&self.cache.view(found)));
        let is_newer = present.is_some_and(|head| head.expires > now || head.expires >= expires);
        !is_newer
            && self.writer.insert(&self.responder.encode.rules().respond_again(entry)).is_kept()
    }
}

/// What becomes of an answer by `rules`, which were not those it was kept by.
fn judge(rules: &Ruleset, entry: &impl Words, copy: impl FnOnce() -> Option<Entry>) -> EntryFate {
    let head = Head::read(entry);
    if head.flags & Head::REWRITTEN != 0 {
        return EntryFate::Forget;
    }
    if !rules.judges_answer(&head) {
        return EntryFate::Passed(rules.passed(NameBuffer::default().key_of(entry)));
    }
    match copy().map(|entry| rules.respond_again(entry).head()) {
        None => EntryFate::Stay,
        Some(head) if head.flags & Head::REWRITTEN != 0 => EntryFate::Forget,
        Some(head) => EntryFate::Passed(head.passed),
    }
}

impl UnderWay {
    fn new(job: Job) -> Self {
        let walk = Walk::default();
        match job {
            Job::Purge(purge, done) => Self::Purge { purge, walk, lost: 0, done: Some(done) },
            Job::Dump(to) => Self::Dump { walk, block: Block::new(), is_walked: false, to },
            Job::Load(from, done) => Self::Load { from, kept: 0, done: Some(done) },
        }
    }
}
