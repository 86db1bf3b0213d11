//! Which jobs run, which wait, and for what: jobs of one thread take turns, a step each.
//!
//! Pure: no threads and no channels, and time is an argument. Several jobs that need the same records wait for one reply. The first
//! works on it; the others go on when the first has made what it can of it, and find it in the validator's memory.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use pmdns_validator::{Job, Judgement, Progress, Validator};

/// Questions to the upstreams that are under way at once, at most: as many as there may be jobs.
pub(super) const MAX_ASKED: usize = super::MAX_UNDER_WAY;

/// A question: a name in wire format and lower case, and a type.
type Wanted = (Box<[u8]>, u16);

/// Names a job, and never another one.
type Number = u64;

/// A job and whose it is.
#[derive(Debug)]
struct Running<T> {
    job: Job,
    owner: T,
    deadline: Duration,
    /// Jobs that go on after it.
    behind: Vec<Number>,
}

/// What comes of a turn.
#[derive(Debug)]
pub(super) enum Event<T> {
    /// A question to the upstreams.
    Ask(Wanted),
    /// The end of a job; without judgement, it came too late.
    Done(T, Option<Judgement>),
}

/// All jobs of a thread.
#[derive(Debug)]
pub(super) struct Turns<T> {
    jobs: HashMap<Number, Running<T>>,
    last: Number,
    ready: VecDeque<Number>,
    /// Jobs in the order of their deadlines: all have the same patience.
    deadlines: VecDeque<Number>,
    /// Who waits for the reply to a question that is under way.
    asked: HashMap<Wanted, Vec<Number>>,
}

impl<T> Turns<T> {
    pub(super) fn new() -> Self {
        Self {
            jobs: HashMap::new(),
            last: 0,
            ready: VecDeque::new(),
            deadlines: VecDeque::new(),
            asked: HashMap::new(),
        }
    }

    /// Takes in a job that has to end by `deadline`, which is no earlier than any before.
    pub(super) fn add(&mut self, job: Job, owner: T, deadline: Duration) {
        self.last += 1;
        self.jobs.insert(self.last, Running { job, owner, deadline, behind: Vec::new() });
        self.ready.push_back(self.last);
        self.deadlines.push_back(self.last);
    }

    /// Whether a job can go on.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When the first job has to end.
    pub(super) fn first_deadline(&mut self) -> Option<Duration> {
        while let Some(first) = self.deadlines.front() {
            match self.jobs.get(first) {
                Some(running) => return Some(running.deadline),
                None => self.deadlines.pop_front(),
            };
        }
        None
    }

    /// Ends the first job whose deadline has come.
    pub(super) fn expire(&mut self, now: Duration) -> Option<Event<T>> {
        self.first_deadline().filter(|deadline| *deadline <= now)?;
        let first = self.deadlines.pop_front()?;
        self.end(first, None)
    }

    /// Lets the first job that can go on take a step.
    pub(super) fn step(&mut self, validator: &mut Validator, seconds: u64) -> Option<Event<T>> {
        let number = self.ready.pop_front()?;
        let running = self.jobs.get_mut(&number)?;
        match validator.step(&mut running.job, seconds) {
            Progress::Working => {
                self.ready.push_back(number);
                None
            }
            Progress::Done(judgement) => self.end(number, Some(judgement)),
            Progress::Fetch { name, qtype } => {
                self.release(number);
                self.ask(number, (name, qtype), validator)
            }
        }
    }

    fn ask(
        &mut self,
        number: Number,
        wanted: Wanted,
        validator: &mut Validator,
    ) -> Option<Event<T>> {
        if let Some(waiting) = self.asked.get_mut(&wanted) {
            waiting.push(number);
            return None;
        }
        if self.asked.len() >= MAX_ASKED {
            let running = self.jobs.get_mut(&number)?;
            validator.fetched(&mut running.job, &wanted.0, wanted.1, None);
            self.ready.push_back(number);
            return None;
        }
        self.asked.insert(wanted.clone(), vec![number]);
        Some(Event::Ask(wanted))
    }

    /// Takes in the reply to a question.
    pub(super) fn fetched(
        &mut self,
        validator: &mut Validator,
        wanted: &Wanted,
        reply: Option<&[u8]>,
    ) {
        let waiting = self.asked.remove(wanted).unwrap_or_default();
        let mut waiting = waiting.into_iter().filter(|number| self.jobs.contains_key(number));
        let Some(first) = waiting.next() else { return };
        let behind: Vec<Number> = waiting.collect();
        let Some(running) = self.jobs.get_mut(&first) else { return };
        validator.fetched(&mut running.job, &wanted.0, wanted.1, reply);
        running.behind = behind;
        self.ready.push_back(first);
    }

    fn end(&mut self, number: Number, judgement: Option<Judgement>) -> Option<Event<T>> {
        self.release(number);
        let running = self.jobs.remove(&number)?;
        Some(Event::Done(running.owner, judgement))
    }

    /// Lets those go on who waited for what a job made of a reply.
    fn release(&mut self, number: Number) {
        if let Some(running) = self.jobs.get_mut(&number) {
            self.ready.extend(std::mem::take(&mut running.behind));
        }
    }
}
