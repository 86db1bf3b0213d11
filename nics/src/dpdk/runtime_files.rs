//! The files that the EAL leaves behind: its own, and those of a process beside it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::process::{Flock, FlockType, fcntl_getlk};

use super::{advice, owned_text};

/// Options with which a process has no files of its own.
const WITHOUT_FILES: [&str; 3] = ["--no-shconf", "--in-memory", "--proc-type"];
/// What the second one of two processes has behind the prefix of its files.
const SECOND: &str = "-next";
/// The file that an EAL holds a lock of as long as it runs.
const LOCKED: &str = "config";

/// The arguments for the second one of two processes that run beside each other. Each has a folder for its files, and a lock in it.
pub fn beside_another(mut arguments: Vec<String>) -> Vec<String> {
    const NAME: &str = "--file-prefix";
    if is_without_files(&arguments) {
        return arguments;
    }
    let place = arguments.iter().rposition(|word| word.starts_with(NAME));
    let place = place.map(|place| if arguments[place] == NAME { place + 1 } else { place });
    match place.and_then(|place| arguments.get_mut(place)) {
        Some(prefix) => prefix.push_str(SECOND),
        // That of DPDK itself is `rte`.
        None => arguments.push(format!("{NAME}=rte{SECOND}")),
    }
    arguments
}

fn is_without_files(arguments: &[String]) -> bool {
    arguments.iter().any(|word| WITHOUT_FILES.iter().any(|option| word.starts_with(option)))
}

/// The folder where the EAL keeps its lock, sockets and tables. `rte_eal_cleanup` leaves it behind,
/// and the page files of what the EAL itself never gave back; it is named like their prefix. `None` when the process
/// shares nothing, so that the folder may belong to another one.
#[derive(Debug)]
pub(super) struct RuntimeFiles(Option<PathBuf>);

/// The files of the other one of two processes that run beside each other, or have done so. `None`: there are none.
#[derive(Debug, Default)]
pub struct FilesBeside(Option<(PathBuf, File)>);

impl RuntimeFiles {
    pub(super) fn find(arguments: &[String]) -> Self {
        if is_without_files(arguments) {
            return Self(None);
        }
        // SAFETY: returns the EAL's own buffer.
        let folder = owned_text(unsafe { dpdk_sys::rte_eal_get_runtime_dir() });
        Self((!folder.is_empty()).then(|| folder.into()))
    }

    /// The folder, the one it is in, and where its pages are.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        let own = self.0.as_deref();
        let parent = own.and_then(Path::parent);
        let own = own.into_iter().chain(parent).map(Path::to_owned);
        own.chain(advice::hugepage_mounts()).collect()
    }

    /// Where the files of its pages are; nowhere if it has none.
    pub(super) fn page_folders(&self) -> Vec<PathBuf> {
        self.0.iter().flat_map(|_| advice::hugepage_mounts()).collect()
    }

    /// Removes the remaining files. We held the lock of this folder, so everything of its name was ours.
    pub(super) fn remove(&self) {
        if let Some(folder) = &self.0 {
            remove(folder);
        }
    }

    /// Those of the other process. `is_second`: this one has the second prefix.
    pub(super) fn beside(&self, is_second: bool) -> FilesBeside {
        let beside = |own: &Path| {
            let name = own.file_name().and_then(OsStr::to_str)?;
            let folder = own.with_file_name(match is_second {
                true => name.strip_suffix(SECOND)?.to_owned(),
                false => format!("{name}{SECOND}"),
            });
            let lock = File::open(folder.join(LOCKED)).ok()?;
            Some((folder, lock))
        };
        FilesBeside(self.0.as_deref().and_then(beside))
    }
}

