//! Callers whose changes are under way. Each is answered once: when its change is in use everywhere, and on the disk if it is kept.

use pmdns_control::{PreparedReply, Refusal, Refused};

use crate::keeper::Receipt;

/// Callers that may wait, beside the one of a reload.
const MAX_WAITING: usize = 64;

/// A caller whose change is under way.
#[derive(Debug)]
pub struct Waiting {
    /// What its caller is told then.
    pub reply: PreparedReply,
    /// The version of the names that has to be in use; 0: the change is in use already.
    pub version: u64,
    /// Whether the disk has it.
    pub receipt: Receipt,
}

/// Those that wait.
#[derive(Debug, Default)]
pub struct Askers {
    waiting: Vec<Waiting>,
}

impl Askers {
    /// Whether somebody waits.
    pub fn is_busy(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether one more change may be made.
    ///
    /// # Errors
    ///
    /// Too many wait; the refusal says so.
    pub fn check_room(&self) -> Result<(), Refused> {
        match self.waiting.len() < MAX_WAITING {
            true => Ok(()),
            false => Err((Refusal::Busy, "too many changes are under way".to_owned())),
        }
    }

    /// Has a caller wait for its change.
    pub fn push(&mut self, waiting: Waiting) {
        self.waiting.push(waiting);
    }

    /// Answers those whose changes hold: `in_use` is the version of the names that every thread has.
    pub fn turn(&mut self, in_use: u64) {
        for index in (0..self.waiting.len()).rev() {
            let one = &mut self.waiting[index];
            let kept = one.receipt.poll();
            let (Some(kept), true) = (kept, one.version <= in_use) else { continue };
            let Waiting { reply, .. } = self.waiting.swap_remove(index);
            match kept {
                true => reply.send(),
                false => reply.refuse(not_kept()),
            }
        }
    }
}

/// The answer about a change that the disk has not.
pub fn not_kept() -> Refused {
    let why = "it holds until the instance stops, and is not kept: the disk refuses, as the log says; \
               it is tried again with the next change";
    (Refusal::Unable, why.to_owned())
}

/// The end of a sentence about a change that is made: how long it holds, unless it is kept.
pub fn lasting(has_file: bool, until_restart: bool) -> &'static str {
    match (until_restart, has_file) {
        (true, _) => ", until the instance stops",
        (false, true) => "",
        (false, false) => ", until the instance stops: `control.entries` names no file",
    }
}

#[cfg(test)]
mod tests {
    use pmdns_control::answers::Done;
    use pmdns_control::{CallReply, Caller};

    use super::*;

    #[test]
    fn a_caller_is_answered_once_when_its_change_is_in_use_and_kept() {
        let mut askers = Askers::default();
        let mut replies = Vec::new();
        let mut confirm = Vec::new();
        for version in [1, 2] {
            let (caller, replied) = Caller::new("a test");
            let (receipt, confirmed) = Receipt::new();
            let reply = caller.prepare(Ok(Done { done: format!("change {version}") }));
            askers.push(Waiting { reply, version, receipt });
            replies.push(replied);
            confirm.push(confirmed);
        }
        askers.turn(2);
        assert!(replies.iter_mut().all(|one| one.try_recv().is_err()), "the disk has neither");
        confirm[0].send(true).unwrap();
        confirm[1].send(false).unwrap();
        askers.turn(1);
        assert_eq!(replies[0].try_recv(), Ok(CallReply::Done("change 1".into())));
        assert!(replies[1].try_recv().is_err(), "its names are not in use");
        askers.turn(2);
        let second = replies[1].try_recv().unwrap();
        assert!(matches!(second, CallReply::Refused(Refusal::Unable, _)), "{second:?}");
        assert!(!askers.is_busy());
    }
}
