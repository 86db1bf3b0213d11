//! Tests that a release build leaves out, so that `cargo test --release` does not pass without a word.

use crate::files::{File, files};

/// Test programs, modules and tests that take debug assertions, mostly to step a clock; and how the reason below names each.
const LEFT_OUT: [(&str, &str); 13] = [
    ("bench/tests/allocations.rs", "allocations"),
    ("config/src/narrow.rs a_number_that_does_not_fit_is_a_bug", "narrow"),
    ("pipeline/engine/src/clock.rs a_stepped_clock_goes_on_only_when_it_is_told_to", "clock"),
    ("pipeline/engine/src/data_core.rs tests", "data_core"),
    (
        "pipeline/engine/src/snapshot/tests.rs what_is_received_is_taken_in_up_to_a_part_that_is_damaged",
        "snapshot",
    ),
    ("pipeline/engine/tests/all/line/limits.rs", "line/limits"),
    ("pipeline/engine/tests/all/port/mod.rs", "port"),
    ("pipeline/engine/tests/all/scenarios/mod.rs", "scenarios"),
    ("pipeline/engine/tests/all/slowpath/mod.rs", "slowpath"),
    ("pipeline/src/health/checks.rs tests", "health/checks"),
    ("pipeline/src/run/relay.rs tests", "run/relay"),
    ("pipeline/tests/all/reload.rs", "reload"),
    ("pipeline/tests/simulator/main.rs", "simulator"),
];

#[test]
#[cfg_attr(
    not(debug_assertions),
    ignore = "NOTHING RAN of the programs allocations and simulator, \
              of the modules data_core, health/checks, line/limits, port, reload, run/relay, \
              scenarios, slowpath, \
              nor of one test each of clock, narrow, snapshot"
)]
fn tests_that_a_release_leaves_out_are_named() {
    let mut found: Vec<String> = files().iter().flat_map(left_out).collect();
    found.sort_unstable();
    assert_eq!(found, LEFT_OUT.map(|(place, _)| place), "name them here, and in the reason");
    let (_, reason) = include_str!("release.rs").split_once("ignore = \"").expect("the reason");
    let reason = reason.split('"').next().unwrap_or_default();
    let named: Vec<&str> = reason.split([' ', ',']).collect();
    let missing: Vec<_> = LEFT_OUT.iter().filter(|(_, name)| !named.contains(name)).collect();
    assert!(missing.is_empty(), "the reason does not name {missing:?}");
}

/// The program, the modules and the tests of a file that need debug assertions.
fn left_out(file: &File) -> Vec<String> {
    let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
    let needs =
        |line: &str| line.contains("debug_assertions") && !line.contains("not(debug_assertions)");
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| needs(line)) {
        if line.starts_with("#![cfg(") {
            found.push(file.name.clone());
        } else if line.starts_with("#[cfg(") {
            let is_attribute = |line: &&&str| line.starts_with("#[");
            let first = at - lines[..at].iter().rev().take_while(is_attribute).count();
            let count = lines[first..].iter().take_while(is_attribute).count();
            let (attributes, rest) = lines[first..].split_at(count);
            let item = rest.first().and_then(|item| module_or_test(item, attributes));
            found.extend(item.map(|item| format!("{} {item}", file.name)));
        }
    }
    found
}

/// The name of an item, if it is a module or, by its attributes, a test.
fn module_or_test<'a>(item: &'a str, attributes: &[&str]) -> Option<&'a str> {
    let mut words = item.split([' ', '(', ';']);
    let kind = words.find(|word| matches!(*word, "mod" | "fn"))?;
    (kind == "mod" || attributes.contains(&"#[test]")).then(|| words.next())?
}
