//! Tests of heavy hitters on a whole line: what is counted of packets that pass, and what a limit does.

use pmdns_control::{Hitter, HittersQuery, Window};
use pmdns_engine::testing::{Rig, config};
use pmdns_nics::Burst;
use pmdns_resolver::{Origin, OutgoingAnswer};
use pmdns_stages::miss::Miss;
use pmdns_stages::testing::query;

use super::*;

const RULES: &str = "[block]\nnames = [\"blocked.example\"]\n[hitters]\nenabled = true\nsample = 1\nipv4_prefix = 24\n\
    flood_names = 20\n";

/// A line with a counter that the test turns.
struct Counted {
    rig: Rig,
    counter: Counter,
}

fn counted() -> Counted {
    let config = config(RULES);
    let mut rig = Rig::new(&config);
    let Rings { cores, counters } = lend(&config, &rig.observers).unwrap();
    let seed = random_seed().unwrap();
    let tables = Mutex::new(Tables::new(&config, rig.rules.names(), seed));
    let shared = Arc::new(HitterTables { tables, begun: Mutex::default(), counters });
    let counter = Counter { cores, shared, clock: rig.gauges.clock, lines: (0, 0) };
    // Long enough for a worker's next housekeeping.
    std::thread::sleep(Duration::from_millis(11));
    rig.settle();
    rig.learn(&query("hit.example.com. A"), &[(0, 1, 86_400, vec![192, 0, 2, 1])]);
    Counted { rig, counter }
}

impl Counted {
    fn ask(&mut self, names: &[String]) {
        for names in names.chunks(32) {
            let frames = names.iter().map(|name| self.rig.frame(&query(name).frame_bytes()));
            let mut frames: Burst = frames.collect();
            self.rig.offer(0, &mut frames);
            self.rig.settle();
        }
    }

    /// Answers all misses with this rcode, as the slow path would.
    fn answer_misses(&mut self, rcode: u8) -> usize {
        let mut misses: Vec<Miss> = Vec::new();
        while let Some(miss) = self.rig.slow_path[0].inlets.misses[0].pop() {
            misses.push(miss);
        }
        for miss in &misses {
            let answer = pmdns_stages::Answer::Rcode(pmdns_stages::wire::dns::Rcode(rcode));
            let mut packet = miss.packet(&self.rig.pool, answer).unwrap();
            let flags = packet.layout.dns() + 3;
            packet.frame.bytes_mut()[flags] |= rcode;
            let (received, layout) = (packet.received, packet.layout);
            let answered = OutgoingAnswer {
                frame: packet.frame,
                received,
                layout,
                origin: Origin::Upstream(0),
                why: None,
            };
            assert!(self.rig.slow_path[0].outlets[0].push(answered).is_ok());
            self.rig.settle();
        }
        misses.len()
    }

    fn top(&mut self, what: Hitter) -> Vec<(String, u64)> {
        let tables = locked(&self.counter.shared.tables);
        let top = tables.top(&HittersQuery { what, window: Window::Minute, n: 10 });
        top.rows.into_iter().map(|row| (row.key, row.count)).collect()
    }
}

fn row(key: &str, count: u64) -> (String, u64) {
    (key.to_owned(), count)
}

#[test]
fn what_passes_is_counted_by_name_client_and_zone() {
    let mut counted = counted();
    let [hit, blocked] = ["Hit.example.com. A", "blocked.example. A"].map(str::to_owned);
    counted.ask(&[hit.clone(), hit, blocked]);
    let misses: Vec<String> = (0..3).map(|at| format!("x{at}.absent.co.uk. A")).collect();
    counted.ask(&misses);
    assert_eq!(counted.answer_misses(3), 3);
    counted.ask(&["down.example.org. A".to_owned()]);
    assert_eq!(counted.answer_misses(2), 1);
    assert_eq!(counted.counter.turn(0), 11);
    counted.counter.turn(1);
    assert_eq!(counted.top(Hitter::Names)[0], row("hit.example.com", 2));
    assert_eq!(counted.top(Hitter::Names).len(), 6);
    assert_eq!(counted.top(Hitter::Clients), [row("10.77.0.0", 7)]);
    assert_eq!(counted.top(Hitter::Nxdomain), [row("absent.co.uk", 3)]);
    assert_eq!(counted.top(Hitter::Blocked), [row("blocked.example", 1)]);
    assert_eq!(counted.top(Hitter::Failing), [row("example.org", 1)]);
}

#[test]
fn a_flood_is_found_and_told_once() {
    let mut counted = counted();
    for second in 0..2_usize {
        let flood: Vec<String> =
            (0..100).map(|at| format!("x{}.example.com. A", second * 100 + at)).collect();
        counted.ask(&flood);
        assert_eq!(counted.answer_misses(3), 100);
        counted.counter.turn(second as u64);
    }
    counted.counter.turn(2);
    let hitters = HeavyHitters {
        stop: Arc::default(),
        thread: None,
        shared: Arc::clone(&counted.counter.shared),
    };
    let floods = hitters.floods().floods;
    assert_eq!((floods.len(), &*floods[0].zone, floods[0].misses), (1, "example.com", 100));
    assert_eq!(hitters.counters().flooded, 1);
    let begun = hitters.begun();
    assert_eq!((begun.len(), &*begun[0].zone, begun[0].misses), (1, "example.com", 100));
    assert!(hitters.begun().is_empty(), "it is told once");
}
