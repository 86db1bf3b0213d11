//! A doorbell: by it a thread that must not wait wakes one that sleeps until a file can be read.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd, RawFd};

/// An eventfd. It can be read once it has rung, until it is silenced.
#[derive(Debug)]
pub(crate) struct Doorbell {
    file: File,
}

impl Doorbell {
    /// It has not rung yet.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: takes numbers, and gives a new descriptor or -1.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is open, and nobody else has it.
        Ok(Self { file: unsafe { OwnedFd::from_raw_fd(fd) }.into() })
    }

    /// Wakes the sleeper. It allocates nothing and never waits.
    pub(crate) fn ring(&self) {
        // It fails only after 2^64 rings that nobody has heard, and then it still rings.
        let _ = (&self.file).write(&1u64.to_ne_bytes());
    }

    /// Takes note of all rings so far.
    pub(crate) fn silence(&self) {
        // It fails if it has not rung.
        let _ = (&self.file).read(&mut [0; 8]);
    }
}

impl AsRawFd for Doorbell {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}
