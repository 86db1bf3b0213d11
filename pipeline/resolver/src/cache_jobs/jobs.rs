//! Jobs of a slow path thread on its shard of the cache: purge, dump and load. After a change of rules the thread also
//! judges all answers again. Every job is done in slices, one in each turn, so that misses never wait long.

use pmdns_stages::cache::{Entry, EntryFate, Head, Key, NameBuffer, Purge, Walk, Words};
use pmdns_stages::policy::Ruleset;
use pmdns_stages::wire::dns::{CLASS_IN, Rcode, rtype};

use crate::answers::Answers;
use crate::answers::store::Store;
use crate::counters::add;
use crate::outlook::{Inquiry, Outlook};

/// Entries looked at in one turn.
const STEPS: usize = 1024;
/// Entries judged again in one turn. Judging takes longer than looking.
const JUDGED: usize = 256;
/// A block of entries is sent when it has more words than this.
const BLOCK_WORDS: usize = 8192;
/// Jobs under way at a time.
const MAX_UNDER_WAY: usize = 8;

/// Entries' words, one after another.
pub type Block = Vec<u64>;

/// A job on the thread's shard of the cache. Results go through functions, which never wait.
pub enum Job {
    /// Remove these answers, and report how many there were.
    Purge(Purge, Box<dyn FnOnce(u64)>),
    /// Write all answers, in blocks. An empty block marks the end.
    Dump(Box<dyn FnMut(Block) -> Result<(), NotTaken>>),
    /// Load answers, unless the cache has newer ones. Report the result at the end.
    Load(Box<dyn FnMut() -> LoadPart>, Box<dyn FnOnce(TakenIn)>),
    /// Say what a miss would lead to.
    Outlook(Box<Inquiry>, Box<dyn FnOnce(Outlook)>),
    /// Write no more, so that another process may, or go on from where that has stopped.
    SetWriting(bool, Box<dyn FnOnce(())>),
}

/// The result of loading answers: how many of each kind there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenIn {
    /// They are in the cache.
    pub kept: u64,
    /// They have expired, and must not be served any more.
    pub expired: u64,
    /// The cache already has answers to the same questions that are fresh, or that expire no earlier.
    pub known: u64,
    /// A rule had rewritten them, so the upstream's own answer is not known any more.
    pub rewritten: u64,
    /// There was no room.
    pub no_room: u64,
}

/// Why a block was not taken.
pub enum NotTaken {
    /// There is no room for it now.
    Full(Block),
    /// The reader has gone.
    Unwanted,
}

/// The next part of a load.
pub enum LoadPart {
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
        from: Box<dyn FnMut() -> LoadPart>,
        taken: TakenIn,
        done: Option<Box<dyn FnOnce(TakenIn)>>,
    },
}

/// The jobs of one thread.
#[derive(Default)]
pub(crate) struct Jobs {
    under_way: Vec<UnderWay>,
    /// The position of judging again, if that is under way.
    judging: Option<Walk>,
    /// Whether the rules have changed since it began.
    rules_changed: bool,
}

impl Jobs {
    /// There are other rules now. All answers in the cache are judged again.
    pub(crate) fn note_rules(&mut self) {
        self.rules_changed = true;
    }

    /// Whether there are answers in the cache that have not been judged by the rules in use.
    pub(crate) fn is_judging(&self) -> bool {
        self.judging.is_some() || self.rules_changed
    }

    /// Whether another job may begin.
    pub(crate) fn has_room(&self) -> bool {
        self.under_way.len() < MAX_UNDER_WAY
    }

    /// Begins a job.
    pub(crate) fn begin(&mut self, job: Job) {
        self.under_way.extend(UnderWay::new(job));
    }

    /// Continues the jobs under way, and returns how much work there was.
    pub(crate) fn turn(&mut self, answers: &mut Answers) -> usize {
        let writer = &answers.store.writer;
        if writer.is_frozen() {
            // Who waits for another job is told that it has ended, because its channel closes.
            let reads = |job: &UnderWay| matches!(job, UnderWay::Dump { .. });
            self.under_way.retain(|job| reads(job) && !writer.is_overtaken());
        }
        let judging = self.judge_again(answers);
        let jobs = self.under_way.len();
        self.under_way.retain_mut(|job| !job.go_on(answers));
        if jobs > 0 {
            answers.store.publish();
        }
        judging + jobs
    }

