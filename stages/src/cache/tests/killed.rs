//! A writer that is a process, and is killed while it writes.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pmdns_config::{Eviction, Pages};

use super::*;
use crate::cache::entry::{PASSED_AT, with_passed};

/// Tells the program of this test that it is the process to be killed, and how many were before it.
const KILLED: &str = "PMDNS_TEST_KILLED";
/// How many are killed, if this variable does not say it.
const KILLS: (&str, u32) = ("PMDNS_KILLS", 40);

const KEYS: u32 = 500;
/// Entries of each writer. They have versions of their own.
const ENTRIES: u32 = 2000;
const RETENTION: Retention = Retention {
    max_negative_share: 1.0,
    max_negative_ttl: u32::MAX,
    max_long_share: 1.0,
    max_ttl: u32::MAX,
    max_udp_body: usize::MAX,
    eviction: Eviction::Lru,
    counts_hits: false,
    access_window: u32::MAX,
};

/// The cache in the memory of this descriptor, and its writers, frozen.
fn cache_in(descriptor: OwnedFd) -> (Arc<Cache>, Vec<Writer>) {
    let (arena, _) = Arena::adopt(descriptor).expect("it is memory of a cache");
    assert!(arena.lock().is_ok_and(|is_ours| is_ours), "the lock falls with its process");
    Cache::over(arena, seed(), 1).expect("it is enough")
}

/// Writes for ever. What it writes has versions from `first` on.
fn write(descriptor: OwnedFd, first: u32) -> ! {
    let (_cache, mut writers) = cache_in(descriptor);
    let writer = &mut writers[0];
    writer.resume(&RETENTION, first).expect("it is sound");
    let entries: Vec<_> = (first..first + ENTRIES)
        .map(|version| {
            let number = version.wrapping_mul(0x9e37_79b9) >> 16;
            let lines = if version % 50 == 0 { 200 } else { 1 + number as usize % 5 };
            entry(number % KEYS, hash(number % KEYS), lines, version)
        })
        .collect();
    writeln!(std::io::stdout(), "\nready").expect("somebody reads");
    for (at, entry) in entries.iter().cycle().enumerate() {
        let hash = entry.head().hash;
        match at % 16 {
            0 => _ = writer.remove(hash),
            1..=4 => _ = writer.credit(Hit { hash, weight: 1 }, first),
            _ => _ = writer.insert(entry),
        }
    }
    unreachable!("there is always one more");
}

/// Each entry that can be found is whole and one that was written. Its words, but for the mark of a ruleset.
fn contents(cache: &Cache) -> Vec<Option<Vec<u64>>> {
    let read = |number| {
        let mut words = read(cache, number, hash(number))?;
        words[PASSED_AT] = with_passed(words[PASSED_AT], 0);
        let (lines, version) = (words.len() / LINE_WORDS, words[1] as u32);
        let written = entry(number, hash(number), lines, version);
        assert!(words == written.words(), "{number} of version {version}");
        Some(words)
    };
    (0..KEYS).map(read).collect()
}

#[test]
fn whenever_a_process_is_killed_the_next_one_finds_what_could_be_found() {
    if let Some(killed) = std::env::var_os(KILLED) {
        let input = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
        let before: u32 = killed.to_str().unwrap().parse().unwrap();
        write(input, before * ENTRIES);
    }
    let kills = std::env::var(KILLS.0).map_or(KILLS.1, |number| number.parse().unwrap());
    let (arena, _) = Arena::new(64 << 10, Pages::Normal, None).unwrap();
    let passed = || arena.descriptor().unwrap().try_clone_to_owned().unwrap();
    let mut found = 0;
    for number in 0..kills {
        let mut writer = start(passed(), number);
        let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        assert!(lines.map(Result::unwrap).any(|line| line == "ready"));
        // Any moment will do.
        std::thread::sleep(Duration::from_micros(u64::from(number * 7919 % 1000)));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let (cache, mut writers) = cache_in(passed());
        let before = contents(&cache);
        assert_eq!(writers[0].resume(&RETENTION, 0), Ok(()), "after {number} kills");
        let after = contents(&cache);
        assert!(before == after, "after {number} kills");
        found += after.iter().flatten().count();
    }
    assert!(found > kills as usize * 20, "there is something to lose: {found}");
}

/// A process that goes on with this memory.
fn start(memory: OwnedFd, number: u32) -> Child {
    let test =
        "cache::tests::killed::whenever_a_process_is_killed_the_next_one_finds_what_could_be_found";
    Command::new(std::env::current_exe().expect("there is /proc"))
        .args([test, "--exact", "--nocapture"])
        .env(KILLED, number.to_string())
        .stdin(Stdio::from(memory))
        .stdout(Stdio::piped())
        .spawn()
        .expect("it is this program")
}
