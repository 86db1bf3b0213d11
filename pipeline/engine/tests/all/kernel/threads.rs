//! The threads of the slow path: the rings between them and the data cores, jobs for others, validation beside them.

use std::path::PathBuf;

use pmdns_config::Prefetch;
use pmdns_stages::testing::{QueryFrame, query};
use pmdns_stages::wire::be16;
use pmdns_stages::wire::dns::{flag, header};

use super::rig::{Rig, Setup, purge_of};
use super::signed::Zone;
use super::stub::{Asked, Stub};

/// A file of a test; it goes with it.
struct TestFile(PathBuf);

impl TestFile {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("pmdns-kernel-{}-{name}", std::process::id())))
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// How many records a client gets for a name.
fn records(rig: &mut Rig, name: &str) -> u16 {
    rig.resolve(&query(&format!("{name}. A"))).records
}

#[test]
fn a_thread_does_to_its_shard_what_it_is_ordered_to() {
    let file = TestFile::new("cache_jobs");
    let stub = Stub::replying(Asked::address);
    let mut rig = Setup::asking(&[&stub]).start();
    for name in ["a.example", "b.example", "c.example"] {
        assert_eq!(records(&mut rig, name), 1);
    }
    let purge = purge_of("a.example", false, None);
    assert_eq!(rig.cache_job(|jobs| jobs.purge(&purge)).unwrap(), 1);
    assert_eq!(rig.cache_job(|jobs| jobs.dump(&file.0)).unwrap(), 2);
    rig.finish();
    let mut rig = Setup { seed: [77; 16], ..Setup::asking(&[&stub]) }.start();
    let loaded = rig.cache_job(|jobs| jobs.load(&file.0)).unwrap();
    assert_eq!((loaded.taken.kept, loaded.left_out()), (2, 0));
    assert_eq!(records(&mut rig, "b.example"), 1);
    assert_eq!(stub.asked().len(), 3, "it is not asked again");
    rig.finish();
}

#[test]
fn a_thread_hears_of_hits_and_is_lent_rules() {
    let stub = Stub::replying(Asked::address);
    let prefetch = Prefetch { enabled: true, cache_refresh_threshold: 0.0, ..Prefetch::default() };
    let mut rig = Setup { prefetch, ..Setup::asking(&[&stub]) }.start();
    let popular = query("popular.example. A");
    assert_eq!(rig.resolve(&popular).records, 1);
    rig.hit(&popular, 10);
    rig.wait_for(|counters| counters.inserted == 2);
    rig.deny_all_addresses("kernel");
    let answer = rig.resolve(&query("other.example. A"));
    assert_eq!((answer.rcode, answer.records), (3, 0));
    rig.finish();
}

#[test]
fn signatures_are_checked_on_a_thread_beside_it() {
    let zone = Zone::new();
    let dnssec = zone.trusted("kernel");
    let stub = Stub::replying(move |asked| zone.reply(asked));
    let mut rig = Setup { dnssec, ..Setup::asking(&[&stub]) }.start();
    let plain = query("www.signed. A").edns(1232, false);
    let answer = rig.resolve_whole(&QueryFrame { flags: plain.flags | flag::AD, ..plain });
    assert_ne!(be16(&answer, header::FLAGS).unwrap() & flag::AD, 0);
    assert_eq!(rig.resolve(&query("bad.signed. A")).rcode, 2);
    let counters = rig.finish();
    assert_eq!((counters.secure, counters.bogus), (1, 1));
}
