//! What the client table costs hits: a table of turns with it beside turns without, over the same frames.
//!
//! Both take turns, a while each, and each round gives a difference.

use pmdns_bench::RigFeed;
use pmdns_bench::traffic::{Random, numbered_query};
use pmdns_config::Prefix;
use pmdns_config::narrow::low_u32;

const BATCH: usize = 32;
const NAMES: usize = 1_000;
/// Queries before they repeat, each of a random client.
const QUERIES: usize = 400_000;
const ROUNDS: usize = 21;
/// Turns of each in a round.
const TURNS: usize = 4_000;
/// Clients, from 10.0.0.0 on.
const CLIENTS: u32 = 1_000_000;

/// What is in the table, as lengths of prefixes: of each as many as the clients have, up to the size of the table.
const SETS: [(&str, &[u8]); 4] = [
    ("an empty table", &[]),
    ("a million /32", &[32]),
    ("/32 and /24, of others", &[132, 124]),
    ("a million /32, /24 and /16", &[32, 24, 16]),
];

#[expect(clippy::print_stderr, reason = "a bench reports to its terminal")]
pub(crate) fn report() {
    eprintln!(
        "line/clients: cycles a packet, all hits, of a million clients, beside the same without a table"
    );
    let mut random = Random::new(1);
    let frames: Vec<Vec<u8>> = (0..QUERIES)
        .map(|index| {
            let mut query = numbered_query(index, NAMES);
            query.source =
                address(low_u32(random.below(CLIENTS as usize) as u64)).octets().to_vec();
            query.frame_bytes()
        })
        .collect();
    for (name, lengths) in SETS {
        let mut base = RigFeed::new("", NAMES, frames.clone(), BATCH);
        let settings = "[clients]\nmax_entries = 1500000\n";
        let mut feed = RigFeed::new(settings, NAMES, frames.clone(), BATCH);
        let writer = feed.rig.clients.as_mut().expect("there is a table");
        for length in lengths {
            // Those of others stand beside the clients, in networks that nobody asks from.
            let (length, first) =
                if *length > 32 { (*length - 100, 1 << 24) } else { (*length, 0) };
            for number in (0..CLIENTS).step_by(1 << (32 - length)) {
                let prefix = Prefix { network: address(first + number).into(), length };
                writer.set(&prefix, 0).expect("the table has room");
            }
        }
        base.cycles(TURNS, || ());
        feed.cycles(TURNS, || ());
        let mut rounds: Vec<_> =
            (0..ROUNDS).map(|_| [base.cycles(TURNS, || ()), feed.cycles(TURNS, || ())]).collect();
        rounds.sort_by(|one, other| (one[1] - one[0]).total_cmp(&(other[1] - other[0])));
        let [base, with] = rounds[ROUNDS / 2];
        let [least, most] = [0, ROUNDS - 1].map(|at| rounds[at][1] - rounds[at][0]);
        eprintln!(
            "  {name:<28} {base:>6.1} -> {with:>6.1}  {:+.1} ({least:+.1} to {most:+.1})",
            with - base
        );
        crate::meters::print_meters(&feed, "with the table");
    }
}

fn address(number: u32) -> std::net::Ipv4Addr {
    (0x0a00_0000 + number).into()
}
