//! Which jobs run, and which wait for which records. Zones take turns of one step each, and so do the jobs of a zone.
//!
//! Pure: no threads and no channels, and time is an argument. Several jobs that need the same records wait for one
//! reply. The first job works on the reply. Then the others continue, and find the results in the validator's memory.
//! If there was no room for the question, the first job ends, because its clients had no room. The next job asks again
//! for its own clients.

use std::collections::{HashMap, VecDeque};
use std::hash::RandomState;
use std::rc::Rc;
use std::time::Duration;

use pmdns_validator::{Cost, Judgement, Progress, ValidationJob, Validator};

use super::Fetched;
use crate::questions::round_robin::RoundRobin;

/// The most questions to the upstreams that are under way at once: as many as there may be jobs.
pub(super) const MAX_ASKED: usize = super::MAX_UNDER_WAY;

/// A question: a name in wire format and lower case, and a type.
type Wanted = (Box<[u8]>, u16);

/// The number of a job. It is never used again.
type Number = u64;

/// A job and its owner.
#[derive(Debug)]
struct Running<T> {
    job: ValidationJob,
    slot: usize,
    zone: Rc<[u8]>,
    owner: T,
    deadline: Duration,
    /// Jobs that continue after it.
    behind: Vec<Number>,
}

/// The result of a turn.
#[derive(Debug)]
pub(super) enum Event<T> {
    /// A question to the upstreams, for the job in this slot.
    Ask(usize, Wanted),
    /// The end of the job in this slot, and what it has cost.
    Done(usize, T, JobEnd, Cost),
}

/// How a job ends.
#[derive(Debug)]
pub(super) enum JobEnd {
    /// With a judgement.
    Judged(Judgement),
    /// There was no time.
    Late,
    /// There was no room for one of its questions.
    Shed,
}

/// All jobs of a thread.
#[derive(Debug)]
pub(super) struct Turns<T> {
    jobs: HashMap<Number, Running<T>>,
    last: Number,
    ready: RoundRobin<Number, Rc<[u8]>, RandomState>,
    /// Jobs in the order of their deadlines: all have the same patience.
    deadlines: VecDeque<Number>,
    /// The jobs that wait for the reply to each question under way.
    asked: HashMap<Wanted, Vec<Number>>,
}

impl<T> Turns<T> {
    pub(super) fn new() -> Self {
        Self {
            jobs: HashMap::new(),
            last: 0,
            ready: RoundRobin::default(),
            deadlines: VecDeque::new(),
            asked: HashMap::new(),
        }
    }

    /// Takes in the job of a slot. It has to end by `deadline`. Deadlines never decrease from one job to the next.
    pub(super) fn add(
        &mut self,
        job: ValidationJob,
        (slot, zone): (usize, Rc<[u8]>),
        owner: T,
        deadline: Duration,
    ) {
        self.last += 1;
        let running = Running { job, slot, zone, owner, deadline, behind: Vec::new() };
        self.jobs.insert(self.last, running);
        self.go_on(self.last);
        self.deadlines.push_back(self.last);
    }

    /// Lets a job have its turn, unless it has ended.
    fn go_on(&mut self, number: Number) {
        if let Some(running) = self.jobs.get(&number) {
            self.ready.push(Rc::clone(&running.zone), number);
        }
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
        self.end(first, JobEnd::Late)
    }

    /// Lets the first job that can go on take a step.
    pub(super) fn step(&mut self, validator: &mut Validator, seconds: u64) -> Option<Event<T>> {
        let (_, number) = self.ready.pop(|_, _| true)?;
        let running = self.jobs.get_mut(&number)?;
        match validator.step(&mut running.job, seconds) {
            Progress::Working => {
                self.go_on(number);
                None
            }
            Progress::Done(judgement) => self.end(number, JobEnd::Judged(judgement)),
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
        let running = self.jobs.get_mut(&number)?;
        if self.asked.len() >= MAX_ASKED {
            validator.fetched(&mut running.job, &wanted.0, wanted.1, None);
            self.go_on(number);
            return None;
        }
        self.asked.insert(wanted.clone(), vec![number]);
        Some(Event::Ask(running.slot, wanted))
    }

    /// Takes in the result of a question.
    pub(super) fn fetched(
        &mut self,
        validator: &mut Validator,
        wanted: &Wanted,
        fetched: Fetched,
    ) -> Option<Event<T>> {
        let waiting = self.asked.remove(wanted).unwrap_or_default();
        let reply = match fetched {
            Fetched::Reply(reply) => Some(reply),
            Fetched::Nothing => None,
            Fetched::Shed => {
                let (asker, others) = waiting.split_first()?;
                others.iter().for_each(|number| self.go_on(*number));
                return self.end(*asker, JobEnd::Shed);
            }
        };
        let mut waiting = waiting.into_iter().filter(|number| self.jobs.contains_key(number));
        let first = waiting.next()?;
        let behind: Vec<Number> = waiting.collect();
        let running = self.jobs.get_mut(&first)?;
        validator.fetched(&mut running.job, &wanted.0, wanted.1, reply.as_deref());
        running.behind = behind;
        self.go_on(first);
        None
    }

    fn end(&mut self, number: Number, end: JobEnd) -> Option<Event<T>> {
        self.release(number);
        let Running { slot, owner, job, .. } = self.jobs.remove(&number)?;
        Some(Event::Done(slot, owner, end, job.cost()))
    }

    /// Lets the jobs continue that waited until this job had worked on a reply.
    fn release(&mut self, number: Number) {
        if let Some(running) = self.jobs.get_mut(&number) {
            for behind in std::mem::take(&mut running.behind) {
                self.go_on(behind);
            }
        }
    }
}
