//! Traffic for the benches: queries over many names, seeded, so that two runs see the same.

use std::io::{self, Write};

use pmdns_config::narrow::{low_u16, to_u8, to_u16, to_usize};
use pmdns_stages::cache::{Entry, EntryParts, Key};
use pmdns_stages::testing::{OUR_IPV4, QueryFrame, name_of, query};
use pmdns_stages::wire::dns::{CLASS_IN, Rcode};
use pmdns_stages::wire::name::Seed;

/// How skewed the Zipf traffic is.
pub const ZIPF_EXPONENT: f64 = 0.9;

/// TTL of the answers.
const TTL: u32 = 86_400;

/// Name number `number` of the generated zone.
pub fn host(number: usize) -> String {
    format!("host{number:07}.example.")
}

/// Writes the zone that has `names` names, and below `miss.example.` every other.
pub fn write_zone(mut zone: impl Write, names: usize) -> io::Result<()> {
    writeln!(zone, "$ORIGIN example.\n$TTL 86400\n@ SOA ns host 1 3600 900 604800 60\n@ NS ns")?;
    for name in 0..names {
        writeln!(zone, "host{name:07} A 192.0.2.{}", name % 256)?;
    }
    writeln!(zone, "ns A 127.0.0.1\n*.miss A 192.0.2.1")
}

/// Which of `names` names is asked for as number `index`. A fixed odd multiplier visits every name, in an order no
/// prefetcher guesses.
pub fn scattered(index: usize, names: usize) -> usize {
    index.wrapping_mul(0x9e37_79b1) % names
}

/// Query number `index` of `names` names, from one of 200 clients.
pub fn numbered_query(index: usize, names: usize) -> QueryFrame {
    QueryFrame {
        name: name_of(&host(scattered(index, names))),
        id: low_u16(index as u64),
        source: vec![10, 77, 0, 3 + to_u8(index % 200)],
        ..query("x. A")
    }
}

/// Name number `number` in wire format: what [`numbered_query`] asks for.
pub(crate) fn name_number(number: usize) -> [u8; 21] {
    let mut name = *b"\x0bhost0000000\x07example\0";
    let mut rest = number;
    for digit in name[5..12].iter_mut().rev() {
        *digit = b'0' + to_u8(rest % 10);
        rest /= 10;
    }
    name
}

/// The cached answer to name number `number`, one A record, made without a message: millions are needed.
pub fn entry_number(number: usize, seed: Seed) -> Entry {
    let name = name_number(number);
    let key = Key { name: &name, qtype: 1, qclass: CLASS_IN, flags: 0 };
    let mut body = *b"\xc0\x0c\0\x01\0\x01\0\0\0\0\0\x04\xc0\0\x02\x01";
    body[6..10].copy_from_slice(&TTL.to_be_bytes());
    Entry::new(&EntryParts {
        hash: key.hash(seed, seed.hash(&name)),
        key,
        learnt: 0,
        expires: TTL,
        rcode: Rcode::NOERROR,
        flags: 0,
        counts: [1, 0, 0],
        body: &body,
        optional_at: to_u16(body.len()),
        ttls: &[6],
    })
}

/// Random numbers that are the same in every run (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence with this number.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[inline]
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next number below `limit`.
    #[inline]
    pub fn below(&mut self, limit: usize) -> usize {
        to_usize(((u128::from(self.number()) * limit as u128) >> 64) as u64)
    }
}

/// Which of many names is asked for how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// All alike.
    Uniform,
    /// Name number n about n^-0.9 as often as the first.
    Zipf,
}

impl Spread {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
        }
    }

    /// `count` draws of a name number below `names`.
    pub fn draw(self, names: usize, count: usize) -> Vec<usize> {
        let mut random = Random::new(names as u64);
        match self {
            Self::Uniform => (0..count).map(|_| random.below(names)).collect(),
            Self::Zipf => {
                let mut sum = 0.0;
                let weights = (1..=names).map(|rank| (rank as f64).powf(-ZIPF_EXPONENT));
                let upto: Vec<f64> = weights
                    .map(|weight| {
                        sum += weight;
                        sum
                    })
                    .collect();
                let whole = sum / (1_u64 << 53) as f64;
                (0..count)
                    .map(|_| (random.number() >> 11) as f64 * whole)
                    .map(|at| upto.partition_point(|upto| *upto < at).min(names - 1))
                    // The frequent names are not neighbours.
                    .map(|rank| scattered(rank, names))
                    .collect()
            }
        }
    }
}

/// Frames of queries for names by number, all of one length, from 200 clients.
pub fn query_frames(numbers: &[usize]) -> Vec<Vec<u8>> {
    let frame = |(index, number): (usize, &usize)| {
        let name = name_number(*number).to_vec();
        QueryFrame { name, ..numbered_query(index, 1) }.frame_bytes()
    };
    numbers.iter().enumerate().map(frame).collect()
}

/// An ARP request for our address.
pub fn arp_request() -> Vec<u8> {
    let client = [2, 0, 0, 0, 0, 0xc1];
    let mut frame = [[0xff; 6], client].concat();
    frame.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend_from_slice(&client);
    frame.extend_from_slice(&[10, 77, 0, 1]);
    frame.extend_from_slice(&[0; 6]);
    frame.extend_from_slice(&OUR_IPV4);
    frame.resize(60, 0);
    frame
}

#[cfg(test)]
mod tests {
    use pmdns_stages::testing::entry_of;

    use super::*;

    #[test]
    fn the_short_way_to_an_entry_makes_the_same_entry() {
        let seed = Seed::new([7; 16]);
        for number in [0, 1, 42, 9_999_999] {
            let asked =
                QueryFrame { name: name_of(&format!("host{number:07}.example.")), ..query("x. A") };
            let long = entry_of(&asked, &[(0, 1, TTL, vec![192, 0, 2, 1])], 0, seed);
            assert_eq!(entry_number(number, seed), long);
        }
    }

    #[test]
    fn zipf_draws_the_first_name_most_often() {
        let draws = Spread::Zipf.draw(1000, 100_000);
        let count = |name: usize| draws.iter().filter(|draw| **draw == name).count();
        // The sum of n^-0.9 over 1000 names is 10.5.
        assert!((8_500..10_500).contains(&count(0)), "{}", count(0));
        assert!(draws.iter().all(|draw| *draw < 1000));
    }
}
