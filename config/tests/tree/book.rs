//! Checks `docs/`, which is a book (docs/book.toml). Every page is in its table of contents, and every link leads to
//! one of its pages. Keys, metrics and paths that its pages and CONTRIBUTING.md name exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use pmdns_config::Config;
use toml::Table;

use crate::files::{File, files, root};
use crate::markdown::{anchors, links_of};

const REFERENCE: &str = include_str!("../../../docs/configuration.md");
const COUNTERS: &str = include_str!("../../../docs/counters.md");

/// The parts of a decision, in their order; others may stand between them.
const PARTS: [&str; 4] = ["Context", "Decision", "Rejected", "Consequences"];

/// What every configuration needs, for examples that leave it out.
const LEAST: &str = r#"
[[port]]
name = "least"
device = "replay"
addresses = ["10.97.0.53"]

[[upstream]]
address = "10.97.0.1:53"
"#;

#[test]
fn every_page_is_in_the_table_of_contents() {
    let mut pages = pages();
    let summary = pages.remove(Path::new("SUMMARY.md")).expect("the table of contents");
    let listed = links(&summary);
    let once: BTreeSet<PathBuf> = listed.iter().map(PathBuf::from).collect();
    assert_eq!(once, pages.into_keys().collect(), "SUMMARY.md (left) and the pages of docs/");
    assert_eq!(once.len(), listed.len(), "SUMMARY.md lists a page twice");
    // It becomes index.html, but links to it do not.
    assert!(!listed.iter().any(|page| page.ends_with("README.md")), "call it index.md");
}

#[test]
fn titles_of_decisions_are_the_heads_of_their_pages() {
    let pages = pages();
    let summary = pages.get(Path::new("SUMMARY.md")).expect("the table of contents");
    let rows = summary.lines().filter_map(|line| line.trim_start().strip_prefix("- ["));
    let rows = rows.filter_map(|row| row.strip_suffix(')')?.split_once("]("));
    // Their names begin with their numbers, unlike that of the page before them.
    let is_number = |name: &str| name.starts_with(|c: char| c.is_ascii_digit());
    let decisions: Vec<(&str, &str)> =
        rows.filter(|(_, page)| page.strip_prefix("adr/").is_some_and(is_number)).collect();
    assert!(decisions.len() >= 50, "only {} decisions were found", decisions.len());
    let mut wrong = Vec::new();
    for (title, page) in &decisions {
        let head = pages.get(Path::new(page)).and_then(|text| text.lines().next());
        if head.and_then(|head| head.strip_prefix("# ")) != Some(*title) {
            wrong.push(format!("{page}: {title} (SUMMARY.md), {head:?} (the page)"));
        }
    }
    assert!(wrong.is_empty(), "titles that differ: {wrong:#?}");
    let order: Vec<&str> = decisions.iter().map(|(_, page)| *page).collect();
    assert!(order.is_sorted(), "SUMMARY.md lists decisions by their numbers");
}

