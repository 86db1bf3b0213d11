//! A file that is either as it was or whole, whenever the machine stops.
//!
//! It is written under an unpredictable name beside its own, and gets its own name when it is whole. So nothing that
//! is planted in a shared folder is followed, opened or waited for.

use std::ffi::OsString;
use std::fs::{File, Metadata, Permissions, symlink_metadata};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::open::create_new;

/// Names that are tried. Even one that is taken already is unlikely.
const ATTEMPTS: u32 = 8;
/// The end of a name that is not final.
const SUFFIX: &[u8] = b".part";
/// Bytes of the final name that the other one repeats: a name has at most 255 (`NAME_MAX`).
const MAX_STEM: usize = 200;
/// Hexadecimal digits that cannot be guessed.
const DIGITS: usize = 16;
/// A file under a temporary name that has not been written for so long belongs to a process that was killed.
const ABANDONED: Duration = Duration::from_secs(3600);
/// Entries of a folder that are looked at for such files.
const MAX_ENTRIES: usize = 4096;

/// A file that is being written, under another name. Unless it is finished, nothing is left of it.
#[derive(Debug)]
pub struct WholeFile {
    out: BufWriter<File>,
    path: PathBuf,
    temporary: PathBuf,
    is_finished: bool,
}

impl WholeFile {
    /// Begins to write the file that will be `path`, with this mode whatever the umask is. If it replaces a file of ours, it
    /// takes that file's mode and group. It does not take those of another owner's file: that owner could read the new one.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn create(path: &Path, mode: u32) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.as_bytes();
        let stem = [b".", &name[..name.len().min(MAX_STEM)], b"."].concat();
        remove_abandoned(folder_of(path), &stem);
        let (file, temporary) = create_beside(path, &stem)?;
        // Dropped from here on, it leaves nothing behind.
        let out = BufWriter::new(file);
        let this = Self { out, path: path.to_owned(), temporary, is_finished: false };
        let file = this.out.get_ref();
        let mode = inherited(path, file, &file.metadata()?).unwrap_or(mode);
        file.set_permissions(Permissions::from_mode(mode))?;
        Ok(this)
    }

    /// The name that it will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file itself, for another process to write.
    pub fn file(&self) -> &File {
        self.out.get_ref()
    }

    /// Gives the file its name. Returns it, to add to its end.
    ///
    /// # Errors
    ///
    /// What the system says; a file of that name is then as it was.
    pub fn finish(mut self) -> io::Result<File> {
        self.out.flush()?;
        let file = self.out.get_ref().try_clone()?;
        file.sync_all()?;
        std::fs::rename(&self.temporary, &self.path)?;
        self.is_finished = true;
        // The name lasts as the contents do.
        File::open(folder_of(&self.path))?.sync_all()?;
        Ok(file)
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// The folder that a file is in.
pub fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or_else(|| Path::new("."))
}

