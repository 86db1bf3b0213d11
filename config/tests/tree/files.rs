//! The files of the tree.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold what programs made, or bytes for fuzzing and replay.
const NOT_OURS: [&str; 5] =
    ["target", ".git", "bench/fuzz/seeds", "docs/book", "pipeline/tests/data"];
/// Files that are text.
const TEXT: [&str; 13] =
    ["rs", "sh", "toml", "md", "yml", "c", "h", "awk", "svg", "html", "css", "js", "py"];

/// A file.
pub(crate) struct File {
    /// From the root of the tree.
    pub(crate) name: String,
    pub(crate) text: String,
}

impl File {
    /// Whether its name has one of these endings.
    pub(crate) fn is(&self, endings: &[&str]) -> bool {
        endings.iter().any(|ending| self.name.ends_with(&format!(".{ending}")))
    }

    /// Whether it is Rust of the product: not of its tests, its benches, or its build.
    pub(crate) fn is_product(&self) -> bool {
        let is_test = self.name.contains("/tests/") || self.name.ends_with("tests.rs");
        let is_source = self.name.contains("/src/") && self.is(&["rs"]);
        is_source && !is_test && !self.name.starts_with("bench/")
    }

    /// The text without the unit tests at its foot.
    pub(crate) fn product(&self) -> &str {
        self.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
    }

    /// The lines, with their numbers.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

/// Where it is.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Every text file of the tree.
pub(crate) fn files() -> Vec<File> {
    let root = root();
    let (mut folders, mut files) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            let is_ours = !NOT_OURS.contains(&&*name);
            if path.is_dir() && is_ours && !name.ends_with("/target") {
                folders.push(path);
            } else if path.is_file() && TEXT.iter().any(|end| name.ends_with(&format!(".{end}"))) {
                files.push(File { name, text: fs::read_to_string(&path).unwrap() });
            }
        }
    }
    assert!(files.len() > 400, "only {} files were found", files.len());
    files
}
