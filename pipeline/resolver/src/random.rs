//! Random numbers: the machine's, or in a test those of a seed.

use std::fmt;
use std::io;

use pmdns_config::limits::MAX_QUERIES_PER_PORT;

use crate::upstreams::letter_case::LetterCase;
use crate::upstreams::udp_batch::Ids;

/// Fills bytes with what nobody can foretell.
type Fill = dyn FnMut(&mut [u8]) -> io::Result<()> + Send;

/// A source of random numbers. An error is the machine's: it has no entropy to give.
pub struct Random(Box<Fill>);

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}

impl Random {
    /// One that takes its bytes from `fill`.
    pub fn new(fill: impl FnMut(&mut [u8]) -> io::Result<()> + Send + 'static) -> Self {
        Self(Box::new(fill))
    }

    /// So many random bytes.
    pub fn bytes<const LEN: usize>(&mut self) -> io::Result<[u8; LEN]> {
        let mut bytes = [0; LEN];
        (self.0)(&mut bytes)?;
        Ok(bytes)
    }

    /// An id, or another 16 bits.
    pub fn u16(&mut self) -> io::Result<u16> {
        self.bytes().map(u16::from_be_bytes)
    }

    /// How to write a name.
    pub(crate) fn letter_case(&mut self) -> io::Result<LetterCase> {
        self.bytes().map(|bytes| LetterCase::new(u64::from_be_bytes(bytes)))
    }

    /// Ids for the queries of one batch, all different.
    pub fn ids(&mut self) -> io::Result<Ids> {
        let random: [u8; 2 * MAX_QUERIES_PER_PORT] = self.bytes()?;
        let mut ids = Ids::new();
        for pair in random.as_chunks().0 {
            let mut id = u16::from_be_bytes(*pair);
            while ids.contains(&id) {
                id = self.u16()?;
            }
            ids.push(id);
        }
        Ok(ids)
    }
}
