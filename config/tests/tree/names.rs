//! One name means one thing: no two crates have public types of the same name, and no type or function has a name that says
//! too little.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::files;

/// Words that say too little of a type: much has a state, a place and entries. Each with the types that have it.
const VAGUE_TYPES: [(&str, &[&str]); 19] = [
    // The answer of the line to a packet.
    ("Answer", &["stages/src/answer.rs"]),
    ("Asked", &[]),
    ("Door", &[]),
    ("End", &["stages/src/cache/scrub.rs"]),
    // Answers by their number.
    ("Entries", &["stages/src/policy/local.rs"]),
    // An entry of the cache is the one that is meant elsewhere.
    ("Entry", &["nics/src/pcap/mod.rs", "stages/src/cache/entry.rs"]),
    ("Found", &["stages/src/cache/read.rs"]),
    ("Heard", &["nics/src/dpdk/hear.rs"]),
    ("Lap", &[]),
    ("Limits", &[]),
    ("Part", &["stages/src/wire/rdata.rs"]),
    ("Place", &[]),
    ("Record", &[]),
    ("Said", &[]),
    ("Shared", &["nics/src/heap.rs"]),
    ("State", &[]),
    ("Table", &["nics/src/xdp/settings.rs"]),
    ("Told", &[]),
    ("Trust", &[]),
];
/// Verbs for which the field has others: apply, receive, poll, report.
const VAGUE_VERBS: [&str; 7] = ["follow", "hear", "heard", "look", "said", "tell", "told"];
/// Functions that have them still.
const VAGUE_FUNCTIONS: [(&str, &str); 7] = [
    ("nics/src/dpdk/hear.rs", "told"),
    ("nics/src/dpdk/start.rs", "hear"),
    ("nics/src/dpdk/start.rs", "hear_by"),
    ("nics/src/dpdk/trial.rs", "said_of"),
    ("pipeline/src/handover/outgoing.rs", "follow"),
    ("stages/src/cache/mod.rs", "look"),
    ("stages/src/cache/scrub.rs", "follow"),
];

#[test]
fn a_type_is_named_for_what_it_is() {
    let mut found = BTreeSet::new();
    for file in files().iter().filter(|file| file.is_product()) {
        let types = file.product().lines().filter_map(|line| declared_type(after_visibility(line)));
        found.extend(types.map(|name| (name.to_owned(), file.name.clone())));
    }
    assert!(found.len() > 1000, "only {} types were found", found.len());
    for (name, known) in VAGUE_TYPES {
        let named = found.iter().filter(|(found, _)| found == name).map(|(_, file)| file.as_str());
        assert_eq!(named.collect::<Vec<_>>(), known, "say which {name} it is");
    }
}

#[test]
fn a_function_has_a_verb_of_the_field() {
    let mut found = BTreeSet::new();
    let mut count = 0;
    for file in files().iter().filter(|file| file.is_product()) {
        for name in file.product().lines().filter_map(declared_function) {
            count += 1;
            // Aliases are followed, and names looked up.
            let is_vague = VAGUE_VERBS.iter().any(|verb| match name.strip_prefix(verb) {
                Some("") => true,
                Some(rest) => rest.starts_with('_') && !["follow", "look"].contains(verb),
                None => false,
            });
            found.extend(is_vague.then(|| (file.name.clone(), name.to_owned())));
        }
    }
    assert!(count > 3000, "only {count} functions were found");
    let known = VAGUE_FUNCTIONS.map(|(file, name)| (file.to_owned(), name.to_owned()));
    assert_eq!(found, BTreeSet::from(known), "apply, receive, poll or report");
}

#[test]
fn a_public_type_has_a_name_of_its_own() {
    let mut places: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files().iter().filter(|file| file.is_product()) {
        let (of_crate, _) = file.name.split_once("/src/").expect("a product's file is in src");
        for name in file.product().lines().filter_map(public_type) {
            places.entry(name.to_owned()).or_default().insert(of_crate.to_owned());
        }
    }
    assert!(places.len() > 500, "only {} types were found", places.len());
    places.retain(|_, crates| crates.len() > 1);
    assert!(places.is_empty(), "rename one of each by what it is: {places:#?}");
}

/// The name of the type that a line makes public.
fn public_type(line: &str) -> Option<&str> {
    declared_type(line.trim_start().strip_prefix("pub ")?)
}

/// The name of the type that these words declare.
fn declared_type(declared: &str) -> Option<&str> {
    let kinds = ["struct ", "enum ", "trait ", "type "];
    let name = kinds.iter().find_map(|kind| declared.strip_prefix(kind))?;
    // A macro names it by `$name`.
    Some(first_word(name)).filter(|name| !name.is_empty())
}

/// The name of the function that a line declares.
fn declared_function(line: &str) -> Option<&str> {
    let mut declared = after_visibility(line);
    for word in ["const ", "async ", "unsafe "] {
        declared = declared.strip_prefix(word).unwrap_or(declared);
    }
    Some(first_word(declared.strip_prefix("fn ")?)).filter(|name| !name.is_empty())
}

/// A line from behind `pub` or `pub(…)`, if it has that.
fn after_visibility(line: &str) -> &str {
    let line = line.trim_start();
    let Some(rest) = line.strip_prefix("pub") else { return line };
    let rest = match rest.strip_prefix('(') {
        Some(restricted) => restricted.split_once(')').map_or("", |(_, rest)| rest),
        None => rest,
    };
    rest.strip_prefix(' ').unwrap_or(line)
}

fn first_word(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    &text[..end.unwrap_or(text.len())]
}

#[test]
fn public_types_are_seen() {
    let seen =
        ["pub struct Acl {", "    pub enum Asked<'a> {", "pub type Lost = u8;", "pub trait Nic"];
    assert_eq!(seen.map(|line| public_type(line).unwrap()), ["Acl", "Asked", "Lost", "Nic"]);
    for unseen in [
        "pub(crate) struct Acl;",
        "struct Acl;",
        "pub fn acl() {",
        "// pub struct Acl",
        "pub struct $name {",
    ] {
        assert_eq!(public_type(unseen), None, "{unseen}");
    }
}

#[test]
fn types_and_functions_are_seen_whoever_may_use_them() {
    let types =
        ["struct State {", "pub(crate) enum Place {", "    pub(in crate::a) type Said = u8;"];
    let types = types.map(|line| declared_type(after_visibility(line)).unwrap());
    assert_eq!(types, ["State", "Place", "Said"]);
    let functions =
        ["fn look(&self);", "    pub(super) async fn tell<T>(", "pub const unsafe fn hear_by("];
    assert_eq!(functions.map(|line| declared_function(line).unwrap()), ["look", "tell", "hear_by"]);
    for unseen in ["publish(fn look)", "// fn look(", "let state = State {", "fn $name("] {
        let declared = after_visibility(unseen);
        assert_eq!((declared_type(declared), declared_function(unseen)), (None, None), "{unseen}");
    }
}
