//! What a thread of the slow path is told to do with its shard of the cache: lose some answers, write all of them
//! down, take in what was written down. What it does by itself when it gets other rules: judge them again. Each is done
//! in slices between turns, so that misses never wait long.

use pmdns_stages::cache::{Entry, EntryFate, Head, NameBuffer, Purge, Walk, Words};
use pmdns_stages::policy::Ruleset;

use crate::answers::Answers;
use crate::answers::store::Store;
use crate::counters::add;

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
    /// Take in what comes, as far as there is nothing newer, and say in the end what became of it.
    Load(Box<dyn FnMut() -> Loaded>, Box<dyn FnOnce(TakenIn)>),
}

/// What became of answers that were to be taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenIn {
    /// They are in the cache.
    pub kept: u64,
    /// They have expired, and may not be served any more.
    pub expired: u64,
    /// The cache has answers to the same questions that are no older.
    pub known: u64,
    /// A rule had rewritten them: what the upstream said is not known any more.
    pub rewritten: u64,
    /// There was no room.
    pub no_room: u64,
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
        taken: TakenIn,
        done: Option<Box<dyn FnOnce(TakenIn)>>,
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

impl Jobs {
    /// There are other rules now. All answers in the cache are judged again.
    pub(crate) fn note_rules(&mut self) {
        self.rules_changed = true;
    }

    /// Whether another job may begin.
    pub(crate) fn has_room(&self) -> bool {
        self.under_way.len() < MAX_UNDER_WAY
    }

    /// Begins a job.
    pub(crate) fn begin(&mut self, job: Job) {
        self.under_way.push(UnderWay::new(job));
    }

    /// Goes on with what is under way, and says how much there is.
    pub(crate) fn turn(&mut self, answers: &mut Answers) -> usize {
        let judging = self.judge_again(answers);
        let jobs = self.under_way.len();
        self.under_way.retain_mut(|job| !job.go_on(answers));
        if jobs > 0 {
            answers.store.publish();
        }
        judging + jobs
    }

    /// Judges the next answers in the cache by the rules in use, and takes those out that a rule has rewritten, or would
    /// rewrite: what an upstream said of the former is not known any more.
    fn judge_again(&mut self, answers: &mut Answers) -> usize {
        let Answers { store, subnets, responder, counters, .. } = answers;
        // A walk is not begun anew before it has ended, or rules that change often would keep it from the newest answers.
        let rules = responder.encode.rules();
        if self.judging.is_none() && std::mem::take(&mut self.rules_changed) {
            self.judging = Some(Walk::default());
            // Those for one network are few: they are judged all at once.
            let is_lost = |entry: &Entry| {
                judge(rules, &entry.words(), || Some(entry.clone())) == EntryFate::Forget
            };
            add(&counters.withdrawn, subnets.lose(is_lost, counters));
        }
        let Some(walk) = &mut self.judging else { return 0 };
        let mut withdrawn = 0;
        let is_done = store.writer.walk(walk, JUDGED, &mut withdrawn, |_, entry, _| {
            judge(rules, entry, || Entry::copy_of(entry))
        });
        if is_done {
            self.judging = None;
        }
        add(&counters.withdrawn, withdrawn);
        store.publish();
        1
    }
}

impl UnderWay {
    fn new(job: Job) -> Self {
        let walk = Walk::default();
        match job {
            Job::Purge(purge, done) => Self::Purge { purge, walk, lost: 0, done: Some(done) },
            Job::Dump(to) => Self::Dump { walk, block: Block::new(), is_walked: false, to },
            Job::Load(from, done) => {
                Self::Load { from, taken: TakenIn::default(), done: Some(done) }
            }
        }
    }

    /// Goes on with a job, and says whether it is done.
    fn go_on(&mut self, answers: &mut Answers) -> bool {
        match self {
            Self::Purge { purge, walk, lost, done } => {
                let mut buffer = NameBuffer::default();
                let is_done = answers.store.writer.walk(walk, STEPS, lost, |_, entry, _| {
                    if purge.matches(entry, &mut buffer) {
                        EntryFate::Forget
                    } else {
                        EntryFate::Stay
                    }
                });
                if is_done {
                    let matches = |entry: &Entry| purge.matches(&entry.words(), &mut buffer);
                    *lost += answers.subnets.lose(matches, &answers.counters);
                }
                if is_done && let Some(done) = done.take() {
                    done(*lost);
                }
                is_done
            }
            Self::Dump { walk, block, is_walked, to } => {
                if block.len() < BLOCK_WORDS && !*is_walked {
                    *is_walked = write_down(answers, walk, block);
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
            Self::Load { from, taken, done } => match from() {
                Loaded::Entries(entries) => {
                    entries.into_iter().for_each(|entry| take_back(answers, entry, taken));
                    false
                }
                Loaded::Nothing => false,
                Loaded::End => {
                    if let Some(done) = done.take() {
                        done(*taken);
                    }
                    true
                }
            },
        }
    }
}

/// Puts the next entries of a walk into a block.
fn write_down(answers: &mut Answers, walk: &mut Walk, block: &mut Block) -> bool {
    let Answers { store: Store { cache, writer, .. }, stale, context, .. } = answers;
    writer.walk(walk, STEPS, &mut 0, |found, entry, head| {
        if stale.usable_until(head.expires) > context.seconds
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

/// Puts an answer of before into the cache by the rules in use, and counts whether it is kept. It is not if there is
/// one at least as good, if a rule had made it, or if it has expired and may not be served any more.
fn take_back(answers: &mut Answers, entry: Entry, taken: &mut TakenIn) {
    let Head { hash, flags, expires, .. } = entry.head();
    let now = answers.context.seconds;
    let present = answers.store.cache.get_by_hash(hash);
    let is_known =
        present.is_some_and(|found| found.is_fresh(now) || found.head.expires >= expires);
    let count = if flags & Head::REWRITTEN != 0 {
        &mut taken.rewritten
    } else if answers.stale.usable_until(expires) <= now {
        &mut taken.expired
    } else if is_known {
        &mut taken.known
    } else {
        let entry = answers.rules().respond_again(entry);
        match answers.store.writer.insert(&entry).is_kept() {
            true => &mut taken.kept,
            false => &mut taken.no_room,
        }
    };
    *count += 1;
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
