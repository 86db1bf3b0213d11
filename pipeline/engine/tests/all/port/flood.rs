//! Forged replies in masses, while thousands of queries wait: who is hurt, and what counts it.

use std::net::SocketAddr;
use std::time::Duration;

use pmdns_stages::query_sources::FIRST_PORT;
use pmdns_stages::wire::dns::header;
use pmdns_stages::wire::{be16, put16};

use super::wired::{TURNS, Wired, reply_to, stranger};

/// Queries that wait.
const QUERIES: usize = 4_000;
/// Slots of each ring: the default.
const RING: u64 = 1_024;
/// Frames that a core takes in a turn: the default.
const BATCH: usize = 32;
const ONE_CORE: &str =
    "[[placement]]\nstages = \"all\"\ncores = [1]\n[slowpath]\nthreads = 1\ndeadline_ms = 5000\n";

/// A line on which so many queries wait.
fn waiting() -> Wired {
    let mut wired = Wired::new(ONE_CORE);
    wired.upstream.keeps = true;
    for _ in 0..QUERIES {
        wired.ask(0);
        wired.turn(0..wired.line.threads(), TURNS);
    }
    wired.settle();
    assert_eq!(wired.under_way().len(), QUERIES);
    wired
}

/// A reply with everything right but the id.
fn with_wrong_id(query: &[u8]) -> Vec<u8> {
    let mut reply = reply_to(query);
    let id = be16(&reply, header::ID).unwrap();
    put16(&mut reply, header::ID, id ^ 0x5555);
    reply
}

/// Forged replies to every UDP port of the query source, once, and all real ones between them. The slow path takes a turn for
/// so many of the core. Returns how many have hit a port at which a query waited.
fn spray(wired: &mut Wired, turns: usize) -> u64 {
    let asked = wired.under_way();
    let (upstream, source) = (asked[0].to, asked[0].from.ip());
    let message = with_wrong_id(&asked[0].message);
    let mut hits = 0;
    for port in FIRST_PORT..=u16::MAX {
        let at = usize::from(port - FIRST_PORT);
        let from = if at % 8 == 0 { stranger() } else { upstream };
        let frame = wired.wire().datagram(from, SocketAddr::new(source, port), &message).unwrap();
        let link = wired.line.link.as_ref().unwrap();
        hits += link.sources.indexes().filter_map(|one| link.sources.owner(one, port)).count();
        wired.line.feed(&frame, 0);
        if at % 16 == 0 {
            wired.upstream.release(1);
        }
        if at % BATCH == 0 {
            let all_turn = (at / BATCH) % turns == turns - 1;
            wired.turn(0..if all_turn { wired.line.threads() } else { 1 }, 1);
        }
    }
    wired.upstream.release(QUERIES);
    hits as u64
}

#[test]
fn a_spray_over_all_ports_hurts_none_of_thousands_of_queries() {
    let mut wired = waiting();
    // A thread that is busy for so long finds its ring half full.
    let hits = spray(&mut wired, 128 / BATCH);
    wired.settle();
    assert!(hits > RING, "more than a ring holds: {hits}");
    assert_eq!(wired.sum(|tally| tally.replies_lost), 0);
    // Between both looks at a port its query may have got its reply.
    let mismatched = wired.mismatched();
    assert!(mismatched <= hits && mismatched > hits / 2, "{mismatched} of {hits}");
    assert_eq!(wired.sum(|tally| tally.queries), QUERIES as u64 + 1, "none is asked again");
    assert_eq!(wired.upstream.connections, 0, "or over TCP");
    wired.finish();
}

#[test]
fn a_thread_that_stands_still_loses_real_replies_like_forged_ones_and_asks_again() {
    let mut wired = waiting();
    spray(&mut wired, usize::MAX);
    wired.upstream.keeps = false;
    wired.settle();
    let answered: u32 = wired.answers.iter().sum();
    let [passed, lost] = [wired.sum(|tally| tally.replies), wired.sum(|tally| tally.replies_lost)];
    assert!(lost > 2 * RING, "{lost}");
    // The newest are dropped, whatever they are.
    let (of_all, of_real) = (
        100 * lost / (passed + lost),
        100 * (QUERIES as u64 - u64::from(answered)) / QUERIES as u64,
    );
    assert!(of_all.abs_diff(of_real) <= 5, "{of_all} % of all, {of_real} % of the real ones");
    // So many are asked again at the same time that some are lost again.
    wired.pass(Duration::from_secs(12));
    assert_eq!(wired.upstream.connections, 0, "they are asked again, and not over TCP");
    wired.finish();
}
