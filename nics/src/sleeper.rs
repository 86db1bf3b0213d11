//! How a data core sleeps when its queues are empty: until a packet interrupts it, or for a time.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::time::Duration;

/// What the RX queues of one core wake. A queue tells it by a file, which the driver writes to or reads from.
#[derive(Debug)]
pub struct Sleeper {
    epoll: OwnedFd,
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
        Ok(Self { epoll: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// The epoll instance, for drivers.
    pub(crate) fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Sleeps until a packet comes to a queue that is [armed](crate::RxQueue::arm), but for so long at most. Says whether
    /// something came. It allocates nothing.
    pub fn sleep(&self, most: Duration) -> bool {
        let is_ready = poll_file(self.fd(), most);
        if is_ready {
            #[cfg(feature = "dpdk")]
            crate::dpdk::acknowledge(self);
        }
        is_ready
    }
}

/// Waits until a file can be read, but for so long at most, and says whether it can. It allocates nothing.
pub(crate) fn poll_file(fd: RawFd, most: Duration) -> bool {
    let mut file = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let seconds = libc::time_t::try_from(most.as_secs()).unwrap_or(libc::time_t::MAX);
    let time = libc::timespec { tv_sec: seconds, tv_nsec: most.subsec_nanos().into() };
    // SAFETY: both structs outlive the call, and there is one file. No mask of signals is given.
    let ready = unsafe { libc::ppoll(&raw mut file, 1, &raw const time, std::ptr::null()) };
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
}
