//! What comes over the socket, and who is kept waiting by whom.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use pmdns_config::Control;

use super::*;
use crate::admission::ConnectionSnapshot;

/// Longer than what the sockets between two sides hold, by far.
const LONG: usize = 8 << 20;

fn control(name: &str) -> Control {
    let file = format!("pmdns-test-{}-{name}.sock", std::process::id());
    Control { socket: std::env::temp_dir().join(file), ..Control::default() }
}

/// No more than a test may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A served socket. Every request is answered with this text.
struct Served {
    path: PathBuf,
    is_over: Arc<AtomicBool>,
    main: Option<JoinHandle<(Vec<String>, ConnectionSnapshot)>>,
}

impl Served {
    fn start(name: &str, text: &str) -> Self {
        let control = control(name);
        let mut server = ControlSocket::open(&control).unwrap().serve(None).unwrap();
        let (is_over, text) = (Arc::new(AtomicBool::new(false)), text.to_owned());
        let stop = Arc::clone(&is_over);
        let main = std::thread::spawn(move || {
            let mut heard = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                server.take(|request, client| {
                    heard.push(format!("{request:?}"));
                    client.answer(&text);
                });
                std::thread::yield_now();
            }
            (heard, server.counters())
        });
        Self { path: control.socket, is_over, main: Some(main) }
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.path).unwrap()
    }

    /// What was asked, and what was counted.
    fn end(mut self) -> (Vec<String>, ConnectionSnapshot) {
        self.is_over.store(true, Ordering::Relaxed);
        self.main.take().unwrap().join().unwrap()
    }
}

fn read(mut stream: UnixStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_report_is_read_to_its_end() {
    let served = Served::start("read", &"x".repeat(LONG));
    let path = served.path.clone();
    assert_eq!(ask(&path, "stats", ANSWER_PATIENCE).unwrap().len(), LONG);
    served.end();
    assert!(!path.exists());
}

#[test]
fn a_request_is_a_line_and_its_answer_a_text() {
    let served = Served::start("request", "ok");
    assert_eq!(ask(&served.path, "reload", ORDER_PATIENCE).unwrap(), "ok");
    let wrong = ask(&served.path, "reboot", ORDER_PATIENCE).unwrap();
    assert!(wrong.starts_with("error: there is no request `reboot`"), "{wrong}");
    assert_eq!(served.end().0, ["Reload"], "the main thread sees requests only");
}

#[test]
fn whoever_says_nothing_asks_for_the_report_and_no_request_is_endless() {
    let served = Served::start("silent", "{}");
    assert_eq!(read(served.connect()), "{}");
    let mut halting = served.connect();
    halting.write_all(b"dump /tmp").unwrap();
    assert_eq!(read(halting), "{}", "as far as it came");
    let mut endless = served.connect();
    let _ = endless.write_all(&[b'a'; 3 * 4096]);
    // What was not read of it makes this an error, or it is an answer.
    let _ = endless.read_to_string(&mut String::new());
    let mut garbled = served.connect();
    garbled.write_all(b"\xff\xfe\nrest").unwrap();
    assert!(read(garbled).contains("no request `\u{fffd}\u{fffd}`"));
    assert_eq!(served.end().0, ["Stats", "CacheJob(Dump(\"/tmp\"))"]);
}

#[test]
fn audit_low_clients_that_do_not_read_hold_nobody_up() {
    let served = Served::start("drip", &"x".repeat(LONG));
    let mut drips: Vec<_> = (0..8).map(|_| served.connect()).collect();
    for drip in &mut drips {
        drip.write_all(b"stats\n").unwrap();
        drip.read_exact(&mut [0]).unwrap();
    }
    // All places of this user are taken by those who read a byte and no more; after a while one of them makes place.
    let ask_again = || {
        std::thread::sleep(Duration::from_millis(10));
        ask(&served.path, "stats", PATIENCE)
    };
    let answered = std::iter::repeat_with(ask_again)
        .take(1000)
        .find_map(|answer| answer.ok().filter(|text| !text.is_empty()));
    assert_eq!(answered.unwrap().len(), LONG);
    drop(drips);
    served.end();
}

#[test]
fn audit_low_silent_clients_hold_nobody_up_and_are_counted() {
    let served = Served::start("idle", "{}");
    let idle: Vec<_> = (0..200).map(|_| served.connect()).collect();
    assert_eq!(ask(&served.path, "stats", PATIENCE).unwrap(), "{}");
    drop(idle);
    let counted = served.end().1;
    assert!(counted.accepted >= 1, "{counted:?}");
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
