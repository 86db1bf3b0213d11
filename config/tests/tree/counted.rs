//! A counter that no table has reads as zero, since an older instance may lack it. So each name that is read is one of a table.

use std::collections::BTreeSet;

use crate::files::{File, files};

/// Who reads counters by name.
const READERS: [&str; 2] = ["pipeline/cli/src/", "pipeline/control/src/"];
/// The calls that take the name of a counter.
const CALLS: [&str; 6] = ["counter(", "count(", "grown(", "rate(", "sum(", "grown(&["];
/// Files in which every word is the name of a counter, but for [`OTHERS`].
const WHOLE: &str = "pipeline/cli/src/rates/";
/// Classes of exceptions, ends of a ring, stages and their exits.
const OTHERS: [&str; 9] =
    ["control", "link", "rest", "streams", "ring", "shed_", "encode", "lookup", "policy"];

#[test]
fn every_counter_that_is_read_by_name_is_in_a_table() {
    let files = files();
    let product = || files.iter().filter(|file| file.is_product());
    let known: BTreeSet<&str> =
        product().flat_map(File::lines).filter_map(|(_, line)| declared(line)).collect();
    assert!(known.len() > 150, "only {} counters were found", known.len());
    let readers =
        product().filter(|file| READERS.iter().any(|folder| file.name.starts_with(folder)));
    let read: Vec<(&str, &str)> =
        readers.flat_map(|file| names(file).into_iter().map(|name| (&*file.name, name))).collect();
    assert!(read.len() > 50, "only {read:?} are read");
    let wrong: Vec<_> = read.iter().filter(|(_, name)| !known.contains(name)).collect();
    assert!(wrong.is_empty(), "no table has these counters, so they read as zero: {wrong:#?}");
}

/// The counter that a line of a table declares.
fn declared(line: &str) -> Option<&str> {
    let (name, kind) = line.trim().split_once(": ")?;
    matches!(kind, "counter," | "gauge,").then_some(name)
}

/// The counters that a file reads.
fn names(file: &File) -> Vec<&str> {
    let is_whole = file.name.starts_with(WHOLE);
    let code = file.product();
    let words = code.split('"').collect::<Vec<_>>();
    let pairs = words.chunks_exact(2).map(|pair| (pair[0].trim_end(), pair[1]));
    let is_name = |word: &str| {
        !word.is_empty()
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let is_read = |before: &str| CALLS.iter().any(|call| before.ends_with(call));
    let read = pairs.filter(|(before, word)| match is_whole {
        true => is_name(word) && !OTHERS.contains(word),
        false => is_name(word) && is_read(before),
    });
    read.map(|(_, word)| word).collect()
}

#[test]
fn a_name_that_is_read_is_seen() {
    let file = |name: &str, text: &str| File { name: name.to_owned(), text: text.to_owned() };
    let screen = file("pipeline/cli/src/top.rs", "text(\"upstreams\"); one.counter(\"misspelt\");");
    assert_eq!(names(&screen), ["misspelt"]);
    let rates =
        file("pipeline/cli/src/rates/edge.rs", "const A: [&str; 2] = [\"rest\", \"no_such\"];");
    assert_eq!(names(&rates), ["no_such"]);
}
