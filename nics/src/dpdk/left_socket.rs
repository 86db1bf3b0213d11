//! Sockets of drivers that a killed process has left. A driver that makes one at a path takes none that is there.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// Removes the file of the socket that this device's driver makes, if nobody has that socket any more.
pub(super) fn remove(device: &str) -> io::Result<()> {
    let Some(path) = made_by(device) else { return Ok(()) };
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if is_socket && is_left(path)? { fs::remove_file(path) } else { Ok(()) }
}

/// Whether nobody has the socket. One that listens for connections hears nothing of this: it is of another kind.
fn is_left(path: &Path) -> io::Result<bool> {
    let asked = UnixDatagram::unbound()?.connect(path);
    Ok(asked.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused))
}

/// Where the driver makes a socket. `None`: it makes none, or one without a file.
fn made_by(device: &str) -> Option<&Path> {
    let (driver, options) = device.split_once(',')?;
    let option = |name: &str| {
        options.split(',').find_map(|option| option.trim().strip_prefix(name)?.strip_prefix('='))
    };
    let path = match driver.trim() {
        name if name.starts_with("net_vhost") => {
            option("iface").filter(|_| option("client") != Some("1"))
        }
        name if name.starts_with("net_virtio_user") => {
            option("path").filter(|_| option("server") == Some("1"))
        }
        name if name.starts_with("net_memif") => option("socket")
            .filter(|_| matches!(option("role"), Some("server" | "master")))
            .filter(|_| option("socket-abstract") == Some("no")),
        _ => None,
    };
    path.map(Path::new)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_a_socket_that_the_driver_makes_and_nobody_has_is_removed() {
        let path = std::env::temp_dir().join(format!("pmdns-left-{}", std::process::id()));
        let exists = || path.symlink_metadata().is_ok();
        let device = |text: &str| text.replace("PATH", path.to_str().unwrap());
        let ours = [
            "net_vhost0,iface=PATH,queues=1",
            "net_virtio_user3,path=PATH,server=1",
            "net_memif0,role=server,socket=PATH,socket-abstract=no",
        ];
        let of_others = [
            "net_vhost0,iface=PATH,client=1",
            "net_virtio_user3,path=PATH",
            "net_memif0,socket=PATH,socket-abstract=no",
            "net_memif0,role=server,socket=PATH",
            "net_tap0,iface=PATH",
        ];
        for text in ours {
            remove(&device(text)).unwrap();
            let listener = UnixListener::bind(&path).unwrap();
            remove(&device(text)).unwrap();
            assert!(exists(), "{text}: somebody listens");
            assert!(listener.set_nonblocking(true).is_ok() && listener.accept().is_err());
            drop(listener);
            of_others.iter().for_each(|text| remove(&device(text)).unwrap());
            assert!(exists(), "{text}: another one makes it");
            remove(&device(text)).unwrap();
            assert!(!exists(), "{text}");
        }
        fs::write(&path, "").unwrap();
        remove(&device(ours[0])).unwrap();
        assert!(exists(), "it is no socket");
        fs::remove_file(&path).unwrap();
    }
}
