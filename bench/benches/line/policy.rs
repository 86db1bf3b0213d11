//! What rules cost hits that none of them is about: a table of turns under rules beside turns without any.
//!
//! Both take turns, a while each, and each round gives a ratio.

use std::io;

use pmdns_bench::rules::Rules;
use pmdns_bench::traffic::{Spread, query_frames};
use pmdns_bench::{RigFeed, short};

const BATCH: usize = 32;
/// Names that are asked for, and how.
const ASKED: [(usize, Spread); 4] = [
    (1_000, Spread::Uniform),
    (10_000, Spread::Uniform),
    (1_000_000, Spread::Zipf),
    (1_000_000, Spread::Uniform),
];
/// Queries before they repeat.
const QUERIES: usize = 400_000;
/// How often the two take turns.
const ROUNDS: usize = 21;
/// Turns of each in a round.
const TURNS: usize = 4_000;

/// What is configured, and how.
type Set = (&'static str, fn() -> io::Result<Rules>);

const SETS: [Set; 6] = [
    ("nothing", Rules::nothing),
    ("list of 100k", || Rules::list(100_000)),
    ("list of 1M", || Rules::list(1_000_000)),
    ("list of 10M", || Rules::list(10_000_000)),
    ("everything, 100k", || Rules::everything(100_000)),
    ("everything, 1M", || Rules::everything(1_000_000)),
];

#[expect(clippy::print_stderr, reason = "a bench reports to its terminal")]
pub(crate) fn report() {
    eprintln!("line/policy: cycles a packet, all hits, beside the same without configured rules");
    for (name, rules) in SETS {
        let rules = rules().expect("there is room for the rules' files");
        for (asked, spread) in ASKED {
            let queries = query_frames(&spread.draw(asked, QUERIES.min(asked * 8)));
            let mut base = RigFeed::new("", asked, queries.clone(), BATCH);
            let mut feed = RigFeed::new(&rules.settings, asked, queries, BATCH);
            base.cycles(TURNS, || ());
            feed.cycles(TURNS, || ());
            let mut rounds: Vec<_> = (0..ROUNDS)
                .map(|_| [base.cycles(TURNS, || ()), feed.cycles(TURNS, || ())])
                .collect();
            let ratio = |[base, with]: &[f64; 2]| with / base;
            rounds.sort_by(|one, other| ratio(one).total_cmp(&ratio(other)));
            let [base, with] = rounds[ROUNDS / 2];
            eprintln!(
                "  {name:<17} {:>4} names asked for, {:<7}: {base:>6.1} -> {with:>6.1}  {:+.1} % ({:+.1} to {:+.1})",
                short(asked),
                spread.name(),
                (with / base - 1.0) * 100.0,
                (ratio(&rounds[0]) - 1.0) * 100.0,
                (ratio(&rounds[ROUNDS - 1]) - 1.0) * 100.0,
            );
            crate::meters::print_meters(&feed, "under rules");
        }
    }
}
