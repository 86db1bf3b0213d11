//! The socket's file. Its mode and group are set before any client can connect.

use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pmdns_config::Control;
use rustix::fs::{Mode, OFlags};
use socket2::{Domain, SockAddr, Socket, Type};

use super::SocketError;
use super::group::number_of;

/// Only its owner and its group may connect.
const MODE: u32 = 0o660;
/// Connections that wait to be taken in.
const BACKLOG: i32 = 128;

/// The listening socket. Dropping it removes its file, unless another process has the same socket.
#[derive(Debug)]
pub struct ControlSocket {
    pub(in crate::control) listener: UnixListener,
    /// Whether a group is configured whose members may connect.
    pub(in crate::control) has_group: bool,
    file: Arc<SocketFile>,
}

/// The file of a socket, which goes with it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    is_left: AtomicBool,
}

impl ControlSocket {
    /// Opens the socket. A file that a killed instance left behind is replaced.
    pub fn open(control: &Control) -> Result<Self, SocketError> {
        Self::open_at("control.socket", &control.socket, control.group.as_deref(), None)
    }

    /// Opens the socket at `path`, which the configuration has at `key`, unless another process has passed it.
    pub fn open_at(
        key: &'static str,
        path: &Path,
        group: Option<&str>,
        inherited: Option<OwnedFd>,
    ) -> Result<Self, SocketError> {
        let group = group.map(find_group).transpose()?;
        if let Some(socket) = inherited {
            // Its file is the other process's, until that one has ended.
            return Ok(Self::of(socket.into(), group.is_some(), path, true));
        }
        let failed = |source| SocketError::Open { key, path: path.to_owned(), source };
        match UnixStream::connect(path) {
            Ok(_) => return Err(SocketError::InUse { key, path: path.to_owned() }),
            // No process listens. Only a socket is removed: connecting to an ordinary file fails in the same way.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                remove_left(path).map_err(failed)?;
            }
            Err(_) => {}
        }
        make_folder(path).map_err(failed)?;
        let listener = listen(path, (Type::STREAM, MODE), group).map_err(failed)?;
        Ok(Self::of(listener.into(), group.is_some(), path, false))
    }

    fn of(listener: UnixListener, has_group: bool, path: &Path, is_left: bool) -> Self {
        let file = SocketFile { path: path.to_owned(), is_left: AtomicBool::new(is_left) };
        Self { listener, has_group, file: Arc::new(file) }
    }

    /// Another descriptor of it, and what decides about its file.
    #[cfg_attr(
        not(feature = "dpdk"),
        allow(dead_code, reason = "without ports nothing is handed over")
    )]
    pub(crate) fn copy(&self) -> io::Result<(OwnedFd, Arc<SocketFile>)> {
        Ok((self.listener.as_fd().try_clone_to_owned()?, Arc::clone(&self.file)))
    }
}

#[cfg_attr(
    not(feature = "dpdk"),
    allow(dead_code, reason = "without ports nothing is handed over")
)]
impl SocketFile {
    /// Whether the file stays for another process.
    pub(crate) fn leave(&self, is_left: bool) {
        self.is_left.store(is_left, Ordering::Relaxed);
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if !self.file.is_left.load(Ordering::Relaxed) {
            let _ = std::fs::remove_file(&self.file.path);
        }
    }
}

/// Makes the socket's folder if only that is missing: `/run` is empty after a boot.
fn make_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.exists() => {
            std::fs::create_dir(folder)
        }
        _ => Ok(()),
    }
}

/// Whether the system has this group, by name or number.
pub(crate) fn has_group(group: &str) -> bool {
    find_group(group).is_ok()
}

fn find_group(group: &str) -> Result<u32, SocketError> {
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    number_of(group, &groups).ok_or_else(|| SocketError::Group(group.to_owned()))
}

/// Removes a socket that nobody listens at any more, and nothing else.
pub(crate) fn remove_left(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(file) if file.file_type().is_socket() => std::fs::remove_file(path),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Sets mode and group before the socket listens. No client can connect before that.
pub(crate) fn listen(
    path: &Path,
    (kind, mode): (Type, u32),
    group: Option<u32>,
) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::UNIX, kind, None)?;
    // The kernel gives the file the mode of the socket, reduced by the umask. So the file never has more rights than
    // `mode`.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(mode))?;
    socket.bind(&SockAddr::unix(path)?)?;
    let prepared = set_access(path, mode, group).and_then(|()| socket.listen(BACKLOG));
    if let Err(error) = prepared {
        let _ = std::fs::remove_file(path);
        return Err(error);
    }
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Gives the file its group, and the rights that the umask has removed. It is held open meanwhile, so that nobody can
/// replace it.
fn set_access(path: &Path, mode: u32, group: Option<u32>) -> io::Result<()> {
    let file =
        rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let held = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let facts = std::fs::metadata(&held)?;
    if !facts.file_type().is_socket() {
        return Err(io::Error::other("something else was put in its place"));
    }
    if let Some(group) = group.filter(|group| *group != facts.gid()) {
        std::os::unix::fs::chown(&held, None, Some(group))?;
    }
    match facts.mode() & 0o777 == mode {
        true => Ok(()),
        false => std::fs::set_permissions(&held, Permissions::from_mode(mode)),
    }
}
