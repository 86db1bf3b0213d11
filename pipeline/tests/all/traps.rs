//! `docs/traps.md` names the tests for faults of other forwarders, for the duties of a forwarder, and for findings and
//! CVEs. This test checks that they exist, and that the page names all of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const DOCUMENT: &str = include_str!("../../../docs/traps.md");
/// How many traps there are.
const TRAPS: usize = 28;

/// What the second table stands under, and what the third one does.
const OF_A_FORWARDER: &str = "## What Unbound tests of a forwarder";
const FINDINGS: &str = "## Findings and CVEs";

/// How the names begin of tests that the third table has.
const OF_FINDINGS: [&str; 6] = ["audit_", "bound_", "cve_", "difference_", "rustsec_", "tudoor_"];

/// How a test of tokio begins whose clock stands still.
const PAUSED: &str = "#[tokio::test(start_paused = true)]";

/// Versions of libraries below which an advisory holds, by the number of the advisory.
const FLOORS: [(&str, &str, [u32; 3]); 5] = [
    ("h2", "RUSTSEC-2026-0258, 2024-0332, 2024-0003", [0, 4, 16]),
    ("quinn-proto", "RUSTSEC-2026-0185, 2026-0037", [0, 11, 15]),
    ("memmap2", "an unchecked length", [0, 9, 11]),
    ("rustls", "RUSTSEC-2024-0336, 2024-0399", [0, 23, 18]),
    ("ring", "RUSTSEC-2025-0009", [0, 17, 12]),
];

/// A line of a table: what it is about, and the tests that show it.
fn rows(table: &'static str) -> Vec<(&'static str, Vec<&'static str>)> {
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [first, sentence, tests] = cells[..] else {
            panic!("three cells are expected in: {line}")
        };
        assert!(sentence.ends_with('.'), "the second cell is a sentence: {line}");
        (first, tests.split(", ").map(|test| test.trim_matches('`')).collect())
    };
    table.lines().filter(|line| line.starts_with("| ")).skip(1).map(row).collect()
}

/// The three tables.
fn tables() -> [&'static str; 3] {
    let (traps, rest) = DOCUMENT.split_once(OF_A_FORWARDER).expect("the second table's heading");
    let (behaviours, findings) = rest.split_once(FINDINGS).expect("the third table's heading");
    [traps, behaviours, findings]
}

#[test]
fn every_trap_has_a_test_and_every_test_its_trap() {
    let tests = tests();
    let rows = rows(tables()[0]);
    let numbers = (1..=TRAPS).map(|number| number.to_string());
    assert!(rows.iter().map(|row| row.0).eq(numbers), "the traps have their numbers");
    for (number, (_, guards)) in (1..).zip(&rows) {
        let prefix = format!("trap_{number:02}_");
        let has_its_own = guards.iter().any(|test| test.starts_with(&prefix));
        assert!(has_its_own, "trap {number} has no test of its own");
    }
    are_those(&rows, &tests, "trap_");
}

#[test]
fn every_behaviour_of_a_forwarder_has_a_test_and_every_test_its_behaviour() {
    are_those(&rows(tables()[1]), &tests(), "fwd_");
}

#[test]
fn every_finding_has_a_test_and_every_test_its_finding() {
    let (rows, tests) = (rows(tables()[2]), tests());
    for beginning in OF_FINDINGS {
        are_those(&rows, &tests, beginning);
    }
}

#[test]
fn no_library_is_older_than_what_mends_an_advisory() {
    let lock = include_str!("../../../Cargo.lock");
    for (library, advisory, floor) in FLOORS {
        let entry = format!("name = \"{library}\"\nversion = \"");
        let versions: Vec<&str> =
            lock.split(&entry).skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(!versions.is_empty(), "{library} is not used any more: take it off the list");
        for version in versions {
            let parts: Vec<u32> = version.split('.').filter_map(|part| part.parse().ok()).collect();
            assert!(parts.as_slice() >= floor.as_slice(), "{library} {version}: {advisory}");
        }
    }
}

/// Checks that there are the tests of a table, and that it names all whose names begin so.
fn are_those(rows: &[(&str, Vec<&'static str>)], tests: &BTreeSet<String>, beginning: &str) {
    let named: BTreeSet<&str> = rows.iter().flat_map(|(_, tests)| tests).copied().collect();
    let missing: Vec<_> = named.iter().filter(|test| !tests.contains(**test)).collect();
    assert_eq!(missing, [&""; 0], "docs/traps.md names tests that there are not");
    let of_theirs = tests.iter().filter(|test| test.starts_with(beginning));
    let unnamed: Vec<_> = of_theirs.filter(|test| !named.contains(test.as_str())).collect();
    assert_eq!(unnamed, [""; 0], "tests that docs/traps.md does not name");
}

/// The names of all tests of this repository.
fn tests() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders: Vec<PathBuf> =
        ["config", "nics", "stages", "pipeline", "bench"].map(|crate_| root.join(crate_)).into();
    let mut names = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                // Those of tokio are asynchronous functions.
                let text = text.replace("#[tokio::test]", "#[test]").replace("async fn ", "fn ");
                names.extend(tests_of(&text.replace(PAUSED, "#[test]")));
            }
        }
    }
    names
}

/// The names of functions that `#[test]` stands before, with other attributes or comments in between.
fn tests_of(text: &str) -> impl Iterator<Item = String> {
    text.split("#[test]").skip(1).filter_map(|rest| {
        let (before, after) = rest.split_once("fn ")?;
        let is_next = before
            .lines()
            .map(str::trim)
            .all(|line| line.is_empty() || line.starts_with("#[") || line.starts_with("//"));
        let name = after.split('(').next()?;
        is_next.then(|| name.to_owned())
    })
}
