//! Which queue of a TAP gets what the kernel sends into it.
//!
//! Two processes may have queues of one interface (Documentation/networking/tuntap.rst). A program spreads flows over the queues
//! of one process (`TUNSETSTEERINGEBPF`).

use std::ffi::c_int;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};

use pmdns_config::narrow::to_u32;

use crate::tap::{TUN, TUNSETIFF, device, flags_of, name_in, request_of};
use crate::xdp::bpf::{Attributes, INSTRUCTION, PROGRAM_LOAD, bpf, descriptor};

/// `_IOR('T', 224, int)`: takes the descriptor of a program, or -1.
const TUNSETSTEERINGEBPF: libc::Ioctl = 0x8004_54e0_u32 as libc::Ioctl;
/// `_IOW('T', 217, int)`: takes an `ifreq`.
const TUNSETQUEUE: libc::Ioctl = 0x4004_54d9_u32 as libc::Ioctl;
/// What queues of an interface have in common.
const KIND: c_int = libc::IFF_TAP
    | libc::IFF_NO_PI
    | libc::IFF_MULTI_QUEUE
    | libc::IFF_VNET_HDR
    | libc::IFF_ONE_QUEUE;
/// A program type (linux/bpf.h).
const SOCKET_FILTER: u32 = 1;
/// A protocol in a frame (linux/if_ether.h).
const IPV6: u32 = 0x86dd;
/// The most fillers of a process that is alone. It has 16 queues at most, as DPDK's driver has. The next process opens as many and
/// fillers for all of these, and the kernel allows 256 queues.
const MOST_FILLERS: u32 = 96;
/// Why a process cannot take over.
const OF_OTHERS: &str = "another program has queues of it";
/// What is multiplied by it has its entropy in the upper bits (Knuth, 6.4).
const GOLDEN_RATIO: u32 = 0x9e37_79b1;

/// The queues of one process, which come one after another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TapQueues {
    /// How many queues the interface has before them. They are fillers of that process.
    pub first: u32,
    /// How many there are.
    pub count: u32,
}

/// The steering of one interface of which this process has queues.
///
/// When a queue closes, the kernel moves the last one to its place. A frame on the way to the queue that is moved is lost. So no
/// queue that frames come to may be the last one. Behind the queues of the next process there are **fillers**: queues that
/// nothing comes to, which take the places of those that close (ADR 0084).
///
/// | queues | |
/// |---|---|
/// | A | the first process has queue 0 |
/// | A B f | the next one opens its queue, and a filler |
/// | f B | the first one has ended, and the filler has its place |
/// | f B C | the third one opens its queue |
/// | C B f | the second one has closed its filler for a moment: the queue of the third one has its place |
/// | C | the second one has ended, with its filler |
#[derive(Debug)]
pub struct TapSteering {
    interface: String,
    /// How many queues this process has.
    count: u32,
    /// A detached queue. The interface is there as long as it is open.
    holder: OwnedFd,
    /// As many as there are queues before those of this process. The last one is at place 0: queues of the process before close in
    /// their order, and the last queue takes the place of each.
    fillers: Vec<OwnedFd>,
    /// Programs that name the queues of this process, the same if they are the first ones, and those of the process before.
    to_own: OwnedFd,
    to_first: OwnedFd,
    to_before: OwnedFd,
}

impl TapSteering {
    /// The steering of `interface`, of which this process has the last `count` queues, and the one `before` has others. Needs the
    /// rights of bpf(2), and that to open queues. Later nothing does.
    pub fn new(interface: &str, before: TapQueues, count: u32) -> io::Result<Self> {
        let queue = queue_of(interface)?.ok_or(io::ErrorKind::NotFound)?;
        let others = before.first + before.count;
        if Self::queues(interface)? > others + count {
            return Err(io::Error::other(OF_OTHERS));
        }
        // Exactly as many fillers make room for all of these queues, and none of the process before is moved.
        let first = if before.first == count { 0 } else { others };
        let holder = another(&queue)?;
        set_attached(&holder, false)?;
        let fillers = (0..first).map(|_| another(&queue)).collect::<io::Result<_>>()?;
        let [to_own, to_first, to_before] =
            [TapQueues { first, count }, TapQueues { first: 0, count }, before].map(program);
        let mut steering = Self {
            interface: interface.to_owned(),
            count,
            holder,
            fillers,
            to_own: to_own?,
            to_first: to_first?,
            to_before: to_before?,
        };
        // If the process before has ended, these queues are the first ones when all of its own have closed.
        if first > 0 && Self::queues(interface)? != others + count + first {
            steering.fillers.clear();
            std::mem::swap(&mut steering.to_own, &mut steering.to_first);
        }
        Ok(steering)
    }

