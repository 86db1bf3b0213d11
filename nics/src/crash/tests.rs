//! Tests of the memory, and of the handler: a process ends by signals.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::memory::SEALS;
use super::record::SIZE;
use super::*;
use crate::{DESCRIPTORS, HeapPool};

/// Tells the program of this test how it is to end.
const END: &str = "PMDNS_TEST_CRASH";

#[test]
fn only_sealed_memory_of_this_layout_is_read() {
    let memfd = |bytes: u64, seals| {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("test", flags).unwrap();
        ftruncate(&file, bytes).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        CrashMemory::read(file).unwrap_err().to_string()
    };
    let whole = SIZE as u64;
    for missing in [SealFlags::SHRINK, SealFlags::GROW, SealFlags::SEAL] {
        assert!(memfd(whole, SEALS - missing).contains("no memfd"), "{missing:?}");
    }
    assert!(memfd(whole, SEALS).contains("otherwise"), "it is zero");
    assert!(memfd(whole - 1, SEALS).contains("otherwise"));
    let other = File::open("/dev/null").unwrap();
    assert!(matches!(CrashMemory::read(other.into()), Err(BadCrashMemory::NotSealed)));
}

#[test]
fn the_newest_crashes_are_kept() {
    let crash = |process| CrashRecord {
        signal: 6,
        core: None,
        time: 1,
        process,
        version: "1".to_owned(),
        wires: 1,
        packets: Vec::new(),
    };
    let crashes: Vec<_> = (0..20).map(crash).collect();
    let memory = CrashMemory::new(&crashes).unwrap();
    let copy = memory.descriptor().try_clone_to_owned().unwrap();
    assert_eq!(CrashMemory::read(copy).unwrap(), (crashes[13..].to_vec(), 7));
}

/// What a process leaves that ends so, and its signal.
fn left_by(end: &str) -> (Vec<CrashRecord>, usize, Option<i32>) {
    let name = "crash::tests::a_process_that_crashes";
    let mut child = Command::new(std::env::current_exe().expect("it runs"));
    child.args(["--exact", name, "--nocapture"]).env(END, end);
    child.stdin(Stdio::piped()).stdout(Stdio::piped());
    let alone = DESCRIPTORS.lock();
    let mut child = child.spawn().expect("it runs again");
    drop(alone);
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let said = |line: String| line.split_once("memory ").map(|(_, number)| number.to_owned());
    let number = lines.find_map(|line| said(line.expect("it is text"))).expect("it says so");
    let memory = File::open(format!("/proc/{}/fd/{number}", child.id())).expect("it has it");
    drop(child.stdin.take());
    if end == "kill" {
        let pid = child.id().cast_signed();
        // SAFETY: it takes two numbers, and the process is a child that was not waited for.
        unsafe { libc::kill(pid, libc::SIGABRT) };
    }
    let status = child.wait().expect("it is a child");
    let (crashes, known) = CrashMemory::read(memory.into()).expect("it is sound");
    (crashes, known, status.signal())
}

#[test]
fn a_process_that_crashes() {
    let Ok(end) = std::env::var(END) else { return };
    let pool = HeapPool::new(1);
    let mut frame = pool.take().unwrap();
    frame.resize(3).unwrap();
    frame.bytes_mut().copy_from_slice(b"two");
    let before = CrashRecord {
        signal: 4,
        core: Some(1),
        time: 1,
        process: 2,
        version: "1".to_owned(),
        wires: 1,
        packets: vec![PacketInHand { core: 1, port: 0, len: 3, bytes: b"one".to_vec() }],
    };
    let memory = CrashMemory::new(&[before]).unwrap();
    let (idle, own) = (Arc::new(InHand::new(8)), Arc::new(InHand::new(9)));
    own.note([&frame].into_iter());
    own.adopt_thread();
    memory.watch(vec![idle, own], "test", 1).unwrap();
    println!("memory {}", memory.descriptor().as_raw_fd());
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read(&mut [0]);
    match end.as_str() {
        "abort" => std::process::abort(),
        "fault" => fault(),
        "both" => {
            let both = Barrier::new(2);
            std::thread::scope(|threads| {
                for _ in 0..2 {
                    threads.spawn(|| {
                        both.wait();
                        fault();
                    });
                }
            });
        }
        _ => std::thread::sleep(std::time::Duration::from_secs(60)),
    }
}

fn fault() {
    // SAFETY: none. It ends the process, as it is to.
    unsafe { std::ptr::null_mut::<u8>().wrapping_add(8).write_volatile(1) };
}

#[test]
fn threads_that_crash_together_leave_one_whole_record() {
    for _ in 0..20 {
        let (crashes, _, ended_by) = left_by("both");
        assert_eq!((ended_by, crashes.len()), (Some(libc::SIGSEGV), 2));
        let CrashRecord { core, packets, .. } = &crashes[1];
        assert_eq!((core, packets.len()), (&None, 1));
    }
}

#[test]
fn a_signal_leaves_what_was_in_hand_and_ends_the_process_all_the_same() {
    for (end, signal, core) in [
        ("abort", libc::SIGABRT, Some(9)),
        ("fault", libc::SIGSEGV, Some(9)),
        ("kill", libc::SIGABRT, None),
    ] {
        let (crashes, known, ended_by) = left_by(end);
        assert_eq!((ended_by, known, crashes.len()), (Some(signal), 1, 2), "{end}");
        let CrashRecord { signal: left, core: of, version, packets, time, .. } = &crashes[1];
        assert_eq!((left.cast_signed(), *of, version.as_str()), (signal, core, "test"));
        assert!(*time > 1_700_000_000, "{time}");
        assert_eq!(*packets, [PacketInHand { core: 9, port: 0, len: 3, bytes: b"two".to_vec() }]);
        assert_eq!(crashes[0].packets[0].bytes, b"one");
    }
}
