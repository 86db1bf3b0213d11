//! Jobs that take long. Each has a thread of its own, because the main thread has to notice signals.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Caller, Refusal, Refused, Reply};

/// Starts jobs of one kind, and bounds how many there are at a time.
#[derive(Clone, Debug)]
pub struct Jobs {
    most: usize,
    under_way: Arc<AtomicUsize>,
}

/// The place of a job. Dropping it ends the job.
struct JobSlot(Arc<AtomicUsize>);

impl Drop for JobSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Jobs {
    /// At most so many jobs at a time.
    pub fn new(most: usize) -> Self {
        Self { most, under_way: Arc::default() }
    }

    /// Does a job on a thread of this name, and sends the caller its reply.
    pub fn start<R: Reply + 'static>(
        &self,
        name: &str,
        mut caller: Caller<R>,
        job: impl FnOnce(&mut Caller<R>) -> Result<R, Refused> + Send + 'static,
    ) {
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let place = JobSlot(Arc::clone(&self.under_way));
        if before >= self.most {
            let why = format!("too much is under way ({name}); try again when something has ended");
            return caller.refuse(Refusal::Busy, why);
        }
        let body = move || {
            let reply = job(&mut caller);
            drop(place);
            caller.reply(reply);
        };
        if let Err(error) = std::thread::Builder::new().name(name.to_owned()).spawn(body) {
            tracing::warn!("cannot start a thread for a request: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::CallReply;
    use crate::answers::Done;

    #[test]
    fn as_many_jobs_as_allowed_run_and_a_clone_takes_no_place() {
        let jobs = Jobs::new(2);
        let start = |until: mpsc::Receiver<()>| {
            let (caller, replied) = Caller::new("a test");
            let own = jobs.clone();
            jobs.start("test", caller, move |_| {
                let _ = until.recv();
                drop(own);
                Ok(Done { done: "done".to_owned() })
            });
            replied
        };
        let (ends, untils): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::channel()).unzip();
        let mut answers: Vec<_> = untils.into_iter().map(start).collect();
        let refused = answers.pop().unwrap().blocking_recv().unwrap();
        assert!(matches!(refused, CallReply::Refused(Refusal::Busy, _)), "{refused:?}");
        drop(ends);
        for answer in answers {
            assert_eq!(answer.blocking_recv().unwrap(), CallReply::Done("done".to_owned()));
        }
        assert_eq!(jobs.under_way.load(Ordering::Relaxed), 0);
    }
}
