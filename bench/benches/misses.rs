//! Misses a second on one thread of the slow path, and what each costs that thread:
//! `cargo bench -p pmdns-bench --bench misses -- [MISSES [IN_FLIGHT [QUERIES_PER_PORT]]]`.
//!
//! On CPU 0 one thread plays all others: it sends queries for names nobody asked before, turns the line's
//! worker on the memory driver, and is the upstream. CPU 1 is the slow path's alone. It naps when there is nothing
//! to do, so the second figure, its time on the CPU per miss, holds even if CPU 0 is the slower one.

use std::error::Error;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use core_affinity::CoreId;
use pmdns::slowpath;
use pmdns::testing::{Rig, config};
use pmdns_bench::numbered_query;
use pmdns_bench::upstream::Upstream;
use pmdns_nics::{Burst, MAX_BURST};

/// Name of the thread that is measured.
const THREAD: &str = "slowpath";
/// Queries the upstream answers before the worker's next turn.
const UPSTREAM_BURST: usize = 32;
/// When nothing has come back for so long, something was dropped.
const PATIENCE: Duration = Duration::from_secs(5);

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let misses = numbers.next().unwrap_or(400_000);
    let in_flight = numbers.next().unwrap_or(200);
    let upstream = Upstream::bind("127.0.0.1:0".parse()?)?;
    upstream.do_not_wait()?;
    let mut settings = config("[cache]\nsize = \"512MiB\"\n");
    settings.upstreams[0].address = upstream.address()?.into();
    settings.slowpath.queries_per_port =
        numbers.next().unwrap_or(settings.slowpath.queries_per_port);
    let mut rig = Rig::new(&settings);
    let queries: Vec<Vec<u8>> =
        (0..misses).map(|index| numbered_query(index, misses).frame_bytes()).collect();
    let parts = rig.slow_path.remove(0);
    let stop = parts.stop.clone();
    let thread = std::thread::Builder::new().name(THREAD.into()).spawn(move || {
        core_affinity::set_for_current(CoreId { id: 1 });
        slowpath::run(parts);
    })?;
    // Not before: a thread starts where its parent may run.
    core_affinity::set_for_current(CoreId { id: 0 });
    let start = Instant::now();
    let answered = drive(&mut rig, &queries, in_flight, &upstream);
    let (took, on_cpu) = (start.elapsed(), cpu_time()?);
    stop.store(true, Ordering::Relaxed);
    report(&rig, answered, took, on_cpu);
    drop(rig);
    thread.join().map_err(|_| "the slow path panicked")?;
    Ok(())
}

/// Sends every query, no more than `in_flight` unanswered, and says how many were answered.
fn drive(rig: &mut Rig, queries: &[Vec<u8>], in_flight: usize, upstream: &Upstream) -> usize {
    let mut queries = queries.iter();
    let (mut sent, mut answered, mut last) = (0, 0, Instant::now());
    let mut burst = Burst::new();
    while queries.len() > 0 || answered < sent {
        let room = (in_flight + answered - sent).min(MAX_BURST);
        burst.extend(queries.by_ref().take(room).map(|bytes| rig.frame(bytes)));
        sent += burst.len();
        rig.offer(0, &mut burst);
        rig.workers[0].turn();
        for _ in 0..UPSTREAM_BURST {
            if upstream.answer_one().is_err() {
                break;
            }
        }
        let got = rig.far.rx[0].receive(&mut burst, MAX_BURST);
        answered += got;
        burst.clear();
        if got > 0 {
            last = Instant::now();
        } else if last.elapsed() > PATIENCE {
            break;
        }
    }
    answered
}

#[expect(clippy::print_stdout, reason = "a bench reports to its terminal")]
fn report(rig: &Rig, answered: usize, took: Duration, on_cpu: Duration) {
    let per_miss = |time: Duration| time.as_secs_f64() * 1e6 / answered as f64;
    println!(
        "{answered} misses, {:.0} a second; {:.2} us each, {:.2} us of them on the CPU; {:.0} % busy",
        answered as f64 / took.as_secs_f64(),
        per_miss(took),
        per_miss(on_cpu),
        100.0 * on_cpu.as_secs_f64() / took.as_secs_f64(),
    );
    let counters = rig.gauges.slow_path[0].snapshot();
    let upstream = rig.gauges.upstreams[0].snapshot();
    if (counters.answered, upstream.replies) != (answered as u64, answered as u64) {
        println!("not all went well: {counters:?} {upstream:?}");
    }
}

/// Time [`THREAD`] has spent on the CPU.
fn cpu_time() -> Result<Duration, Box<dyn Error>> {
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        if std::fs::read_to_string(task.join("comm"))?.trim() == THREAD {
            let times = std::fs::read_to_string(task.join("schedstat"))?;
            let first = times.split_whitespace().next().ok_or("schedstat is empty")?;
            return Ok(Duration::from_nanos(first.parse()?));
        }
    }
    Err("the slow path's thread has gone".into())
}
