//! What every file of the tree keeps to: its length, the length of its lines, its ends, paths, and links that lead somewhere.

use std::fs;

use crate::files::{files, root};
use crate::markdown::{anchors, links_of};

/// The longest line of code, in characters. rustfmt leaves comments, texts and scripts as they are.
const MAX_WIDTH: usize = 132;
/// The longest file of Rust, or of the console, in lines, tests included.
const MAX_LINES: usize = 450;
/// Those of them that are code.
const CODE: [&str; 10] = ["rs", "sh", "toml", "yml", "c", "h", "html", "css", "js", "py"];

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
fn files_are_no_longer_than_450_lines() {
    let code = files().into_iter().filter(|file| file.is(&["rs", "html", "css", "js", "py"]));
    let long =
        code.map(|file| (file.text.lines().count(), file)).filter(|(lines, _)| *lines > MAX_LINES);
    let wrong = long.map(|(lines, file)| format!("{} has {lines} lines", file.name)).collect();
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

#[test]
fn paths_go_up_by_one_module() {
    let twice = ["super"; 2].join("::");
    let mut wrong = Vec::new();
    for file in files().iter().filter(|file| file.is(&["rs"])) {
        let lines = file.lines().filter(|(_, line)| line.contains(&twice));
        wrong.extend(lines.map(|(number, _)| format!("{}:{number}", file.name)));
    }
    none("begin at the crate", wrong);
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
                path => fs::read(folder.join(path))
                    .ok()
                    .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
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
