//! The invariants of docs/architecture.md that need a whole line: conservation, and placements that
//! differ in speed but never in answers.

use pmdns_config::Config;
use pmdns_counters::Totals;
use pmdns_engine::counters::Link;
use pmdns_engine::testing::{Rig, config};
use pmdns_nics::Burst;
use pmdns_stages::testing::{CLIENT_MAC, OUR_IPV4, QueryFrame, entry_of, name_of, query};
use pmdns_stages::{StageName, Step};

/// Policy that gives every stage something to decide.
const POLICY: &str = r#"
    [acl]
    default = "allow"
    refuse = ["10.77.9.0/24"]
    drop = ["10.77.8.0/24"]
    [ratelimit]
    queries_per_second = 1
    burst = 40
    ipv4_prefix = 32
    slip = 2
    [block]
    names = ["blocked.example"]
    [[local]]
    name = "router.example"
    type = "A"
    data = "192.0.2.1"
    [[view]]
    name = "lab"
    clients = ["10.77.0.136/29"]
    [[local]]
    name = "lab.example"
    type = "A"
    data = "192.0.2.2"
    views = ["lab"]
    [[view]]
    name = "far"
    clients = ["10.77.0.104/29"]
    group = "far"
    [[upstream]]
    address = "127.0.0.1:5354"
    group = "far"
"#;

/// Misses of a trace: one for each client's own name, and the names of the view `lab`, except for its five clients. The
/// eight clients of the view `far` share no answers with others, so the cached name is a miss twice for each.
const MISSES: u64 = 40 + 35 + 2 * 8;

/// Every lawful shape: fused, each single cut, two cuts, shards at either end and in the middle.
fn placements() -> Vec<String> {
    let one = |stages: String, cores: &str| {
        format!("[[placement]]\nstages = \"{stages}\"\ncores = [{cores}]\nidle = \"spin\"\n")
    };
    let name = |stage: StageName| stage.name();
    let mut all = vec![one("parse..encode".into(), "1")];
    for pair in StageName::ALL.windows(2) {
        let (last, first) = (name(pair[0]), name(pair[1]));
        all.push(one(format!("parse..{last}"), "1") + &one(format!("{first}..encode"), "2"));
    }
    all.push(
        one("parse..acl".into(), "1")
            + &one("ratelimit..lookup".into(), "2")
            + &one("policy..encode".into(), "3"),
    );
    all.push(one("parse..encode".into(), "1, 2"));
    all.push(one("parse..ratelimit".into(), "1, 2") + &one("lookup..encode".into(), "3, 4"));
    all.push(
        one("parse".into(), "1")
            + &one("neighbor..policy".into(), "2, 3")
            + &one("encode".into(), "4"),
    );
    all
}

/// One of everything, from several clients.
fn trace() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for client in 1..=40u8 {
        let from =
            |query: QueryFrame| QueryFrame { source: vec![10, 77, 0, 100 + client], ..query };
        frames.push(from(query("cAched.example. A")).frame_bytes());
        frames.push(from(query("cached.example. A").edns(1232, false)).frame_bytes());
        frames.push(query("cached.example. A").over_ipv6().frame_bytes());
        frames.push(from(query(&format!("missing{client}.example. A"))).frame_bytes());
        frames.push(from(query("router.example. A")).frame_bytes());
        frames.push(from(query("lab.example. A")).frame_bytes());
        frames.push(from(query("x.blocked.example. TXT")).frame_bytes());
        frames.push(QueryFrame { source: vec![10, 77, 9, client], ..query("a. A") }.frame_bytes());
        frames.push(QueryFrame { source: vec![10, 77, 8, client], ..query("a. A") }.frame_bytes());
        let mut damaged = from(query("cached.example. A")).frame_bytes();
        damaged[50] ^= 0x55;
        frames.push(damaged);
        let mut formerr = from(query("cached.example. A")).message();
        formerr[5] = 0;
        frames.push(from(query("cached.example. A")).frame_around(&formerr));
        let mut tcp = query("a. A").frame_bytes();
        tcp[13] = 0xcc;
        frames.push(tcp);
        frames.push(arp_request(client));
    }
    // One client far over its limit.
    for id in 0..200 {
        frames.push(QueryFrame { id, ..query("cached.example. A") }.frame_bytes());
    }
    frames
}

