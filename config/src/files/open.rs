//! How a file is opened whose path people choose. Opening never waits: a pipe would, for its other end. What is written is a
//! regular file under its own name, so nothing that is planted in a shared folder leads elsewhere.
//!
//! A file that is read may be a link: certbot's `live/` has nothing else, and Kubernetes swaps files by links.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Opens a file for reading.
///
/// # Errors
///
/// What the system says, or that it is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true), 0)
}

/// A file that is held and neither read nor written, for its facts and its mode. To close another descriptor would end all locks
/// of this process on the file (`fcntl_locking(2)`).
///
/// # Errors
///
/// What the system says, or that it is no regular file.
pub fn hold_regular(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true), libc::O_PATH | libc::O_NOFOLLOW)
}

/// Opens a file to add to its end. If there is none it is created with this mode, reduced by the umask.
///
/// # Errors
///
/// What the system says, or that it is no regular file.
pub fn open_to_append(path: &Path, mode: u32) -> io::Result<File> {
    open(path, OpenOptions::new().append(true).create(true).mode(mode), libc::O_NOFOLLOW)
}

/// Opens a file to write it anew. If there is none it is created with this mode, reduced by the umask.
///
/// # Errors
///
/// What the system says, or that it is no regular file.
pub fn open_to_replace(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = open(path, options.write(true).create(true).mode(mode), libc::O_NOFOLLOW)?;
    // Only now: what is no regular file is left alone.
    file.set_len(0)?;
    Ok(file)
}

/// Creates a file that is not there yet, with this mode reduced by the umask.
///
/// # Errors
///
/// What the system says.
pub fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    open(path, OpenOptions::new().write(true).create_new(true).mode(mode), libc::O_NOFOLLOW)
}

/// The only place where a path of people becomes an open file.
fn open(path: &Path, options: &mut OpenOptions, flags: i32) -> io::Result<File> {
    let flags = flags | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = options.custom_flags(flags).open(path).map_err(|error| {
        match error.raw_os_error() {
            // Without O_NOFOLLOW it is a circle of links.
            Some(libc::ELOOP) if flags & libc::O_NOFOLLOW != 0 => {
                io::Error::other("it is a link, which is not followed; name the file itself")
            }
            // A pipe that nobody reads (open(2)).
            Some(libc::ENXIO) => not_regular(),
            _ => error,
        }
    })?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(not_regular()),
    }
}

fn not_regular() -> io::Error {
    io::Error::other("it is no regular file; name one")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::{MetadataExt as _, symlink};
    use std::process::Command;

    use super::*;
    use crate::files::testing::Folder;

    type Open = fn(&Path) -> io::Result<File>;
    const FOR_WRITING: [Open; 3] = [
        |path| open_to_append(path, 0o640),
        |path| open_to_replace(path, 0o640),
        |path| create_new(path, 0o640),
    ];

    #[test]
    fn a_link_is_followed_by_no_writer_and_led_nowhere_makes_nothing() {
        let folder = Folder::new("open-link");
        let (victim, link, dangling) =
            (folder.0.join("victim"), folder.0.join("link"), folder.0.join("dangling"));
        std::fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        symlink(folder.0.join("made"), &dangling).unwrap();
        for open in FOR_WRITING {
            for path in [&link, &dangling] {
                open(path).unwrap_err();
            }
        }
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
        assert_eq!(folder.names(), ["dangling", "link", "victim"]);
        open_regular(&link).unwrap();
    }

    #[test]
    fn a_pipe_is_waited_for_by_nobody_and_gets_nothing() {
        let folder = Folder::new("open-pipe");
        let pipe = folder.0.join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let told = |error: io::Error| error.to_string().contains("no regular file");
        assert!(told(open_regular(&pipe).unwrap_err()));
        assert!(told(open_to_append(&pipe, 0o640).unwrap_err()));
        assert!(told(open_to_replace(&pipe, 0o640).unwrap_err()));
        // With a reader it can be opened, and is still no file.
        let _reader = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        assert!(told(open_to_append(&pipe, 0o640).unwrap_err()));
        assert!(told(open_to_replace(&pipe, 0o640).unwrap_err()));
        assert!(told(open_regular(&folder.0).unwrap_err()), "a folder is none either");
    }

    #[test]
    fn modes_are_stated_and_contents_are_added_to_or_replaced() {
        let folder = Folder::new("open-mode");
        let path = folder.0.join("file");
        open_to_append(&path, 0o640).unwrap().write_all(b"one").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o137, 0, "at most 0640");
        open_to_append(&path, 0o640).unwrap().write_all(b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"onetwo");
        open_to_replace(&path, 0o640).unwrap().write_all(b"3").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"3");
    }
}
