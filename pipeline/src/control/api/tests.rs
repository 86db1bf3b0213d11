//! What comes over the control socket, and who is kept waiting by whom.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use pmdns_config::Control;
use pmdns_control::client::{ApiClient, ClientError};
use pmdns_control::{CallReply, Refusal, ask};

use super::*;

/// Longer than what the sockets between two sides hold, by far.
const LONG: usize = 8 << 20;
/// No more than a test may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// A request of somebody who writes it himself.
const STATS: &[u8] = b"GET /api/v1/stats HTTP/1.1\r\nHost: pmdns\r\nConnection: close\r\n\r\n";

/// A served socket. Every call has this reply.
struct Served {
    path: PathBuf,
    is_over: Arc<AtomicBool>,
    main: Option<JoinHandle<(Vec<Call>, ConnectionSnapshot)>>,
}

impl Served {
    fn start(name: &str, reply: CallReply) -> Self {
        let file = format!("pmdns-test-{}-{name}.sock", std::process::id());
        let path = std::env::temp_dir().join(file);
        let control = Control { socket: path.clone(), ..Control::default() };
        let mut server = ControlSocket::open(&control).unwrap().serve(None).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_over);
        let main = std::thread::spawn(move || {
            let mut heard = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                server.take(|call, caller| {
                    assert!(caller.by.starts_with("user "), "{}", caller.by);
                    heard.push(call);
                    caller.reply(reply.clone());
                });
                std::thread::yield_now();
            }
            (heard, server.counters())
        });
        Self { path, is_over, main: Some(main) }
    }

    fn client(&self) -> ApiClient {
        ApiClient::at_socket(&self.path)
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.path).unwrap()
    }

    /// What was asked, and what was counted.
    fn end(mut self) -> (Vec<Call>, ConnectionSnapshot) {
        self.is_over.store(true, Ordering::Relaxed);
        self.main.take().unwrap().join().unwrap()
    }
}

/// A report of this length.
fn long() -> CallReply {
    CallReply::Json("7".repeat(LONG))
}

#[test]
fn a_report_is_read_to_its_end() {
    let served = Served::start("read", long());
    let path = served.path.clone();
    assert_eq!(served.client().ask(&Call::Stats).unwrap().len(), LONG);
    served.end();
    assert!(!path.exists());
}

#[test]
fn a_change_has_a_sentence_and_a_refusal_its_reason() {
    let served = Served::start("done", CallReply::Done("3 answers purged".to_owned()));
    assert_eq!(served.client().done(ask::Reload).unwrap(), "3 answers purged");
    assert_eq!(served.end().0, [Call::Reload]);
    let served =
        Served::start("refused", CallReply::Refused(Refusal::Unable, "the disk".to_owned()));
    let refused = served.client().done(ask::Reload);
    assert!(matches!(&refused, Err(ClientError::Refused(why)) if why == "the disk"), "{refused:?}");
    served.end();
}

#[test]
fn who_sends_a_long_file_that_is_refused_at_once_reads_the_reason() {
    let served =
        Served::start("upload", CallReply::Refused(Refusal::Unable, "no snapshot".to_owned()));
    for _ in 0..20 {
        let mut file = std::io::repeat(7).take(20 << 20);
        let refused = served.client().upload(ask::CacheLoad, &mut file);
        let is_told = matches!(&refused, Err(ClientError::Refused(why)) if why == "no snapshot");
        assert!(is_told, "{refused:?}");
    }
    served.end();
}

#[test]
fn nobody_answers_where_nobody_listens() {
    let served = Served::start("nobody", long());
    let client = served.client();
    served.end();
    let asked = client.ask(&Call::Stats);
    assert!(matches!(asked, Err(ClientError::Ask { .. })), "{asked:?}");
}

#[test]
fn no_request_is_endless_and_what_is_none_is_refused() {
    let served = Served::start("garbled", CallReply::Json("{}".to_owned()));
    for (sent, status) in [
        (&b"\xff\xfe\r\n\r\n"[..], "400"),
        (b"stats\n\n", "400"),
        (b"GET /api/v1/nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "404"),
    ] {
        let (mut stream, mut text) = (served.connect(), String::new());
        stream.write_all(sent).unwrap();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
    }
    let mut endless = served.connect();
    let _ = endless.write_all(b"GET /").and_then(|()| endless.write_all(&[b'a'; 64 << 10]));
    // What was not read of it makes this an error, or it is an answer.
    let _ = endless.read_to_string(&mut String::new());
    assert_eq!(served.client().ask(&Call::Stats).unwrap(), "{}");
    assert_eq!(served.end().0, [Call::Stats], "the main thread sees calls only");
}

#[test]
fn audit_low_clients_that_do_not_read_hold_nobody_up() {
    let served = Served::start("drip", long());
    let mut drips: Vec<_> = (0..8).map(|_| served.connect()).collect();
    for drip in &mut drips {
        drip.write_all(STATS).unwrap();
        drip.read_exact(&mut [0]).unwrap();
    }
    // All places of this user are taken by those who read a byte and no more; after a while one of them makes place.
    let ask_again = || {
        std::thread::sleep(Duration::from_millis(10));
        served.client().ask_within(&Call::Stats, PATIENCE)
    };
    let answered = std::iter::repeat_with(ask_again).take(1000).find_map(Result::ok);
    assert_eq!(answered.unwrap().len(), LONG);
    drop(drips);
    served.end();
}

#[test]
fn audit_low_silent_clients_hold_nobody_up_and_are_counted() {
    let served = Served::start("idle", CallReply::Json("{}".to_owned()));
    let idle: Vec<_> = (0..200).map(|_| served.connect()).collect();
    assert_eq!(served.client().ask_within(&Call::Stats, PATIENCE).unwrap(), "{}");
    drop(idle);
    let counted = served.end().1;
    assert!(counted.evicted > 0, "{counted:?}");
}
