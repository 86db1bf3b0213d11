//! The file of a socket, and who may connect.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;

use pmdns_config::Control;

use super::*;

fn control(name: &str) -> Control {
    let file = format!("pmdns-test-{}-{name}.sock", std::process::id());
    Control { socket: std::env::temp_dir().join(file), ..Control::default() }
}

#[test]
fn audit_12_only_owner_and_group_may_connect() {
    let mut control = control("mode");
    let mode = |control: &Control| std::fs::symlink_metadata(&control.socket).unwrap().mode();
    drop(ControlSocket::open(&control).map(|socket| {
        assert_eq!(mode(&control) & 0o777, 0o660, "whatever the umask is");
        // As after SIGKILL, with another mode.
        std::mem::forget(socket);
    }));
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&control.socket, open).unwrap();
    // The socket that was forgotten still listens.
    assert!(matches!(ControlSocket::open(&control), Err(SocketError::InUse { .. })));
    std::fs::remove_file(&control.socket).unwrap();
    let own = rustix::process::getegid().as_raw();
    let group = if rustix::process::geteuid().is_root() { own + 7 } else { own };
    control.group = Some(group.to_string());
    let socket = ControlSocket::open(&control).unwrap();
    assert_eq!(std::fs::symlink_metadata(&control.socket).unwrap().gid(), group);
    assert_eq!(mode(&control) & 0o777, 0o660);
    drop(socket);
    control.group = Some("no-such-group".to_owned());
    let error = ControlSocket::open(&control).unwrap_err().to_string();
    assert!(error.contains("`no-such-group`") && error.contains("control.group"), "{error}");
    assert!(!control.socket.exists());
}

#[test]
fn the_folder_of_the_socket_is_made_but_not_those_above() {
    let above = std::env::temp_dir().join(format!("pmdns-test-{}-folder", std::process::id()));
    let control = |path: &str| Control { socket: above.join(path), ..Control::default() };
    assert!(ControlSocket::open(&control("run/control.sock")).is_err());
    let socket = ControlSocket::open(&control("control.sock")).unwrap();
    assert!(above.join("control.sock").exists());
    drop(socket);
    std::fs::remove_dir(&above).unwrap();
}

#[test]
fn an_ordinary_file_is_left_alone() {
    let control = control("file");
    std::fs::write(&control.socket, "precious").unwrap();
    assert!(matches!(ControlSocket::open(&control), Err(SocketError::Open { .. })));
    assert_eq!(std::fs::read(&control.socket).unwrap(), b"precious");
    std::fs::remove_file(&control.socket).unwrap();
}

#[test]
fn a_second_instance_is_refused_and_a_dead_one_replaced() {
    let control = control("second");
    let first = ControlSocket::open(&control).unwrap();
    assert!(matches!(ControlSocket::open(&control), Err(SocketError::InUse { .. })));
    drop(first);
    // As after SIGKILL: the file stays, nobody listens.
    drop(UnixListener::bind(&control.socket).unwrap());
    assert!(control.socket.exists());
    drop(ControlSocket::open(&control).unwrap());
}