fn arp_request(client: u8) -> Vec<u8> {
    let mut frame = [[0xff; 6], CLIENT_MAC].concat();
    frame.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend_from_slice(&CLIENT_MAC);
    frame.extend_from_slice(&[10, 77, 0, client]);
    frame.extend_from_slice(&[0; 6]);
    frame.extend_from_slice(&OUR_IPV4);
    frame.resize(60, 0);
    frame
}

/// A rig whose clock stands still where it can, so that a slow machine changes neither a TTL nor a rate.
fn standing(config: &Config) -> Rig {
    #[cfg(debug_assertions)]
    let rig = Rig::stepped(config).0;
    #[cfg(not(debug_assertions))]
    let rig = Rig::new(config);
    rig
}

/// Walks the trace through a placement; gives the sorted answers and the totals.
fn walk(placement: &str) -> (Vec<Vec<u8>>, Totals) {
    let config = config(&format!("{POLICY}\n{placement}"));
    let queues = config.placements.first().map_or(1, |first| first.cores.len());
    let mut rig = standing(&config);
    rig.learn(&query("cached.example. A"), &[(0, 1, 86_400, vec![192, 0, 2, 7])]);
    let mut answers = Vec::new();
    for (index, bytes) in trace().iter().enumerate() {
        // A port with RSS on addresses keeps a client on its queue.
        let queue = usize::from(bytes[29]) % queues;
        let mut burst = Burst::new();
        burst.push(rig.frame(bytes));
        rig.offer(queue, &mut burst);
        if index % 32 == 0 {
            rig.settle();
        }
    }
    rig.settle();
    answers.extend(rig.sent().iter().map(|frame| frame.bytes().to_vec()));
    answers.sort();
    let counters: Vec<_> = rig.workers.iter().map(|worker| worker.counters()).collect();
    for counters in &counters {
        for (stage, meter) in StageName::ALL.iter().zip(&counters.meters) {
            let misplaced = Step::all()
                .filter(|step| !step.is_below(*stage))
                .any(|step| meter.exits.of(step) > 0);
            assert!(!misplaced, "invariant 7: steps only go down");
        }
    }
    let totals = pmdns_engine::counters::totals(&counters);
    drop(rig.workers);
    drop(rig.slow_path);
    assert_eq!(rig.pool.in_use(), 0, "invariant 4: every frame came back");
    (answers, totals)
}

#[test]
fn invariant_1_every_packet_is_in_exactly_one_counter() {
    for placement in placements() {
        let (answers, totals) = walk(&placement);
        assert_eq!(totals.received, trace().len() as u64, "{placement}");
        assert_eq!(totals.transmitted, answers.len() as u64, "{placement}");
        assert_eq!(totals.slow_path, MISSES, "{placement}");
        assert_eq!(totals.exceptions, 40, "{placement}");
        assert_eq!(totals.held, 0, "{placement}");
        assert!(totals.balance(), "{placement}: {totals:?}");
    }
}

#[test]
fn invariant_3_every_placement_gives_the_same_answers() {
    let placements = placements();
    let (expected, totals) = walk(&placements[0]);
    // Most clients get 2 hits, 1 over IPv6, local, blocked, refused, FORMERR and ARP. Of the flood 40 pass the limit,
    // and every second one of the rest is told to use TCP.
    assert!(expected.len() > 40 * 8, "{}", expected.len());
    for placement in &placements[1..] {
        let (answers, same) = walk(placement);
        assert_eq!(answers.len(), expected.len(), "{placement}");
        assert!(answers == expected, "{placement}");
        assert_eq!(same.dropped, totals.dropped, "{placement}");
    }
}

