//! Random numbers: from the operating system, or from a seed in tests.

use std::fmt;
use std::io;

use pmdns_config::limits::MAX_QUERIES_PER_PORT;

use crate::upstreams::letter_case::LetterCase;
use crate::upstreams::udp_batch::Ids;

/// Fills bytes with unpredictable values.
type Fill = dyn FnMut(&mut [u8]) -> io::Result<()> + Send;

/// A source of random numbers. An error comes from the operating system: it has no entropy.
pub struct Random {
    fill: Box<Fill>,
    /// Bytes that have been drawn ahead, and how many of them have been given out.
    store: Box<[u8]>,
    used: usize,
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}

impl Random {
    /// A source that takes its bytes from `fill`.
    pub fn new(fill: impl FnMut(&mut [u8]) -> io::Result<()> + Send + 'static) -> Self {
        Self::with_store(0, fill)
    }

    /// The same, which takes so many bytes at a time. Every byte is given out once.
    pub fn with_store(
        bytes: usize,
        fill: impl FnMut(&mut [u8]) -> io::Result<()> + Send + 'static,
    ) -> Self {
        Self { fill: Box::new(fill), store: vec![0; bytes].into(), used: bytes }
    }

    /// `LEN` random bytes.
    pub fn bytes<const LEN: usize>(&mut self) -> io::Result<[u8; LEN]> {
        if self.store.len() < LEN {
            let mut bytes = [0; LEN];
            (self.fill)(&mut bytes)?;
            return Ok(bytes);
        }
        if self.store.len() - self.used < LEN {
            (self.fill)(&mut self.store)?;
            self.used = 0;
        }
        let taken = self.store[self.used..].first_chunk_mut::<LEN>();
        self.used += LEN;
        let taken = taken.expect("so many are left");
        Ok(std::mem::replace(taken, [0; LEN]))
    }

    /// An id, or another 16 bits.
    pub fn u16(&mut self) -> io::Result<u16> {
        self.bytes().map(u16::from_be_bytes)
    }

    /// A random letter case for a name.
    pub(crate) fn letter_case(&mut self) -> io::Result<LetterCase> {
        self.bytes().map(|bytes| LetterCase::new(u64::from_be_bytes(bytes)))
    }

    /// Ids for the queries of one batch, all different. A batch has at most [`MAX_QUERIES_PER_PORT`].
    pub fn ids(&mut self, queries: usize) -> io::Result<Ids> {
        let mut ids = Ids::new();
        while ids.len() < queries.min(MAX_QUERIES_PER_PORT) {
            let id = self.u16()?;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        Ok(ids)
    }
}