/// A new file that only its owner may use, and its name.
fn create_beside(path: &Path, stem: &[u8]) -> io::Result<(File, PathBuf)> {
    let mut taken = io::ErrorKind::AlreadyExists.into();
    for _ in 0..ATTEMPTS {
        let mut random = [0; DIGITS / 2];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let random = format!("{:016x}", u64::from_ne_bytes(random));
        let name = OsString::from_vec([stem, random.as_bytes(), SUFFIX].concat());
        let temporary = path.with_file_name(name);
        match create_new(&temporary, 0o600) {
            Ok(file) => return Ok((file, temporary)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            Err(error) => return Err(error),
        }
    }
    Err(taken)
}

/// The mode of the file that `file` replaces, whose group it gets. Never one that lets everybody write.
fn inherited(path: &Path, file: &File, own: &Metadata) -> Option<u32> {
    let old = std::fs::symlink_metadata(path).ok()?;
    let is_ours = old.is_file() && old.uid() == own.uid();
    let has_group =
        is_ours && (old.gid() == own.gid() || fchown(file, None, Some(old.gid())).is_ok());
    has_group.then(|| old.mode() & 0o775)
}

/// Removes the files of a process that was killed.
fn remove_abandoned(folder: &Path, stem: &[u8]) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().take(MAX_ENTRIES).flatten() {
        let name = entry.file_name();
        let digits = name.as_bytes().strip_prefix(stem).and_then(|rest| rest.strip_suffix(SUFFIX));
        let is_ours = digits
            .is_some_and(|text| text.len() == DIGITS && text.iter().all(u8::is_ascii_hexdigit));
        let is_abandoned = || {
            let written = entry.metadata().ok().filter(Metadata::is_file)?.modified().ok()?;
            Some(written.elapsed().ok()? > ABANDONED)
        };
        if is_ours && is_abandoned() == Some(true) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Whether `path` still leads to this file. What is appended to a file that was removed is lost.
pub fn is_in_place(file: &File, path: &Path) -> bool {
    let identity = |facts: Metadata| (facts.dev(), facts.ino());
    let (ours, there) = (file.metadata().ok(), symlink_metadata(path).ok());
    there.is_some() && ours.map(identity) == there.map(identity)
}

/// Whether the surroundings refuse a file that is right: a full disk, a quota, a bound on sizes, a file system that broke or
/// became read-only. That may end, so it ends nothing here.
pub fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), FileTooLarge | QuotaExceeded | ReadOnlyFilesystem | StorageFull)
        || error.raw_os_error() == Some(libc::EIO)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;
    use std::time::SystemTime;

    use super::*;
    use crate::files::testing::Folder;

    fn write(path: &Path, text: &str) -> io::Result<()> {
        let mut file = WholeFile::create(path, 0o640)?;
        file.write_all(text.as_bytes())?;
        file.finish().map(drop)
    }

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn audit_12_a_planted_link_is_not_followed() {
        let folder = Folder::new("link");
        let (path, victim) = (folder.0.join("dump"), folder.0.join("victim"));
        std::fs::write(&victim, "precious").unwrap();
        symlink(&victim, folder.0.join("dump.part")).unwrap();
        write(&path, "new").unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
        // A link under the final name is replaced; where it leads nothing changes.
        symlink(&victim, folder.0.join("other")).unwrap();
        write(&folder.0.join("other"), "new").unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
        assert!(folder.0.join("other").symlink_metadata().unwrap().is_file());
        assert_eq!(folder.names(), ["dump", "dump.part", "other", "victim"]);
    }

    #[test]
    fn audit_12_a_planted_pipe_holds_nobody_up() {
        let folder = Folder::new("pipe");
        for name in ["dump", "dump.part"] {
            let made = Command::new("mkfifo").arg(folder.0.join(name)).status().unwrap();
            assert!(made.success());
        }
        write(&folder.0.join("dump"), "new").unwrap();
        assert_eq!(std::fs::read(folder.0.join("dump")).unwrap(), b"new");
    }

    #[test]
    fn audit_12_the_mode_does_not_depend_on_the_umask() {
        let folder = Folder::new("umask");
        let (new, shared, open) =
            (folder.0.join("new"), folder.0.join("shared"), folder.0.join("open"));
        for (path, given) in [(&shared, 0o664), (&open, 0o666)] {
            std::fs::write(path, "old").unwrap();
            std::fs::set_permissions(path, Permissions::from_mode(given)).unwrap();
        }
        // The mode is set on the open file, so a umask of 0 or 0o077 makes no difference.
        for path in [&new, &shared, &open] {
            write(path, "new").unwrap();
        }
        assert_eq!(mode(&new), 0o640);
        assert_eq!(mode(&shared), 0o664, "as its owner has set it");
        assert_eq!(mode(&open), 0o664, "but not for everybody to write");
    }

    #[test]
    fn audit_12_a_file_of_somebody_else_does_not_hand_on_its_mode() {
        let folder = Folder::new("planted");
        let path = folder.0.join("dump");
        std::fs::write(&path, "planted").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        if std::os::unix::fs::chown(&path, Some(65534), None).is_err() {
            // Only root can give a file another owner.
            return;
        }
        write(&path, "secret").unwrap();
        let facts = std::fs::metadata(&path).unwrap();
        assert_eq!((facts.mode() & 0o777, facts.uid() == 65534), (0o640, false));
    }

    #[test]
    fn what_a_killed_process_left_goes_when_it_is_old_enough() {
        let folder = Folder::new("abandoned");
        let path = folder.0.join("zone");
        let left = |name: &str, age: u64| {
            let file = File::create(folder.0.join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        };
        left(".zone.0123456789abcdef.part", 7200);
        left(".zone.0123456789abcdee.part", 60);
        left(".zone.0123456789abcde.part", 7200);
        left(".zones.0123456789abcdef.part", 7200);
        write(&path, "new").unwrap();
        let kept = [
            ".zone.0123456789abcde.part",
            ".zone.0123456789abcdee.part",
            ".zones.0123456789abcdef.part",
        ];
        assert_eq!(folder.names(), [&kept[..], &["zone"]].concat());
    }

    #[test]
    fn a_long_name_is_a_name() {
        let folder = Folder::new("long");
        write(&folder.0.join("n".repeat(255)), "new").unwrap();
        assert_eq!(folder.names(), ["n".repeat(255)]);
    }
}
