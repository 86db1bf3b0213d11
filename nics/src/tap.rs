//! A TAP: an interface of the kernel whose other end is a file (Documentation/networking/tuntap.rst).
//!
//! It has neither a header before each frame nor offloads. So each frame that is read has its checksums and its VLAN tags,
//! and the kernel checks the checksums of each frame that is written.

use std::ffi::{c_char, c_int};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::mem;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat, major, minor};

use crate::{Burst, FramePool, KernelEnd};

/// The file that makes interfaces.
pub const TUN: &str = "/dev/net/tun";
/// `_IOW('T', 202, int)`: takes an `ifreq`.
pub(crate) const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
/// `_IOR('T', 210, unsigned int)`: fills in an `ifreq`.
const TUNGETIFF: libc::Ioctl = 0x8004_54d2_u32 as libc::Ioctl;
/// The numbers of the device file (Documentation/admin-guide/devices.txt).
const DEVICE: (u32, u32) = (10, 200);
/// What says how frames are written, and by how many queues. The kernel does not tell of IFF_NO_PI: another flag has its bit there.
const FORM: c_int = libc::IFF_TUN
    | libc::IFF_TAP
    | libc::IFF_VNET_HDR
    | libc::IFF_MULTI_QUEUE
    | libc::IFF_DETACH_QUEUE;
/// `_IOW('T', 226, int)`.
const TUNSETCARRIER: libc::Ioctl = 0x4004_54e2;

/// One interface. It lasts as long as this value, and as any copy of its file.
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
            // It is signed on some processors only.
            *place = c_char::from_ne_bytes([byte]);
        }
        let kind = libc::IFF_TAP | libc::IFF_NO_PI;
        request.ifr_ifru.ifru_flags =
            libc::c_short::try_from(kind).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the file is open, and the request is an `ifreq` that outlives the call.
        let code = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) };
        if code < 0 { Err(io::Error::last_os_error()) } else { Ok(Self { file }) }
    }

    /// The interface of this name whose `descriptor` another process has passed. It is a file of both: each frame that the kernel
    /// sends is read by one of them. `None`: it is something else.
    pub fn passed(descriptor: OwnedFd, name: &str) -> Option<Self> {
        let flags = fcntl_getfl(&descriptor).ok().filter(|_| Self::is(&descriptor, name))?;
        fcntl_setfl(&descriptor, flags | OFlags::NONBLOCK).ok()?;
        Some(Self { file: descriptor.into() })
    }

    /// Whether a descriptor is that of the interface of this name, as [`Tap::open`] makes one. The kernel is asked.
    pub fn is(descriptor: &OwnedFd, name: &str) -> bool {
        let is_device = fstat(descriptor).is_ok_and(|stat| {
            let number = (major(stat.st_rdev), minor(stat.st_rdev));
            FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && number == DEVICE
        });
        let is_it = |request: libc::ifreq| {
            flags_of(&request) & FORM == libc::IFF_TAP && name_in(&request) == name
        };
        is_device && request_of(descriptor).is_ok_and(is_it)
    }
}

/// The name and the flags of a queue, which the kernel tells. An error: it is of no interface.
pub(crate) fn request_of(queue: &impl AsRawFd) -> io::Result<libc::ifreq> {
    // SAFETY: all-zero bytes are an `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes an `ifreq`, which outlives the call.
    let code = unsafe { libc::ioctl(queue.as_raw_fd(), TUNGETIFF, &raw mut request) };
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(request) }
}

/// The flags of a queue.
pub(crate) fn flags_of(request: &libc::ifreq) -> c_int {
    // SAFETY: the kernel has set the flags of the union.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    c_int::from(flags.cast_unsigned())
}

/// The name of its interface, which an operator may have changed.
pub(crate) fn name_in(request: &libc::ifreq) -> String {
    let bytes = request.ifr_name.iter().flat_map(|byte| byte.to_ne_bytes());
    let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
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

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
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

    #[test]
    fn what_another_process_passes_is_taken_only_if_the_kernel_says_that_it_is_the_interface() {
        for other in ["/dev/null", TUN] {
            let Ok(file) = File::options().read(true).write(true).open(other) else { continue };
            assert!(Tap::passed(file.into(), "pm-edge").is_none(), "{other} is no interface");
        }
        // Making one needs a right.
        let Ok(tap) = Tap::open("pmdns-passed") else { return };
        let copy = || tap.descriptor().unwrap().try_clone_to_owned().unwrap();
        assert!(Tap::passed(copy(), "pmdns-other").is_none());
        let passed = Tap::passed(copy(), "pmdns-passed").unwrap();
        drop(tap);
        assert!(request_of(&passed.file).is_ok(), "it is there as long as one of them has it");
        let queue = device().unwrap();
        let mut request = request_of(&passed.file).unwrap();
        drop(passed);
        let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        request.ifr_ifru.ifru_flags = flags.try_into().unwrap();
        // SAFETY: the file is open, and the request is an `ifreq` that outlives the call.
        let code = unsafe { libc::ioctl(queue.as_raw_fd(), TUNSETIFF, &raw mut request) };
        assert_eq!(code, 0);
        assert!(Tap::passed(queue.into(), "pmdns-passed").is_none(), "it has headers");
    }
}
