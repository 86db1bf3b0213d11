//! Files import one way: no circle of more than two of them in any crate, and `wire` imports nothing above it.
//!
//! Two files may know each other, as a module and its part do. Three that do are one file in pieces. It makes no
//! difference if two of the three know each other by the third only.
//!
//! A file imports those that define what it names, in `use` declarations, expressions and types. To declare a module or
//! to pass its items on is no import. Tests at the foot of a file may import what they like.

use std::collections::BTreeSet;

use crate::crates::{Crate, Imports, crates};
use crate::files::files;
use crate::paths::{Code, Names};

#[test]
fn no_three_files_import_each_other() {
    let files = files();
    let crates = crates(&files);
    assert!(crates.len() >= 60, "there are more crates than {crates:?}");
    let mut circles = Vec::new();
    for source in &crates {
        let imports = Crate::read(&files, source).imports();
        let found = circles_of(&imports);
        circles.extend(found.iter().map(|circle| format!("{source}: {}", told(circle, &imports))));
    }
    assert!(circles.is_empty(), "these files import each other:\n{}", circles.join("\n"));
}

#[test]
fn wire_imports_nothing_above_it() {
    let stages = Crate::read(&files(), "stages/src");
    let is_wire = |module: &Names| module.first().is_some_and(|it| it == "wire");
    let imports = stages.imports();
    let wire = imports.iter().filter(|(module, _)| is_wire(module));
    assert!(wire.clone().count() >= 10, "wire consists of more files");
    for (module, imported) in wire {
        let above = imported.iter().find(|imported| !is_wire(imported));
        assert_eq!(above, None, "{} imports it", module.join("::"));
    }
}

/// A crate of files that say this, by module.
fn made<const FILES: usize>(files: [(&str, &str); FILES]) -> Imports {
    let files = files.map(|(module, text)| {
        let names = module.split("::").filter(|it| !it.is_empty());
        (names.map(str::to_owned).collect(), Code::read(text))
    });
    Crate::new(files.into(), String::new()).imports()
}

#[test]
fn a_circle_is_seen_through_what_is_passed_on() {
    let passed_on = ("", "pub mod a; pub use a::One;");
    let apart = [
        passed_on,
        ("a", "use self::part::{Two, Three as Four};"),
        ("a::part", "use super::One;"),
        ("b", "use crate::{One, a::part}; pub(in crate::a) fn f() { part::f(); }"),
    ];
    assert_eq!(circles_of(&made(apart)).len(), 0);
    let together = made([
        passed_on,
        ("a", "fn f() -> part::Two { part::f(crate::b::Five) } use part::Two;"),
        ("a::part", "// use crate::b;"),
        ("b", "use crate::c::{Six};"),
        ("c", "use crate::One;"),
    ]);
    assert_eq!(circles_of(&together).iter().map(Vec::len).collect::<Vec<_>>(), [3]);
}

#[test]
fn pairs_that_share_a_file_are_a_circle() {
    let root = |uses| ("", uses);
    let parts = [("a", "use super::Root;"), ("b", "fn f(it: &crate::Root) { super::g(it) }")];
    let size = |uses| {
        let imports = made([root(uses), parts[0], parts[1]]);
        circles_of(&imports).first().map_or(0, Vec::len)
    };
    assert_eq!(size("mod a; mod b; pub struct Root; pub use a::One;"), 0);
    assert_eq!(size("mod a; mod b; pub struct Root; fn f() { a::f(\"b::f()\"); }"), 0);
    assert_eq!(size("mod a; mod b; pub struct Root(a::One, Vec<b::Two>);"), 3);
    assert_eq!(
        size("mod a; mod b; pub use a::One; use b as c; struct Root(One); fn f() { c::f() }"),
        3
    );
    assert_eq!(size("mod a; mod b; struct Root; fn f() { a::f(); } mod tests { use b::f; }"), 0);
}

/// The circles of more than two files.
fn circles_of(imports: &Imports) -> Vec<Vec<&Names>> {
    let reached = |from| {
        let (mut reached, mut queue) = (BTreeSet::new(), vec![from]);
        while let Some(at) = queue.pop() {
            let next = imports.get(at).into_iter().flatten();
            queue.extend(next.filter(|file| reached.insert(*file)));
        }
        reached
    };
    let reached: Vec<_> = imports.keys().map(|file| (file, reached(file))).collect();
    let mut circles: Vec<Vec<&Names>> = Vec::new();
    for (file, from) in &reached {
        if circles.iter().flatten().any(|it| it == file) {
            continue;
        }
        let back = reached.iter().filter(|(it, to)| from.contains(it) && to.contains(file));
        let circle: Vec<_> = back.map(|(it, _)| *it).collect();
        if circle.len() > 2 {
            circles.push(circle);
        }
    }
    circles
}

/// Who imports whom in a circle.
fn told(circle: &[&Names], imports: &Imports) -> String {
    let lines = circle.iter().map(|file| {
        let inside = imports[*file].iter().filter(|to| circle.contains(to));
        let inside: Vec<_> = inside.map(|to| to.join("::")).collect();
        format!("\n  {} imports {}", file.join("::"), inside.join(", "))
    });
    format!("{} files{}", circle.len(), lines.collect::<String>())
}
