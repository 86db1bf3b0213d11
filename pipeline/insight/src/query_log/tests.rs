//! Tests of the query log on a whole line: what is recorded, and what the sinks make of it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;

use pmdns_config::DnstapReader;
use pmdns_control::query_log::LogSearch;
use pmdns_engine::encrypted::without_encrypted;
use pmdns_engine::testing::{Rig, config};
use pmdns_nics::Burst;
use pmdns_resolver::{Origin, OutgoingAnswer};
use pmdns_stages::miss::Miss;
use pmdns_stages::testing::query;

use super::*;

/// A folder of its own, removed with all that is in it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pmdns-log-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const RULES: &str = "[block]\nnames = [\"blocked.example\"]\n\
    [[local]]\nname = \"own.example\"\ntype = \"A\"\ndata = \"192.0.2.9\"\n";

/// A rig that logs as `log` says.
fn logging(log: &str) -> (Rig, QueryLogger, Config) {
    let config = config(&format!("{RULES}[query_log]\n{log}"));
    let mut rig = Rig::new(&config);
    let open =
        OpenLog::open(&config, (rig.rules.names(), rig.gauges.upstreams.clone())).unwrap().unwrap();
    let log = open.start(&config, &rig.observers, rig.gauges.clock, None).unwrap();
    housekeeping(&mut rig);
    rig.learn(&query("hit.example. A"), &[(0, 1, 86_400, vec![192, 0, 2, 1])]);
    (rig, log, config)
}

/// Long enough for a worker's next housekeeping.
fn housekeeping(rig: &mut Rig) {
    std::thread::sleep(Duration::from_millis(11));
    rig.settle();
}

fn ask(rig: &mut Rig, names: &[&str]) {
    let frames = names.iter().map(|name| rig.frame(&query(name).frame_bytes()));
    let mut frames: Burst = frames.collect();
    rig.offer(0, &mut frames);
    rig.settle();
    rig.sent();
}

/// Asks until this part has written so many records. No more batches are under way than wait for a disk that is late
/// (`WAITING`); others would be lost.
fn ask_often(rig: &mut Rig, log: &QueryLogger, (part, records): (&str, u64)) {
    for written in (200..=records).step_by(200) {
        for _ in 0..10 {
            ask(rig, &["hit.example. A"; 20]);
        }
        wait(|| count(log, part).written == written);
    }
}

const ASKED: [&str; 4] =
    ["Hit.example. A", "miss.example. A", "blocked.example. AAAA", "own.example. A"];

fn lines(path: &Path) -> Vec<LogEntry> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn count(log: &QueryLogger, part: &str) -> LogSnapshot {
    let report = log.report();
    report.iter().find(|one| one.0 == part).unwrap().1
}

/// Waits until `is` holds; the threads need some time.
fn wait(mut is: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if is() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it does not come");
}

#[test]
fn answers_are_logged_with_where_they_came_from() {
    let folder = Folder::new("json");
    let path = folder.file("q.json");
    let (mut rig, log, _) = logging(&format!("json = {path:?}"));
    ask(&mut rig, &ASKED);
    drop(log);
    let found = lines(&path);
    let facts: Vec<_> = found
        .iter()
        .map(|one| (&*one.name, &*one.record_type, &*one.rcode, &*one.source, one.list.as_deref()))
        .collect();
    assert_eq!(
        facts,
        [
            ("hit.example", "A", "NOERROR", "hit", None),
            ("blocked.example", "AAAA", "NXDOMAIN", "policy", Some("block.names")),
            ("own.example", "A", "NOERROR", "local", None),
        ],
        "a miss has no answer yet"
    );
    assert!(
        found.iter().all(|one| one.client == "10.77.0.1" && one.transport == "udp"),
        "{found:?}"
    );
}

#[test]
fn an_answer_of_the_slow_path_has_its_upstream() {
    let folder = Folder::new("slow");
    let path = folder.file("q.json");
    let (mut rig, log, _) = logging(&format!("json = {path:?}"));
    ask(&mut rig, &["miss.example. A"]);
    let miss = rig.slow_path[0].inlets.misses[0].pop().expect("a miss");
    for origin in [Origin::Upstream(0), Origin::Stale, Origin::Failure] {
        let packet = Miss::packet(&miss, &rig.pool, pmdns_stages::Answer::None).unwrap();
        let (layout, received) = (packet.layout, packet.received);
        let answer = OutgoingAnswer { frame: packet.frame, received, layout, origin, why: None };
        assert!(rig.slow_path[0].outlets[0].push(answer).is_ok());
    }
    rig.settle();
    drop(log);
    let facts: Vec<_> =
        lines(&path).into_iter().map(|one| (one.source, one.upstream, one.stale)).collect();
    let own = |source: &str, upstream: Option<&str>, stale| {
        (source.to_owned(), upstream.map(str::to_owned), stale)
    };
    assert_eq!(
        facts,
        [
            own("forward", Some("127.0.0.1:5353"), false),
            own("stale", None, true),
            own("failure", None, false)
        ]
    );
}

