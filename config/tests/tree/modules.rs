//! Every file of a crate is compiled: a `mod` line leads to it, or it is a root that cargo finds by itself.

use std::collections::BTreeSet;

use crate::files::{File, files};

#[test]
fn every_source_file_is_reached_by_a_mod_line() {
    let files = files();
    let sources: Vec<&File> =
        files.iter().filter(|file| file.name.contains("src/") && file.is(&["rs"])).collect();
    assert!(sources.len() > 300, "only {} sources were found", sources.len());
    let reached = reached(&sources);
    let lost = sources.iter().map(|file| &*file.name).filter(|name| !reached.contains(*name));
    let lost: Vec<_> = lost.collect();
    assert!(lost.is_empty(), "no compiler reads these files; write their `mod` line: {lost:#?}");
}

/// Cargo compiles these without a `mod` line: roots by their names, and the targets of fuzzing, whose lines
/// stand in a block of `bench/fuzz/src/main.rs`.
fn is_root(name: &str) -> bool {
    let inside = name.rsplit_once("src/").map_or(name, |(_, inside)| inside);
    let is_target = name.starts_with("bench/fuzz/src/targets/");
    matches!(inside, "lib.rs" | "main.rs") || inside.starts_with("bin/") || is_target
}

/// The files that the roots lead to.
fn reached(sources: &[&File]) -> BTreeSet<String> {
    let mut queue: Vec<&File> =
        sources.iter().copied().filter(|file| is_root(&file.name)).collect();
    let mut reached: BTreeSet<String> = queue.iter().map(|file| file.name.clone()).collect();
    while let Some(file) = queue.pop() {
        let parts = parts(file);
        for part in sources.iter().filter(|part| parts.contains(&part.name)) {
            if reached.insert(part.name.clone()) {
                queue.push(part);
            }
        }
    }
    reached
}

/// The files that the `mod` lines of a file may mean.
fn parts(file: &File) -> BTreeSet<String> {
    let (folder, name) = file.name.rsplit_once('/').unwrap_or(("", &file.name));
    let is_first = is_root(&file.name) || name == "mod.rs";
    let inside = if is_first { folder } else { file.name.trim_end_matches(".rs") };
    let mut parts = BTreeSet::new();
    let mut path = None;
    for line in file.text.lines().map(str::trim) {
        if let Some(named) = line.strip_prefix("#[path = \"") {
            path = named.split('"').next();
        } else if let Some(module) = declared(line) {
            match path.take() {
                Some(path) => drop(parts.insert(format!("{folder}/{path}"))),
                None => parts
                    .extend([format!("{inside}/{module}.rs"), format!("{inside}/{module}/mod.rs")]),
            }
        }
    }
    parts
}

/// The module whose file a line declares.
fn declared(line: &str) -> Option<&str> {
    let (before, module) = line.strip_suffix(';')?.rsplit_once("mod ")?;
    let is_declared = before.is_empty() || (before.starts_with("pub") && before.ends_with(' '));
    is_declared.then_some(module)
}

#[test]
fn a_file_without_a_mod_line_is_found() {
    let file = |name: &str, text: &str| File { name: name.to_owned(), text: text.to_owned() };
    let files = [
        file(
            "a/src/lib.rs",
            "pub(crate) mod b;\n// mod lost;\n#[path = \"d_tests.rs\"]\nmod tests;",
        ),
        file("a/src/b.rs", "#[cfg(test)]\nmod c;"),
        file("a/src/b/c.rs", ""),
        file("a/src/d_tests.rs", ""),
        file("a/src/lost.rs", "mod below;"),
        file("a/src/lost/below.rs", ""),
        file("a/src/tests.rs", ""),
        file("a/src/bin/e.rs", ""),
    ];
    let reached = reached(&files.iter().collect::<Vec<_>>());
    let lost: Vec<_> = files.iter().filter(|file| !reached.contains(&file.name)).collect();
    let lost: Vec<_> = lost.iter().map(|file| &*file.name).collect();
    assert_eq!(lost, ["a/src/lost.rs", "a/src/lost/below.rs", "a/src/tests.rs"]);
}
