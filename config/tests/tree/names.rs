//! One name means one thing: no two crates have public types of the same name.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::files;

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
    let declared = line.trim_start().strip_prefix("pub ")?;
    let kinds = ["struct ", "enum ", "trait ", "type "];
    let name = kinds.iter().find_map(|kind| declared.strip_prefix(kind))?;
    let end = name.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let name = &name[..end.unwrap_or(name.len())];
    // A macro names it by `$name`.
    (!name.is_empty()).then_some(name)
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
