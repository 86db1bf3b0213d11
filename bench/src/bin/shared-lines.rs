//! Which cache lines workers share: counted under valgrind, not argued. It fails if a hit shares any.
//!
//! Two workers over one cache take turns on one thread, under valgrind's `lackey`, which prints every access. A line is
//! shared if one of them writes it and the other touches it. The stack is left out, because here both use the same one.
//! What feeds them and takes their answers does not count.

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use pmdns::slowpath::SlowPathParts;
use pmdns_bench::kit::rig;
use pmdns_bench::traffic::query_frames;
use pmdns_nics::{Burst, MAX_BURST, release};

/// Names in the cache.
const NAMES: usize = 200;
/// Turns of each worker, and packets in each.
const TURNS: usize = 50;
const BATCH: usize = 32;
/// Bytes of a cache line, as a power of two.
const LINE_BITS: u32 = 6;
/// Where valgrind has the stack of the first thread.
const STACK: std::ops::Range<u64> = 0x1f_f000_0000..0x1f_ff01_0000;
const WORKERS: usize = 2;

/// What is counted for each worker.
#[derive(Clone, Copy)]
enum Part {
    Hit,
    Miss,
    GivenBack,
}

const PARTS: [(Part, &str); 3] = [
    (Part::Hit, "a hit"),
    (Part::Miss, "a miss, its frame given back"),
    (Part::GivenBack, "a frame of the heap given back"),
];

/// Bytes that are written to when something begins to count: nothing, or a worker's part.
static MARKS: [AtomicU8; 1 + WORKERS * PARTS.len()] =
    [const { AtomicU8::new(0) }; 1 + WORKERS * PARTS.len()];

fn main() -> Result<ExitCode, Box<dyn Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("play") => play().map(|()| ExitCode::SUCCESS),
        _ => report(),
    }
}

/// Has the workers take turns.
fn play() -> Result<(), Box<dyn Error>> {
    writeln!(stdout(), "{}", MARKS.as_ptr().addr())?;
    // From here on the other process knows the marks.
    stdin().read_line(&mut String::new())?;
    let mut rig = rig("[[placement]]\ncores = [1, 2]\n", NAMES);
    let mut spare: [Burst; WORKERS] = Default::default();
    for turn in 0..WORKERS * TURNS {
        let worker = turn % WORKERS;
        for (part, _) in PARTS {
            let frames = &mut spare[worker];
            frames.extend(std::iter::from_fn(|| rig.pool.take()).take(BATCH - frames.len()));
            let first = if matches!(part, Part::Hit) { turn } else { NAMES + turn * BATCH };
            let names: Vec<usize> = (0..BATCH).map(|number| first + number).collect();
            for (frame, query) in frames.iter_mut().zip(query_frames(&names)) {
                frame.resize(query.len()).expect("a query fits a frame");
                frame.bytes_mut().copy_from_slice(&query);
            }
            if matches!(part, Part::GivenBack) {
                counted(worker, part, || release(frames));
                continue;
            }
            rig.offer(worker, frames);
            counted(worker, part, || rig.workers[worker].turn());
            rig.far.rx[worker].receive(&mut spare[worker], MAX_BURST);
            let answered = spare[worker].len();
            let missed = take_misses(&mut rig.slow_path);
            let expected = if matches!(part, Part::Hit) { (BATCH, 0) } else { (0, BATCH) };
            assert_eq!((answered, missed), expected);
        }
    }
    Ok(())
}

/// Does something that counts for a worker.
fn counted<T>(worker: usize, part: Part, work: impl FnOnce() -> T) -> T {
    MARKS[1 + worker * PARTS.len() + part as usize].store(1, Ordering::Relaxed);
    let done = work();
    MARKS[0].store(1, Ordering::Relaxed);
    done
}

/// Takes misses as the slow path would. Says how many there were.
fn take_misses(slow_path: &mut [SlowPathParts]) -> usize {
    let rings = slow_path.iter_mut().flat_map(|parts| &mut parts.inlets.misses);
    rings.map(|ring| std::iter::from_fn(|| ring.pop()).count()).sum()
}

/// Who has read and written a cache line, for each part: a bit for each worker.
#[derive(Clone, Copy, Default)]
struct Touched {
    read: [u8; PARTS.len()],
    written: [u8; PARTS.len()],
}

impl Touched {
    /// Whether one worker writes it and another touches it.
    fn is_shared(self, part: Part) -> bool {
        let (read, written) = (self.read[part as usize], self.written[part as usize]);
        written != 0 && (read | written).count_ones() > 1
    }
}

/// Starts the workers under valgrind, and says what they share.
fn report() -> Result<ExitCode, Box<dyn Error>> {
    let mut child = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes"])
        .arg(std::env::current_exe()?)
        .arg("play")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let lines = read_trace(&mut child)?;
    if !child.wait()?.success() {
        return Err("the workers failed: run `shared-lines play`, and valgrind".into());
    }
    let mut out = stdout();
    let packets = WORKERS * TURNS * BATCH;
    for (part, name) in PARTS {
        let touched = lines.values().filter(|line| line.read[part as usize] != 0).count();
        let shared = lines.values().filter(|line| line.is_shared(part)).count();
        writeln!(out, "{name}: {shared} lines shared of {touched} read, by {packets} packets")?;
    }
    let hit = lines.values().filter(|line| line.is_shared(Part::Hit)).count();
    Ok(if hit == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Who touched which cache line.
fn read_trace(child: &mut Child) -> Result<HashMap<u64, Touched>, Box<dyn Error>> {
    let trace = child.stderr.take().ok_or("there is a trace")?;
    let said = child.stdout.take().ok_or("the workers say where the marks are")?;
    let mut go_on = child.stdin.take().ok_or("they wait")?;
    let first_mark = Arc::new(AtomicU64::new(u64::MAX));
    let found = Arc::clone(&first_mark);
    // The trace has to be read meanwhile, or they stop.
    std::thread::spawn(move || -> std::io::Result<()> {
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        found.store(line.trim().parse().unwrap_or(u64::MAX), Ordering::Relaxed);
        writeln!(go_on)
    });
    let mut counts: Option<usize> = None;
    let mut lines: HashMap<u64, Touched> = HashMap::new();
    for line in BufReader::new(trace).lines() {
        let line = line?;
        // " S 1ffeffe7e8,8": a load, a store, or both (M). Instructions have an I in the first column.
        let Some((kind, rest)) = line.strip_prefix(' ').and_then(|line| line.split_once(' '))
        else {
            continue;
        };
        let Some((address, size)) = rest.split_once(',') else { continue };
        let (address, size) = (u64::from_str_radix(address, 16)?, size.parse::<u64>()?);
        if let Some(mark) = address
            .checked_sub(first_mark.load(Ordering::Relaxed))
            .filter(|mark| *mark < MARKS.len() as u64)
        {
            counts = usize::try_from(mark)?.checked_sub(1);
            continue;
        }
        let Some(count) = counts.filter(|_| !STACK.contains(&address)) else { continue };
        let (worker, part) = (count / PARTS.len(), count % PARTS.len());
        for number in address >> LINE_BITS..=(address + size.max(1) - 1) >> LINE_BITS {
            let touched = lines.entry(number).or_default();
            if kind != "S" {
                touched.read[part] |= 1 << worker;
            }
            if kind != "L" {
                touched.written[part] |= 1 << worker;
            }
        }
    }
    Ok(lines)
}
