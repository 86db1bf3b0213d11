//! The log under attack: however much comes that is wrong, the number of its lines is bounded.
//!
//! A process of its own: the log is the process's. The lab `replay` shows the same of the whole program.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, reason = "it is shared with tests that use more of it")]
#[path = "all/kernel/driver.rs"]
mod driver;
#[allow(dead_code, unused_imports, reason = "it is shared with tests that use more of it")]
#[path = "rig/mod.rs"]
mod rig;
#[allow(dead_code, reason = "it is shared with tests that use more of it")]
#[path = "all/kernel/stub.rs"]
mod stub;

use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};

use pmdns_engine::testing::{Rig, config};
use pmdns_nics::Burst;
use pmdns_stages::testing::query;
use tracing_subscriber::filter::LevelFilter;

use rig::Setup;
use stub::{Asked, Stub};

/// Whether upstreams are asked over a port.
pub(crate) const BY_PORT: bool = false;
/// Who asks encrypted upstreams.
pub(crate) const LOAD_ENCRYPTED: pmdns_engine::encrypted::LoadEncrypted =
    pmdns_engine::encrypted::without_encrypted;

/// Questions that each end in an error.
const QUESTIONS: usize = 3000;
/// Malformed frames.
const FRAMES: usize = 20_000;

/// Lines logged so far.
static LINES: AtomicUsize = AtomicUsize::new(0);

/// Counts the lines written to it. The log writes whole lines.
struct Counter;

impl Write for Counter {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        LINES.fetch_add(lines, Ordering::Relaxed);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lines that `work` logs.
fn lines_of(work: impl FnOnce()) -> usize {
    let before = LINES.load(Ordering::Relaxed);
    work();
    LINES.load(Ordering::Relaxed) - before
}

#[test]
fn trap_25_a_flood_of_errors_writes_a_bounded_number_of_log_lines() {
    // The level that pmdns runs at unless it is told otherwise.
    tracing_subscriber::fmt().with_max_level(LevelFilter::INFO).with_writer(|| Counter).init();
    assert_eq!(lines_of(|| tracing::info!("one line")), 1, "the counter counts");

    assert_eq!(lines_of(malformed_frames), 0, "data cores never log");
    let garbage = Stub::replying(|asked| asked.message.clone());
    assert_eq!(lines_of(|| ask(Setup::asking(&[&garbage]))), 0, "replies that are none");
    let truncated = Stub::replying(truncated_record);
    assert_eq!(lines_of(|| ask(Setup::asking(&[&truncated]))), 0, "replies that cannot be read");
    // An address that is not ours: no socket can be opened. That is for the operator to know, but not each time.
    let stub = Stub::silent();
    let lines = lines_of(|| ask(Setup::asking(&[&stub]).from(Ipv4Addr::new(192, 0, 2, 1).into())));
    assert!((1..=20).contains(&lines), "{lines} lines for {QUESTIONS} questions");
}

/// Frames cut short, damaged, or full of nonsense.
fn malformed_frames() {
    let mut rig = Rig::new(&config(""));
    let whole = query("www.example. A").frame_bytes();
    for number in 0..FRAMES {
        let mut bytes = whole.clone();
        let at = number % bytes.len();
        bytes[at] ^= 0xff;
        bytes.truncate(whole.len() - number % 7);
        rig.offer(0, &mut Burst::from_iter([rig.frame(&bytes)]));
        rig.settle();
        rig.sent();
    }
}

/// Asks questions that differ, and waits until each has ended in SERVFAIL.
fn ask(setup: Setup) {
    let mut rig = setup.hasty(100, 20).start();
    for number in (0..QUESTIONS).collect::<Vec<_>>().chunks(100) {
        for number in number {
            rig.ask(&query(&format!("n{number}.example. A")));
        }
        assert!(rig.answers(number.len()).iter().all(|answer| answer.rcode == 2));
    }
    rig.finish();
}

/// The right reply but for its last bytes, over UDP and TCP.
fn truncated_record(asked: &Asked) -> Vec<u8> {
    let whole = asked.address();
    whole[..whole.len() - 2].to_vec()
}
