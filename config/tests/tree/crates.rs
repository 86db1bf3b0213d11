//! The files of a crate, and which of them each one imports.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::File;
use crate::paths::{Code, Names, Use};

/// Which other files each file imports, by module.
pub(crate) type Imports = BTreeMap<Names, BTreeSet<Names>>;

/// How often a name is passed on, at most.
const MAX_STEPS: usize = 8;
/// Folders in which each file and each folder is a crate.
const OF_CRATES: [&str; 4] = ["/bin/", "/tests/", "/benches/", "/examples/"];

/// The files of a crate, by module. A module's path begins at the crate; the root's is empty.
pub(crate) struct Crate {
    files: BTreeMap<Names, Code>,
    /// The name of the root where others borrow it.
    name: String,
}

/// Where a path leads.
enum Place {
    /// To a module as such.
    Module(Names),
    /// To an item of this file.
    Item(Names),
}

impl Crate {
    /// Reads the crate whose files are in a folder, and whose root may lie beside it.
    pub(crate) fn read(files: &[File], source: &str) -> Self {
        let beside = format!("{source}.rs");
        let library = format!("{source}/lib.rs");
        let has_library = files.iter().any(|file| file.name == library);
        let mut modules = BTreeMap::new();
        for File { name, text } in files {
            let inside = name.strip_prefix(source).and_then(|rest| rest.strip_prefix('/'));
            let inside = match inside.and_then(|inside| inside.strip_suffix(".rs")) {
                Some(inside) => inside,
                None if *name == beside => "mod",
                None => continue,
            };
            let mut module: Names = inside.split('/').map(str::to_owned).collect();
            let is_other = has_library && (module == ["main"] || module[0] == "bin");
            if matches!(&*module[module.len() - 1], "mod" | "lib" | "main") {
                module.pop();
            }
            if !is_other {
                modules.insert(module, Code::read(text));
            }
        }
        let name = source.rsplit('/').next().unwrap_or_default().to_owned();
        Self::new(modules, name)
    }

    pub(crate) fn new(files: BTreeMap<Names, Code>, name: String) -> Self {
        Self { files, name }
    }

    /// Which other files each file imports. What a file only passes on is its importers' business.
    pub(crate) fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (module, code) in &self.files {
            let private = || code.uses.iter().filter(|it| !it.is_public);
            let used = private().filter_map(|it| self.resolve(self.absolute(module, &it.path)?, 0));
            // The items of an import were counted there.
            let is_counted =
                |path: &[String]| matches!(path, [name] if private().any(|it| it.name == *name));
            let named = code.paths.iter().filter(|path| !is_counted(path));
            let named = named.filter_map(|path| match self.absolute(module, path) {
                Some(path) => self.resolve(path, 0),
                None => self.glob(module, &path[0], 0),
            });
            let files = used.chain(named).filter_map(|place| match place {
                Place::Item(file) if file != *module => Some(file),
                _ => None,
            });
            imports.insert(module.clone(), files.collect());
        }
        imports
    }

    /// The path from the root of the crate; `None`: it leads into another one.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Names> {
        let (first, rest) = path.split_first()?;
        match &**first {
            // In macros.
            "crate" | "$crate" => {
                let is_root = |name: &String| *name == self.name && !self.is_here(&[], name);
                Some(rest[usize::from(rest.first().is_some_and(is_root))..].to_vec())
            }
            "self" => Some([module, rest].concat()),
            "super" => {
                let above = module.split_last()?.1;
                match rest.first().is_some_and(|next| next == "super") {
                    true => self.absolute(above, rest),
                    false => Some([above, rest].concat()),
                }
            }
            _ => self.is_here(module, first).then(|| [module, path].concat()),
        }
    }

    fn uses(&self, module: &[String]) -> &[Use] {
        self.files.get(module).map_or(&[], |code| &code.uses)
    }

    /// Whether a module has a child or an import of this name.
    fn is_here(&self, module: &[String], name: &str) -> bool {
        let child = [module, &[name.to_owned()]].concat();
        self.files.contains_key(&child) || self.uses(module).iter().any(|it| it.name == name)
    }

    /// Where a name leads that a module passes on by `pub use ...::*`.
    fn glob(&self, module: &[String], name: &str, steps: usize) -> Option<Place> {
        if steps > MAX_STEPS {
            return None;
        }
        let all = self.uses(module).iter().filter(|it| it.name == "*" && it.is_public);
        let mut all = all.filter_map(|it| {
            let (_, path) = it.path.split_last()?;
            match self.resolve(self.absolute(module, path)?, steps + 1)? {
                Place::Module(file) => Some(file),
                Place::Item(_) => None,
            }
        });
        all.find_map(|file| match self.files[&file].defines(name) {
            true => Some(Place::Item(file)),
            false => self.named(&file, name, steps + 1),
        })
    }

    /// Where a name leads that a module imports or passes on.
    fn named(&self, module: &[String], name: &str, steps: usize) -> Option<Place> {
        self.imported(module, name, steps).or_else(|| self.glob(module, name, steps))
    }

    /// Where a name leads that a module imports or passes on by its name.
    fn imported(&self, module: &[String], name: &str, steps: usize) -> Option<Place> {
        if steps > MAX_STEPS {
            return None;
        }
        let mut uses = self.uses(module).iter().filter(|it| it.name == name);
        uses.find_map(|it| self.resolve(self.absolute(module, &it.path)?, steps + 1))
    }

    /// Where a path from the root leads; `None`: to a file of another folder, which this crate borrows by `#[path]`.
    fn resolve(&self, path: Names, steps: usize) -> Option<Place> {
        let mut at = Names::new();
        for (index, name) in path.iter().enumerate() {
            let child = [&at[..], std::slice::from_ref(name)].concat();
            let (is_module, is_last) = (self.files.contains_key(&child), index + 1 == path.len());
            if name == "*" {
                return Some(Place::Item(at));
            }
            let passed_on = match is_module {
                true if is_last => self.imported(&at, name, steps),
                true => None,
                false => self.named(&at, name, steps),
            };
            at = match passed_on {
                Some(Place::Module(_)) | None if is_module => child,
                Some(Place::Module(module)) => {
                    return self.resolve([&module[..], &path[index + 1..]].concat(), steps + 1);
                }
                // A module and a function of it may have the same name.
                Some(place) => return Some(place),
                None => {
                    let is_borrowed = self.files.get(&at)?.declares(name);
                    return (!is_borrowed).then_some(Place::Item(at));
                }
            };
        }
        Some(Place::Module(at))
    }
}

/// Every crate: the folder with its sources, or that beside its only file. Tests, benches and programs are crates.
pub(crate) fn crates(files: &[File]) -> Vec<String> {
    let mut crates = BTreeSet::new();
    for name in files.iter().filter_map(|file| file.name.strip_suffix(".rs")) {
        if let Some(folder) = name.strip_suffix("/lib").or_else(|| name.strip_suffix("/main")) {
            crates.insert(folder.to_owned());
        }
        let kind = OF_CRATES.iter().find_map(|kind| name.split_once(kind).map(|it| (it, kind)));
        // Unit tests are of the crate that they test.
        if let Some(((above, inside), kind)) = kind
            && (*kind == "/bin/" || !format!("{above}/").contains("/src/"))
        {
            let root = inside.split('/').next().unwrap_or_default();
            crates.insert(format!("{above}{kind}{root}"));
        }
    }
    crates.into_iter().collect()
}
