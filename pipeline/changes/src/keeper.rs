//! The thread that keeps changes in a file: it appends them and has the disk confirm, so that no slow disk delays who changes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, TrySendError, bounded};
use pmdns_control::Refusal;

use pmdns_config::files::is_passing;

use crate::journal::{JournalError, JournalFile, JournalKind, JournalLine, is_readable};
use crate::kept::KeptChanges;
use crate::names::{OldChange, read_old};
use crate::{OperatorChange, Refused, Subject};

/// The file of changes of all kinds.
pub const CHANGES: JournalKind = JournalKind {
    head: "pmdns changes 1\n",
    old_head: "pmdns entries 1\n",
    key: "control.entries",
    what: "changes",
    max_bytes: 1 << 30,
    slack: 1024,
};
/// Changes that wait for the disk, in groups.
const MAX_WAITING: usize = 64;
/// How long the end of the thread may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The changes that the file at `path` has kept. One of before has names only.
///
/// # Errors
///
/// The file cannot be used.
pub fn read(path: &Path) -> Result<KeptChanges, JournalError> {
    let mut reading = Reading::default();
    CHANGES.read(path, |is_old, json| reading.take(is_old, json))?;
    reading.end(path)
}

/// What was read of a file.
#[derive(Default)]
pub(crate) struct Reading {
    kept: KeptChanges,
    old: Vec<OldChange>,
}

impl Reading {
    pub(crate) fn take(&mut self, is_old: bool, json: &str) -> Result<(), String> {
        let wrong = |error: serde_json::Error| error.to_string();
        match is_old {
            true => self.old.push(serde_json::from_str(json).map_err(wrong)?),
            false => self.kept.take(serde_json::from_str(json).map_err(wrong)?),
        }
        Ok(())
    }

    pub(crate) fn end(mut self, path: &Path) -> Result<KeptChanges, JournalError> {
        let names = read_old(&self.old).map_err(|(number, why)| JournalError::Corrupt {
            key: CHANGES.key,
            path: path.to_owned(),
            what: CHANGES.what,
            // Behind the first line.
            line: number + 2,
            why,
        })?;
        names.history().for_each(|line| self.kept.take(line));
        Ok(self.kept)
    }
}

/// What becomes of lines that are to be kept.
#[derive(Debug)]
pub struct Receipt {
    /// `None`: it is known.
    told: Option<Receiver<bool>>,
    is_kept: bool,
}

impl Receipt {
    /// A receipt, and where it is told whether the disk has the lines.
    pub fn new() -> (Self, Sender<bool>) {
        let (tell, told) = bounded(1);
        (Self { told: Some(told), is_kept: false }, tell)
    }

    /// That of what is not to be kept, or has no room to wait for the disk.
    pub fn known(is_kept: bool) -> Self {
        Self { told: None, is_kept }
    }

    /// Whether the disk has the lines; `None`: nobody knows yet.
    pub fn poll(&mut self) -> Option<bool> {
        if let Some(told) = &self.told {
            self.is_kept = match told.try_recv() {
                Ok(is_kept) => is_kept,
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => false,
            };
            self.told = None;
        }
        Some(self.is_kept)
    }

    /// Waits until it is known.
    pub fn wait(self) -> bool {
        self.told.map_or(self.is_kept, |told| told.recv() == Ok(true))
    }
}

/// Lines on their way to the thread.
#[derive(Debug)]
struct Append {
    lines: Vec<JournalLine>,
    tell: Sender<bool>,
}

/// The way to the thread. Copies lead to the same one, which ends with the last of them.
#[derive(Clone, Debug)]
pub struct ChangeJournal(Arc<Thread>, SharedChanges);

/// What holds after a restart, with what is on its way to the disk.
#[derive(Clone, Debug)]
struct SharedChanges(Arc<Mutex<KeptChanges>>);

impl SharedChanges {
    fn lock(&self) -> MutexGuard<'_, KeptChanges> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Thread {
    appends: Option<Sender<Append>>,
    /// Closed when the thread has ended.
    ended: Receiver<()>,
}

