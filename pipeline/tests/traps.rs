//! `docs/traps.md` names the tests that keep us out of the traps others fell into. Here it is checked that they exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const DOCUMENT: &str = include_str!("../../docs/traps.md");
/// How many traps there are.
const TRAPS: usize = 28;

/// A line of the table: the trap's number, and the tests that guard it.
fn rows() -> Vec<(usize, Vec<&'static str>)> {
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [number, trap, guards] = cells[..] else {
            panic!("three cells are expected in: {line}")
        };
        assert!(trap.ends_with('.'), "the trap is a sentence: {line}");
        let guards = guards.split(", ").collect();
        (number.parse().unwrap_or_else(|_| panic!("a number first: {line}")), guards)
    };
    DOCUMENT.lines().filter(|line| line.starts_with("| ")).skip(1).map(row).collect()
}

#[test]
fn every_trap_has_a_test_and_every_test_its_trap() {
    let tests = tests();
    let rows = rows();
    assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), (1..=TRAPS).collect::<Vec<_>>());
    let mut named = BTreeSet::new();
    for (number, guards) in &rows {
        let prefix = format!("trap_{number:02}_");
        let has_its_own = guards.iter().any(|test| test.trim_matches('`').starts_with(&prefix));
        assert!(has_its_own, "trap {number} has no test of its own");
        for test in guards.iter().map(|test| test.trim_matches('`')) {
            assert!(tests.contains(test), "trap {number}: there is no test `{test}`");
            named.insert(test.to_owned());
        }
    }
    let of_a_trap = tests.iter().filter(|test| test.starts_with("trap_"));
    let unnamed: Vec<_> = of_a_trap.filter(|test| !named.contains(*test)).collect();
    assert_eq!(unnamed, [""; 0], "tests of traps that docs/traps.md does not name");
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
                names.extend(tests_of(&text));
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
