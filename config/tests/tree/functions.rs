//! Functions have at most 70 lines: one that is longer does several things. Their parameters have names.

use crate::files::files;

/// The most lines of a function, its signature and its last brace included.
const MAX_LINES: usize = 70;
/// Functions that are still longer. A row goes when its function is split; none is added.
const LONGER: [(&str, &str); 1] = [("pipeline/control/src/testing.rs", "report")];

#[test]
fn functions_have_at_most_70_lines() {
    let (mut longer, mut count) = (Vec::new(), 0);
    for file in files().iter().filter(|file| file.is_product()) {
        for (name, lines) in functions(file.product()) {
            count += 1;
            if lines > MAX_LINES {
                longer.push((file.name.clone(), name.to_owned(), lines));
            }
        }
    }
    assert!(count > 4000, "only {count} functions were found");
    let is_known = |file: &str, name: &str| LONGER.contains(&(file, name));
    let new: Vec<_> = longer.iter().filter(|(file, name, _)| !is_known(file, name)).collect();
    assert!(new.is_empty(), "split these functions by what they do: {new:#?}");
    let is_longer = |one: &&(&str, &str)| longer.iter().any(|it| (&*it.0, &*it.1) == **one);
    let split: Vec<_> = LONGER.iter().filter(|one| !is_longer(one)).collect();
    assert!(split.is_empty(), "these are no longer too long; remove their rows: {split:#?}");
}

/// Parameters that go together are a type with a name. A pair may be one thing already: a name and its type, a word and its line.
#[test]
fn no_parameter_is_a_tuple_of_more_than_two() {
    let mut hidden = Vec::new();
    for file in files().iter().filter(|file| file.is_product()) {
        for parameter in tuple_parameters(file.product()).filter(|one| one.contains(", ")) {
            let fields = parameter.matches(", ").count() + 1;
            if fields > 2 {
                hidden.push((file.name.clone(), parameter));
            }
        }
    }
    assert!(hidden.is_empty(), "make these parameters, or a struct: {hidden:#?}");
}

/// The patterns of parameters that are tuples, as `a, b`.
fn tuple_parameters(source: &str) -> impl Iterator<Item = String> {
    let starts = source.match_indices("fn ").filter_map(|(at, _)| {
        let signature = &source[at..];
        signature.get(signature.find('(')? + 1..signature.find(['{', ';'])?)
    });
    starts.flat_map(|parameters| {
        let flat = parameters.split_whitespace().collect::<Vec<_>>().join(" ");
        let patterns: Vec<String> = flat
            .match_indices("): ")
            .filter_map(|(end, _)| {
                let start = flat[..end].rfind('(')?;
                let is_first = flat[..start].is_empty() || flat[..start].ends_with(", ");
                is_first.then(|| flat[start + 1..end].trim_end_matches(',').to_owned())
            })
            .collect();
        patterns
    })
}

#[test]
fn tuples_of_parameters_are_found() {
    let source = "\
fn one(
    (a, mut b, c): (u8, u8, u8),
    d: (u8, u8),
) {}
fn two(&self, (a, b): (u8, u8)) -> (u8, u8);
fn three(a: impl Fn(u8)) { let (x, y): (u8, u8) = (0, 0); }
";
    assert_eq!(tuple_parameters(source).collect::<Vec<_>>(), ["a, mut b, c", "a, b"]);
}

/// The functions of a source with their lengths. rustfmt ends each with a brace below its first letter.
fn functions(source: &str) -> impl Iterator<Item = (&str, usize)> {
    let lines: Vec<&str> = source.lines().collect();
    (0..lines.len()).filter_map(move |first| {
        let name = name_of(lines[first])?;
        let indent = &lines[first][..lines[first].len() - lines[first].trim_start().len()];
        let rest = &lines[first..];
        let signature = rest.iter().position(|line| line.ends_with(['{', ';', '}']))?;
        let end = match rest[signature].ends_with('{') {
            true => rest.iter().position(|line| line.strip_prefix(indent) == Some("}"))?,
            // Without a body, or with all of it in this line.
            false => signature,
        };
        Some((name, end + 1))
    })
}

/// The name of the function that begins in this line.
fn name_of(line: &str) -> Option<&str> {
    let (before, after) = line.trim_start().split_once("fn ")?;
    let are_words = before.split_whitespace().all(|word| {
        let is_of_pub = word.starts_with("pub") || word.ends_with(')');
        is_of_pub || ["const", "async", "unsafe", "extern", "\"C\""].contains(&word)
    });
    let end = after.find(['(', '<'])?;
    are_words.then_some(&after[..end])
}

#[test]
fn functions_are_measured_to_their_last_brace() {
    let source = "\
pub(in crate::a) const fn one(
    a: u8,
) -> u8 {
    a
}
impl Two {
    fn short(&self) { self.0 }
    async fn three<T>(&self) {
        if true {
        }
    }
    fn declared(&self);
}
// the fn of a comment
";
    let found: Vec<_> = functions(source).collect();
    assert_eq!(found, [("one", 5), ("short", 1), ("three", 4), ("declared", 1)]);
}
