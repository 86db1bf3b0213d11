//! The client's side: it opens the file, asks, and ends the capture when it is told to end itself.

use std::fs::File;
use std::io::{self, PipeReader, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use pmdns_config::files::open_to_replace;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::filter::MAX_TIME;
use crate::control::socket::{SocketError, ask_until};

/// A capture shows who asks for what.
const MODE: u32 = 0o640;

/// Why the client cannot ask.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file.
    #[error("cannot write the capture: {0}")]
    File(#[from] io::Error),
    /// The instance.
    #[error(transparent)]
    Socket(#[from] SocketError),
}

/// Asks for what takes long, until SIGINT or SIGTERM, or until `has_ended`. Returns the answer.
pub fn ask(
    socket: &Path,
    request: &str,
    file: Option<&File>,
    has_ended: impl Fn() -> bool,
) -> Result<String, ClientError> {
    let told = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&told))?;
    }
    let has_ended = || told.load(Ordering::Relaxed) || has_ended();
    Ok(ask_until(socket, request, file, 2 * MAX_TIME, has_ended)?)
}

/// Has the instance write packets into the file, or to standard output if its name is `-`. Returns its answer.
pub fn capture(socket: &Path, request: &str, output: &Path) -> Result<String, ClientError> {
    if output != Path::new("-") {
        return ask(socket, request, Some(&open_to_replace(output, MODE)?), || false);
    }
    let (reader, writer) = io::pipe()?;
    let copier = copy_to_output(reader);
    let writer = File::from(OwnedFd::from(writer));
    let answer = ask(socket, request, Some(&writer), || copier.is_finished() || has_no_reader());
    // The copier ends when nobody can write any more.
    drop(writer);
    let _ = copier.join();
    answer
}

/// Copies what the instance writes, as it comes.
fn copy_to_output(mut reader: PipeReader) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut output = io::stdout().lock();
        let _ = io::copy(&mut reader, &mut output).and_then(|_| output.flush());
    })
}

/// Whether standard output is a pipe whose reader has left.
fn has_no_reader() -> bool {
    let output = io::stdout();
    let mut outputs = [PollFd::new(&output, PollFlags::empty())];
    let is_asked = poll(&mut outputs, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok();
    is_asked && outputs[0].revents().contains(PollFlags::ERR)
}
