//! The files that a machine tells about itself in, below a root.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use pmdns_config::limits::MAX_CORE;

/// Bytes of a file that are read at most; those of `proc` and `sys` are far shorter.
const MAX_TEXT: u64 = 1 << 20;
/// Entries of a folder that are looked at.
const MAX_ENTRIES: usize = 8192;

/// A machine's files.
pub(super) struct Tree<'t>(&'t Path);

impl<'t> Tree<'t> {
    pub(super) fn new(root: &'t Path) -> Self {
        Self(root)
    }

    /// Where a path is in truth.
    pub(super) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    pub(super) fn has(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }

    /// The text of a file, without the spaces around it.
    pub(super) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let mut text = Vec::new();
        File::open(self.path(path)).ok()?.take(MAX_TEXT).read_to_end(&mut text).ok()?;
        Some(String::from_utf8_lossy(&text).trim().to_owned())
    }

    pub(super) fn number(&self, path: impl AsRef<Path>) -> Option<usize> {
        self.text(path)?.parse().ok()
    }

    /// The names in a folder, sorted; none if there is no such folder.
    pub(super) fn names(&self, folder: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(folder)) else { return Vec::new() };
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.take(MAX_ENTRIES).collect();
        names.sort();
        names
    }

    /// The numbers of a folder's entries that are `prefix` and a number, sorted.
    pub(super) fn numbered(&self, folder: impl AsRef<Path>, prefix: &str) -> Vec<usize> {
        let names = self.names(folder);
        let number = |name: &String| name.strip_prefix(prefix)?.parse().ok();
        let mut numbers: Vec<usize> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The last part of a link's target.
    pub(super) fn link(&self, path: impl AsRef<Path>) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// The value of a line `key: value` (proc_cpuinfo(5), proc_pid_status(5)): the first of its name.
    pub(super) fn field(&self, path: &str, key: &str) -> Option<String> {
        let text = self.text(path)?;
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
    }

    /// The CPUs of a list such as `0-3,8`.
    pub(super) fn cpus(&self, path: impl AsRef<Path>) -> Vec<usize> {
        let text = self.text(path).unwrap_or_default();
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.trim().parse(), last.trim().parse::<usize>()) else {
                continue;
            };
            cpus.extend(first..=last.min(MAX_CORE));
        }
        cpus
    }
}

/// CPUs as the kernel and the shell list them.
pub(super) fn list(cpus: &[usize]) -> String {
    let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    cpus.join(",")
}

/// `CPU 3` or `CPUs 3,4`.
pub(super) fn named(cpus: &[usize]) -> String {
    format!("CPU{} {}", if cpus.len() == 1 { "" } else { "s" }, list(cpus))
}
