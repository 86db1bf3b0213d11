//! Misses a second on one thread of the slow path, and the cost of each for that thread.
//! `cargo bench -p pmdns-bench --bench misses -- [MISSES [IN_FLIGHT [QUERIES_PER_PORT]]]` measures by
//! port and by sockets. `port` or `sockets` before the numbers measures one of them only.
//!
//! On CPU 0 one thread is client, data core and upstream. It sends queries for new names, and runs the worker's turns
//! on the memory driver. CPU 1 is only for the slow path, which sleeps without work. So the second figure, its CPU time
//! for each miss, is right even if CPU 0 is slower.

use std::error::Error;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use core_affinity::CoreId;
use pmdns_bench::misses::Storm;
use pmdns_engine::slowpath;

/// Name of the thread that is measured.
const THREAD: &str = "slowpath";
/// When nothing has come back for so long, something was dropped.
const PATIENCE: Duration = Duration::from_secs(5);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut numbers = arguments.iter().filter_map(|argument| argument.parse().ok());
    let misses = numbers.next().unwrap_or(400_000);
    let in_flight = numbers.next().unwrap_or(200);
    let queries_per_port = numbers.next();
    let wanted = |mode: &str| {
        let modes = ["port", "sockets"];
        let named = arguments.iter().find(|argument| modes.contains(&argument.as_str()));
        named.is_none_or(|named| named == mode)
    };
    if wanted("port") {
        measure("by port", Storm::by_port(misses, in_flight))?;
    }
    if wanted("sockets") {
        measure("by sockets", Storm::by_sockets(misses, in_flight, queries_per_port)?)?;
    }
    Ok(())
}

fn measure(mode: &str, mut storm: Storm) -> Result<(), Box<dyn Error>> {
    let parts = storm.rig.slow_path.remove(0);
    let stop = parts.stop.clone();
    let thread = std::thread::Builder::new().name(THREAD.into()).spawn(move || {
        core_affinity::set_for_current(CoreId { id: 1 });
        slowpath::run(parts);
    })?;
    // Not before: a thread starts where its parent may run.
    core_affinity::set_for_current(CoreId { id: 0 });
    let (start, mut last) = (Instant::now(), Instant::now());
    while !storm.is_over() && last.elapsed() < PATIENCE {
        if storm.turn() > 0 {
            last = Instant::now();
        }
    }
    let (took, on_cpu) = (start.elapsed(), cpu_time()?);
    stop.store(true, Ordering::Relaxed);
    report(mode, &storm, took, on_cpu);
    drop(storm);
    thread.join().map_err(|_| "the slow path panicked")?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a bench reports to its terminal")]
fn report(mode: &str, Storm { rig, answered, .. }: &Storm, took: Duration, on_cpu: Duration) {
    let answered = *answered;
    let per_miss = |time: Duration| time.as_secs_f64() * 1e6 / answered as f64;
    println!(
        "{mode}: {answered} misses, {:.0} a second; {:.2} us each, {:.2} us of them on the CPU; {:.0} % busy",
        answered as f64 / took.as_secs_f64(),
        per_miss(took),
        per_miss(on_cpu),
        100.0 * on_cpu.as_secs_f64() / took.as_secs_f64(),
    );
    let counters = rig.gauges.slow_path[0].snapshot();
    let upstream = rig.gauges.upstreams.roster().slots()[0].counters.snapshot();
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
