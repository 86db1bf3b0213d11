//! Answers that find no slot when their question ends, because more clients waited for it than the ring has room for. They
//! leave in later turns, in the order in which their clients asked.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::rc::Rc;

use pmdns_stages::cache::Entry;
use pmdns_stages::wire::edns::ExtendedError;
use pmdns_stages::{Context, Tick};

use super::responder::Responder;
use crate::counters::lower;
use crate::origin::Origin;
use crate::questions::pending::Seated;

/// What all clients of a question get.
#[derive(Clone, Debug)]
pub(crate) enum Given<'e> {
    /// An answer for the network of this length around the client.
    Entry { entry: Cow<'e, Entry>, scope: u8, origin: Origin },
    /// SERVFAIL.
    Failure(ExtendedError),
}

/// An answer that waits for room.
pub(crate) struct LateAnswer {
    pub(crate) client: Seated,
    /// Until then its client waits.
    pub(crate) deadline: Tick,
    /// The generation of the rules that held when it was made.
    pub(crate) judged: u16,
    pub(crate) given: Rc<Given<'static>>,
}

/// Answers that wait for room, by outlet. Their clients count as waiting.
pub(crate) struct LateAnswers {
    queues: Vec<VecDeque<LateAnswer>>,
    len: usize,
    max: usize,
}

impl Given<'_> {
    /// The same in memory of its own.
    pub(crate) fn kept(&self) -> Rc<Given<'static>> {
        Rc::new(match self {
            Self::Entry { entry, scope, origin } => {
                let entry = Cow::Owned(entry.clone().into_owned());
                Given::Entry { entry, scope: *scope, origin: *origin }
            }
            Self::Failure(why) => Given::Failure(*why),
        })
    }
}

impl LateAnswers {
    /// None yet, over so many outlets. At most `max` may wait.
    pub(crate) fn new(outlets: usize, max: usize) -> Self {
        Self { queues: (0..outlets).map(|_| VecDeque::new()).collect(), len: 0, max }
    }

    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a client of this outlet has to wait behind others, or for room, and may.
    pub(crate) fn takes(&self, outlet: usize, responder: &Responder) -> bool {
        let has_room = responder.outlets.has_room_for_many(outlet);
        self.len < self.max && !(self.queues[outlet].is_empty() && has_room)
    }

    /// Keeps an answer behind those that wait.
    pub(crate) fn keep(&mut self, answer: LateAnswer) {
        let outlet = answer.client.waiter().outlet;
        self.queues[outlet].push_back(answer);
        self.len += 1;
    }

    /// Whether rules of this generation have judged all that wait. Each queue has older ones first.
    pub(crate) fn are_judged_by(&self, rules: u16) -> bool {
        self.queues.iter().filter_map(VecDeque::front).all(|late| late.judged == rules)
    }

    /// Gives answers to the outlets that have room, and to clients whose deadline has come: so none waits for a core that
    /// takes no answers any more. Returns how many.
    pub(crate) fn give(&mut self, responder: &mut Responder, context: &Context) -> usize {
        let before = self.len;
        for (outlet, queue) in self.queues.iter_mut().enumerate() {
            while queue.front().is_some_and(|late| {
                late.deadline <= context.now || responder.outlets.has_room_for_many(outlet)
            }) && let Some(LateAnswer { client, given, .. }) = queue.pop_front()
            {
                lower(&responder.counters.waiting);
                responder.give(client.waiter(), &given, context);
                self.len -= 1;
            }
        }
        before - self.len
    }
}
