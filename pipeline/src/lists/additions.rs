//! Callers that add lists. Each is answered when its list has been fetched for the first time, not when it is merely known.

use pmdns_control::CallReply;
use tokio::sync::oneshot;

use super::FetchedLists;
use pmdns_control::Caller;

/// Those that wait.
#[derive(Debug, Default)]
pub struct Additions {
    waiting: Vec<Addition>,
}

#[derive(Debug)]
struct Addition {
    name: String,
    caller: Caller,
    reply: oneshot::Receiver<CallReply>,
}

impl Additions {
    /// Has the caller wait until its list is known. The result is the one to be answered then.
    pub fn wait_for(&mut self, name: String, caller: Caller) -> Caller {
        let (mut known, reply) = Caller::new(&caller.by);
        known.until_restart = caller.until_restart;
        self.waiting.push(Addition { name, caller, reply });
        known
    }

    /// Whether a caller waits.
    pub fn is_busy(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Has the callers whose lists are known wait for the first fetch, and answers those whose lists are refused.
    pub fn turn(&mut self, lists: &FetchedLists) {
        for index in (0..self.waiting.len()).rev() {
            let reply = match self.waiting[index].reply.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => continue,
                Err(oneshot::error::TryRecvError::Closed) => None,
                Ok(reply) => Some(reply),
            };
            let Addition { name, caller, .. } = self.waiting.swap_remove(index);
            match reply {
                Some(CallReply::Done(done)) => lists.report_first(name, done, caller),
                Some(CallReply::Refused(refusal, why)) => caller.refuse(refusal, why),
                // The instance stops, and so does its caller's connection.
                Some(_) | None => drop(caller),
            }
        }
    }
}
