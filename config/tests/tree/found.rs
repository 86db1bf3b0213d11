//! Holds docs/found.md to the code: each fault that was found has one row, and each row a test that is there, or a reason.

use std::collections::BTreeMap;
use std::fs;

use crate::files::root;

const PAGE: &str = include_str!("../../../docs/found.md");
const STEPS: &str = include_str!("../../../scripts/test.sh");

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

/// What the steps of a list of scripts/test.sh do.
fn commands_of(list: &str) -> String {
    let after = |text: &'static str, start: &str| {
        text.split_once(start).unwrap_or_else(|| panic!("{start}")).1
    };
    let steps = after(STEPS, &format!("\n{list}=(")).split(')').next().unwrap_or_default();
    let commands = steps.split(' ').map(|step| {
        let body = after(STEPS, &format!("\n{step}() {{"));
        let end = if body.starts_with('\n') { "\n}" } else { "; }\n" };
        body.split(end).next().unwrap_or_default()
    });
    commands.collect::<Vec<_>>().join("\n") + "\n"
}

/// How a step says that it runs the tests of this file and of no other.
fn told_in_steps(path: &str) -> String {
    let stem = path.rsplit('/').next().and_then(|file| file.split('.').next()).unwrap_or_default();
    match path.rsplit_once('/').map_or("", |(folder, _)| folder) {
        "pipeline/tests/lab" => format!(" --nocapture {stem}::\n"),
        "pipeline/tests/vm" => format!("lab_in_a_machine {stem}\n"),
        _ => format!("{path} "),
    }
}

/// Whether the tests of this file run only when somebody names their step.
fn runs_by_name(path: &str) -> bool {
    let told = told_in_steps(path);
    let gate = commands_of("FAST") + &commands_of("SLOW");
    commands_of("NAMED").contains(&told) && !gate.contains(&told)
}

#[test]
fn steps_that_run_only_by_name_are_known() {
    for path in [
        "scripts/lab-package.sh",
        "scripts/sanitize.sh",
        "scripts/empty-root.sh",
        "pipeline/tests/lab/soak.rs",
        "pipeline/tests/lab/browser.rs",
        "pipeline/tests/vm/bridge.sh",
        "pipeline/tests/vm/vhost.sh",
    ] {
        assert!(runs_by_name(path), "{path}");
    }
    for path in [
        "scripts/instructions.sh",
        "pipeline/tests/lab/sinks.rs",
        "pipeline/tests/lab/console.rs",
        "pipeline/tests/lab/api_schema.rs",
        "pipeline/tests/vm/pci.sh",
        "config/tests/tree/found.rs",
    ] {
        assert!(!runs_by_name(path), "{path}");
    }
}

/// Nobody shall believe that such a test holds a fix each time.
#[test]
fn every_row_says_which_tests_the_gate_does_not_run() {
    for (name, row) in rows() {
        for (_, tests) in row {
            let paths = tests.split('`').skip(1).step_by(4);
            let is_by_name = paths.into_iter().any(runs_by_name);
            assert_eq!(tests.contains("by name"), is_by_name, "{name}: `{tests}`");
        }
    }
}