#[test]
fn a_full_file_gets_another_name_and_few_are_kept() {
    let folder = Folder::new("rotation");
    let path = folder.file("q.json");
    let (mut rig, log, _) =
        logging(&format!("json = {path:?}\njson_size = \"64KiB\"\njson_files = 2"));
    ask_often(&mut rig, &log, ("json", 1200));
    drop(log);
    let files = ["q.json", "q.json.1", "q.json.2", "q.json.3"].map(|name| folder.file(name));
    let sizes = files.clone().map(|file| std::fs::metadata(file).map_or(0, |facts| facts.len()));
    assert!(sizes[1] >= 64 << 10 && sizes[1] < 65 << 10, "{sizes:?}");
    assert!(sizes[2] >= 64 << 10 && sizes[3] == 0 && sizes[0] < 64 << 10, "{sizes:?}");
    files[..3].iter().for_each(|file| drop(lines(file)));
}

/// As while one process takes over from another.
#[test]
fn two_logs_share_a_file_and_lose_nothing() {
    let folder = Folder::new("shared");
    let path = folder.file("q.json");
    let settings = format!("json = {path:?}\njson_size = \"64KiB\"\njson_files = 20");
    let (mut first, first_log, _) = logging(&settings);
    let (mut second, second_log, _) = logging(&settings);
    for round in 1..=6 {
        for (rig, log) in [(&mut first, &first_log), (&mut second, &second_log)] {
            (0..10).for_each(|_| ask(rig, &["hit.example. A"; 20]));
            wait(|| count(log, "json").written == 200 * round);
        }
    }
    drop((first_log, second_log));
    let files = (1..20).map(|number| folder.file(&format!("q.json.{number}")));
    let files: Vec<_> = files.chain([path]).filter(|file| file.exists()).collect();
    assert_eq!(files.iter().map(|file| lines(file).len()).sum::<usize>(), 2400, "{files:?}");
    let size = |file: &PathBuf| std::fs::metadata(file).unwrap().len();
    let sizes: Vec<_> = files.iter().map(size).collect();
    // Each counts what the other has written when it writes itself.
    assert!(sizes.len() > 3 && sizes.iter().all(|size| *size < 128 << 10), "{sizes:?}");
}

#[test]
fn a_file_that_was_moved_is_begun_anew() {
    let folder = Folder::new("moved");
    let path = folder.file("q.json");
    let (mut rig, log, _) = logging(&format!("json = {path:?}"));
    ask(&mut rig, &["hit.example. A"]);
    wait(|| count(&log, "json").written == 1);
    std::fs::rename(&path, folder.file("moved")).unwrap();
    wait(|| path.exists());
    ask(&mut rig, &["hit.example. A"]);
    drop(log);
    assert_eq!((lines(&folder.file("moved")).len(), lines(&path).len()), (1, 1));
}

#[test]
fn the_database_can_be_searched() {
    let folder = Folder::new("sqlite");
    let path = folder.file("q.db");
    let (mut rig, log, _) = logging(&format!("sqlite = {path:?}"));
    ask(&mut rig, &ASKED);
    wait(|| count(&log, "sqlite").written == 3);
    let names = |what: &LogSearch| -> Vec<String> {
        search(&path, what).unwrap().into_iter().map(|one| one.name).collect()
    };
    let all = LogSearch::default();
    assert_eq!(names(&all), ["own.example", "blocked.example", "hit.example"], "newest first");
    let name = |name: &str| Some(name.to_owned());
    assert_eq!(names(&LogSearch { name: name("EXAMPLE."), ..all.clone() }).len(), 3);
    assert_eq!(names(&LogSearch { name: name("t.example"), ..all.clone() }), [""; 0]);
    assert_eq!(names(&LogSearch { name: name("."), ..all.clone() }).len(), 3);
    assert_eq!(names(&LogSearch { name: name("' OR 1 --"), ..all.clone() }), [""; 0]);
    let blocked = |is| LogSearch { blocked: Some(is), ..all.clone() };
    assert_eq!(names(&blocked(true)), ["blocked.example"]);
    assert_eq!(names(&blocked(false)).len(), 2);
    let of = LogSearch { client: name("10.77.0.1"), record_type: name("aaaa"), ..all.clone() };
    assert_eq!(names(&of), ["blocked.example"]);
    assert_eq!(names(&LogSearch { limit: Some(1), ..all.clone() }), ["own.example"]);
    let now = search(&path, &all).unwrap()[0].time_us;
    assert_eq!(names(&LogSearch { since_us: Some(now + 1_000_000), ..all.clone() }), [""; 0]);
    drop(log);
    assert_eq!(names(&all).len(), 3, "also when nobody writes");
}

