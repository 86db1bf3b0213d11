//! Random numbers of the operating system, many at a time. A UDP port and an id are drawn for every query, and a system
//! call for each would cost more than the query. What waits here is as unpredictable as what the system gives, and every
//! byte is used once.

use std::io;

use pmdns_config::narrow::low_u16;
use pmdns_resolver::Random;
use pmdns_stages::query_sources::FIRST_PORT;

/// Bytes fetched at a time: enough for some 200 queries.
const STORE: usize = 4096;

/// A source that asks the operating system once in [`STORE`] bytes.
pub fn random() -> Random {
    Random::with_store(STORE, fill)
}

/// A UDP port from [`FIRST_PORT`] to 65535, all equally likely (RFC 6056 section 3.2).
pub(super) fn port_of(random: u32) -> u16 {
    let ports = u64::from(u16::MAX - FIRST_PORT) + 1;
    FIRST_PORT + low_u16((u64::from(random) * ports) >> 32)
}

fn fill(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(|error| io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_bytes_are_given_out_twice() {
        let mut random = random();
        let drawn: HashSet<[u8; 12]> = (0..2000).map(|_| random.bytes().unwrap()).collect();
        assert_eq!(drawn.len(), 2000);
        let [zeros, long]: [[u8; STORE + 1]; 2] = std::array::from_fn(|_| random.bytes().unwrap());
        assert!(zeros != long && zeros.iter().filter(|byte| **byte == 0).count() < 64);
    }

    #[test]
    fn every_unprivileged_port_may_be_drawn_and_no_other() {
        assert_eq!(port_of(0), FIRST_PORT);
        assert_eq!(port_of(u32::MAX), u16::MAX);
        let mut seen = vec![false; 1 << 16];
        for step in 0..1 << 20 {
            seen[usize::from(port_of(step << 12))] = true;
        }
        assert!(seen[usize::from(FIRST_PORT)..].iter().all(|drawn| *drawn));
    }
}