impl ChangeJournal {
    /// Writes the file anew with `kept`, and appends to it from then on. If that is not all of the file, a copy stays. `note` gets
    /// the number of lines that were written, or refused, each time. A disk that refuses is asked again with the next change.
    ///
    /// # Errors
    ///
    /// The file cannot be used, or there is no thread.
    pub fn start(
        path: PathBuf,
        kept: KeptChanges,
        is_all: bool,
        note: impl Fn(usize, bool) + Send + 'static,
    ) -> Result<Self, JournalError> {
        let failed = |source| CHANGES.failed(&path, source);
        let mut file = JournalFile::new(CHANGES, path.clone(), is_all);
        if let Err(error) = file.write(&[], kept.len(), || kept.history()) {
            if !is_passing(&error) {
                return Err(failed(error));
            }
            refuse(&file, &error);
            note(0, false);
        }
        let (appends, taken) = bounded(MAX_WAITING);
        let (alive, ended) = bounded(0);
        let kept = SharedChanges(Arc::new(Mutex::new(kept)));
        let mut writer = Writer { file, kept: kept.clone() };
        let body = move || {
            writer.run(&taken, note);
            drop::<Sender<()>>(alive);
        };
        std::thread::Builder::new().name("journal".to_owned()).spawn(body).map_err(failed)?;
        Ok(Self(Arc::new(Thread { appends: Some(appends), ended }), kept))
    }

    /// Whether something is kept of this subject, although another change may hide it until the restart.
    pub fn has(&self, subject: &Subject) -> bool {
        self.1.lock().of(subject).is_some()
    }

    /// The kept changes that do not hold until the restart, if these are all that do; without those of clients.
    pub fn hidden(&self, holds: impl Iterator<Item = OperatorChange>) -> Vec<OperatorChange> {
        self.1.lock().hidden(holds)
    }

    /// The changes of local records that are kept.
    pub fn records(&self) -> KeptChanges {
        self.1.lock().records()
    }

    /// Has lines kept.
    ///
    /// # Errors
    ///
    /// Too many wait for the disk, or are kept already, or a line could not be read again.
    pub fn keep(&self, lines: Vec<JournalLine>) -> Result<Receipt, Refused> {
        if lines.is_empty() {
            return Ok(Receipt::known(true));
        }
        if !lines.iter().all(is_readable) {
            return Err((Refusal::Wrong, "this is too long to be kept".to_owned()));
        }
        let mut kept = self.1.lock();
        kept.check_room(&lines).map_err(|why| (Refusal::Unable, why))?;
        let (receipt, tell) = Receipt::new();
        let ended = || (Refusal::Unable, "the thread of the journal has ended".to_owned());
        let appends = self.0.appends.as_ref().ok_or_else(ended)?;
        match appends.try_send(Append { lines: lines.clone(), tell }) {
            Ok(()) => {
                lines.into_iter().for_each(|line| kept.take(line));
                Ok(receipt)
            }
            Err(TrySendError::Disconnected(_)) => Err(ended()),
            Err(TrySendError::Full(_)) => {
                Err((Refusal::Busy, "too many changes wait for the disk".to_owned()))
            }
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.appends = None;
        if self.ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the thread of the journal does not end: it is given up");
        }
    }
}

fn refuse(file: &JournalFile, error: &std::io::Error) {
    tracing::error!("cannot keep changes in {}: {error}", file.path().display());
}

/// What the thread has.
struct Writer {
    file: JournalFile,
    kept: SharedChanges,
}

impl Writer {
    fn run(&mut self, appends: &Receiver<Append>, note: impl Fn(usize, bool)) {
        while let Ok(first) = appends.recv() {
            // Orders that wait share one confirmation of the disk.
            let (mut lines, mut waiting) = (Vec::new(), Vec::new());
            for append in [first].into_iter().chain(appends.try_iter()) {
                lines.extend(append.lines);
                waiting.push(append.tell);
            }
            let Self { file, kept } = self;
            let needed = kept.lock().len();
            // Those that came meanwhile are in it, and are appended too.
            let all = || kept.lock().history().collect::<Vec<_>>().into_iter();
            let written = file.write(&lines, needed, all);
            if let Err(error) = &written {
                refuse(file, error);
            }
            for tell in waiting {
                let _ = tell.send(written.is_ok());
            }
            note(lines.len(), written.is_ok());
        }
    }
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
