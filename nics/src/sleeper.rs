//! How a data core sleeps when its queues are empty: until a packet interrupts it, or for a time.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::time::Duration;

use crate::doorbell::Doorbell;

/// The sleep of one core, which its RX queues end. A queue wakes it by a file, which the driver writes to or reads from.
#[derive(Debug)]
pub struct Sleeper {
    epoll: OwnedFd,
    /// For queues that other threads of ours fill.
    doorbell: Doorbell,
}

impl Sleeper {
    /// Nothing wakes it yet.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes a number, and gives a new descriptor or -1.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is open, and nobody else has it.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { epoll, doorbell: Doorbell::new()? })
    }

    /// Ends a sleep, or the next one. For drivers whose queues another thread fills.
    pub fn wake(&self) {
        self.doorbell.ring();
    }

    /// The epoll instance, for drivers.
    pub(crate) fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Sleeps until a packet comes to a queue that is [armed](crate::RxQueue::arm), but for so long at most. Says whether
    /// something came. It allocates nothing.
    pub fn sleep(&self, most: Duration) -> bool {
        let is_ready = poll_files([self.fd(), self.doorbell.as_raw_fd()], most);
        if is_ready {
            self.doorbell.silence();
            #[cfg(feature = "dpdk")]
            crate::dpdk::acknowledge(self.fd());
        }
        is_ready
    }
}

/// Waits until one of the files can be read, but for so long at most, and says whether one can. It allocates nothing.
pub(crate) fn poll_files<const N: usize>(files: [RawFd; N], most: Duration) -> bool {
    let mut files = files.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let seconds = libc::time_t::try_from(most.as_secs()).unwrap_or(libc::time_t::MAX);
    let time = libc::timespec { tv_sec: seconds, tv_nsec: most.subsec_nanos().into() };
    // SAFETY: both structs outlive the call, and there are as many files as it is told. No mask of signals is given.
    let ready = unsafe {
        libc::ppoll(files.as_mut_ptr(), N as libc::nfds_t, &raw const time, std::ptr::null())
    };
    ready > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_that_nothing_ends_ends_by_itself() {
        let sleeper = Sleeper::new().unwrap();
        assert!(!sleeper.sleep(Duration::from_micros(50)));
        assert!(!sleeper.sleep(Duration::ZERO));
    }

    #[test]
    fn a_sleeper_that_was_woken_before_does_not_sleep() {
        let sleeper = Sleeper::new().unwrap();
        sleeper.wake();
        assert!(sleeper.sleep(Duration::from_secs(60)));
        assert!(!sleeper.sleep(Duration::ZERO), "and sleeps again afterwards");
    }
}