    /// Judges the next answers in the cache by the rules in use. An answer is removed if a rule had rewritten it,
    /// because the upstream's own answer is not known any more. It is also removed if a rule would rewrite it now.
    fn judge_again(&mut self, answers: &mut Answers) -> usize {
        let Answers { store, subnets, responder, counters, .. } = answers;
        // A walk ends before a new one begins. Otherwise frequent changes of rules would keep it from the newest
        // answers.
        let rules = responder.encode.rules();
        if self.judging.is_none() && std::mem::take(&mut self.rules_changed) {
            self.judging = Some(Walk::default());
            // Answers for one network are few, so all of them are judged at once.
            let is_lost = |entry: &Entry| {
                judge(rules, &entry.words(), || Some(entry.clone())) == EntryFate::Forget
            };
            add(&counters.withdrawn, subnets.lose(is_lost, counters));
        }
        if store.writer.is_frozen() {
            return 0;
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
    fn new(job: Job) -> Option<Self> {
        let walk = Walk::default();
        match job {
            Job::Purge(purge, done) => Some(Self::Purge { purge, walk, lost: 0, done: Some(done) }),
            Job::Dump(to) => Some(Self::Dump { walk, block: Block::new(), is_walked: false, to }),
            Job::Load(from, done) => {
                Some(Self::Load { from, taken: TakenIn::default(), done: Some(done) })
            }
            // They are done at once.
            Job::Outlook(..) | Job::SetWriting(..) => None,
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
                LoadPart::Entries(entries) => {
                    entries.into_iter().for_each(|entry| take_back(answers, entry, taken));
                    false
                }
                LoadPart::Nothing => false,
                LoadPart::End => {
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
            // The number of the ruleset that let it pass has no meaning in another process.
            entry.set_passed(0);
            block.extend(entry.words());
        }
        EntryFate::Stay
    })
}

/// Loads one saved answer into the cache by the rules in use, and counts the result. It is left out if a rule had
/// rewritten it, or if it has expired and must not be served any more. It is also left out if the cache has a fresh
/// one, or one that expires no earlier.
fn take_back(answers: &mut Answers, entry: Entry, taken: &mut TakenIn) {
    let Head { hash, flags, expires, .. } = entry.head();
    let now = answers.context.seconds;
    let present = answers.store.cache.get_by_hash(hash);
    let is_known =
        present.is_some_and(|found| found.is_fresh(now) || found.head.expires >= expires);
    let is_made_now = lacks_ipv6(answers.rules(), &entry.words());
    let count = if flags & Head::REWRITTEN != 0 || is_made_now {
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

/// Judges an answer by `rules`; it was stored under other rules.
fn judge(rules: &Ruleset, entry: &impl Words, copy: impl FnOnce() -> Option<Entry>) -> EntryFate {
    let head = Head::read(entry);
    if head.flags & Head::REWRITTEN != 0 || lacks_ipv6(rules, entry) {
        return EntryFate::Forget;
    }
    if !rules.judges_answer(&head) {
        return EntryFate::Passed(rules.passed(NameBuffer::default().key_of(entry), &head));
    }
    match copy().map(|entry| rules.respond_again(entry).head()) {
        None => EntryFate::Stay,
        Some(head) if head.flags & Head::REWRITTEN != 0 => EntryFate::Forget,
        Some(head) => EntryFate::Passed(head.passed),
    }
}

/// Whether an answer says that a name has no IPv6 address, where rules make addresses. It may have come before there were
/// such rules.
fn lacks_ipv6(rules: &Ruleset, entry: &impl Words) -> bool {
    const VALIDATES: u8 = Key::DO | Key::CD;
    let head = Head::read(entry);
    let mut buffer = NameBuffer::default();
    head.rcode == Rcode::NOERROR && head.flags & Head::NEGATIVE != 0 && {
        let key = buffer.key_of(entry);
        let is_for_addresses = (key.qtype, key.qclass) == (rtype::AAAA, CLASS_IN);
        let is_made = is_for_addresses && key.flags & VALIDATES != VALIDATES;
        is_made && rules.dns64(key.scope()).is_some()
    }
}
