//! What every file of the tree keeps to: its length, the length of its lines, its ends, paths, and links that lead somewhere.

use std::fs;

use crate::files::{files, root};
use crate::markdown::{anchors, links_of};

/// The longest line of code, in characters. rustfmt leaves comments, texts and scripts as they are.
const MAX_WIDTH: usize = 132;
/// The longest file of Rust, or of the console, in lines, tests included.
const MAX_LINES: usize = 450;
/// A smaller file is only there for a reason.
const MIN_LINES: usize = 40;
/// Such files, and why they are not parts of others.
const SMALL: [(&str, &str); 42] = [
    ("config/src/check/dnssec.rs", "the checks of one table of the configuration"),
    ("config/src/check/hitters.rs", "the checks of one table of the configuration"),
    ("config/src/check/shared.rs", "used by checks of several tables"),
    ("config/src/files/testing.rs", "used by tests of several files"),
    ("config/src/from_text.rs", "used by all types that are written as text"),
    ("config/src/nearest.rs", "used for keys and for values"),
    ("config/src/reserved.rs", "names that several crates compare with"),
    ("config/src/settings/dnssec.rs", "the settings of one table of the configuration"),
    ("nics/counters/src/totals.rs", "the sums of all counters"),
    ("nics/src/dpdk/events.rs", "below what sleeps, so that there is no circle"),
    ("nics/src/dpdk/log.rs", "used by the EAL and by ports"),
    ("nics/src/dpdk/mbuf.rs", "unsafe code that frames and pools share"),
    ("nics/src/sync.rs", "swaps loom's atomics for the standard library's"),
    ("pipeline/changes/src/testing.rs", "used by tests of several files"),
    ("pipeline/control/src/api/me.rs", "the routes of one resource"),
    ("pipeline/control/src/date.rs", "used by several listings"),
    ("pipeline/control/src/lists.rs", "the requests and replies of one resource"),
    ("pipeline/control/src/upstreams.rs", "the requests and replies of one resource"),
    ("pipeline/encrypted/src/query.rs", "used by the drivers of all three protocols"),
    ("pipeline/import/src/dnsdist/names.rs", "used by several statements of dnsdist"),
    ("pipeline/import/src/limits.rs", "all bounds of an import in one place"),
    ("pipeline/import/src/query_log.rs", "used by imports of several servers"),
    ("pipeline/import/src/unbound/rebinding.rs", "one statement of Unbound, which no other uses"),
    ("pipeline/resolver/src/origin.rs", "a public type that observers use"),
    ("pipeline/resolver/src/questions/hashed.rs", "used by several tables"),
    ("pipeline/resolver/src/upstreams/believed_errors.rs", "a list of the RFC's codes"),
    ("pipeline/src/clients/counters.rs", "counters, which a test reads as a table"),
    ("pipeline/src/connecting.rs", "below streams and reloads, which both use it"),
    (
        "pipeline/src/control/socket/group.rs",
        "reads a file of the system, and has tests of its own",
    ),
    ("pipeline/src/lists/counters.rs", "counters, which a test reads as a table"),
    ("pipeline/src/lists/schedule.rs", "pure, with tests of its own"),
    ("pipeline/src/runtime/in_use.rs", "what other threads may read"),
    ("pipeline/src/transfer/counters.rs", "counters, which a test reads as a table"),
    ("pipeline/src/transfer/limits.rs", "all bounds of a transfer in one place"),
    ("pipeline/streams/src/lock.rs", "used by several tables"),
    ("pipeline/streams/src/no_encryption.rs", "stands for `encrypted.rs` where nothing links TLS"),
    ("pipeline/validator/src/ede.rs", "a list of the RFC's codes"),
    ("pipeline/validator/src/testing.rs", "used by tests of several files"),
    ("stages/src/cache/lifetimes.rs", "settings that every entry is made with"),
    ("stages/src/parse/ip.rs", "a layer of a packet"),
    ("stages/src/parse/stream.rs", "a layer of a packet"),
    ("stages/src/policy/rpz/error.rs", "the errors of a reader"),
];
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
fn files_of_fewer_than_40_lines_have_a_reason() {
    let product = files().into_iter().filter(|file| file.is_product());
    // A module's head names what is below it.
    let small = product.filter(|file| {
        let (_, name) = file.name.rsplit_once('/').expect("a product's file is in src");
        let is_head = ["mod.rs", "lib.rs", "main.rs"].contains(&name);
        !is_head && file.text.lines().count() < MIN_LINES
    });
    let small: Vec<String> = small.map(|file| file.name).collect();
    let has_reason = |name: &&String| SMALL.iter().any(|(file, _)| file == name);
    let new: Vec<_> = small.iter().filter(|name| !has_reason(name)).collect();
    assert!(new.is_empty(), "put these into the files that use them, or say why not: {new:#?}");
    let is_small = |file: &str| small.iter().any(|name| name == file);
    let grown: Vec<_> = SMALL.iter().filter(|(file, _)| !is_small(file)).collect();
    assert!(grown.is_empty(), "these are not small; remove their rows: {grown:#?}");
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
