//! Files import one way: no circle of more than two of them in any crate, and `wire` imports nothing above it.
//!
//! Two files may know each other, as a module and its part do. Three that do are one file in pieces.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::files::{File, files};

/// A module's path in its crate; the root's is empty.
type Module = Vec<String>;

/// How often a name is passed on, at most.
const MAX_STEPS: usize = 8;

#[test]
fn no_three_files_import_each_other() {
    let files = files();
    let roots = crates(&files);
    assert!(roots.len() >= 8, "there are more crates than {roots:?}");
    let circles: Vec<_> = roots
        .iter()
        .filter_map(|source| Some((source, circle(&Crate::read(&files, source).imports())?)))
        .collect();
    assert!(circles.is_empty(), "these files import each other: {circles:#?}");
}

#[test]
fn wire_imports_nothing_above_it() {
    let stages = Crate::read(&files(), "stages/src");
    let wire =
        stages.files.iter().filter(|(module, _)| module.first().is_some_and(|it| it == "wire"));
    assert!(wire.clone().count() >= 10, "wire consists of more files");
    for (module, text) in wire {
        for (_, path) in paths(text) {
            let path = stages.absolute(module, &path).unwrap_or_else(|| vec!["wire".to_owned()]);
            assert_eq!(path[0], "wire", "{} imports {}", module.join("::"), path.join("::"));
        }
    }
}

#[test]
fn a_circle_is_seen_through_what_is_passed_on() {
    let file = |module: &str, text: &str| {
        (
            module.split("::").filter(|it| !it.is_empty()).map(str::to_owned).collect(),
            text.to_owned(),
        )
    };
    let passed_on = file("", "pub mod a; pub use a::One;");
    let apart = [
        passed_on.clone(),
        file("a", "use self::part::{Two, Three as Four};"),
        file("a::part", "use super::One;"),
        file("b", "use crate::{One, a::part}; pub(in crate::a) fn f() { part::f(); }"),
    ];
    assert_eq!(circle(&Crate { files: apart.into() }.imports()), None);
    let together = [
        passed_on,
        file("a", "fn f() -> part::Two { part::f(crate::b::Five) } use part::Two;"),
        file("a::part", "// use crate::b;"),
        file("b", "use crate::c::{Six};"),
        file("c", "use crate::One;"),
    ];
    let circle = circle(&Crate { files: together.into() }.imports());
    assert_eq!(circle.map(|files| files.len()), Some(3));
}

/// What the files of a crate say, by module.
struct Crate {
    files: BTreeMap<Module, String>,
}

impl Crate {
    fn read(files: &[File], source: &str) -> Self {
        let mut modules = BTreeMap::new();
        for File { name, text } in files {
            let Some(inside) = name.strip_prefix(source).and_then(|rest| rest.strip_prefix('/'))
            else {
                continue;
            };
            let Some(inside) = inside.strip_suffix(".rs") else { continue };
            let mut module: Module = inside.split('/').map(str::to_owned).collect();
            if matches!(&*module[module.len() - 1], "mod" | "lib" | "main") {
                module.pop();
            }
            if !module.iter().any(|part| part == "tests" || part == "bin") {
                modules.insert(module, text.clone());
            }
        }
        Self { files: modules }
    }

    /// Which other files each file imports. What a file only passes on is its importers' business.
    fn imports(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        let mut passed_on = BTreeMap::new();
        let mut used = Vec::new();
        for (module, text) in &self.files {
            for (is_public, path) in paths(text) {
                let Some(target) = self.absolute(module, &path) else { continue };
                match is_public {
                    true => {
                        let name = target.last().cloned();
                        passed_on.insert(module.iter().cloned().chain(name).collect(), target);
                    }
                    false => used.push((module.clone(), target)),
                }
            }
        }
        let mut imports = BTreeMap::<_, BTreeSet<_>>::new();
        for (module, target) in used {
            if let Some(file) = self.file_of(target, &passed_on).filter(|file| *file != module) {
                imports.entry(module).or_default().insert(file);
            }
        }
        imports
    }

