//! The files of the database: its own, the write-ahead log, the shared memory.
//!
//! SQLite makes the others with the mode of the database and follows no link to them. It would wait for a pipe, and follow a
//! link to the database itself.
//!
//! Whoever closes a descriptor of a file ends all locks that the process has on it, those of SQLite's connections too
//! (sqlite.org/howtocorrupt.html, section 2.2). So a database that is there is never opened here, but held.

use std::ffi::OsString;
use std::fs::{Permissions, set_permissions, symlink_metadata};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use pmdns_config::files::{create_new, folder_of, hold_regular, open_regular};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::process::geteuid;

use pmdns_config::files::is_passing;

/// Queries are nobody's business but the operator's.
const MODE: u32 = 0o640;
/// The beginning of a database (sqlite.org/fileformat.html, section 1.3).
const MAGIC: &[u8] = b"SQLite format 3\0";
/// The rights of everybody.
const OTHERS: u32 = 0o007;
/// The ends of names of the files beside a database (sqlite.org/tempfiles.html).
const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];

/// Why a database cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file.
    #[error(transparent)]
    File(#[from] io::Error),
    /// SQLite.
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
    /// Something else is in its place.
    #[error("file is not a database; move it away, or write another path")]
    Other,
}

impl OpenError {
    /// Whether the disk, another program, or the contents of the file refuse. That may end: a backup releases its lock, and
    /// somebody moves a broken file away. The file is left as it is.
    pub(super) fn is_passing(&self) -> bool {
        use ErrorCode::{
            CannotOpen, DatabaseBusy, DatabaseCorrupt, DatabaseLocked, DiskFull, NotADatabase,
            ReadOnly, SystemIoFailure,
        };
        match self {
            Self::File(error) => is_passing(error),
            Self::Other => true,
            Self::Database(error) => matches!(
                error.sqlite_error_code(),
                Some(
                    DiskFull
                        | SystemIoFailure
                        | ReadOnly
                        | DatabaseBusy
                        | DatabaseLocked
                        | CannotOpen
                        | DatabaseCorrupt
                        | NotADatabase
                )
            ),
        }
    }
}

/// Opens the database for writing; there need not be one.
pub(super) fn open_to_write(path: &Path) -> Result<Connection, OpenError> {
    match symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => drop(create_new(path, MODE)?),
        _ => close_to_others(path)?,
    }
    // A process that was killed may have left them to everybody.
    for beside in BESIDE.map(|end| with_end(path, end)) {
        if symlink_metadata(&beside).is_ok_and(|facts| facts.is_file()) {
            close_to_others(&beside)?;
        }
    }
    // SQLite takes a file of one byte for an empty one, and writes over it. It refuses others that are no databases.
    if symlink_metadata(path)?.len() == 1 {
        return Err(OpenError::Other);
    }
    open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
}

/// Whether the file is a database, or is to be one. Not to be asked while a connection is open.
pub fn is_database(path: &Path) -> bool {
    let mut begin = Vec::new();
    let read =
        open_regular(path).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut begin));
    read.is_err() || begin.is_empty() || begin == MAGIC
}

/// Opens the database for searches. Who may write it may also have put something else into it.
pub(super) fn open_to_read(path: &Path) -> Result<Connection, OpenError> {
    hold_regular(path)?;
    open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

fn open(path: &Path, access: OpenFlags) -> Result<Connection, OpenError> {
    for beside in BESIDE.map(|end| with_end(path, end)) {
        if symlink_metadata(&beside).is_ok_and(|facts| !facts.is_file()) {
            let why = format!("{} is no regular file; remove it", beside.display());
            return Err(io::Error::other(why).into());
        }
    }
    // SQLite refuses links in the folder's path as well, but `/var/run` is one.
    let folder = folder_of(path).canonicalize()?;
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let path = folder.join(name);
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    // Views and triggers that somebody has put there call no function with effects.
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}

/// Takes the rights of everybody from a file of ours.
fn close_to_others(path: &Path) -> io::Result<()> {
    let file = hold_regular(path)?;
    let facts = file.metadata()?;
    if facts.mode() & OTHERS == 0 || facts.uid() != geteuid().as_raw() {
        return Ok(());
    }
    let mode = Permissions::from_mode(facts.mode() & 0o7777 & !OTHERS);
    set_permissions(format!("/proc/self/fd/{}", file.as_raw_fd()), mode)
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("pmdns-db-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        folder
    }

    fn fill(path: &Path) -> Result<Connection, OpenError> {
        let connection = open_to_write(path)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection
            .execute_batch("CREATE TABLE IF NOT EXISTS one (two); INSERT INTO one VALUES (3)")?;
        Ok(connection)
    }

    #[test]
    fn the_files_are_not_for_everybody_whatever_they_were() {
        let folder = folder("modes");
        let path = folder.join("q.db");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let _connection = fill(&path).unwrap();
        for end in ["", "-wal", "-shm"] {
            let mode = std::fs::metadata(with_end(&path, end)).unwrap().mode();
            assert_eq!(mode & OTHERS, 0, "{end}: {mode:o}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn nothing_planted_is_followed_or_waited_for() {
        let folder = folder("planted");
        let (link, pipe) = (folder.join("link"), folder.join("pipe"));
        symlink(folder.join("made"), &link).unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        fill(&link).unwrap_err();
        fill(&pipe).unwrap_err();
        open_to_read(&pipe).unwrap_err();
        for end in BESIDE {
            let path = folder.join("q.db");
            drop(fill(&path).unwrap());
            let beside = with_end(&path, end);
            let _ = std::fs::remove_file(&beside);
            assert!(Command::new("mkfifo").arg(&beside).status().unwrap().success());
            let said = fill(&path).unwrap_err().to_string();
            assert!(said.contains("is no regular file; remove it"), "{said}");
            open_to_read(&path).unwrap_err();
            std::fs::remove_file(&beside).unwrap();
        }
        assert!(!folder.join("made").exists() && !folder.join("made-wal").exists());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_link_to_the_folder_is_no_obstacle() {
        let folder = folder("linked");
        std::fs::create_dir(folder.join("real")).unwrap();
        symlink(folder.join("real"), folder.join("log")).unwrap();
        drop(fill(&folder.join("log/q.db")).unwrap());
        drop(open_to_read(&folder.join("log/q.db")).unwrap());
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// The locks of this process on a file (`proc_locks(5)`).
    fn locks(path: &Path) -> usize {
        let inode = format!(":{} ", std::fs::metadata(path).unwrap().ino());
        let process = format!(" {} ", std::process::id());
        let all = std::fs::read_to_string("/proc/locks").unwrap();
        all.lines().filter(|lock| lock.contains(&inode) && lock.contains(&process)).count()
    }

    #[test]
    fn a_connection_keeps_its_locks_whatever_else_is_opened() {
        let folder = folder("locks");
        let path = folder.join("q.db");
        let _writer = fill(&path).unwrap();
        let files = [path.clone(), with_end(&path, "-shm")];
        let before = files.each_ref().map(|file| locks(file));
        assert!(before.iter().all(|locks| *locks > 0), "{before:?}");
        drop(open_to_read(&path).unwrap());
        drop(open_to_write(&path).unwrap());
        assert_eq!(files.each_ref().map(|file| locks(file)), before);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_schema_is_not_trusted() {
        let folder = folder("schema");
        let path = folder.join("q.db");
        for connection in [fill(&path).unwrap(), open_to_read(&path).unwrap()] {
            let is_trusted: bool =
                connection.pragma_query_value(None, "trusted_schema", |row| row.get(0)).unwrap();
            assert!(!is_trusted);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
