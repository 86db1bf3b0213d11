//! Policy zones against a primary on loopback: what is kept, whatever the primary does.
//!
//! Tests wait for what must happen and never measure how long it took.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of tests are small"
)]

mod primary;

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use domain::base::iana::{Class, Opcode, Rtype};
use domain::base::{MessageBuilder, Name};
use pmdns::sockets::OpenSockets;
use pmdns::transfer::{NotifySockets, TransferLimits, Transfers, ZoneSnapshot};
use pmdns_changes::FollowConfig as _;
use pmdns_changes::overlay::Overlay;
use pmdns_config::files::read_zone;
use pmdns_engine::testing::config;
use socket2::{Domain, Socket, Type};

use primary::{Differences, Fault, KEY, Primary, SECRET, ZONE, key};

/// How long what must happen may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Short enough to be reached.
const LIMITS: TransferLimits = TransferLimits {
    bytes: 1 << 20,
    records: 1000,
    bytes_together: 1 << 20,
    at_once: 2,
    silence: Duration::from_secs(1),
    patience: Duration::from_secs(30),
};

/// Transfers under test, with a file of their own.
struct Rig {
    file: PathBuf,
    config: String,
    transfers: Option<Transfers>,
}

impl Rig {
    /// A zone that is transferred from these primaries, in this order. Nothing runs yet.
    fn new(test: &str, primaries: &[SocketAddr], more: &str) -> Self {
        let file = std::env::temp_dir().join(format!("pmdns-{}-{test}.rpz", std::process::id()));
        let _ = std::fs::remove_file(&file);
        let primaries: Vec<_> = primaries.iter().map(|one| format!("\"{one}\"")).collect();
        let config = format!(
            "[[rpz]]\nzone = \"{ZONE}\"\nfile = {file:?}\nprimaries = [{}]\n{more}",
            primaries.join(", ")
        );
        Self { file, config, transfers: None }
    }

    /// The same, signed with the key.
    fn signed(test: &str, primary: &Primary) -> Self {
        let key =
            format!("tsig = \"{KEY}\"\n[[tsig]]\nname = \"{KEY}\"\nsecret = \"{}\"\n", SECRET.1);
        Self::new(test, &[primary.address], &key)
    }

    fn start(mut self) -> Self {
        let config = config(&self.config);
        let open = |address| NotifySockets::open(address, &mut OpenSockets::default()).unwrap();
        let sockets = config.transfer.listen.map(open);
        let transfers = Transfers::start(&config, sockets, LIMITS, None).unwrap();
        transfers.set_held(false);
        self.transfers = Some(transfers);
        self
    }

    fn transfers(&mut self) -> &mut Transfers {
        self.transfers.as_mut().unwrap()
    }

    /// Has the primaries asked now.
    fn refresh(&mut self) {
        let config = config(&self.config);
        self.transfers().apply_config(&config, &Overlay::default());
    }

