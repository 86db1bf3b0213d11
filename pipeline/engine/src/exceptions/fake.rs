//! A kernel that a test holds.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use pmdns_nics::{Burst, FramePool, KernelEnd, MAX_BURST};

/// The frames that the kernel sends and got, and whether its link is up.
#[derive(Default)]
pub(super) struct Fake {
    pub(super) sends: VecDeque<Vec<u8>>,
    pub(super) got: Vec<Vec<u8>>,
    pub(super) link: Option<bool>,
    pub(super) error: Option<i32>,
    /// How many frames it takes from now on; `None`: all.
    pub(super) room: Option<usize>,
}

impl Fake {
    fn check(&self) -> io::Result<()> {
        self.error.map_or(Ok(()), |error| Err(io::Error::from_raw_os_error(error)))
    }
}

impl KernelEnd for Fake {
    fn receive(&mut self, pool: &FramePool, burst: &mut Burst, limit: usize) -> io::Result<usize> {
        self.check()?;
        let mut too_long = 0;
        for _ in 0..limit.min(self.sends.len()) {
            let Some(mut frame) = pool.take() else { break };
            let sent = self.sends.pop_front().unwrap_or_default();
            if frame.resize(sent.len()).is_err() {
                too_long += 1;
                continue;
            }
            frame.bytes_mut().copy_from_slice(&sent);
            burst.push(frame);
        }
        Ok(too_long)
    }

    fn transmit(&mut self, burst: &mut Burst) -> io::Result<()> {
        self.check()?;
        let taken = burst.len().min(self.room.unwrap_or(MAX_BURST));
        self.room = self.room.map(|room| room - taken);
        self.got.extend(burst.drain(..taken).map(|frame| frame.bytes().to_vec()));
        if burst.is_empty() { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    fn set_link(&mut self, is_up: bool) -> io::Result<()> {
        self.link = Some(is_up);
        Ok(())
    }

    fn wait(&self, _most: Duration) {}
}
