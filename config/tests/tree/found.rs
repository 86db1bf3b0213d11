//! Holds docs/found.md to the code: each fault that was found has one row, and each row a test that is there, or a reason.

use std::collections::BTreeMap;
use std::fs;

use crate::files::root;

const PAGE: &str = include_str!("../../../docs/found.md");

/// The faults by kind, as the page names them: how many of each, or their letters.
fn names() -> Vec<String> {
    let numbered =
        |kind: &'static str, count: usize| (1..=count).map(move |number| format!("{kind}{number}"));
    let lettered = |letters: &'static str| letters.chars().map(|letter| format!("attack {letter}"));
    let all = numbered("F", 12).chain(numbered("files ", 30)).chain(lettered("ABCDEFGHJKLMNOPQR"));
    all.chain(numbered("D", 28)).chain(numbered("gate ", 4)).collect()
}

/// The rows: the name of the fault, what was done, and its tests.
fn rows() -> BTreeMap<&'static str, Vec<(&'static str, &'static str)>> {
    let mut rows = BTreeMap::<_, Vec<_>>::new();
    for line in PAGE.lines().filter_map(|line| line.strip_prefix("| ")) {
        let cells: Vec<&str> = line.trim_end_matches(" |").split(" | ").map(str::trim).collect();
        if let [name, fix, test] = cells[..]
            && name != "fault"
            && !name.starts_with("---")
        {
            rows.entry(name).or_default().push((fix, test));
        }
    }
    rows
}

#[test]
fn every_fault_that_was_found_has_a_row() {
    let rows = rows();
    let missing: Vec<String> =
        names().into_iter().filter(|name| !rows.contains_key(&**name)).collect();
    assert!(missing.is_empty(), "docs/found.md has no row for {missing:?}");
    let twice: Vec<_> =
        rows.iter().filter(|(_, rows)| rows.len() > 1).map(|(name, _)| name).collect();
    assert!(twice.is_empty(), "docs/found.md has several rows for {twice:?}");
}

/// A test is written as `` `path` `name` ``; several by commas.
#[test]
fn every_row_names_tests_that_exist_or_says_why_not() {
    let mut wrong = Vec::new();
    for (name, row) in
        rows().iter().flat_map(|(name, rows)| rows.iter().map(move |row| (name, row)))
    {
        let (fix, tests) = row;
        if fix.starts_with("refused: ") {
            continue;
        }
        let words: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        if words.is_empty() || !words.len().is_multiple_of(2) {
            wrong.push(format!("{name}: `{tests}` is no list of paths and tests"));
        }
        for pair in words.chunks_exact(2) {
            let text = fs::read_to_string(root().join(pair[0])).unwrap_or_default();
            let is_there = [format!("fn {}(", pair[1]), format!("{}() {{", pair[1])];
            if !is_there.iter().any(|call| text.contains(call)) {
                wrong.push(format!("{name}: {} has no {}", pair[0], pair[1]));
            }
        }
    }
    assert!(wrong.is_empty(), "rows of docs/found.md: {wrong:#?}");
}