    /// Has it do nothing, or go on.
    fn hold(&mut self, is_held: bool) {
        let start = Instant::now();
        self.transfers().set_held(is_held);
        while !self.transfers().is_settled() {
            assert!(start.elapsed() < PATIENCE, "held: {is_held}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn counters(&self) -> ZoneSnapshot {
        self.transfers.as_ref().unwrap().report()[0].1
    }

    /// Waits until the counters are so.
    fn wait(&self, what: &str, is_so: impl Fn(ZoneSnapshot) -> bool) {
        let start = Instant::now();
        while !is_so(self.counters()) {
            assert!(start.elapsed() < PATIENCE, "{what}: {:?}", self.counters());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn wait_for_serial(&self, serial: u64) {
        self.wait(&format!("serial {serial}"), |counters| counters.serial == serial);
    }

    /// The names that the file blocks.
    fn blocked(&self) -> Vec<String> {
        let suffix = ZONE.parse::<Name<Vec<u8>>>().unwrap();
        let names = read_zone(&self.file, None).unwrap().into_iter().filter(|one| one.rtype == 5);
        let mut names: Vec<_> = names
            .map(|one| Name::from_octets(one.name.into_vec()).unwrap())
            .map(|name| name.strip_suffix(&suffix).unwrap().to_string())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.transfers = None;
        let _ = std::fs::remove_file(&self.file);
    }
}

#[test]
fn a_zone_comes_whole_and_then_as_differences() {
    for key in [None, Some(key(SECRET.0))] {
        let primary = Primary::start(key.clone());
        let rig = match key {
            None => Rig::new("whole", &[primary.address], ""),
            Some(_) => Rig::signed("whole", &primary),
        };
        let mut rig = rig.start();
        rig.wait_for_serial(1);
        assert_eq!(rig.blocked(), ["a", "b"]);
        assert!(rig.transfers().has_news(), "rules are to be made of it");
        assert!(!rig.transfers().has_news(), "once");
        primary.publish(2, &["b", "c"]);
        primary.publish(3, &["c", "*.d"]);
        rig.refresh();
        rig.wait_for_serial(3);
        assert_eq!(rig.blocked(), ["*.d", "c"]);
        assert!(rig.transfers().has_news());
        let counters = rig.counters();
        assert_eq!((counters.whole, counters.incremental, counters.records), (1, 1, 3));
        assert_eq!(counters.failures, 0);
        assert_eq!((primary.asked(Rtype::AXFR), primary.asked(Rtype::IXFR)), (1, 1));
    }
}

#[test]
fn without_news_nothing_is_transferred() {
    let primary = Primary::start(None);
    let mut rig = Rig::new("unchanged", &[primary.address], "").start();
    rig.wait_for_serial(1);
    assert!(rig.transfers().has_news());
    std::fs::File::options()
        .append(true)
        .open(&rig.file)
        .and_then(|file| file.set_modified(SystemTime::UNIX_EPOCH))
        .unwrap();
    rig.refresh();
    rig.wait("the primary has no news", |counters| counters.unchanged == 1);
    assert!(!rig.transfers().has_news());
    let modified = std::fs::metadata(&rig.file).unwrap().modified().unwrap();
    assert!(modified > SystemTime::UNIX_EPOCH, "whoever starts next knows that it was asked");
    assert_eq!((primary.asked(Rtype::AXFR), primary.asked(Rtype::IXFR)), (1, 0));
}

/// RFC 1995 section 4, RFC 5936 section 6: there are other ways than differences.
#[test]
fn who_has_no_differences_gives_the_whole_zone() {
    for differences in [Differences::Whole, Differences::Refused, Differences::Wrong] {
        let primary = Primary::start(Some(key(SECRET.0)));
        let mut rig = Rig::signed("fallback", &primary).start();
        rig.wait_for_serial(1);
        primary.publish(2, &["c"]);
        primary.change(|state| state.differences = differences);
        rig.refresh();
        rig.wait_for_serial(2);
        assert_eq!(rig.blocked(), ["c"], "{differences:?}");
        let counters = rig.counters();
        assert_eq!((counters.whole, counters.failures), (2, 0), "{differences:?}");
    }
}

/// RFC 8945 section 5.3: what is not signed as it has to be is not believed, and changes nothing.
#[test]
fn what_is_not_signed_rightly_changes_nothing() {
    for fault in [Fault::Unsigned, Fault::Forged] {
        let primary = Primary::start(Some(key(SECRET.0)));
        let mut rig = Rig::signed("forged", &primary).start();
        rig.wait_for_serial(1);
        primary.publish(2, &["c"]);
        primary.change(|state| state.fault = fault);
        rig.refresh();
        rig.wait("it is refused", |counters| counters.failing > 0);
        assert_eq!((rig.counters().serial, rig.blocked()), (1, vec!["a".into(), "b".into()]));
        primary.change(|state| state.fault = Fault::None);
        // The next attempt comes by itself.
        rig.wait_for_serial(2);
        rig.wait("it is well", |counters| counters.failing == 0);
        assert_eq!(rig.blocked(), ["c"]);
    }
    let primary = Primary::start(Some(key(b"another secret!!")));
    let rig = Rig::signed("stranger", &primary).start();
    rig.wait("another key is none", |counters| counters.failures > 0);
    assert!(!rig.file.exists());
}

#[test]
fn transfers_that_do_not_end_well_change_nothing() {
    for fault in [Fault::Truncated, Fault::Endless, Fault::Silent] {
        let primary = Primary::start(Some(key(SECRET.0)));
        let mut rig = Rig::signed("cut-off", &primary).start();
        rig.wait_for_serial(1);
        primary.publish(2, &["c"]);
        primary.change(|state| state.fault = fault);
        rig.refresh();
        rig.wait("it is given up", |counters| counters.failing > 0);
        assert_eq!((rig.counters().serial, rig.blocked()), (1, vec!["a".into(), "b".into()]));
        primary.change(|state| state.fault = Fault::None);
        rig.wait_for_serial(2);
        assert_eq!(rig.blocked(), ["c"], "{fault:?}");
    }
}

#[test]
fn what_is_no_policy_zone_changes_nothing() {
    let primary = Primary::start(None);
    let mut rig = Rig::new("refused", &[primary.address], "strict = true\n").start();
    rig.wait_for_serial(1);
    primary.publish(2, &["c"]);
    primary.change(|state| state.action = "rpz-of-tomorrow".into());
    rig.refresh();
    rig.wait("it is refused", |counters| counters.refused > 0);
    assert_eq!((rig.counters().serial, rig.blocked()), (1, vec!["a".into(), "b".into()]));
}

/// RFC 1982: a lower serial may be newer, and an older one is not taken.
#[test]
fn a_serial_that_goes_back_is_taken_when_the_file_is_removed() {
    let primary = Primary::start(None);
    primary.publish(4_294_967_290, &["b"]);
    primary.publish(5, &["c"]);
    primary.change(|state| drop(state.versions.drain(..1)));
    let five = primary.state.lock().unwrap().versions.pop().unwrap();
    let mut rig = Rig::new("back", &[primary.address], "").start();
    rig.wait_for_serial(4_294_967_290);
    primary.change(|state| state.versions.push(five));
    rig.refresh();
    rig.wait_for_serial(5);
    primary.publish(4, &["d"]);
    rig.refresh();
    rig.wait("it is refused", |counters| counters.failing > 0);
    assert_eq!((rig.counters().serial, rig.blocked()), (5, vec!["c".into()]));
    std::fs::remove_file(&rig.file).unwrap();
    rig.refresh();
    rig.wait_for_serial(4);
    assert_eq!(rig.blocked(), ["d"]);
}

#[test]
fn a_dead_primary_is_asked_until_it_is_back() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let rig = Rig::new("dead", &[address], "").start();
    rig.wait("there is nobody", |counters| counters.failing >= 2);
    assert_eq!(rig.counters().serial, 0);
    assert!(!rig.file.exists());
    let _primary = Primary::start_at(TcpListener::bind(address).unwrap(), None);
    rig.wait_for_serial(1);
    rig.wait("it is well", |counters| counters.failing == 0);
}

#[test]
fn the_next_primary_is_asked_when_one_is_dead() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let dead = listener.local_addr().unwrap();
    drop(listener);
    let primary = Primary::start(None);
    let rig = Rig::new("next", &[dead, primary.address], "").start();
    rig.wait_for_serial(1);
    assert_eq!((rig.counters().failures, rig.counters().failing), (1, 0));
}

#[test]
fn a_primary_that_lags_behind_does_not_hide_the_newer_version_of_the_next_one() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let dead = listener.local_addr().unwrap();
    drop(listener);
    let (lagging, newer, last) = (Primary::start(None), Primary::start(None), Primary::start(None));
    let primaries = [lagging.address, dead, newer.address, last.address];
    let mut rig = Rig::new("lagging", &primaries, "").start();
    rig.wait_for_serial(1);
    rig.refresh();
    rig.wait("nobody has news", |counters| counters.unchanged == 1);
    let asked = [&lagging, &newer, &last].map(|primary| primary.asked(Rtype::SOA));
    assert_eq!(asked, [2, 1, 1], "all are asked before that is said");
    assert_eq!((rig.counters().failures, rig.counters().failing), (1, 0), "one is dead");
    newer.publish(2, &["c"]);
    rig.refresh();
    rig.wait_for_serial(2);
    assert_eq!(rig.blocked(), ["c"]);
    assert_eq!(last.asked(Rtype::SOA), 1, "nobody is asked after who had news");
    assert_eq!((rig.counters().unchanged, rig.counters().failures), (1, 2));
}

#[test]
fn what_is_kept_outlives_a_restart_without_the_primary_and_expires_without_being_lost() {
    let primary = Primary::start(None);
    primary.change(|state| state.expire = 1);
    let mut rig = Rig::new("kept", &[primary.address], "").start();
    rig.wait_for_serial(1);
    rig.transfers = None;
    primary.change(|state| state.fault = Fault::Silent);
    let rig = rig.start();
    rig.wait_for_serial(1);
    rig.wait("it expires", |counters| counters.expired == 1);
    assert_eq!(rig.blocked(), ["a", "b"], "its rules hold on");
    primary.change(|state| state.fault = Fault::None);
    rig.wait("it is refreshed", |counters| counters.unchanged > 0);
}

/// RFC 1996: it comes over UDP or TCP, and from the primary only.
#[test]
fn audit_low_a_notification_is_believed_from_the_primary_only_and_nobody_keeps_it_out() {
    // A port that is free for both.
    let listen = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let primary = Primary::start(None);
    let more = format!("[transfer]\nlisten = \"{listen}\"\n");
    let rig = Rig::new("notify", &[primary.address], &more).start();
    rig.wait_for_serial(1);
    let notify = notification();

    primary.publish(2, &["c"]);
    let stranger = UdpSocket::bind("127.0.0.2:0").unwrap();
    stranger.send_to(&notify, listen).unwrap();
    rig.wait("a stranger is not believed", |counters| counters.disbelieved == 1);
    assert_eq!(primary.asked(Rtype::IXFR), 0);

    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send_to(&notify, listen).unwrap();
    let mut answer = [0; 512];
    let len = socket.recv(&mut answer).unwrap();
    assert_eq!(&answer[..len][2..4], [0xa4, 0], "QR, NOTIFY, AA; NOERROR");
    rig.wait_for_serial(2);

    primary.publish(3, &["d"]);
    // Nobody who is silent keeps the primary out: strangers are closed, its own connections make place for each other.
    let idle: Vec<_> = (0..100).map(|_| TcpStream::connect(listen).unwrap()).collect();
    let strangers: Vec<_> = (0..100).map(|_| connect_from("127.0.0.2", listen)).collect();
    let mut stream = TcpStream::connect(listen).unwrap();
    let framed = [&(notify.len() as u16).to_be_bytes()[..], &notify].concat();
    std::io::Write::write_all(&mut stream, &framed).unwrap();
    rig.wait_for_serial(3);
    assert_eq!(rig.counters().notified, 2);
    let connections = rig.transfers.as_ref().unwrap().connections();
    assert_eq!((connections.accepted, connections.refused), (101, 100), "{connections:?}");
    drop((idle, strangers));
}

/// One of the zone.
fn notification() -> Vec<u8> {
    let mut notify = MessageBuilder::new_vec();
    notify.header_mut().set_opcode(Opcode::NOTIFY);
    let mut notify = notify.question();
    notify.push((ZONE.parse::<Name<Vec<u8>>>().unwrap(), Rtype::SOA, Class::IN)).unwrap();
    notify.finish()
}

/// Another process transfers then.
#[test]
fn who_is_held_neither_transfers_nor_receives_and_then_misses_nothing() {
    let listen = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let primary = Primary::start(None);
    let more = format!("[transfer]\nlisten = \"{listen}\"\n");
    let mut rig = Rig::new("held", &[primary.address], &more).start();
    rig.wait_for_serial(1);
    rig.hold(true);
    let asked = primary.asked(Rtype::SOA);
    primary.publish(2, &["c"]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send_to(&notification(), listen).unwrap();
    // A reload asks all primaries, but not now.
    rig.refresh();
    assert_eq!(rig.counters().notified, 0);
    assert_eq!(primary.asked(Rtype::SOA), asked);
    rig.hold(false);
    socket.recv(&mut [0; 512]).unwrap();
    rig.wait_for_serial(2);
    assert_eq!(rig.counters().notified, 1, "it was in the socket");
}

/// A connection from this address of the loopback interface.
fn connect_from(source: &str, to: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let source: SocketAddr = format!("{source}:0").parse().unwrap();
    socket.bind(&source.into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket
}
