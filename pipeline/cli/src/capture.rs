//! The caller's side of a capture: it opens the file, asks, and ends the capture when it is told to end itself.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pmdns_config::files::open_to_replace;
use pmdns_control::Call;
use pmdns_control::client::{ApiClient, ClientError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};

/// A capture shows who asks for what.
pub(crate) const MODE: u32 = 0o640;

/// Why there is no capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file.
    #[error("cannot write the capture: {0}")]
    File(#[from] io::Error),
    /// The instance.
    #[error(transparent)]
    Ask(ClientError),
}

/// Set by SIGINT and SIGTERM from now on.
///
/// # Errors
///
/// The signals cannot be caught.
pub(crate) fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Writes packets into the file, or to standard output if its name is `-`, until SIGINT or SIGTERM. Returns how many there were.
///
/// # Errors
///
/// The instance does not answer, or the file cannot be written.
pub(crate) fn capture(
    instance: &ApiClient,
    call: &Call,
    output: &Path,
) -> Result<String, CaptureError> {
    #[expect(clippy::disallowed_methods, reason = "a capture is no text")]
    let standard_output = io::stdout;
    let stop = stop_flag()?;
    let is_stopped = || stop.load(Ordering::Relaxed);
    let done = if output == Path::new("-") {
        let mut output = Output(standard_output().lock());
        instance.download(call, &mut output, || is_stopped() || has_no_reader())
    } else {
        instance.download(call, &mut open_to_replace(output, MODE)?, is_stopped)
    };
    done.map_err(|error| match error {
        ClientError::File(source) => CaptureError::File(source),
        error => CaptureError::Ask(error),
    })
}

/// Standard output. What its reader does not want any more is lost, and ends the capture.
struct Output<'o>(io::StdoutLock<'o>);

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            flushed => flushed,
        }
    }
}

/// Whether standard output is a pipe whose reader has left.
#[expect(clippy::disallowed_methods, reason = "nothing is written")]
fn has_no_reader() -> bool {
    let output = io::stdout();
    let mut outputs = [PollFd::new(&output, PollFlags::empty())];
    let is_asked = poll(&mut outputs, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok();
    is_asked && outputs[0].revents().contains(PollFlags::ERR)
}
