//! The stages one by one: cycles per packet, in batches of 32, with the frames in the first-level cache.
//!
//! The stages before it prepare the packets, which is not measured. The cache and the tables are filled as in a steady
//! state.

use criterion::measurement::Measurement;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use pmdns_bench::kit::act;
use pmdns_bench::traffic::{Spread, arp_request, query_frames};
use pmdns_bench::{Cycles, Feed, Kit, typical};
use pmdns_stages::testing::{QueryFrame, query};
use pmdns_stages::{Reason, Stage, StageName, Step};

const BATCH: usize = 32;
const NAMES: usize = 10_000;
/// Queries before they repeat.
const QUERIES: usize = 4096;

const ON: Step = Step::after(StageName::Parse);
const LIMITED: &str = "[ratelimit]\nqueries_per_second = 1000000000\nburst = 1000000000\n";

type Group<'c> = BenchmarkGroup<'c, Cycles>;

/// Times one stage, which must send every packet on `expected`.
fn time<S: Stage + Clone>(
    group: &mut Group<'_>,
    name: &str,
    kit: &mut Kit,
    frames: Vec<Vec<u8>>,
    stage: impl Fn(&Kit) -> S,
    expected: Step,
) {
    let mut stage = stage(kit);
    let mut feed = Feed::new(frames, BATCH);
    let cycles = Cycles::new();
    let mut once = || {
        feed.rearm();
        kit.bring_to(S::NAME, &mut feed.batch);
        let start = cycles.start();
        act(&mut stage, &mut feed.batch, &kit.context);
        let took = cycles.end(start);
        assert_eq!(feed.taking(expected), BATCH, "{:?}", feed.batch[0].step);
        took
    };
    group.bench_function(name, |b| b.iter_custom(|iterations| typical(iterations, &mut once)));
}

fn queries() -> Vec<Vec<u8>> {
    query_frames(&Spread::Uniform.draw(NAMES, QUERIES))
}

fn with(change: impl Fn(QueryFrame) -> QueryFrame) -> Vec<Vec<u8>> {
    vec![change(query("host0000001.example. A")).frame_bytes()]
}

fn first_stages(c: &mut Criterion<Cycles>) {
    let mut group = c.benchmark_group("stages");
    group.throughput(Throughput::Elements(BATCH as u64));
    let kit = &mut Kit::filled(NAMES);
    let parse = |kit: &Kit| kit.stages.parse.clone();
    time(&mut group, "parse/ipv4", kit, queries(), parse, ON);
    time(&mut group, "parse/ipv4_edns", kit, with(|query| query.edns(1232, true)), parse, ON);
    time(&mut group, "parse/ipv6", kit, with(QueryFrame::over_ipv6), parse, ON);
    let tagged = with(|query| QueryFrame { vlans: vec![7], ..query });
    time(&mut group, "parse/vlan", kit, tagged, parse, ON);
    let mut damaged = queries();
    damaged.iter_mut().for_each(|frame| frame[60] ^= 1);
    time(&mut group, "parse/damaged", kit, damaged, parse, Step::drop(Reason::UdpChecksum));
    let neighbor = |kit: &Kit| kit.stages.neighbor.clone();
    time(&mut group, "neighbor/arp", kit, vec![arp_request()], neighbor, Step::TRANSMIT);
    group.finish();
}

fn deciding_stages(c: &mut Criterion<Cycles>) {
    let mut group = c.benchmark_group("stages");
    group.throughput(Throughput::Elements(BATCH as u64));
    let small = |settings: &str| Kit::new(settings, 2 << 20);
    let prefixes: Vec<String> = (0..1000)
        .map(|number| format!("\"10.{}.{}.0/24\"", 100 + number / 256, number % 256))
        .collect();
    let names: Vec<String> = (0..10_000).map(|number| format!("\"ads{number}.example\"")).collect();
    let acl = |kit: &Kit| kit.stages.acl.clone();
    let allowed = Step::after(StageName::Acl);
    time(&mut group, "acl/none", &mut small(""), queries(), acl, allowed);
    let listed = format!("[acl]\ndefault = \"allow\"\nrefuse = [{}]\n", prefixes.join(","));
    time(&mut group, "acl/1000_prefixes", &mut small(&listed), queries(), acl, allowed);
    let limit = |kit: &Kit| kit.stages.ratelimit.clone();
    let passed = Step::after(StageName::RateLimit);
    time(&mut group, "ratelimit/none", &mut small(""), queries(), limit, passed);
    time(&mut group, "ratelimit/200_clients", &mut small(LIMITED), queries(), limit, passed);
    let policy = |kit: &Kit| kit.stages.policy.clone();
    let free = Step::SLOW_PATH;
    time(&mut group, "policy/none", &mut small(""), queries(), policy, free);
    let blocked = format!("[block]\nnames = [{}]\n", names.join(","));
    time(&mut group, "policy/10k_blocked", &mut small(&blocked), queries(), policy, free);
    group.finish();
}

fn answering_stages(c: &mut Criterion<Cycles>) {
    let mut group = c.benchmark_group("stages");
    group.throughput(Throughput::Elements(BATCH as u64));
    let kit = &mut Kit::filled(NAMES);
    let lookup = |kit: &Kit| kit.stages.lookup.clone();
    time(&mut group, "lookup/hit", kit, queries(), lookup, Step::ANSWER);
    let unknown = with(|asked| QueryFrame { name: query("unknown.example. A").name, ..asked });
    time(&mut group, "lookup/miss", kit, unknown, lookup, Step::after(StageName::Lookup));
    let encode = |kit: &Kit| kit.stages.encode.clone();
    time(&mut group, "encode/cached", kit, queries(), encode, Step::TRANSMIT);
    let edns = with(|query| query.edns(1232, false));
    time(&mut group, "encode/cached_edns", kit, edns, encode, Step::TRANSMIT);
    let ipv6 = with(QueryFrame::over_ipv6);
    time(&mut group, "encode/cached_ipv6", kit, ipv6, encode, Step::TRANSMIT);
    let refusing = &mut Kit::new("[acl]\ndefault = \"refuse\"\n", 2 << 20);
    time(&mut group, "encode/refused", refusing, queries(), encode, Step::TRANSMIT);
    group.finish();
}

criterion_group! {
    name = all;
    config = pmdns_bench::criterion();
    targets = first_stages, deciding_stages, answering_stages
}
criterion_main!(all);
