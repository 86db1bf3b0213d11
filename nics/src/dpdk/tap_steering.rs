//! Which queue of a TAP gets what the kernel sends into it.
//!
//! Two processes may have queues of one interface (Documentation/networking/tuntap.rst). The kernel spreads flows over all of
//! them. While one process takes over from the other, a program says which queue gets everything (`TUNSETSTEERINGEBPF`).

use std::ffi::c_int;
use std::fs;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd};

use crate::tap::TUN;
use crate::xdp::bpf::{Attributes, INSTRUCTION, PROGRAM_LOAD, bpf, descriptor};

/// `_IOR('T', 210, unsigned int)`: writes an `ifreq`.
const TUNGETIFF: libc::Ioctl = 0x8004_54d2_u32 as libc::Ioctl;
/// `_IOR('T', 224, int)`: takes the descriptor of a program, or -1.
const TUNSETSTEERINGEBPF: libc::Ioctl = 0x8004_54e0_u32 as libc::Ioctl;
/// A program type (linux/bpf.h).
const SOCKET_FILTER: u32 = 1;

/// The steering of one interface of which this process has queues.
#[derive(Debug)]
pub struct TapSteering {
    interface: String,
    /// A queue of this process, and how many it has.
    queue: OwnedFd,
    own: u32,
    /// The program that names the first queue, and the one that names the first of those that came after `before` others.
    first: OwnedFd,
    later: OwnedFd,
}

impl TapSteering {
    /// The steering of `interface`, of which this process has queues, and others had `before` of them at that time. Needs the
    /// rights of bpf(2). Later nothing does.
    pub fn new(interface: &str, before: u32) -> io::Result<Self> {
        let queue = queue_of(interface)?.ok_or(io::ErrorKind::NotFound)?;
        let own = Self::queues(interface).saturating_sub(before);
        let interface = interface.to_owned();
        Ok(Self { interface, queue, own, first: program(0)?, later: program(before)? })
    }

    /// The queues that processes have of an interface now. There is none yet if it is not there.
    pub fn queues(interface: &str) -> u32 {
        let folder = fs::read_dir(format!("/sys/class/net/{interface}/queues"));
        let names = folder.into_iter().flatten().flatten().map(|entry| entry.file_name());
        let count = names.filter(|name| name.to_string_lossy().starts_with("tx-")).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Whether no other process has queues.
    pub fn is_alone(&self) -> bool {
        Self::queues(&self.interface) <= self.own
    }

    /// Everything comes to the process that had queues first.
    pub fn to_first(&self) -> io::Result<()> {
        self.set(self.first.as_raw_fd())
    }

    /// Everything comes to the process whose queues came later.
    pub fn to_later(&self) -> io::Result<()> {
        self.set(self.later.as_raw_fd())
    }

    /// The kernel spreads flows over all queues again.
    pub fn to_all(&self) -> io::Result<()> {
        self.set(-1)
    }

    fn set(&self, program: RawFd) -> io::Result<()> {
        // SAFETY: the queue is open, and the number outlives the call.
        let code =
            unsafe { libc::ioctl(self.queue.as_raw_fd(), TUNSETSTEERINGEBPF, &raw const program) };
        if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Another descriptor of a queue of `interface` that this process has: the driver keeps its own to itself.
fn queue_of(interface: &str) -> io::Result<Option<OwnedFd>> {
    for entry in fs::read_dir("/proc/self/fd")?.flatten() {
        let is_tun = fs::read_link(entry.path()).is_ok_and(|path| path.as_os_str() == TUN);
        let number = entry.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok());
        let Some(number) = number.filter(|_| is_tun) else { continue };
        if name_of(number).as_deref() == Some(interface) {
            // SAFETY: it was listed just now, and ports are neither opened nor closed meanwhile.
            let queue = unsafe { BorrowedFd::borrow_raw(number) };
            return queue.try_clone_to_owned().map(Some);
        }
    }
    Ok(None)
}

/// The interface of a queue. `None`: it is detached.
fn name_of(queue: RawFd) -> Option<String> {
    // SAFETY: all-zero bytes are an `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes an `ifreq`, which outlives the call.
    let code = unsafe { libc::ioctl(queue, TUNGETIFF, &raw mut request) };
    if code < 0 {
        return None;
    }
    // SAFETY: the kernel has set the flags of the union.
    let flags = c_int::from(unsafe { request.ifr_ifru.ifru_flags });
    let name = request.ifr_name.iter().take_while(|byte| **byte != 0);
    let name = name.map(|byte| char::from(byte.cast_unsigned())).collect();
    (flags & libc::IFF_DETACH_QUEUE == 0).then_some(name)
}

/// A program that names this queue: `r0 = number; exit`.
fn program(number: u32) -> io::Result<OwnedFd> {
    let mut code = [0_u8; 2 * INSTRUCTION];
    code[0] = 0xb7;
    code[4..8].copy_from_slice(&number.to_ne_bytes());
    code[INSTRUCTION] = 0x95;
    let mut attributes = Attributes::new()
        .with(0, &SOCKET_FILTER.to_ne_bytes())
        .with(4, &2_u32.to_ne_bytes())
        .with_address_of(8, code.as_ptr())
        .with_address_of(16, c"Dual MIT/GPL".as_ptr().cast());
    // SAFETY: the code and the licence outlive the call.
    let number = unsafe { bpf(PROGRAM_LOAD, &mut attributes) }?;
    // SAFETY: the kernel has just made it.
    Ok(unsafe { descriptor(number) })
}