impl FilesBeside {
    /// Removes them once, if no process has them any more.
    pub fn remove_left(&mut self) {
        let is_left = |(_, lock): &mut (PathBuf, File)| {
            fcntl_getlk(lock, &Flock::from(FlockType::WriteLock)).is_ok_and(|held| held.is_none())
        };
        if let Some((folder, _)) = self.0.take_if(is_left) {
            remove(&folder);
        }
    }
}

/// Removes the files of the process that had this folder.
fn remove(folder: &Path) {
    if let Some(prefix) = folder.file_name() {
        let pages = format!("{}map_", prefix.to_string_lossy());
        for mount in advice::hugepage_mounts() {
            remove_files(&mount, &[&pages]);
        }
    }
    let known = [LOCKED, "hugepage_info", "fbarray_", "dpdk_telemetry", "mp_socket"];
    remove_files(folder, &known);
    let _stays_if_not_empty = fs::remove_dir(folder);
}

/// Removes the files of a folder whose names start with one of these.
fn remove_files(folder: &Path, starts: &[&str]) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if starts.iter().any(|start| name.to_string_lossy().starts_with(start)) {
            let _stays_if_it_must = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::os::fd::AsRawFd as _;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::DESCRIPTORS;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_second_process_has_another_prefix_if_it_has_files() {
        for (given, second) in [
            ("-m 64", "-m 64 --file-prefix=rte-next"),
            ("--file-prefix=a -m 64", "--file-prefix=a-next -m 64"),
            ("--file-prefix a -m 64", "--file-prefix a-next -m 64"),
            ("--no-shconf --file-prefix=a", "--no-shconf --file-prefix=a"),
            ("--in-memory", "--in-memory"),
        ] {
            assert_eq!(beside_another(words(given)), words(second));
        }
    }

    /// Tells the program of this test that it is the other process, with this folder.
    const OTHER: &str = "PMDNS_TEST_OTHER";

    /// Takes the lock that the EAL takes, and ends when its input does.
    fn be_the_other(folder: &Path) {
        let file = File::options().write(true).open(folder.join(LOCKED)).unwrap();
        // SAFETY: the structure is plain numbers.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::c_short::try_from(libc::F_WRLCK).unwrap();
        (lock.l_start, lock.l_len) = (8, 8);
        // SAFETY: the file is open, and the structure outlives the call.
        let code = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) };
        assert_eq!(code, 0);
        println!("\nheld");
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    }

    #[test]
    fn files_of_the_other_process_go_when_it_has_ended() {
        if let Some(folder) = std::env::var_os(OTHER) {
            return be_the_other(Path::new(&folder));
        }
        let parent = std::env::temp_dir().join(format!("pmdns-beside-{}", std::process::id()));
        let (first, second) = (parent.join("a"), parent.join("a-next"));
        for folder in [&first, &second] {
            fs::create_dir_all(folder).unwrap();
            File::create(folder.join(LOCKED)).unwrap();
        }
        let of_second = RuntimeFiles(Some(second.clone())).beside(true);
        assert_eq!(of_second.0.unwrap().0, first);
        let mut beside = RuntimeFiles(Some(first.clone())).beside(false);
        let name = "dpdk::runtime_files::tests::files_of_the_other_process_go_when_it_has_ended";
        let mut other = Command::new(std::env::current_exe().unwrap());
        other.args([name, "--exact", "--nocapture"]).env(OTHER, &second);
        other.stdin(Stdio::piped()).stdout(Stdio::piped());
        let alone = DESCRIPTORS.lock();
        let mut other = other.spawn().unwrap();
        drop(alone);
        let lines = BufReader::new(other.stdout.take().unwrap()).lines();
        assert!(lines.map(Result::unwrap).any(|line| line == "held"));
        beside.remove_left();
        assert!(second.join(LOCKED).exists(), "it runs");
        drop(other.stdin.take());
        other.wait().unwrap();
        beside.remove_left();
        assert!(!second.exists());
        assert!(first.join(LOCKED).exists(), "these are its own");
        fs::remove_dir_all(parent).unwrap();
    }
}
