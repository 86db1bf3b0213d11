//! How many datagrams a blind forger needs in each setting: calculated, and measured on the code that sorts replies.
//!
//! The forger knows the question and the upstream, and guesses the rest anew for each datagram. The whole space is too
//! large to try. So he is told all but a few bits of each secret, and his share of hits is compared with the calculated
//! one. `cargo test -p pmdns --lib odds -- --nocapture` prints the table of docs/security.md.

use std::rc::Rc;
use std::time::Duration;

use pmdns_stages::testing::query;
use pmdns_stages::wire::dns::{flag, header};
use pmdns_stages::wire::edns::{OPT_LEN, OPTION_HEAD_LEN};
use pmdns_stages::wire::put16;

use crate::questions::pending::Ticket;
use crate::questions::plan::{Attempt, Transport};
use crate::questions::question::Question;
use crate::upstreams::cookies::{ClientCookie, CookieJar};
use crate::upstreams::letter_case::LetterCase;
use crate::upstreams::query::Query;
use crate::upstreams::query::tests::question;
use crate::upstreams::udp_batch::{Received, UdpBatch, UdpQuery};

/// Ports and ids that a query may have.
const PORTS: f64 = 64_512.0;
const IDS: f64 = 65_536.0;
/// Bits of each secret that the forger of this test is not told.
const PORT_BITS: u32 = 1;
const ID_BITS: u32 = 5;
const COOKIE_BITS: u32 = 2;
/// Datagrams that he sends for each setting.
const DATAGRAMS: u32 = 100_000;

const CLIENT: ClientCookie = [0; 8];

/// One setting that a forger attacks.
struct Setting {
    what: &'static str,
    /// Queries for the question that are under way at once, each from a port of its own.
    targets: usize,
    /// Other queries on the same port.
    company: usize,
    /// The name he forges.
    name: &'static str,
    mix_case: bool,
    cookies: bool,
    is_port_known: bool,
}

const PLAIN: Setting = Setting {
    what: "port and id",
    targets: 1,
    company: 0,
    name: "abcd.example. A",
    mix_case: false,
    cookies: false,
    is_port_known: false,
};

const SETTINGS: [Setting; 10] = [
    Setting { what: "the port is known (a side channel)", is_port_known: true, ..PLAIN },
    PLAIN,
    Setting { what: "31 other queries share the port", company: 31, ..PLAIN },
    Setting { what: "4 variants of the question at once, the most there are", targets: 4, ..PLAIN },
    Setting { what: "the same, each asked 4 times because no reply came", targets: 16, ..PLAIN },
    Setting { what: "64 variants, as a resolver without that bound", targets: 64, ..PLAIN },
    Setting {
        what: "letters mixed, a name of 4 letters",
        name: "abcd. A",
        mix_case: true,
        ..PLAIN
    },
    Setting { what: "the same, 4 variants", name: "abcd. A", mix_case: true, targets: 4, ..PLAIN },
    Setting { what: "the upstream's cookies are known", cookies: true, ..PLAIN },
    Setting { what: "the same, 4 variants", cookies: true, targets: 4, ..PLAIN },
];

/// A small random number generator with a fixed sequence.
struct Random(u64);

impl Random {
    /// `count` random bits (splitmix64).
    fn bits(&mut self, count: u32) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) & ((1 << count) - 1)
    }
}

/// A query for `question`, in a batch with others, on a port that the forger does not know.
struct Target {
    port: u64,
    batch: UdpBatch,
}

impl Setting {
    fn letters(&self) -> u32 {
        let letters = self.name.trim_end_matches(" A").bytes().filter(u8::is_ascii_alphabetic);
        letters.count() as u32
    }

    /// The calculated share of hits, if the forger has to guess among so many ports, ids and cookies.
    fn odds(&self, ports: f64, ids: f64, cookies: f64) -> f64 {
        let ports = if self.is_port_known { 1.0 } else { ports };
        let spellings = if self.mix_case { 2_f64.powi(self.letters() as i32) } else { 1.0 };
        let cookies = if self.cookies { cookies } else { 1.0 };
        self.targets as f64 / (ports * ids * spellings * cookies)
    }

