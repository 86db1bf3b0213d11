//! Where a thread of the slow path is told what to do with its shard of the cache, over channels.

use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError};
use pmdns_resolver::{Block, Job, Loaded, NotTaken, TakenIn};
use pmdns_stages::cache::{Entry, Purge};

/// Orders that may wait for a thread.
const MAX_ORDERS: usize = 8;
/// Blocks of entries that may wait for whoever writes them down, and for the thread that takes them in.
pub(crate) const MAX_BLOCKS: usize = 4;
/// How long a thread may take to do what it was told. Only one that has ended takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// An order.
#[derive(Debug)]
pub enum Order {
    /// Lose these, and say how many there were.
    Purge(Purge, Sender<u64>),
    /// Send every answer that can be found, in blocks, and then an empty one.
    Dump(Sender<Block>),
    /// Take in what comes, as far as there is nothing newer, and say in the end what became of it.
    Load(Receiver<Vec<Entry>>, Sender<TakenIn>),
}

/// Where a thread of the slow path is told what to do, and where it hears of it.
pub fn orders() -> (Sender<Order>, Receiver<Order>) {
    crossbeam_channel::bounded(MAX_ORDERS)
}

/// Tells every thread to purge, waits until all have, and says how many answers were lost. `None`: a thread has ended.
pub(crate) fn purge(threads: &[Sender<Order>], purge: &Purge) -> Option<u64> {
    let (done, lost) = crossbeam_channel::bounded(threads.len());
    for thread in threads {
        thread.send_timeout(Order::Purge(purge.clone(), done.clone()), PATIENCE).ok()?;
    }
    drop(done);
    threads.iter().map(|_| lost.recv_timeout(PATIENCE).ok()).sum()
}

impl Order {
    /// The job that carries it out. Whoever gave it may have lost patience; it is carried out all the same.
    pub(super) fn into_job(self) -> Job {
        fn tell<T: 'static>(done: Sender<T>) -> Box<dyn FnOnce(T)> {
            Box::new(move |result| {
                let _ = done.try_send(result);
            })
        }
        match self {
            Self::Purge(purge, done) => Job::Purge(purge, tell(done)),
            Self::Dump(to) => Job::Dump(Box::new(move |block| {
                to.try_send(block).map_err(|error| match error {
                    TrySendError::Full(block) => NotTaken::Full(block),
                    TrySendError::Disconnected(_) => NotTaken::Unwanted,
                })
            })),
            Self::Load(from, done) => Job::Load(
                Box::new(move || match from.try_recv() {
                    Ok(entries) => Loaded::Entries(entries),
                    Err(TryRecvError::Empty) => Loaded::Nothing,
                    Err(TryRecvError::Disconnected) => Loaded::End,
                }),
                tell(done),
            ),
        }
    }
}
