//! What an operator does to the cache as a whole: purge, dump, load.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use pmdns_engine::snapshot::{Loaded, SnapshotError};
use pmdns_stages::testing::query;

use super::rig::{Rig, Setup, purge_of};
use super::stale::{ask_when_expired, first_then};
use super::stub::Stub;

const QUERIES: [&str; 6] = [
    "example.com. A",
    "example.com. AAAA",
    "www.example.com. A",
    "a.b.example.com. AAAA",
    "example.org. A",
    "badexample.com. A",
];

fn ask_all(rig: &mut Rig) {
    for text in QUERIES {
        assert_eq!(rig.resolve(&query(text)).records, 1, "{text}");
    }
}

/// What is asked upstream again after such a purge.
fn lost((name, below, qtype): (&str, bool, Option<u16>)) -> Vec<&'static str> {
    let stub = Stub::replying(|asked| asked.address());
    let mut rig = Setup::asking(&[&stub]).start();
    ask_all(&mut rig);
    let purge = purge_of(name, below, qtype);
    let count = rig.cache_job(|jobs| jobs.purge(&purge)).unwrap();
    let mut lost = Vec::new();
    for text in QUERIES {
        let before = stub.asked().len();
        rig.resolve(&query(text));
        if stub.asked().len() > before {
            lost.push(text);
        }
    }
    assert_eq!(count, lost.len() as u64, "{name}");
    rig.finish();
    lost
}

/// Answers taken and left out.
fn counts(loaded: &Loaded) -> (u64, u64) {
    (loaded.taken.kept, loaded.left_out())
}

#[test]
fn what_is_purged_is_not_served_any_more() {
    assert_eq!(lost(("example.com", false, None)), QUERIES[..2]);
    assert_eq!(lost(("EXAMPLE.com", false, Some(28))), QUERIES[1..2]);
    assert_eq!(lost(("example.com", true, None)), QUERIES[..4]);
    assert_eq!(lost(("example.com", true, Some(28))), [QUERIES[1], QUERIES[3]]);
    assert_eq!(lost((".", true, None)), QUERIES);
    assert_eq!(lost(("nothing.example", false, None)), [""; 0]);
}

/// A file of a test; it goes with it.
struct TestFile(PathBuf);

impl TestFile {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("pmdns-cache_jobs-{}-{name}", std::process::id())))
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn answers_outlive_the_process_and_go_on_ageing() {
    let file = TestFile::new("outlive");
    let stub = Stub::replying(|asked| match asked.message[13] {
        b'b' => asked.addresses(1, 1),
        _ => asked.addresses(1, 100),
    });
    let mut rig = Setup::asking(&[&stub]).start();
    ask_all(&mut rig);
    let written = rig.cache_job(|jobs| jobs.dump(&file.0)).unwrap();
    assert_eq!(written, 6);
    rig.pass(Duration::from_secs(3));
    rig.finish();
    let mut other_hashes = Setup { seed: [77; 16], ..Setup::asking(&[&stub]) };
    other_hashes.keeping.serve_stale = false;
    let mut rig = other_hashes.start();
    let loaded = rig.cache_job(|jobs| jobs.load(&file.0)).unwrap();
    assert_eq!((loaded.taken.kept, loaded.taken.expired), (5, 1), "{loaded}");
    for text in &QUERIES[..5] {
        let answer = rig.resolve(&query(text));
        assert_eq!((answer.records, answer.rcode), (1, 0));
        assert_eq!(answer.ttl, 97, "of 100 seconds");
    }
    assert_eq!(stub.asked().len(), QUERIES.len(), "nothing is asked again");
    let again = rig.cache_job(|jobs| jobs.load(&file.0)).unwrap();
    assert_eq!((again.taken.known, again.taken.expired), (5, 1), "{again}");
    rig.finish();
}

/// Other resolvers forget at a restart what they could have served while nobody answers.
#[test]
fn difference_snapshot_keeps_expired_answers_that_may_be_served() {
    let file = TestFile::new("stale");
    let stub = first_then(|asked| asked.addresses(1, 1), |asked, _| Some(asked.rcode(2)));
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(ask_when_expired(&mut rig).ttl, 30);
    assert_eq!(rig.cache_job(|jobs| jobs.dump(&file.0)).unwrap(), 1);
    rig.finish();
    let mut rig = Setup { seed: [77; 16], ..Setup::asking(&[&stub]) }.start();
    assert_eq!(counts(&rig.cache_job(|jobs| jobs.load(&file.0)).unwrap()), (1, 0));
    let answer = rig.resolve(&query("www.example. A"));
    assert_eq!((answer.rcode, answer.records, answer.ttl), (0, 1, 30));
    assert_eq!(rig.finish().stale, 1);
    let mut fresh_only = Setup::asking(&[&stub]);
    fresh_only.keeping.serve_stale = false;
    let mut rig = fresh_only.start();
    assert_eq!(counts(&rig.cache_job(|jobs| jobs.load(&file.0)).unwrap()), (0, 1));
    assert_eq!(rig.resolve(&query("www.example. A")).rcode, 2);
    assert_eq!(rig.cache_job(|jobs| jobs.dump(&file.0)).unwrap(), 0);
    rig.finish();
}