#[test]
fn each_decision_has_its_parts_and_stands_once_under_a_subject() {
    let mut pages = pages();
    let index = pages.remove(Path::new("adr/index.md")).expect("the list of decisions");
    let listed = links(&index);
    let decisions = pages.iter().filter_map(|(page, text)| {
        let name = page.strip_prefix("adr").ok()?.to_str()?.to_owned();
        Some((name, text))
    });
    let mut wrong = Vec::new();
    for (name, text) in decisions {
        let heads = text.lines().filter_map(|line| line.strip_prefix("**")?.split_once(".**"));
        let found: Vec<&str> =
            heads.map(|(head, _)| head).filter(|head| PARTS.contains(head)).collect();
        if found != PARTS {
            wrong.push(format!("{name}: its parts are {found:?}, and have to be {PARTS:?}"));
        }
        if listed.iter().filter(|link| **link == format!("adr/{name}") || **link == name).count()
            != 1
        {
            wrong.push(format!("{name}: docs/adr/index.md has it once, under a subject"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_link_leads_to_a_place_in_the_book() {
    let pages = pages();
    let mut broken = Vec::new();
    for (page, text) in &pages {
        for link in links(text).iter().filter(|link| !link.contains("://")) {
            let (path, place) = link.split_once('#').unwrap_or((link, ""));
            let path = if path.is_empty() { page.clone() } else { beside(page, path) };
            let leads = match pages.get(&path) {
                Some(text) => place.is_empty() || anchors(text).contains(place),
                // What is outside of docs/ is no part of the book, though the file may be there.
                None => {
                    place.is_empty()
                        && !path.starts_with("..")
                        && root().join("docs").join(&path).is_file()
                }
            };
            if !leads {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere in the book: {broken:#?}");
}

#[test]
fn every_key_that_a_page_names_is_documented() {
    let keys = documented_keys();
    let mut unknown = Vec::new();
    for (page, text) in pages() {
        for word in text.split('`').skip(1).step_by(2) {
            let Some((table, rest)) = word.split_once('.') else { continue };
            let Some(keys) = keys.get(table).filter(|_| rest != "rs") else { continue };
            let key = rest.split([' ', '=', '[']).next().unwrap_or_default();
            if !keys.contains(key) && !key.is_empty() {
                unknown.push(format!("{}: {word}", page.display()));
            }
        }
    }
    assert!(unknown.is_empty(), "keys that docs/configuration.md does not have: {unknown:#?}");
}

#[test]
fn every_example_is_a_configuration() {
    let mut checked = 0;
    for (page, text) in pages() {
        // The reference has examples of errors, which have a test of their own.
        if page == Path::new("configuration.md") {
            continue;
        }
        for block in text.split("```toml\n").skip(1) {
            let (example, _) = block.split_once("```").expect("the block is closed");
            // The file of a secret is read with the rest, and there is none here.
            let secret = "secret = \"c2l4dGVlbiBsZXR0ZXJzIQ==\"";
            let token = format!("sha256 = \"{}\"", "ab".repeat(32));
            let example = &example
                .replace("secret_file = \"/etc/pmdns/transfer-key\"", secret)
                .replace("secret_file = \"/etc/pmdns/console.token\"", &token);
            let mut whole: Table = example.parse().unwrap_or_else(|error| {
                panic!("{}: {error}\n{example}", page.display());
            });
            for (name, table) in LEAST.parse::<Table>().expect("TOML") {
                whole.entry(name).or_insert(table);
            }
            let whole = toml::to_string(&whole).expect("a table is TOML");
            if let Err(error) = Config::from_toml(&whole) {
                panic!("{}: {error}\n{example}", page.display());
            }
            checked += 1;
        }
    }
    assert!(checked >= 5, "only {checked} examples were found");
}

/// The lab `console` looks at every table in a browser; this finds the usual reason without one.
#[test]
fn no_first_column_is_wider_than_a_small_page() {
    // docs/book.css keeps code in a first column on one line.
    const WIDEST: usize = 88;
    let mut wide = Vec::new();
    for (page, text) in pages() {
        let first = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
        let code = first.flat_map(|cell| cell.split('`').skip(1).step_by(2));
        wide.extend(
            code.filter(|code| code.len() > WIDEST)
                .map(|code| format!("{}: {code}", page.display())),
        );
    }
    assert!(wide.is_empty(), "a browser would cut these tables off: {wide:#?}");
}

#[test]
fn every_metric_that_a_task_names_is_exported() {
    let mut named = 0;
    for (page, text) in pages().iter().filter(|(page, _)| page.starts_with("tasks")) {
        let word = |c: char| !(c.is_ascii_lowercase() || c == '_');
        for name in text.split(word).filter(|word| word.starts_with("pmdns_")) {
            let family = name.strip_suffix("_bucket").unwrap_or(name);
            let row = format!("| `{family}` |");
            assert!(COUNTERS.contains(&row), "{}: there is no metric {name}", page.display());
            named += 1;
        }
    }
    assert!(named >= 10, "only {named} metrics were found");
}

#[test]
fn every_path_that_guides_a_contributor_exists() {
    let root = root();
    let text = fs::read_to_string(root.join("CONTRIBUTING.md")).expect("CONTRIBUTING.md");
    let is_folder =
        |word: &str| word.split_once('/').is_some_and(|(top, _)| root.join(top).is_dir());
    let prose = text.split("```").step_by(2).collect::<String>();
    let words = prose.split('`').skip(1).step_by(2).filter_map(|code| code.split(' ').next());
    let paths: Vec<&str> = words
        .filter(|word| is_folder(word) && !word.contains("NAME") && !word.starts_with("target"))
        .collect();
    assert!(paths.len() >= 30, "only {} paths were found", paths.len());
    let missing: Vec<_> = paths.iter().filter(|path| !root.join(path).exists()).collect();
    assert!(missing.is_empty(), "CONTRIBUTING.md names what is not there: {missing:?}");
}

#[test]
fn every_page_that_the_code_names_exists() {
    let folders = ["config/", "nics/", "stages/", "pipeline/", "bench/", "scripts/"];
    let (root, mut named, mut missing) = (root(), 0, Vec::new());
    for File { name, text } in files().iter().filter(|file| file.is(&["rs", "sh", "toml"])) {
        if !folders.iter().any(|folder| name.starts_with(folder)) {
            continue;
        }
        let other = |c: char| !(c.is_ascii_alphanumeric() || "/-.".contains(c));
        let words = text.split(other).filter(|word| word.starts_with("docs/"));
        for page in words.filter(|word| word.ends_with(".md")) {
            named += 1;
            if !root.join(page).is_file() {
                missing.push(format!("{name}: {page}"));
            }
        }
    }
    assert!(named >= 30, "only {named} pages were found");
    assert!(missing.is_empty(), "pages that do not exist: {missing:#?}");
}

/// Every page of the book: its path in `docs/`, and its text.
fn pages() -> BTreeMap<PathBuf, String> {
    let pages = files().into_iter().filter(|file| file.is(&["md"]));
    pages.filter_map(|file| Some((file.name.strip_prefix("docs/")?.into(), file.text))).collect()
}

/// Where the links of a page lead, code left out.
fn links(text: &str) -> Vec<String> {
    links_of(text).into_iter().map(|(_, target)| target).collect()
}

/// The page that `link` means on `page`.
fn beside(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().expect("a page is in a folder").to_owned();
    for component in Path::new(link).components() {
        match component {
            Component::ParentDir if path.pop() => {}
            other => path.push(other),
        }
    }
    path
}

/// The keys of each table of the reference.
fn documented_keys() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let keys = |body: &'static str| {
        let rows = body.lines().filter_map(|line| line.strip_prefix("| `"));
        rows.filter_map(|row| Some(row.split_once('`')?.0)).collect()
    };
    let sections = REFERENCE.split("\n## ").skip(1);
    let tables = sections.filter_map(|section| section.split_once('\n'));
    tables.map(|(header, body)| (header.trim_matches(['`', '[', ']']), keys(body))).collect()
}
