//! How long a purge takes: `cargo run --release -p pmdns-bench --example purge [NAMES]`, 5 million unless said otherwise.
//!
//! The walk is the product's, in its slices, without misses in between: with them it takes as much longer as they do.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use pmdns_bench::{Kit, short};
use pmdns_stages::cache::{EntryFate, NameBuffer, Purge, Walk};
use pmdns_stages::testing::name_of;

/// Entries in a slice, as on the slow path.
const STEPS: usize = 1024;

fn main() -> io::Result<()> {
    let names = std::env::args().nth(1).and_then(|names| names.parse().ok()).unwrap_or(5_000_000);
    let mut kit = Kit::filled(names);
    kit.note_pages();
    let mut out = io::stdout().lock();
    writeln!(out, "{} answers of {}", kit.writer.stats().entries, short(names))?;
    for (what, name, below, qtype) in [
        ("one name", "host0000007.example.", false, None),
        ("a suffix that is not there", "example.com.", true, None),
        ("a type that is not there", ".", true, Some(28)),
        ("everything", "example.", true, None),
    ] {
        let purge = Purge { name: name_of(name).into(), below, qtype };
        let (start, mut walk, mut lost) = (Instant::now(), Walk::default(), 0);
        let (mut buffer, mut longest) = (NameBuffer::default(), Duration::ZERO);
        loop {
            let slice = Instant::now();
            let is_done = kit.writer.walk(&mut walk, STEPS, &mut lost, |_, entry, _| {
                if purge.matches(entry, &mut buffer) { EntryFate::Forget } else { EntryFate::Stay }
            });
            longest = longest.max(slice.elapsed());
            if is_done {
                break;
            }
        }
        let took = start.elapsed();
        writeln!(out, "{what}: {lost} lost in {took:.0?}, longest slice {longest:.0?}")?;
    }
    Ok(())
}