/// A reader that takes nothing until it is told to, or is gone.
struct Slow {
    taken: Vec<u8>,
    may_go_on: Option<Receiver<()>>,
}

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(may_go_on) = self.may_go_on.take() {
            may_go_on.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
        }
        self.taken.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_slow_reader_of_a_dump_gets_the_same_bytes_and_holds_nobody_up() {
    let file = TestFile::new("sent");
    let stub = Stub::replying(|asked| asked.address());
    let mut rig = Setup::asking(&[&stub]).start();
    ask_all(&mut rig);
    let (sent, purged) = rig.cache_job(|jobs| {
        let (go_on, told) = channel();
        std::thread::scope(|threads| {
            let sending = threads.spawn(|| {
                let mut slow = Slow { taken: Vec::new(), may_go_on: Some(told) };
                jobs.send(&mut slow).map(|count| (count, slow.taken))
            });
            jobs.dump(&file.0).unwrap();
            let purged = jobs.purge(&purge_of("other.example", false, None));
            go_on.send(()).unwrap();
            (sending.join().unwrap().unwrap(), purged)
        })
    });
    assert_eq!((sent.0, purged.unwrap()), (QUERIES.len() as u64, 0));
    assert_eq!(sent.1, std::fs::read(&file.0).unwrap());

    let (go_on, told) = channel();
    drop(go_on);
    let mut gone = Slow { taken: Vec::new(), may_go_on: Some(told) };
    let error = rig.cache_job(|jobs| jobs.send(&mut gone)).unwrap_err();
    assert!(matches!(error, SnapshotError::Write { .. }), "{error}");
    rig.finish();
}

/// The rules of the instance that loads hold, not those of the one that wrote.
#[test]
fn what_is_loaded_passes_the_rules_in_use() {
    let file = TestFile::new("rules");
    let stub = Stub::replying(|asked| asked.address());
    let mut rig = Setup::asking(&[&stub]).start();
    ask_all(&mut rig);
    rig.cache_job(|jobs| jobs.dump(&file.0)).unwrap();
    rig.finish();
    let mut rig = Setup::asking(&[&stub]).start();
    rig.deny_all_addresses("cache_jobs");
    rig.cache_job(|jobs| jobs.load(&file.0)).unwrap();
    for text in QUERIES {
        let answer = rig.resolve(&query(text));
        assert_eq!((answer.rcode, answer.records), (3, 0), "{text}");
    }
    assert_eq!(stub.asked().len(), QUERIES.len(), "nothing is asked again");
    rig.finish();
}

#[test]
fn a_damaged_snapshot_is_an_error_and_an_empty_cache() {
    let file = TestFile::new("damaged");
    let stub = Stub::replying(|asked| asked.address());
    let mut rig = Setup::asking(&[&stub]).start();
    ask_all(&mut rig);
    rig.cache_job(|jobs| jobs.dump(&file.0)).unwrap();
    rig.finish();
    let mut bytes = std::fs::read(&file.0).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&file.0, bytes).unwrap();
    let mut rig = Setup::asking(&[&stub]).start();
    assert!(matches!(rig.cache_job(|jobs| jobs.load(&file.0)), Err(SnapshotError::Damaged { .. })));
    ask_all(&mut rig);
    assert_eq!(stub.asked().len(), 2 * QUERIES.len(), "every one of them is asked for");
    rig.finish();
}

#[test]
fn an_empty_cache_can_be_dumped_and_an_ended_slow_path_says_so() {
    let file = TestFile::new("empty");
    let stub = Stub::replying(|asked| asked.address());
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(rig.cache_job(|jobs| jobs.dump(&file.0)).unwrap(), 0);
    assert_eq!(counts(&rig.cache_job(|jobs| jobs.load(&file.0)).unwrap()), (0, 0));
    let cache_jobs = rig.cache_jobs();
    rig.finish();
    assert!(matches!(cache_jobs.dump(&file.0), Err(SnapshotError::Ended)));
    let purge = purge_of(".", false, None);
    assert!(matches!(cache_jobs.purge(&purge), Err(SnapshotError::Ended)));
}
