//! Work for an instruction counter: `instructions CASE` does one case's work, `instructions` lists the cases.
//!
//! `scripts/instructions.sh` runs it under callgrind, which counts only inside [`measured`]. Everything is the
//! same in every run: the seed, the names, and the time the stages see.

use std::hint::black_box;
use std::time::Duration;

use pmdns_bench::floods::floods;
use pmdns_bench::misses::Storm;
use pmdns_bench::rules::Rules;
use pmdns_bench::traffic::{Spread, entry_number, query_frames};
use pmdns_bench::{Feed, Kit, Mixed, RigFeed};
use pmdns_engine::ring::ring;
use pmdns_engine::slowpath::SlowPath;
use pmdns_engine::testing::config;
use pmdns_insight::{hitters, query_log};
use pmdns_stages::cache::Entry;
use pmdns_stages::testing::{name_of, query};
use pmdns_stages::wire::dns::HEADER_LEN;
use pmdns_stages::wire::name;
use pmdns_stages::wire::query::{ParsedQuery, name_len};
use pmdns_stages::{Batch, MAX_BATCH, Packet, Stage, StageName, Step};

const BATCH: usize = 32;
const NAMES: usize = 10_000;
/// Names on a block list.
const LISTED: usize = 100_000;
/// Batches of one run: enough to leave the first ones' oddities behind.
const BATCHES: usize = 128;

/// Misses of one run, and how many are under way at once.
const MISSES: usize = 20_000;
const IN_FLIGHT: usize = 200;
/// After so long a worker looks for observers.
const HOUSEKEEPING: Duration = Duration::from_millis(20);
/// Turns for a miss, at most.
const MOST_TURNS: usize = 10;

