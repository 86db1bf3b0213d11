//! The kernel's end of a port: an interface of the kernel that stands for the port. Frames for the host go to it, and
//! frames of the host come from it.
//!
//! A [`Tap`](crate::Tap) is one on any machine. [`VhostTap`](crate::dpdk::VhostTap) is one where the kernel has vhost-net.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::{Burst, FramePool};

/// Frames that an interface over vhost-net can hold in each direction.
pub const KERNEL_DESCRIPTORS: u16 = 256;

/// One interface of the kernel. It belongs to one thread.
pub trait KernelEnd: Send {
    /// Adds up to `limit` frames that the kernel sends to `burst`, in frames of `pool`. Never waits. Returns how many others
    /// were lost, because they are too long for a frame.
    ///
    /// # Errors
    ///
    /// The interface gives nothing. What came before that is in `burst`.
    fn receive(&mut self, pool: &FramePool, burst: &mut Burst, limit: usize) -> io::Result<usize>;

    /// Hands whole frames to the kernel: with their tags, with all checksums, without the FCS. Never waits. What the kernel
    /// does not take stays in `burst`.
    ///
    /// # Errors
    ///
    /// Why the last of those was not taken. [`io::ErrorKind::WouldBlock`]: there is no room now.
    fn transmit(&mut self, burst: &mut Burst) -> io::Result<()>;

    /// Tells the kernel whether the link is up.
    ///
    /// # Errors
    ///
    /// The kernel does not take the news.
    fn set_link(&mut self, is_up: bool) -> io::Result<()>;

    /// Waits for so long, or less if there is something to receive and the interface can tell.
    fn wait(&self, most: Duration);

    /// By what another process can have the interface as well. `None`: no other process can.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
