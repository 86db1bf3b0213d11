//! Test programs that a release build leaves empty, so that `cargo test --release` does not pass without a word.

use crate::files::files;

/// Test programs whose clock is stepped, which takes debug assertions. The reason below names them.
const EMPTY: [&str; 6] = [
    "bench/tests/allocations.rs",
    "pipeline/engine/tests/port/main.rs",
    "pipeline/engine/tests/scenarios/main.rs",
    "pipeline/engine/tests/slowpath/main.rs",
    "pipeline/tests/reload.rs",
    "pipeline/tests/simulator/main.rs",
];

#[test]
#[cfg_attr(
    not(debug_assertions),
    ignore = "NOTHING RAN of allocations, port, scenarios, slowpath, reload, simulator: no clock to step in a release build"
)]
fn programs_that_are_empty_in_release_are_named() {
    let files = files();
    let is_empty = |text: &str| text.lines().any(|line| line == "#![cfg(debug_assertions)]");
    let mut empty: Vec<&str> =
        files.iter().filter(|file| is_empty(&file.text)).map(|file| &*file.name).collect();
    empty.sort_unstable();
    assert_eq!(empty, EMPTY, "name them here, and in the reason");
}
