//! Where code of data cores may change a word that other cores change. Each such place is a row here, with the reason why no
//! flood makes it frequent. All else is counted in the core, or in a cache line of its own.
//!
//! A store to a line of one's own is not seen here: types that have such lines say so by their alignment, and test it.

use crate::files::files;
use crate::shared::code;

/// The folders whose code runs on data cores. What streams and the slow path do is not here.
const FOLDERS: [&str; 4] = [
    "stages/src/",
    "pipeline/engine/src/",
    "pipeline/insight/src/records/",
    "pipeline/insight/src/capture/",
];

/// Files with the number of such places, and why they are rare.
const FILES: [(&str, usize, &str); 7] = [
    (
        "stages/src/fair_rate.rs",
        1,
        "only for what passes, which the rate bounds; refusals only read",
    ),
    ("stages/src/query_sources.rs", 1, "slow path threads: a query claims its UDP port"),
    ("stages/src/exceptions/peers.rs", 1, "a new session of the kernel with a router"),
    ("stages/src/next_hop/table.rs", 1, "a next hop that somebody doubts"),
    ("pipeline/engine/src/clock.rs", 1, "the clock of tests"),
    ("pipeline/engine/src/news.rs", 4, "a port comes or goes"),
    ("pipeline/engine/src/exceptions/thread.rs", 2, "the thread of a TAP"),
];

/// Whether a line changes a word in one step, or imports what does.
fn changes_a_word(line: &str) -> bool {
    let one_step = [".fetch_", ".compare_exchange"].iter().any(|call| line.contains(call));
    let swap = line.contains(".swap(") && line.contains("Ordering::");
    one_step || swap || line.contains("use pmdns_counters::{add")
}

#[test]
fn code_of_data_cores_changes_words_of_other_cores_only_where_a_row_says_so() {
    let mut found: Vec<(String, usize)> = files()
        .iter()
        .filter(|file| {
            file.is_product() && FOLDERS.iter().any(|folder| file.name.starts_with(folder))
        })
        .map(|file| {
            let code = code(&file.text);
            (file.name.clone(), code.lines().filter(|line| changes_a_word(line)).count())
        })
        .filter(|(_, places)| *places > 0)
        .collect();
    let mut rows = FILES.map(|(name, places, _)| (name.to_owned(), places)).to_vec();
    found.sort();
    rows.sort();
    assert_eq!(found, rows, "count in the core instead, or add a row with the reason");
}

#[test]
fn a_change_in_one_step_is_seen() {
    for line in ["x.fetch_add(1, Ordering::Relaxed);", "x.swap(false, Ordering::Relaxed)"] {
        assert!(changes_a_word(line), "{line}");
    }
    for line in [
        "self.prefetch_next(1);",
        "rules.swap(0, 1);",
        "x.store(x.load(Ordering::Relaxed) + 1, Ordering::Relaxed);",
    ] {
        assert!(!changes_a_word(line), "{line}");
    }
}