    /// The path from the root of the crate; `None`: it leads into another one.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        match &**first {
            "crate" => Some(rest.to_vec()),
            "self" => Some([module, rest].concat()),
            "super" => {
                let above = module.split_last()?.1.to_vec();
                match rest.first().is_some_and(|next| next == "super") {
                    true => self.absolute(&above, rest),
                    false => Some([&above, rest].concat()),
                }
            }
            _ => {
                let inside = [module, path].concat();
                self.files.contains_key(&inside[..=module.len()]).then_some(inside)
            }
        }
    }

    /// The file that has what a path leads to; `None`: one of another folder, which this crate borrows by `#[path]`.
    fn file_of(&self, mut path: Module, passed_on: &BTreeMap<Module, Module>) -> Option<Module> {
        for _ in 0..MAX_STEPS {
            let mut prefixes = (1..=path.len()).map(|length| &path[..length]);
            let step = prefixes.find_map(|prefix| {
                let target = passed_on.get(prefix).filter(|target| !target.starts_with(prefix))?;
                Some([&target[..], &path[prefix.len()..]].concat())
            });
            match step {
                Some(target) => path = target,
                None => break,
            }
        }
        let mut below = None;
        while !self.files.contains_key(&path) {
            below = path.pop();
        }
        let is_borrowed = |name: &String| self.files[&path].contains(&format!("mod {name};"));
        (!below.as_ref().is_some_and(is_borrowed)).then_some(path)
    }
}

/// Three or more files that import each other in a circle, if there are any.
fn circle(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Option<Vec<String>> {
    let next = |module: &Module| imports.get(module).into_iter().flatten();
    for (from, firsts) in imports {
        for first in firsts {
            // The shortest way back that is no step straight back.
            let mut before = BTreeMap::from([(first, first)]);
            let mut queue = VecDeque::from([first]);
            while let Some(at) = queue.pop_front() {
                for to in next(at).filter(|to| at != first || *to != from) {
                    if to == from {
                        let back = std::iter::successors(Some(at), |at| {
                            Some(before[at]).filter(|_| *at != first)
                        });
                        return Some(
                            [from].into_iter().chain(back).map(|it| it.join("::")).collect(),
                        );
                    }
                    before.entry(to).or_insert_with(|| {
                        queue.push_back(to);
                        at
                    });
                }
            }
        }
    }
    None
}

/// The paths into its own crate that a file has outside of its tests, and whether it only passes them on.
fn paths(text: &str) -> Vec<(bool, Vec<String>)> {
    let text = text.split("mod tests {").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let text = lines.collect::<Vec<_>>().join(" ").replace("(in crate::", "(in ");
    let mut found = Vec::new();
    let mut rest = String::new();
    for statement in text.split_inclusive([';', '}']) {
        rest.push_str(statement);
        let Some(start) = rest.rfind(" use ").map(|at| at + 5).filter(|_| rest.ends_with(';'))
        else {
            continue;
        };
        let is_public = rest[..start].trim_end_matches(" use ").ends_with("pub")
            || rest[..start].trim_end_matches(" use ").ends_with(')');
        let tree = rest[start..].trim_end_matches(';').to_owned();
        found.extend(leaves(&tree).into_iter().map(|path| (is_public, path)));
        rest.truncate(start);
        rest.push(';');
        let outside = std::mem::take(&mut rest);
        found.extend(inline(&outside).map(|path| (false, path)));
    }
    found.extend(inline(&rest).map(|path| (false, path)));
    found
}

/// The paths that a `use` tree consists of.
fn leaves(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    let Some((head, inner)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        let parts = path.split("::").map(|part| part.trim().to_owned());
        return vec![parts.filter(|part| !part.is_empty() && part != "self").collect()];
    };
    let head: Vec<String> =
        head.split("::").map(|part| part.trim().to_owned()).filter(|it| !it.is_empty()).collect();
    let inner = inner.trim_end().trim_end_matches('}');
    let mut depth = 0;
    let parts = inner.split(|letter| {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        letter == ',' && depth == 0
    });
    let parts = parts.filter(|part| !part.trim().is_empty());
    parts.flat_map(leaves).map(|leaf| [&head[..], &leaf[..]].concat()).collect()
}

/// The paths in expressions and types that begin with `crate` or `super`.
fn inline(text: &str) -> impl Iterator<Item = Vec<String>> {
    let words = text.split(|letter: char| !letter.is_alphanumeric() && !"_:$".contains(letter));
    let words = words.filter(|word| word.starts_with("crate::") || word.starts_with("super::"));
    words.map(|word| word.split("::").filter(|it| !it.is_empty()).map(str::to_owned).collect())
}

/// The folders with the sources of every crate, its own programs' included.
fn crates(files: &[File]) -> Vec<&str> {
    let folder_with = |name: &str| {
        let suffix = format!("/{name}");
        files.iter().filter_map(move |file| file.name.strip_suffix(&suffix))
    };
    let libraries: BTreeSet<&str> = folder_with("lib.rs").collect();
    let programs = folder_with("main.rs").filter(|folder| !libraries.contains(folder));
    libraries.iter().copied().chain(programs).collect()
}
