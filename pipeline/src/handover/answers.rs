//! The way of answers to a process that cannot go on with the cache's memory, as its own is of another size.

use std::fs::File;
use std::hash::Hasher as _;
use std::io::{self, BufWriter, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use pmdns_config::Config;
use pmdns_engine::snapshot::CacheJobs;
use pmdns_engine::threads::pin;
use pmdns_handover::Passed;
use pmdns_insight::capture::Pipe;
use siphasher::sip::SipHasher24;

use crate::sockets::OpenSockets;

/// What the next process says that wants the answers.
const WANTED: &[u8] = b"a";

/// The way to the next process.
#[derive(Debug)]
pub(super) struct AnswersToNext {
    basis: u64,
    /// This process's end, and the one that passes.
    ends: Option<(UnixStream, OwnedFd)>,
    sending: Option<JoinHandle<()>>,
}

impl AnswersToNext {
    /// There is none yet.
    pub(super) fn new(config: &Config) -> Self {
        Self { basis: basis(config), ends: None, sending: None }
    }

    /// Makes another one, for another process.
    pub(super) fn renew(&mut self) {
        let made = UnixStream::pair().and_then(|(near, far)| {
            near.set_nonblocking(true)?;
            Ok((near, far.into()))
        });
        let told = |error| tracing::warn!("answers may not pass: {error}");
        self.ends = made.map_err(told).ok();
    }

    /// What passes: the other end.
    pub(super) fn passed(&self) -> Option<(Passed, BorrowedFd<'_>)> {
        let (_, far) = self.ends.as_ref()?;
        Some((Passed::Answers(self.basis), far.as_fd()))
    }

    /// The next process serves: it gets the answers, if it has asked for them. It has done so by now.
    pub(super) fn send(&mut self, jobs: &CacheJobs) {
        let Some((mut near, _)) = self.ends.take() else { return };
        if !near.read(&mut [0]).is_ok_and(|count| count > 0) {
            return;
        }
        let jobs = jobs.clone();
        let sending = pipe_of(near).and_then(|pipe| {
            thread::Builder::new().name("answers".to_owned()).spawn(move || {
                match jobs.send(BufWriter::new(pipe)) {
                    Ok(count) => tracing::info!("{count} answers go to the next process"),
                    Err(error) => tracing::warn!("answers do not pass: {error}"),
                }
            })
        });
        self.sending =
            sending.inspect_err(|error| tracing::warn!("answers do not pass: {error}")).ok();
    }

    /// Whether they are on their way.
    pub(super) fn are_under_way(&self) -> bool {
        self.sending.as_ref().is_some_and(|sending| !sending.is_finished())
    }
}

/// The way from the process before.
#[derive(Debug)]
pub(super) struct AnswersFromBefore {
    basis: u64,
    end: UnixStream,
}

impl AnswersFromBefore {
    /// The one that has come with an offer.
    pub(super) fn of(sockets: &mut OpenSockets) -> Option<Self> {
        let (basis, end) = sockets.take_answers()?;
        Some(Self { basis, end: end.into() })
    }

    /// Asks for the answers, and has them put into the cache by a thread on this CPU. `false`: there are none that this
    /// configuration may have.
    pub(super) fn take(mut self, config: &Config, jobs: CacheJobs, core: Option<usize>) -> bool {
        if self.basis != basis(config) {
            tracing::info!("answers do not pass: they are of other `dnssec` or `client_subnet`");
            return false;
        }
        let asked = self.end.write_all(WANTED).and_then(|()| {
            let mut pipe = pipe_of(self.end)?;
            thread::Builder::new().name("answers".to_owned()).spawn(move || {
                pin(core);
                match jobs.receive(&mut pipe) {
                    Ok(loaded) => tracing::info!("of the process before: {loaded}"),
                    Err(error) => tracing::warn!("of the process before: {error}"),
                }
            })
        });
        asked.inspect_err(|error| tracing::warn!("answers do not pass: {error}")).is_ok()
    }
}

fn pipe_of(end: UnixStream) -> io::Result<Pipe> {
    Pipe::new(Some(File::from(OwnedFd::from(end))))
}

/// Of what answers are true for.
fn basis(config: &Config) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(config.answers_basis().as_bytes());
    hasher.finish()
}
