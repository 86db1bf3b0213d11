//! A kernel that a test holds.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use pmdns_nics::KernelEnd;

/// What the kernel sends and got, and whether its link is up.
#[derive(Default)]
pub(super) struct Fake {
    pub(super) sends: VecDeque<Vec<u8>>,
    pub(super) got: Vec<Vec<u8>>,
    pub(super) link: Option<bool>,
    pub(super) error: Option<i32>,
}

impl Fake {
    fn check(&self) -> io::Result<()> {
        self.error.map_or(Ok(()), |error| Err(io::Error::from_raw_os_error(error)))
    }
}

impl KernelEnd for Fake {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.check()?;
        let frame = self.sends.pop_front().ok_or(io::ErrorKind::WouldBlock)?;
        let len = frame.len().min(buffer.len());
        buffer[..len].copy_from_slice(&frame[..len]);
        Ok(len)
    }

    fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        self.check()?;
        self.got.push(frame.to_vec());
        Ok(())
    }

    fn set_link(&mut self, is_up: bool) -> io::Result<()> {
        self.link = Some(is_up);
        Ok(())
    }

    fn wait(&self, _most: Duration) {}
}