    /// The number of datagrams after which one has hit with a probability of one half.
    fn datagrams_needed(&self) -> f64 {
        std::f64::consts::LN_2 / self.odds(PORTS, IDS, 2_f64.powi(64))
    }

    fn target(&self, question: &Rc<Question>, random: &mut Random) -> Target {
        let mut cookie = CookieJar::default().take(CLIENT, Duration::ZERO);
        cookie.is_expected = true;
        let id = random.bits(ID_BITS) as u16;
        let port = if self.is_port_known { 0 } else { random.bits(PORT_BITS) };
        let in_batch = |(question, id)| UdpQuery {
            ticket: Ticket::NONE,
            question,
            attempt: Attempt { upstream: 0, transport: Transport::Udp, edns: true, late: false },
            id,
            letter_case: self.mix_case.then(|| LetterCase::new(random.bits(63))),
            retry: None,
        };
        let other = |number| {
            let other =
                crate::upstreams::query::tests::question(&query(&format!("n{number}.example. A")));
            (Rc::new(other), id ^ (1 + number as u16))
        };
        let company: Vec<_> = (0..self.company).map(other).collect();
        let queries =
            [(Rc::clone(question), id)].into_iter().chain(company).map(in_batch).collect();
        let cookie = self.cookies.then_some(cookie);
        let mut batch = UdpBatch::new(0, [Duration::ZERO; 3], queries);
        batch.cookie = cookie;
        Target { port, batch }
    }

    /// The measured share of datagrams that are accepted as a reply.
    fn tried_out(&self, random: &mut Random) -> f64 {
        let question = Rc::new(question(&query(self.name)));
        let mut targets: Vec<Target> =
            (0..self.targets).map(|_| self.target(&question, random)).collect();
        let mut hits = 0;
        for _ in 0..DATAGRAMS {
            let (port, datagram) = self.guess(&question, random);
            for target in &mut targets {
                if target.port != port {
                    continue;
                }
                // Either way the query continues elsewhere, and the forger waits for the next one.
                match target.batch.sort(&datagram) {
                    Received::Reply { .. } => hits += 1,
                    Received::CaseMismatch(_) => {}
                    _ => continue,
                }
                *target = self.target(&question, random);
            }
        }
        f64::from(hits) / f64::from(DATAGRAMS)
    }

    /// A forged reply, and the port it is sent to.
    fn guess(&self, question: &Question, random: &mut Random) -> (u64, Vec<u8>) {
        let port = if self.is_port_known { 0 } else { random.bits(PORT_BITS) };
        let id = random.bits(ID_BITS) as u16;
        let letter_case = self.mix_case.then(|| LetterCase::new(random.bits(63)));
        let mut query = Query::new(question, id, letter_case, true);
        let mut cookie = [CLIENT, *b"anything"].concat();
        cookie[0] = random.bits(COOKIE_BITS) as u8;
        query.add_cookie(&cookie);
        let mut forged = query.bytes().to_vec();
        if !self.cookies {
            forged.truncate(forged.len() - OPT_LEN - OPTION_HEAD_LEN - cookie.len());
            put16(&mut forged, header::ARCOUNT, 0);
        }
        put16(&mut forged, header::FLAGS, flag::QR | flag::RD | flag::RA);
        (port, forged)
    }
}

#[test]
fn cve_2025_5994_odds_of_a_blind_forger_are_as_reckoned() {
    println!("| what is to be guessed | datagrams for a chance of one half |\n|---|---|");
    for (seed, setting) in SETTINGS.iter().enumerate() {
        let space = |bits| 2_f64.powi(i32::try_from(bits).unwrap());
        let odds = setting.odds(space(PORT_BITS), space(ID_BITS), space(COOKIE_BITS));
        let tried_out = setting.tried_out(&mut Random(seed as u64));
        let ratio = tried_out / odds;
        println!("| {} | {:.1e} |", setting.what, setting.datagrams_needed());
        // At least a hundred hits are expected. Fewer than one seed in a thousand is so far off.
        assert!((0.7..1.4).contains(&ratio), "{}: {tried_out} for {odds}", setting.what);
    }
}