    /// The queues that processes have of an interface now.
    fn queues(interface: &str) -> io::Result<u32> {
        // There is none if /sys shows another network than that of this process.
        let folder = fs::read_dir(format!("/sys/class/net/{interface}/queues"))?;
        let names = folder.flatten().map(|entry| entry.file_name());
        let count = names.filter(|name| name.to_string_lossy().starts_with("tx-")).count();
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// The name of the interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Where the queues of this process are.
    pub fn own(&self) -> TapQueues {
        TapQueues { first: to_u32(self.fillers.len()), count: self.count }
    }

    /// What the interface is there by, though the queues of this process close.
    pub fn holder(&self) -> BorrowedFd<'_> {
        self.holder.as_fd()
    }

    /// Everything comes to this process.
    pub fn to_own(&self) -> io::Result<()> {
        self.set(&self.to_own)
    }

    /// Everything comes back to the process that had queues before this one.
    pub fn to_before(&self) -> io::Result<()> {
        self.set(&self.to_before)
    }

    /// The next process has all of its queues, and nothing comes to them yet. They get the places of the fillers, if these are
    /// as many. Then the fillers are behind everything.
    ///
    /// # Errors
    ///
    /// The kernel's, or another program has queues. The next process must not take over then.
    pub fn make_room(&mut self) -> io::Result<()> {
        let TapQueues { first, count } = self.own();
        let queues = Self::queues(&self.interface)?;
        let (is_alone, has_fillers) = (queues == first + count, queues > 2 * (first + count));
        if first == 0 || is_alone || has_fillers {
            return Ok(());
        }
        if queues != 2 * first + count {
            return Err(io::Error::other(OF_OTHERS));
        }
        let is_moved = self.move_fillers();
        // If the next process ended meanwhile, queues of this one were moved.
        if is_moved.is_err() || !Self::queues(&self.interface).is_ok_and(|now| now == queues) {
            self.close_fillers()?;
        }
        is_moved
    }

    fn move_fillers(&self) -> io::Result<()> {
        self.fillers.iter().try_for_each(|filler| set_attached(filler, false))?;
        self.fillers.iter().try_for_each(|filler| set_attached(filler, true))
    }

    /// No other process has queues. Where numbers of queues have changed again and again there may be many fillers: they go. A
    /// frame that is on its way at that moment may go too.
    pub fn be_alone(&mut self) -> io::Result<()> {
        if self.own().first > MOST_FILLERS {
            self.close_fillers()?;
        }
        self.to_own()
    }

    /// The kernel moves the queues of this process to the places of the fillers, which are the first ones. The first filler that
    /// closes is at place 0, and the last queue is moved there. What is steered to a place behind the last one goes to that
    /// place less their number: to the queue that was moved. So it is until all queues are moved.
    fn close_fillers(&mut self) -> io::Result<()> {
        if self.fillers.is_empty() {
            return Ok(());
        }
        for _ in 0..self.count {
            self.fillers.pop();
        }
        std::mem::swap(&mut self.to_own, &mut self.to_first);
        let steered = self.to_own();
        while self.fillers.pop().is_some() {}
        steered
    }

