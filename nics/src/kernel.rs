//! The kernel's end of a port: an interface of the kernel that stands for the port. Frames for the host are written to it,
//! and frames of the host are read from it.
//!
//! A [`Tap`](crate::Tap) is one on any machine. One over vhost-net would be another.

use std::io;
use std::time::Duration;

/// One interface of the kernel. It belongs to one thread.
pub trait KernelEnd: Send {
    /// Reads a frame that the kernel sends into `buffer`, and returns its length. Of a frame that is longer than the buffer
    /// the rest is lost.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`]: there is none. Never waits.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Hands a whole frame to the kernel: with its tags, with all checksums, without the FCS. Never waits.
    ///
    /// # Errors
    ///
    /// The kernel did not take it.
    fn write(&mut self, frame: &[u8]) -> io::Result<()>;

    /// Tells the kernel whether the link is up.
    ///
    /// # Errors
    ///
    /// The kernel does not take the news.
    fn set_link(&mut self, is_up: bool) -> io::Result<()>;

    /// Waits until there is a frame to read, or for so long.
    fn wait(&self, most: Duration);
}
