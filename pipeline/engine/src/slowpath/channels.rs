//! Requests of jobs on its shard of the cache to a slow path thread, over channels.

use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError};
use pmdns_resolver::{Block, Inquiry, Job, LoadPart, NotTaken, Outlook, TakenIn};
use pmdns_stages::cache::{Entry, Purge};

/// The most requests that may wait for a thread.
const MAX_REQUESTS: usize = 8;
/// The most blocks of entries that may wait for their writer, or for the thread that loads them.
pub(crate) const MAX_BLOCKS: usize = 4;
/// How long a thread may take for a request. Only a thread that has ended takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A job that is asked for.
#[derive(Debug)]
pub enum JobRequest {
    /// Remove these answers, and send their number.
    Purge(Purge, Sender<u64>),
    /// Send all answers, in blocks. An empty block marks the end.
    Dump(Sender<Block>),
    /// Load answers, unless the cache has newer ones. Send the result at the end.
    Load(Receiver<Vec<Entry>>, Sender<TakenIn>),
    /// Say what a miss would lead to.
    Outlook(Box<Inquiry>, Sender<Outlook>),
    /// Write no more, or go on, and say when that is so.
    SetWriting(bool, Sender<()>),
}

/// The channel of requests to one slow path thread.
pub fn job_requests() -> (Sender<JobRequest>, Receiver<JobRequest>) {
    crossbeam_channel::bounded(MAX_REQUESTS)
}

/// Has every thread purge, waits for all, and returns how many answers were removed. `None`: a thread has ended.
pub(crate) fn purge(threads: &[Sender<JobRequest>], purge: &Purge) -> Option<u64> {
    let (done, lost) = crossbeam_channel::bounded(threads.len());
    for thread in threads {
        thread.send_timeout(JobRequest::Purge(purge.clone(), done.clone()), PATIENCE).ok()?;
    }
    drop(done);
    threads.iter().map(|_| lost.recv_timeout(PATIENCE).ok()).sum()
}

impl JobRequest {
    /// The job that is asked for. It is carried out even if the sender does not wait any more.
    pub fn into_job(self) -> Job {
        fn send_to<T: 'static>(done: Sender<T>) -> Box<dyn FnOnce(T)> {
            Box::new(move |result| {
                let _ = done.try_send(result);
            })
        }
        match self {
            Self::Purge(purge, done) => Job::Purge(purge, send_to(done)),
            Self::Dump(to) => Job::Dump(Box::new(move |block| {
                to.try_send(block).map_err(|error| match error {
                    TrySendError::Full(block) => NotTaken::Full(block),
                    TrySendError::Disconnected(_) => NotTaken::Unwanted,
                })
            })),
            Self::Load(from, done) => Job::Load(
                Box::new(move || match from.try_recv() {
                    Ok(entries) => LoadPart::Entries(entries),
                    Err(TryRecvError::Empty) => LoadPart::Nothing,
                    Err(TryRecvError::Disconnected) => LoadPart::End,
                }),
                send_to(done),
            ),
            Self::Outlook(inquiry, done) => Job::Outlook(inquiry, send_to(done)),
            Self::SetWriting(is_on, done) => Job::SetWriting(is_on, send_to(done)),
        }
    }
}