    fn set(&self, program: &OwnedFd) -> io::Result<()> {
        let program = program.as_raw_fd();
        // SAFETY: the queue is open, and the number outlives the call.
        let code =
            unsafe { libc::ioctl(self.holder.as_raw_fd(), TUNSETSTEERINGEBPF, &raw const program) };
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

/// From place 0 on, so that the fillers of the next process come to be in the same order.
impl Drop for TapSteering {
    fn drop(&mut self) {
        while self.fillers.pop().is_some() {}
    }
}

/// Another queue of the interface of `queue`, the last one.
fn another(queue: &OwnedFd) -> io::Result<OwnedFd> {
    let mut request = request_of(queue)?;
    let other = device()?.into();
    // The interface takes the kind of headers of the queue that came last, so it has to be that of the others.
    request.ifr_ifru.ifru_flags = to_flags(flags_of(&request) & KIND)?;
    ask(&other, TUNSETIFF, &mut request)?;
    Ok(other)
}

/// Has nothing come to a queue any more, or makes it the last one again.
fn set_attached(queue: &OwnedFd, is_attached: bool) -> io::Result<()> {
    let mut request = request_of(queue)?;
    let flag = if is_attached { libc::IFF_ATTACH_QUEUE } else { libc::IFF_DETACH_QUEUE };
    request.ifr_ifru.ifru_flags = to_flags(flag)?;
    ask(queue, TUNSETQUEUE, &mut request)
}

fn ask(queue: &OwnedFd, what: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: the queue is open, and the request is an `ifreq` that outlives the call.
    let code = unsafe { libc::ioctl(queue.as_raw_fd(), what, &raw mut *request) };
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn to_flags(flags: c_int) -> io::Result<libc::c_short> {
    libc::c_short::try_from(flags).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// The interface of a queue. `None`: it is detached.
fn name_of(queue: RawFd) -> Option<String> {
    let request = request_of(&queue).ok()?;
    (flags_of(&request) & libc::IFF_DETACH_QUEUE == 0).then(|| name_in(&request))
}

/// A program that names one of these queues, the same for all frames of a flow.
///
/// The kernel's own hash (`skb->hash`) is zero for what a socket sends that is not connected, and a program of this type cannot
/// have it computed. So it is made of the sender's address and of the ports. One that ends before
/// them goes to a queue by its length.
fn program(TapQueues { first, count }: TapQueues) -> io::Result<OwnedFd> {
    // Loads from the frame take its `sk_buff` from r6, and put a number into r0.
    let half = |at| instruction(0x28, (0, 0), 0, at);
    let word = |at| instruction(0x20, (0, 0), 0, at);
    let len = || instruction(0x61, (0, 6), 0, 0); // the first field of an `__sk_buff`
    let code = [
        instruction(0xbf, (6, 1), 0, 0),            // r6 = r1
        len(),                                      // r0 = the length
        instruction(0xa5, (0, 0), 14, 38),          // if r0 < 38, skip 14
        half(12),                                   // the protocol
        instruction(0x15, (0, 0), 4, IPV6),         // if r0 == IPV6, skip 4
        word(26),                                   // the sender over IPv4
        instruction(0xbc, (7, 0), 0, 0),            // w7 = w0
        word(34),                                   // the ports, if there are no options
        instruction(0x05, (0, 0), 5, 0),            // skip 5
        len(),                                      // r0 = the length
        instruction(0xa5, (0, 0), 6, 58),           // if r0 < 58, skip 6
        word(34),                                   // the last word of the sender over IPv6
        instruction(0xbc, (7, 0), 0, 0),            // w7 = w0
        word(54),                                   // the ports
        instruction(0xac, (0, 7), 0, 0),            // w0 ^= w7
        instruction(0x24, (0, 0), 0, GOLDEN_RATIO), // w0 *= GOLDEN_RATIO
        instruction(0x74, (0, 0), 0, 16),           // w0 >>= 16
        instruction(0x94, (0, 0), 0, count.max(1)), // w0 %= count
        instruction(0x04, (0, 0), 0, first),        // w0 += first
        instruction(0x95, (0, 0), 0, 0),            // exit
    ];
    let mut attributes = Attributes::new()
        .with(0, &SOCKET_FILTER.to_ne_bytes())
        .with(4, &to_u32(code.len()).to_ne_bytes())
        .with_address_of(8, code.as_flattened().as_ptr())
        .with_address_of(16, c"Dual MIT/GPL".as_ptr().cast());
    // SAFETY: the code and the licence outlive the call.
    let number = unsafe { bpf(PROGRAM_LOAD, &mut attributes) }?;
    // SAFETY: the kernel has just made it.
    Ok(unsafe { descriptor(number) })
}

/// An instruction: its code, its registers (destination, source), how far it jumps, and its number (linux/bpf.h).
fn instruction(
    code: u8,
    (destination, source): (u8, u8),
    jump: i16,
    number: u32,
) -> [u8; INSTRUCTION] {
    // Two bit fields of a byte, whose order is that of the processor.
    let registers = match cfg!(target_endian = "little") {
        true => source << 4 | destination,
        false => destination << 4 | source,
    };
    let ([jump0, jump1], [n0, n1, n2, n3]) = (jump.to_ne_bytes(), number.to_ne_bytes());
    [code, registers, jump0, jump1, n0, n1, n2, n3]
}

#[cfg(test)]
mod tests;
