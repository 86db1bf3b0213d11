//! Files that were cut off, changed, or are something else.

use std::fs::File;
use std::path::PathBuf;

use pmdns_config::files::{WholeFile, open_regular};
use pmdns_stages::testing::{ReplyRecord, entry_of, query};
use pmdns_stages::wire::name::Seed;

use super::file::{Snapshot, SnapshotError, SnapshotWriter, Times, create, split};
use super::{Loaded, TakenIn};

const TIMES: Times = Times { start: 1_000_000, written: 1_000_500 };
const SCOPES: &str = "kids 1\n";

/// A file of a test; it goes with it.
struct TestFile(PathBuf);

impl TestFile {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("pmdns-test-{}-{name}", std::process::id())))
    }

    /// What stands beside it under names that are not final.
    fn parts(&self) -> Vec<PathBuf> {
        let name = format!(".{}.", self.0.file_name().unwrap().display());
        let entries = std::fs::read_dir(self.0.parent().unwrap()).into_iter().flatten();
        let entries = entries.flatten();
        let is_ours =
            |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&name);
        entries.filter(is_ours).map(|entry| entry.path()).collect()
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        self.parts().iter().for_each(|part| drop(std::fs::remove_file(part)));
    }
}

fn words(number: u32) -> Vec<u64> {
    let records: [ReplyRecord; 1] = [(0, 1, 300, vec![192, 0, 2, 1])];
    let asked = query(&format!("n{number}.example. A"));
    entry_of(&asked, &records, 7, Seed::new([1; 16])).words().to_vec()
}

fn begin(file: &TestFile) -> SnapshotWriter<WholeFile> {
    SnapshotWriter::begin(create(&file.0).unwrap(), &file.0, TIMES, SCOPES).unwrap()
}

fn open(file: &TestFile) -> Result<Snapshot<File>, SnapshotError> {
    let failed = |source| SnapshotError::Read { path: file.0.clone(), source };
    Snapshot::read(open_regular(&file.0).map_err(failed)?, &file.0)
}

/// Writes blocks of two, one and no entries.
fn write(file: &TestFile) {
    let (before, parts) = (std::fs::read(&file.0).ok(), file.parts());
    let mut writer = begin(file);
    writer.entries(&[words(1), words(2)].concat()).unwrap();
    writer.entries(&words(3)).unwrap();
    assert!(std::fs::read(&file.0).ok() == before, "it has its name only when it is whole");
    let (out, count) = writer.finish().unwrap();
    out.finish().unwrap();
    assert_eq!(count, 3);
    assert_eq!(file.parts(), parts);
}

fn read(file: &TestFile) -> Result<Vec<Vec<u64>>, SnapshotError> {
    let mut snapshot = open(file)?;
    let origin = snapshot.origin();
    assert_eq!((origin.times, &*origin.scopes), (TIMES, SCOPES));
    let mut all = Vec::new();
    while let Some(words) = snapshot.next_entries(all.len() as u64)? {
        all.extend(split(&words).map(<[u64]>::to_vec));
    }
    Ok(all)
}

#[test]
fn what_was_written_is_read() {
    let file = TestFile::new("whole");
    write(&file);
    assert_eq!(read(&file).unwrap(), [words(1), words(2), words(3)]);
    write(&file);
    assert_eq!(read(&file).unwrap().len(), 3, "a new one takes its place");
}

#[test]
fn a_file_that_was_cut_off_anywhere_is_known_for_it() {
    let file = TestFile::new("cut");
    write(&file);
    let whole = std::fs::read(&file.0).unwrap();
    for len in 0..whole.len() {
        std::fs::write(&file.0, &whole[..len]).unwrap();
        let error = read(&file).expect_err("it is not whole");
        assert!(matches!(error, SnapshotError::Damaged { .. }), "{len} bytes: {error}");
    }
    std::fs::write(&file.0, [&*whole, b"\0"].concat()).unwrap();
    assert!(read(&file).is_err(), "a byte more");
}

#[test]
fn what_comes_before_the_end_of_a_stream_is_read() {
    let file = TestFile::new("stream");
    write(&file);
    let whole = std::fs::read(&file.0).unwrap();
    let entries_of = |bytes: &[u8]| {
        let mut snapshot = Snapshot::begin(bytes, &file.0)?;
        let mut count = 0;
        while let Ok(Some(words)) = snapshot.next_entries(count) {
            count += split(&words).count() as u64;
        }
        Ok::<_, SnapshotError>(count)
    };
    assert_eq!(entries_of(&whole).unwrap(), 3);
    let counts: Vec<u64> =
        (0..whole.len()).filter_map(|len| entries_of(&whole[..len]).ok()).collect();
    assert!(counts.is_sorted() && counts.contains(&0) && counts.contains(&2), "{counts:?}");
}

