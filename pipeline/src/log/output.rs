//! Standard error, as the log writes to it. A line that cannot be written is lost and counted. A full disk, a reader that is
//! gone and one that reads nothing cost lines of the log, never the process or its time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::sinks::{SinkCounters, write_until};

/// How long a line waits for a slow reader. While lines are lost, the next ones do not wait.
const PATIENCE: Duration = Duration::from_millis(10);

/// The output of this process's log.
pub(super) static OUTPUT: LogOutput = LogOutput::new();

/// A file that takes lines, with what became of them.
pub(super) struct LogOutput {
    /// Whether the last line was cut; taken by one thread at a time.
    is_torn: Mutex<bool>,
    pub(super) counters: SinkCounters,
    /// Lost lines that the log has told of.
    told: AtomicU64,
}

impl LogOutput {
    const fn new() -> Self {
        Self { is_torn: Mutex::new(false), counters: SinkCounters::new(), told: AtomicU64::new(0) }
    }

    /// Writes a line, or counts it as lost.
    fn put(&self, file: BorrowedFd<'_>, line: &[u8]) {
        let mut is_torn = self.is_torn.lock().unwrap_or_else(PoisonError::into_inner);
        let is_failing = self.counters.failing.load(Ordering::Relaxed) == 1;
        let deadline = Instant::now() + if is_failing { Duration::ZERO } else { PATIENCE };
        // The line after a torn one begins anew, so that it can be read.
        let mend: &[u8] = if *is_torn { b"\n" } else { b"" };
        let (mut left, mut failed) = ([mend, line].concat(), false);
        while !left.is_empty() && !failed {
            match write_until(file, &left, deadline) {
                Ok(0) | Err(_) => failed = true,
                Ok(count) => {
                    left.drain(..count);
                    *is_torn = !left.is_empty();
                }
            }
        }
        self.counters.count(1, !failed);
    }

    /// Lost lines that nobody was told of, once lines are written again.
    pub(super) fn take_lost(&self) -> Option<u64> {
        let lost = self.counters.lost.load(Ordering::Relaxed);
        if lost == self.told.load(Ordering::Relaxed)
            || self.counters.failing.load(Ordering::Relaxed) == 1
        {
            return None;
        }
        Some(lost - self.told.swap(lost, Ordering::Relaxed))
    }
}

/// Standard error for the log. It never fails.
pub(super) struct StandardError;

impl io::Write for StandardError {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        OUTPUT.put(io::stderr().as_fd(), line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn counts(output: &LogOutput) -> [u64; 3] {
        let counts = output.counters.snapshot();
        [counts.written, counts.lost, counts.failing]
    }

    #[test]
    fn lines_for_a_full_disk_are_lost_and_counted() {
        let (output, full) =
            (LogOutput::new(), File::options().write(true).open("/dev/full").unwrap());
        (0..3).for_each(|_| output.put(full.as_fd(), b"a line\n"));
        assert_eq!(counts(&output), [0, 3, 1]);
        assert_eq!(output.take_lost(), None, "not while lines are lost");
        let (mut reader, writer) = io::pipe().unwrap();
        output.put(writer.as_fd(), b"a line\n");
        assert_eq!(
            (counts(&output), output.take_lost(), output.take_lost()),
            ([1, 3, 0], Some(3), None)
        );
        drop(writer);
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(read, "a line\n", "nothing was torn");
    }

    #[test]
    fn a_reader_that_is_gone_costs_lines_only() {
        let output = LogOutput::new();
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        output.put(writer.as_fd(), b"a line\n");
        let (near, far) = UnixStream::pair().unwrap();
        drop(far);
        output.put(near.as_fd(), b"a line\n");
        assert_eq!(counts(&output), [0, 2, 1]);
    }

    #[test]
    fn a_reader_that_reads_nothing_holds_nobody_up() {
        let output = LogOutput::new();
        let (mut reader, writer) = io::pipe().unwrap();
        let line = [&[b'x'; 9_999][..], b"\n"].concat();
        // A pipe has room for 64 KiB (pipe(7)), often less: one line is torn, the others are lost.
        (0..100).for_each(|_| output.put(writer.as_fd(), &line));
        let [written, lost, failing] = counts(&output);
        assert!(lost > 0 && failing == 1 && written + lost == 100);
        let waiting = rustix::io::ioctl_fionread(&reader).unwrap();
        reader.read_exact(&mut vec![0; usize::try_from(waiting).unwrap()]).unwrap();
        output.put(writer.as_fd(), b"whole\n");
        drop(writer);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest.lines().last(), Some("whole"), "the line after a torn one begins anew");
    }
}
