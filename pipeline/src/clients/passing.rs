//! What was said of clients at run time, on its way to the next process.

use std::io;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use pmdns_config::View;

use super::book::Book;
use super::keeper::{Keeper, change_of};
use crate::runtime::ChangesForNext;

/// How long the next process waits for it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The thread was asked for it.
#[derive(Debug)]
pub(super) struct AskedToPass {
    since: Instant,
    told: Receiver<io::Result<ChangesForNext>>,
}

impl AskedToPass {
    /// It is asked now, and tells it there.
    pub(super) fn new(now: Instant) -> (Self, Sender<io::Result<ChangesForNext>>) {
        let (tell, told) = bounded(1);
        (Self { since: now, told }, tell)
    }

    /// What it has told; nothing once it takes too long. `None`: it is waited for.
    pub(super) fn poll(&self, now: Instant) -> Option<io::Result<ChangesForNext>> {
        let told = self.told.try_recv().ok();
        let is_late = now.saturating_duration_since(self.since) >= PATIENCE;
        told.or_else(|| is_late.then(nothing))
    }
}

fn nothing() -> io::Result<ChangesForNext> {
    tracing::warn!(
        "the thread of the client table takes too long: of changes of clients the next process has those of files only"
    );
    ChangesForNext::begin(false)
}

/// What was said at run time; nothing if a file of clients alone has all of it. Millions of changes would take too long.
pub(super) fn passed(
    journal: Option<&Keeper>,
    book: &Book,
    views: &[View],
) -> io::Result<ChangesForNext> {
    let is_in_file = |journal: &Keeper| matches!(journal, Keeper::Own(_)) && journal.is_well();
    if journal.is_some_and(is_in_file) && book.is_all_lasting() {
        return ChangesForNext::begin(false);
    }
    let mut passed = ChangesForNext::begin(true)?;
    passed
        .add(book.history().map(|(prefix, view, whose)| change_of(prefix, view, whose, views)))?;
    Ok(passed)
}
