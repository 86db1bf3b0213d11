//! What every file of the tree keeps to: its length, the length of its lines, its ends, and links that lead somewhere.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The longest line of code, in characters. rustfmt leaves comments, texts and scripts as they are.
const MAX_WIDTH: usize = 132;
/// The longest Rust file, in lines, tests included.
const MAX_LINES: usize = 450;
/// Files that are longer, and how long they may be until they are split. Nothing is added here.
const TOO_LONG: [(&str, usize); 11] = [
    ("pipeline/resolver/src/questions/plan.rs", 580),
    ("pipeline/src/engine.rs", 570),
    ("pipeline/tests/simulator/history.rs", 480),
    ("pipeline/tests/slowpath/rig.rs", 500),
    ("pipeline/tests/slowpath/server.rs", 470),
    ("stages/src/cache/entry.rs", 470),
    ("stages/src/cache/tests.rs", 530),
    ("stages/src/parse/tests.rs", 460),
    ("stages/src/policy/rpz.rs", 560),
    ("stages/src/policy/ruleset.rs", 590),
    ("stages/src/policy/tests.rs", 510),
];
/// Folders that hold what programs made, or bytes for fuzzing and replay.
const NOT_OURS: [&str; 5] =
    ["target", ".git", "bench/fuzz/seeds", "docs/book", "pipeline/tests/data"];
/// Files that are text.
const TEXT: [&str; 9] = ["rs", "sh", "toml", "md", "yml", "c", "h", "awk", "svg"];
/// Those of them that are code.
const CODE: [&str; 6] = ["rs", "sh", "toml", "yml", "c", "h"];

struct File {
    /// From the root of the tree.
    name: String,
    text: String,
}

impl File {
    fn is(&self, endings: &[&str]) -> bool {
        endings.iter().any(|ending| self.name.ends_with(&format!(".{ending}")))
    }

    /// The lines, with their numbers.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Every text file of the tree.
fn files() -> Vec<File> {
    let root = root();
    let (mut folders, mut files) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            let is_ours = !NOT_OURS.contains(&&*name);
            if path.is_dir() && is_ours && !name.ends_with("/target") {
                folders.push(path);
            } else if path.is_file() && TEXT.iter().any(|end| name.ends_with(&format!(".{end}"))) {
                files.push(File { name, text: fs::read_to_string(&path).unwrap() });
            }
        }
    }
    assert!(files.len() > 400, "only {} files were found", files.len());
    files
}

/// Fails with what is wrong, a line each.
fn none(what: &str, wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}

#[test]
fn lines_of_code_are_no_longer_than_132_columns() {
    let mut wrong = Vec::new();
    for file in files().iter().filter(|file| file.is(&CODE)) {
        let long = file.lines().filter(|(_, line)| line.chars().count() > MAX_WIDTH);
        wrong.extend(long.map(|(number, _)| format!("{}:{number}", file.name)));
    }
    none("too long", wrong);
}

#[test]
fn rust_files_are_no_longer_than_450_lines() {
    let mut wrong = Vec::new();
    let mut excused: BTreeSet<&str> = TOO_LONG.iter().map(|(name, _)| *name).collect();
    for file in files().iter().filter(|file| file.is(&["rs"])) {
        let (lines, name) = (file.text.lines().count(), &*file.name);
        let excuse = TOO_LONG.iter().find(|(other, _)| *other == name);
        let most = excuse.map_or(MAX_LINES, |(_, most)| *most);
        if lines > most {
            wrong.push(format!("{name} has {lines} lines; allowed: {most}"));
        }
        if lines > MAX_LINES {
            excused.remove(name);
        }
    }
    wrong.extend(
        excused
            .iter()
            .map(|name| format!("{name} needs no exception any more: remove it from TOO_LONG")),
    );
    none("split these", wrong);
}

#[test]
fn lines_end_where_they_end() {
    let mut wrong = Vec::new();
    for file in &files() {
        let trailing = file.lines().filter(|(_, line)| line.ends_with([' ', '\t', '\r']));
        wrong.extend(trailing.map(|(number, _)| format!("{}:{number}: trailing space", file.name)));
        if file.is(&["rs"]) {
            let tabs = file.lines().filter(|(_, line)| line.contains('\t'));
            wrong.extend(tabs.map(|(number, _)| format!("{}:{number}: a tab", file.name)));
        }
        if !file.text.ends_with('\n') || file.text.ends_with("\n\n") {
            wrong.push(format!("{}: ends in no newline, or in several", file.name));
        }
    }
    none("untidy", wrong);
}

/// Of pages outside the book; those in it have their own test (`book.rs`).
#[test]
fn links_lead_somewhere() {
    let (root, files) = (root(), files());
    let (mut wrong, mut links) = (Vec::new(), 0);
    let pages = files.iter().filter(|file| file.is(&["md"]) && !file.name.starts_with("docs/"));
    for file in pages {
        let folder = root.join(&file.name).parent().unwrap().to_owned();
        for (number, target) in links_of(&file.text) {
            let is_outside = target.contains("://") || target.starts_with("mailto:");
            if is_outside {
                continue;
            }
            links += 1;
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let text = match path {
                "" => Some(file.text.clone()),
                path if folder.join(path).is_dir() => Some(String::new()),
                path => fs::read_to_string(folder.join(path)).ok(),
            };
            let leads =
                text.is_some_and(|text| anchor.is_empty() || anchors(&text).contains(anchor));
            if !leads {
                wrong.push(format!("{}:{number}: {target}", file.name));
            }
        }
    }
    none("links that lead nowhere", wrong);
    assert!(links > 10, "only {links} links were found");
}

/// The targets of the links in a text, with their lines; what stands in code is none.
fn links_of(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in prose(text) {
        for (at, _) in line.match_indices("](") {
            let target = line[at + 2..].split(')').next().unwrap_or_default();
            links.push((number, target.split(' ').next().unwrap_or_default().to_owned()));
        }
    }
    links
}

/// The lines of a text that are not in a block of code, without what is code in them.
fn prose(text: &str) -> Vec<(usize, String)> {
    let (mut lines, mut is_code) = (Vec::new(), false);
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push((number, line.split('`').step_by(2).collect::<Vec<_>>().join("`")));
        }
    }
    lines
}

/// The names under which the headings of a text can be linked to, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let (mut anchors, mut is_code) = (BTreeSet::new(), false);
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        if is_code || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept = title.trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = (1..).map(|number| format!("{name}-{number}"));
        let free = [name.clone()].into_iter().chain(again).find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

#[test]
fn links_and_anchors_are_found() {
    let text = "# A `b` c, d\n[one](x.md#y) `[no](z)` ![two](p.svg)\n```\n[no](code)\n# no\n```\n## A `b` c, d\n";
    let links: Vec<String> = links_of(text).into_iter().map(|(_, target)| target).collect();
    assert_eq!(links, ["x.md#y", "p.svg"]);
    assert_eq!(anchors(text).into_iter().collect::<Vec<_>>(), ["a-b-c-d", "a-b-c-d-1"]);
}