#[test]
fn old_rows_leave_the_database() {
    let folder = Folder::new("retention");
    let path = folder.file("q.db");
    let (mut rig, log, config) = logging(&format!("sqlite = {path:?}\nsqlite_rows = 1000"));
    ask_often(&mut rig, &log, ("sqlite", 1200));
    drop(log);
    let rows = || {
        let database = rusqlite::Connection::open(&path).unwrap();
        database.query_row("SELECT count(*) FROM query", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    let reopened = || {
        let in_use = (RuleNames::default(), UpstreamsInUse::new(&config, without_encrypted));
        let words = EntryMaker::new(Clients::new(&config.query_log).unwrap(), in_use);
        Database::open(&config.query_log, &path, words, Arc::default()).unwrap()
    };
    reopened().tend();
    assert_eq!(rows(), 1000, "by number");
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute("UPDATE query SET time_us = time_us - 8 * 86400000000 WHERE id % 2", []).unwrap();
    reopened().tend();
    assert_eq!(rows(), 500, "by age");
}

#[test]
fn a_database_that_cannot_be_written_loses_records_and_comes_back() {
    let folder = Folder::new("broken");
    let path = folder.file("q.db");
    let (mut rig, log, _) = logging(&format!("sqlite = {path:?}"));
    ask(&mut rig, &["hit.example. A"]);
    wait(|| count(&log, "sqlite").written == 1);
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("DROP TABLE query").unwrap();
    ask(&mut rig, &["hit.example. A"]);
    wait(|| count(&log, "sqlite").lost == 1);
    let broken = count(&log, "sqlite");
    assert_eq!((broken.up, broken.failures), (0, 1));
}

#[test]
fn a_dnstap_reader_that_leaves_and_returns_costs_records_only() {
    let folder = Folder::new("dnstap");
    let path = folder.file("socket");
    let (mut rig, log, _) = logging(&format!("dnstap = {path:?}"));
    ask(&mut rig, &["hit.example. A"]);
    wait(|| count(&log, "dnstap").lost == 1);
    assert!(count(&log, "dnstap").failures > 0, "nobody listens");
    for _ in 0..2 {
        let listener = UnixListener::bind(&path).unwrap();
        let (mut reader, _) = listener.accept().unwrap();
        reader.write_all(b"\0\0\0\0\0\0\0\x04\0\0\0\x01").unwrap();
        wait(|| count(&log, "dnstap").up == 1);
        let before = count(&log, "dnstap").written;
        ask(&mut rig, &["hit.example. A"]);
        wait(|| count(&log, "dnstap").written == before + 1);
        drop((reader, listener));
        std::fs::remove_file(&path).unwrap();
        let lost = count(&log, "dnstap").lost;
        wait(|| {
            ask(&mut rig, &["hit.example. A"]);
            count(&log, "dnstap").lost > lost
        });
    }
}

#[test]
fn a_dnstap_reader_may_be_reached_over_tcp() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut rig, log, _) = logging(&format!("dnstap = \"{}\"", listener.local_addr().unwrap()));
    let (mut reader, _) = listener.accept().unwrap();
    reader.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    reader.write_all(b"\0\0\0\0\0\0\0\x04\0\0\0\x01").unwrap();
    wait(|| count(&log, "dnstap").up == 1);
    ask(&mut rig, &["hit.example. A"]);
    wait(|| count(&log, "dnstap").written == 1);
    let mut got = Vec::new();
    let mut buffer = [0; 1024];
    wait(|| {
        let read = reader.read(&mut buffer).unwrap();
        got.extend_from_slice(&buffer[..read]);
        got.windows(13).any(|part| part == b"\x03hit\x07example\0")
    });
}

#[test]
fn what_listens_but_reads_nothing_stalls_nobody() {
    let folder = Folder::new("stalls");
    let (socket, path) = (folder.file("socket"), folder.file("q.json"));
    let _listener = UnixListener::bind(&socket).unwrap();
    let (mut rig, log, _) = logging(&format!("dnstap = {socket:?}\njson = {path:?}\nring = 1024"));
    ask_often(&mut rig, &log, ("json", 1000));
    wait(|| count(&log, "rings").written == 1000);
    assert_eq!(count(&log, "rings").lost, 0);
}

#[test]
fn a_full_ring_loses_records_and_counts_them() {
    let folder = Folder::new("ring");
    let path = folder.file("q.json");
    let config = config(&format!("[query_log]\njson = {path:?}\nring = 1024"));
    let mut rig = Rig::new(&config);
    let rings = lend(&config, &rig.observers).unwrap();
    housekeeping(&mut rig);
    rig.learn(&query("hit.example. A"), &[(0, 1, 86_400, vec![192, 0, 2, 1])]);
    for _ in 0..60 {
        ask(&mut rig, &["hit.example. A"; 10]);
    }
    let counters = Arc::clone(&rings.counters);
    let collector = &mut Collector::new(rings, Vec::new(), rig.gauges.clock);
    assert_eq!(collector.turn(), 512, "all that are there are whole");
    assert_eq!(counters.snapshot().lost, 600 - 512, "two cells each");
    assert_eq!(collector.turn(), 0);
}

#[test]
fn a_reader_is_a_path_or_an_address() {
    let unix: DnstapReader = "/run/dnstap.sock".parse().unwrap();
    assert_eq!(unix, DnstapReader::Unix("/run/dnstap.sock".into()));
    let tcp: DnstapReader = "192.0.2.1:6000".parse().unwrap();
    assert_eq!(tcp, DnstapReader::Tcp("192.0.2.1:6000".parse().unwrap()));
    assert!("localhost:6000".parse::<DnstapReader>().unwrap_err().contains("neither a path"));
}