#[cfg(debug_assertions)]
#[test]
fn what_is_received_is_taken_in_up_to_a_part_that_is_damaged() {
    use pmdns_nics::hugepage::Arena;
    use pmdns_stages::cache::Cache;

    use super::CacheJobs;
    use crate::clock::{Clock, SteppedTime};
    use crate::slowpath::{JobRequest, job_requests};

    let file = TestFile::new("received");
    write(&file);
    let whole = std::fs::read(&file.0).unwrap();
    let arena = Arena::heap(1 << 17);
    let (cache, _writers) = Cache::new(arena, 1, Seed::new([1; 16])).unwrap();
    let (requests, orders) = job_requests();
    // A thread that keeps whatever is loaded.
    std::thread::spawn(move || {
        while let Ok(JobRequest::Load(given, done)) = orders.recv() {
            let kept = given.iter().map(|entries| entries.len() as u64).sum();
            done.send(TakenIn { kept, ..TakenIn::default() }).unwrap();
        }
    });
    let clock = Clock::stepped(SteppedTime::since(1_000_600)).with_first_second(100_000);
    let jobs = CacheJobs::new(vec![requests], cache, clock, SCOPES.to_owned());
    let loaded = jobs.receive(&*whole).unwrap();
    assert_eq!((loaded.taken.kept, loaded.unreadable), (3, 0));
    let mut kept = Vec::new();
    for len in 0..whole.len() {
        match jobs.receive(&whole[..len]).unwrap_err() {
            SnapshotError::CutOff { loaded, .. } => kept.push(loaded.taken.kept),
            SnapshotError::Damaged { .. } => assert!(kept.is_empty(), "it has not begun"),
            other => panic!("{other}"),
        }
    }
    assert!(kept.is_sorted() && kept.contains(&0) && kept.contains(&2) && kept.contains(&3));
    let cut = jobs.receive(&whole[..whole.len() - 1]).unwrap_err().to_string();
    assert!(cut.contains("3 answers loaded, 0 left out before that"), "{cut}");
}

#[test]
fn a_byte_that_was_changed_anywhere_is_noticed() {
    let file = TestFile::new("changed");
    write(&file);
    let whole = std::fs::read(&file.0).unwrap();
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x41;
        std::fs::write(&file.0, &changed).unwrap();
        let error = read(&file).expect_err("it was changed");
        assert!(matches!(error, SnapshotError::Damaged { .. }), "byte {at}: {error}");
    }
}

#[test]
fn a_crash_while_writing_leaves_the_last_snapshot_alone() {
    let file = TestFile::new("crash");
    write(&file);
    let mut writer = begin(&file);
    writer.entries(&words(9)).unwrap();
    // As after SIGKILL: nothing is cleaned up.
    std::mem::forget(writer);
    assert_eq!(file.parts().len(), 1);
    assert_eq!(read(&file).unwrap().len(), 3);
    write(&file);
    assert_eq!(read(&file).unwrap().len(), 3, "and what is left does not disturb the next one");
    let mut writer = begin(&file);
    writer.entries(&words(9)).unwrap();
    drop(writer);
    assert_eq!(file.parts().len(), 1, "an error cleans up");
}

#[test]
fn audit_12_a_pipe_in_place_of_a_snapshot_is_not_waited_for() {
    let file = TestFile::new("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&file.0).status().unwrap().success());
    let error = open(&file).map(drop).unwrap_err().to_string();
    assert!(error.contains("no regular file"), "{error}");
    // To be written over it is no obstacle.
    begin(&file).finish().unwrap().0.finish().unwrap();
    assert!(file.0.metadata().unwrap().is_file());
}

#[test]
fn errors_say_what_to_do() {
    let nowhere = TestFile(PathBuf::from("/no/such/folder/snapshot"));
    assert!(create(&nowhere.0).is_err());
    let (path, source) = (nowhere.0.clone(), std::io::ErrorKind::NotFound.into());
    let error = SnapshotError::Write { path, source }.to_string();
    assert!(error.contains("/no/such/folder/snapshot") && error.contains("may this user"));
    assert!(read(&nowhere).unwrap_err().is_absent());
}

#[test]
fn d13_a_load_says_why_answers_were_left_out() {
    let taken = TakenIn { kept: 650, expired: 500, known: 20, ..TakenIn::default() };
    let loaded = Loaded { taken, other_views: 3, unreadable: 0 };
    assert_eq!(
        loaded.to_string(),
        "650 answers loaded, 523 left out: 500 expired, 20 no newer than those in the cache, 3 of views that have changed"
    );
    let all = Loaded { taken: TakenIn { kept: 7, ..TakenIn::default() }, ..Loaded::default() };
    assert_eq!(all.to_string(), "7 answers loaded, 0 left out");
}
