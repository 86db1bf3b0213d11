//! A TAP: an interface of the kernel whose other end is a file (Documentation/networking/tuntap.rst).
//!
//! It has neither a header before each frame nor offloads. So each frame that is read has its checksums and its VLAN tags,
//! and the kernel checks the checksums of each frame that is written.

use std::ffi::c_int;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::mem;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use crate::{Burst, FramePool, KernelEnd};

/// The file that makes interfaces.
pub const TUN: &str = "/dev/net/tun";
/// `_IOW('T', 202, int)`: takes an `ifreq`.
pub(crate) const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
/// `_IOW('T', 226, int)`.
const TUNSETCARRIER: libc::Ioctl = 0x4004_54e2;

/// One interface. It lasts as long as this value.
#[derive(Debug)]
pub struct Tap {
    pub(crate) file: File,
}

impl Tap {
    /// Makes an interface of this name, or takes one that was made to last and that nobody uses.
    ///
    /// # Errors
    ///
    /// The kernel's. Making one needs `CAP_NET_ADMIN`.
    pub fn open(name: &str) -> io::Result<Self> {
        let file = device()?;
        // SAFETY: all-zero bytes are an `ifreq`.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        if name.len() >= request.ifr_name.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *place = byte.cast_signed();
        }
        let kind = libc::IFF_TAP | libc::IFF_NO_PI;
        request.ifr_ifru.ifru_flags =
            libc::c_short::try_from(kind).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the file is open, and the request is an `ifreq` that outlives the call.
        let code = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) };
        if code < 0 { Err(io::Error::last_os_error()) } else { Ok(Self { file }) }
    }
}

/// The device, of which no interface is made yet.
pub(crate) fn device() -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(TUN)
}

impl KernelEnd for Tap {
    fn receive(&mut self, pool: &FramePool, burst: &mut Burst, limit: usize) -> io::Result<usize> {
        let mut too_long = 0;
        for _ in 0..limit.min(burst.remaining_capacity()) {
            let Some(mut frame) = pool.take() else { break };
            let room = frame.room();
            match self.file.read(frame.buffer_mut()) {
                // The rest of a longer one is lost, so it might be cut off.
                Ok(len) if len < room && frame.resize(len).is_ok() => burst.push(frame),
                Ok(_) => too_long += 1,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(too_long)
    }

    fn transmit(&mut self, burst: &mut Burst) -> io::Result<()> {
        let mut outcome = Ok(());
        // The kernel takes a frame whole or not at all. One that it refuses says nothing of the next.
        burst.retain(|frame| match self.file.write(frame.bytes()) {
            Ok(_) => false,
            Err(error) => {
                outcome = Err(error);
                true
            }
        });
        outcome
    }

    fn set_link(&mut self, is_up: bool) -> io::Result<()> {
        let carrier = c_int::from(is_up);
        // SAFETY: the file is open, and the number outlives the call.
        let code = unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETCARRIER, &raw const carrier) };
        if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn wait(&self, most: Duration) {
        crate::sleeper::poll_files([self.file.as_raw_fd()], most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_too_long_is_refused() {
        // Without the file, or without the right to open it, there is nothing to see.
        if File::open(TUN).is_ok() {
            let refused = Tap::open("sixteen-letters!").unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