#[test]
fn a_full_ring_sheds_the_newest_and_counts_it() {
    let text = "[frames]\nring = 64\n\
        [[placement]]\nstages = \"parse..acl\"\ncores = [1]\n\
        [[placement]]\nstages = \"ratelimit..encode\"\ncores = [2]\n";
    let mut rig = Rig::new(&config(text));
    rig.learn(&query("a.example. A"), &[(0, 1, 60, vec![192, 0, 2, 1])]);
    for _ in 0..4 {
        let mut burst: Burst =
            (0..32).map(|_| rig.frame(&query("a.example. A").frame_bytes())).collect();
        rig.offer(0, &mut burst);
    }
    while rig.workers[0].turn() == pmdns_engine::worker::Turn::Busy {}
    let to_next = |link| matches!(link, Link::RingTo(1));
    assert_eq!(rig.workers[0].counters().flow(to_next).refused, 128 - 64);
    rig.settle();
    assert_eq!(rig.sent().len(), 64);
}

#[test]
fn trap_11_a_full_miss_ring_sheds_the_newest_and_hits_go_on() {
    let mut rig = Rig::new(&config("[slowpath]\nring = 64\n"));
    rig.learn(&query("a.example. A"), &[(0, 1, 60, vec![192, 0, 2, 1])]);
    for number in 0..100 {
        let missing = QueryFrame { name: name_of(&format!("m{number}.example.")), ..query("a. A") };
        let mut burst = Burst::new();
        burst.push(rig.frame(&missing.frame_bytes()));
        burst.push(rig.frame(&query("a.example. A").frame_bytes()));
        rig.offer(0, &mut burst);
    }
    rig.settle();
    let tally = rig.workers[0].counters().tally;
    // One prefix leaves some slots to others.
    assert_eq!((tally.slow_path, tally.miss_full), (57, 0));
    assert_eq!((tally.miss_told, tally.miss_share), (20, 23));
    assert_eq!(rig.sent().len(), 100 + 20);
}

#[test]
fn each_miss_goes_to_the_thread_that_owns_its_part_of_the_cache() {
    for threads in [1, 2, 32] {
        let mut rig = Rig::new(&config(&format!("[slowpath]\nthreads = {threads}\n")));
        let asked = |number: u8| {
            let name = name_of(&format!("m{number}.example."));
            QueryFrame { name, source: vec![10, 1, number, 1], ..query("a. A") }
        };
        for batch in (0..250).collect::<Vec<u8>>().chunks(25) {
            let mut burst =
                batch.iter().map(|number| rig.frame(&asked(*number).frame_bytes())).collect();
            rig.offer(0, &mut burst);
            rig.settle();
        }
        let mut taken = 0;
        for (number, thread) in rig.slow_path.iter_mut().enumerate() {
            let cache = &thread.resolver.cache;
            for miss in std::iter::from_fn(|| thread.inlets.misses[0].pop()) {
                let entry = entry_of(&asked(miss.client()[2]), &[], 0, cache.seed());
                assert_eq!(cache.shard_of(entry.head().hash), number, "of {threads}");
                taken += 1;
            }
        }
        assert_eq!((taken, rig.workers[0].counters().tally.slow_path), (250, 250));
    }
}