/// A case, and the work for it.
type Case = (&'static str, fn());

const CASES: [Case; 39] = [
    ("query_read", query_read),
    ("name_hash", name_hash),
    ("parse", || stage(|kit| kit.stages.parse.clone(), queries())),
    ("lookup_hit", || stage(|kit| kit.stages.lookup.clone(), queries())),
    ("encode", || stage(|kit| kit.stages.encode.clone(), queries())),
    ("line_hit", || line("hit")),
    ("parse_mixed", || stage_mixed(|kit| kit.stages.parse.clone())),
    ("lookup_mixed", || stage_mixed(|kit| kit.stages.lookup.clone())),
    ("encode_mixed", || stage_mixed(|kit| kit.stages.encode.clone())),
    ("line_mixed", line_mixed),
    ("line_hit_lists", || line_hit_under(Rules::list(LISTED))),
    ("line_hit_policy", || line_hit_under(Rules::everything(LISTED))),
    ("policy_lists", policy_lists),
    ("line_malformed", || line("qdcount_0")),
    ("line_damaged", || line("udp_checksum")),
    ("line_records", || line("records_2")),
    ("line_options", || line("options_16")),
    ("line_options_limited", || line("options_16_limited")),
    ("line_labels", || line("labels_127")),
    ("line_dear_refused", || line("dear_refused")),
    ("line_dear_no_recursion", || line("dear_no_recursion")),
    ("line_padded", || line("padded_1472")),
    ("line_ping", || line("ping")),
    ("line_dropped", || line("dropped_records_100")),
    ("line_refused", || line("acl_refused")),
    ("line_rate_limited", || line("rate_limited_drop")),
    ("turn_hit", turn_hit),
    ("turn_mixed", turn_mixed),
    ("turn_logged", || turn_logged("json")),
    ("turn_logged_whole", || turn_logged("dnstap")),
    ("turn_logged_sample", || turn_logged("sample = 1000\njson")),
    ("turn_clients", turn_clients),
    ("turn_hitters", turn_hitters),
    ("turn_miss_12", || turn_with_a_miss(12)),
    ("turn_miss_32", || turn_with_a_miss(32)),
    ("insert_new", || insert(4 << 20)),
    ("insert_when_full", || insert(256 << 10)),
    ("ring_hop", ring_hop),
    ("miss_port", miss_port),
];

fn main() -> Result<(), String> {
    let Some(wanted) = std::env::args().nth(1) else {
        show(CASES.map(|(name, _)| name).join("\n"));
        return Ok(());
    };
    let case = CASES.iter().find(|(name, _)| *name == wanted);
    let (_, work) =
        case.ok_or_else(|| format!("no case `{wanted}`; without one they are listed"))?;
    work();
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this is a program's output")]
fn show(text: impl std::fmt::Display) {
    println!("{text}");
}

/// Does the work, and says of how many packets, names or entries it was.
fn count(units: usize, work: impl FnOnce()) {
    measured(work);
    show(units);
}

/// Does the work. The counter goes by this function's name.
#[inline(never)]
fn measured(work: impl FnOnce()) {
    work();
}

fn queries() -> Vec<Vec<u8>> {
    query_frames(&Spread::Uniform.draw(NAMES, BATCH * BATCHES))
}

/// Batches that are all there before the first is done.
fn batches(kit: &mut Kit, frames: Vec<Vec<u8>>, to: StageName) -> Vec<Batch> {
    let frames: Vec<_> = frames.into_iter().cycle().take(BATCH * BATCHES).collect();
    let batch = |frames: &[Vec<u8>]| {
        let mut feed = Feed::new(frames.to_vec(), BATCH);
        kit.bring_to(to, &mut feed.batch);
        feed.batch
    };
    frames.chunks(BATCH).map(batch).collect()
}

fn query_read() {
    let message = query("www.example.com. A").edns(1232, false).message();
    let buffer = [&message[..], &[0; 2 * name::ROOM]].concat();
    count(1000, || {
        for _ in 0..1000 {
            let (message, buffer) = black_box((&message, &buffer));
            let name = buffer.get(HEADER_LEN..).and_then(<[u8]>::first_chunk);
            let name_len = name_len(name.and_then(name::length_in));
            black_box(ParsedQuery::read_plain(message, name_len));
        }
    });
}

fn name_hash() {
    let kit = Kit::new("", 2 << 20);
    let (seed, name) = (kit.cache.seed(), name_of("www.example.com."));
    count(1000, || {
        for _ in 0..1000 {
            black_box(seed.hash(black_box(&name)));
        }
    });
}

/// Stages under rules, over a filled cache.
fn kit_under(rules: std::io::Result<Rules>) -> Kit {
    let rules = rules.expect("there is room for the rules' files");
    let mut kit = Kit::new(&rules.settings, pmdns_bench::kit::cache_bytes(NAMES));
    kit.fill(NAMES);
    kit
}

/// Hits, under rules that say nothing about them.
fn line_hit_under(rules: std::io::Result<Rules>) {
    line_hits(kit_under(rules), queries());
}

fn line_hits(mut kit: Kit, frames: Vec<Vec<u8>>) {
    let mut line = kit.line();
    let mut batches = batches(&mut kit, frames, StageName::Parse);
    count(BATCH * BATCHES, || {
        for batch in &mut batches {
            kit.process(&mut line, batch);
        }
    });
    assert!(batches.iter().flatten().all(|packet| packet.step == Step::TRANSMIT));
}

/// The policy stage alone, under the same rules, for names that are not cached.
fn policy_lists() {
    let rules = Rules::list(LISTED).expect("there is room for the rules' files");
    stage_of(Kit::new(&rules.settings, 2 << 20), |kit| kit.stages.policy.clone(), queries());
}

fn stage<S: Stage>(stage: impl Fn(&Kit) -> S, frames: Vec<Vec<u8>>) {
    stage_of(Kit::filled(NAMES), stage, frames);
}

fn stage_of<S: Stage>(mut kit: Kit, stage: impl Fn(&Kit) -> S, frames: Vec<Vec<u8>>) {
    let mut stage = stage(&kit);
    let mut batches = batches(&mut kit, frames, S::NAME);
    let context = kit.context;
    let mut exits = pmdns_stages::Exits::default();
    count(BATCH * BATCHES, || {
        for batch in &mut batches {
            stage.process(batch, &context, &mut exits);
        }
    });
    assert_eq!(exits.total(), (BATCH * BATCHES) as u64, "every packet came to the stage");
}

/// The same for what clients send.
fn stage_mixed<S: Stage>(stage: impl Fn(&Kit) -> S) {
    let mixed = Mixed::new(NAMES);
    stage_of(Kit::mixed(&mixed), stage, mixed.frames(BATCH * BATCHES));
}

fn line_mixed() {
    let mixed = Mixed::new(NAMES);
    line_hits(Kit::mixed(&mixed), mixed.frames(BATCH * BATCHES));
}

/// The whole line, for frames of the flood of this name.
fn line(name: &str) {
    let flood = floods(NAMES).into_iter().find(|flood| flood.name == name);
    let flood = flood.expect("the case names a flood");
    let mut kit = Kit::new(flood.config, pmdns_bench::kit::cache_bytes(NAMES));
    kit.fill(NAMES);
    let mut line = kit.line();
    let mut batches = batches(&mut kit, flood.frames, StageName::Parse);
    count(BATCH * BATCHES, || {
        for batch in &mut batches {
            kit.process(&mut line, batch);
        }
    });
    assert!(batches.iter().flatten().all(|packet| !packet.step.is_on_the_line()));
}

/// A worker's turn over the memory driver. Feeding it counts as well; it is much less.
fn turn_hit() {
    turns(&mut RigFeed::new("", NAMES, queries(), BATCH));
}

fn turn_mixed() {
    turns(&mut RigFeed::mixed(&Mixed::new(NAMES), BATCH * BATCHES, BATCH));
}

fn turns(feed: &mut RigFeed) {
    count(BATCH * BATCHES, || {
        for _ in 0..BATCHES {
            assert_eq!(feed.turn().1, BATCH);
        }
    });
}

/// The same with a query log, whose records wait in their ring.
fn turn_logged(sink: &str) {
    let settings = format!("[query_log]\n{sink} = \"/none\"\n");
    let mut feed = RigFeed::new(&settings, NAMES, queries(), BATCH);
    let config = config(&settings);
    let rings = query_log::lend(&config, &feed.rig.observers).expect("nobody else observes");
    std::thread::sleep(HOUSEKEEPING);
    feed.turn();
    turns(&mut feed);
    assert!(rings.waiting() > 0, "they are logged");
}

/// The same with a client table. Prefixes of three lengths stand in it, and nearly all clients are in the second.
fn turn_clients() {
    let mut feed = RigFeed::new("[clients]\nmax_entries = 4\n", NAMES, queries(), BATCH);
    let writer = feed.rig.clients.as_mut().expect("there is a table");
    for prefix in ["10.77.0.0/16", "10.77.0.0/24", "10.77.0.7/32"] {
        writer.set(&prefix.parse().expect("a prefix"), 0).expect("the table has room");
    }
    turns(&mut feed);
}

/// The same with heavy hitters, whose records wait in their ring.
fn turn_hitters() {
    let settings = "[hitters]\nenabled = true\n";
    let mut feed = RigFeed::new(settings, NAMES, queries(), BATCH);
    let rings = hitters::lend(&config(settings), &feed.rig.observers);
    let _rings = rings.expect("nobody else observes");
    std::thread::sleep(HOUSEKEEPING);
    feed.turn();
    turns(&mut feed);
}

/// The same with one miss in each batch, and so many threads of the slow path to hand it to.
fn turn_with_a_miss(threads: usize) {
    let mut frames = queries();
    let unknown: Vec<usize> = (NAMES..NAMES + BATCHES).collect();
    for (batch, miss) in frames.chunks_mut(BATCH).zip(query_frames(&unknown)) {
        batch[0] = miss;
    }
    let settings = format!("[slowpath]\nthreads = {threads}\n");
    let mut feed = RigFeed::new(&settings, NAMES, frames, BATCH);
    count(BATCH * BATCHES, || {
        for _ in 0..BATCHES {
            assert_eq!(feed.turn().1, BATCH - 1);
        }
    });
}

/// Inserts names into a cache of so many bytes, which has seen as many before.
fn insert(bytes: usize) {
    let mut kit = Kit::new("", bytes);
    kit.fill(NAMES);
    let number = |number| entry_number(NAMES + number, kit.cache.seed());
    let entries: Vec<Entry> = (0..NAMES).map(number).collect();
    count(NAMES, || {
        for entry in &entries {
            black_box(kit.writer.insert(entry));
        }
    });
}

/// Packets pushed and popped, a batch at a time, on one core.
fn ring_hop() {
    let mut kit = Kit::new("", 2 << 20);
    let (mut sender, mut receiver) = ring::<Packet>(1024);
    let mut batch = batches(&mut kit, queries(), StageName::Parse).swap_remove(0);
    let mut other = Batch::new();
    count(BATCH * BATCHES, || {
        for _ in 0..BATCHES {
            sender.push_batch(&mut batch);
            receiver.pop_batch(&mut other, MAX_BATCH);
            std::mem::swap(&mut batch, &mut other);
        }
    });
    assert_eq!(batch.len(), BATCH);
}

/// Misses whose upstream is asked over the port: what they cost the slow path, not the worker or the far end.
/// Its seed and its clock are those of a real start, so the count differs a little from run to run.
fn miss_port() {
    let mut storm = Storm::by_port(MISSES, IN_FLIGHT);
    let parts = storm.rig.slow_path.remove(0);
    let mut slow_path = SlowPath::new(parts).expect("the slow path can start");
    for _ in 0..MISSES * MOST_TURNS {
        if storm.is_over() {
            break;
        }
        storm.turn();
        // The first ones find tables and memory that have not been used.
        let mut turn = || {
            slow_path.turn();
        };
        if storm.answered < MISSES / 2 {
            turn();
        } else {
            measured(turn);
        }
    }
    assert!(storm.is_over(), "every miss is answered");
    show(MISSES - MISSES / 2);
}