#[test]
fn audit_09_a_flood_of_misses_does_not_fill_the_ring_for_others() {
    for placement in placements() {
        let mut rig = standing(&config(&format!("{placement}\n[slowpath]\nring = 64\n")));
        let mut ask = |client: [u8; 4], number: u16| {
            let name = name_of(&format!("m{number}.example."));
            let asked = QueryFrame { name, source: client.to_vec(), ..query("a. A") };
            let mut burst = Burst::new();
            burst.push(rig.frame(&asked.frame_bytes()));
            rig.offer(0, &mut burst);
            rig.settle();
        };
        (0..500).for_each(|number| ask([10, 77, 0, (number % 200) as u8 + 20], number));
        (500..507).for_each(|number| ask([192, 0, 2, 7], number));
        let mut taken = Vec::new();
        for thread in &mut rig.slow_path {
            let misses =
                std::iter::from_fn(|| thread.inlets.misses.iter_mut().find_map(|ring| ring.pop()));
            taken.extend(misses.map(|miss| miss.client().to_vec()));
        }
        let others = taken.iter().filter(|client| **client == [192, 0, 2, 7]).count();
        assert_eq!(others, 7, "{placement}");
        let told = rig.sent();
        assert!((20..=60).contains(&told.len()), "{placement}: {}", told.len());
        for frame in told {
            assert_eq!(frame.bytes()[45] & 15, 2, "SERVFAIL");
        }
        let counters: Vec<_> = rig.workers.iter().map(|worker| worker.counters()).collect();
        assert!(pmdns_engine::counters::totals(&counters).balance(), "{placement}");
    }
}

#[test]
fn clients_of_the_same_prefix_leave_room_in_the_ring_to_health_checks() {
    for placement in placements() {
        let mut rig = Rig::new(&config(&format!("{placement}\n[slowpath]\nring = 64\n")));
        for (number, family) in (0..200).zip([4, 6].into_iter().cycle()) {
            let name = name_of(&format!("m{number}.example."));
            let asked = QueryFrame { name, ..query("a. A") };
            let asked = if family == 6 { asked.over_ipv6() } else { asked };
            let mut burst = Burst::new();
            burst.push(rig.frame(&asked.frame_bytes()));
            rig.offer(0, &mut burst);
            rig.settle();
        }
        let probes = 2 * rig.prober.workers().count();
        for (id, client) in [(1, "10.77.0.1"), (2, "fd77::1")] {
            rig.prober.ask(id, client.parse().unwrap(), &name_of("check.example."));
        }
        // A worker looks for them a hundred times a second.
        let judged = |rig: &Rig| -> u64 {
            let tallies = rig.workers.iter().map(|worker| worker.counters().tally);
            tallies.map(|tally| tally.slow_path + tally.miss_told + tally.miss_share).sum()
        };
        for _ in 0..10_000 {
            rig.settle();
            if judged(&rig) == 200 + probes as u64 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let mut taken = Vec::new();
        for thread in &mut rig.slow_path {
            let misses =
                std::iter::from_fn(|| thread.inlets.misses.iter_mut().find_map(|ring| ring.pop()));
            taken.extend(misses.map(|miss| miss.is_probe()));
        }
        let taken_probes = taken.iter().filter(|is_probe| **is_probe).count();
        assert_eq!((taken_probes, taken.len() < 200), (probes, true), "{placement}");
    }
}

#[test]
fn hits_are_told_to_the_thread_that_keeps_the_answer() {
    let two_threads = "[cache]\neviction = \"lru\"\n[slowpath]\nthreads = 2\n";
    let mut rig = Rig::new(&config(two_threads));
    let queries: Vec<QueryFrame> = (0..20).map(|n| query(&format!("n{n}.example. A"))).collect();
    let mut frames = Burst::new();
    for query in &queries {
        rig.learn(query, &[(0, 1, 86_400, vec![192, 0, 2, 1])]);
        frames.push(rig.frame(&query.frame_bytes()));
    }
    rig.offer(0, &mut frames);
    let mut told = [0; 2];
    // A worker hands over what it has noted a hundred times a second.
    for _ in 0..10_000 {
        rig.settle();
        for (shard, thread) in rig.slow_path.iter_mut().enumerate() {
            while let Some(hit) = thread.inlets.hits[0].pop() {
                assert_eq!(thread.resolver.cache.shard_of(hit.hash), shard);
                let standing = thread.resolver.writer.credit(hit, 0).expect("the answer is there");
                assert_eq!((hit.weight, standing.hits), (1, 1));
                told[shard] += 1;
            }
        }
        if told.iter().sum::<usize>() == queries.len() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(told.iter().sum::<usize>(), queries.len());
    assert!(told.iter().all(|told| *told > 0), "both threads have some: {told:?}");
}
