//! The state machine, with a clock that only the test moves.

mod doubt;
mod known;
mod link;
mod orders;

use pmdns_nics::HeapPool;

use super::hop::{FRESH, REFRESH, REFRESH_SPREAD, SETTLED, UNICAST_PROBES, USABLE};
use super::*;
use crate::ports::Port;
use crate::testing::{OUR_IPV4, OUR_IPV6, OUR_MAC};

const GATEWAY: [u8; 6] = [2, 0, 0, 0, 0, 0x99];
const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 0x9a];
const BROADCAST: [u8; 6] = [0xff; 6];
const STEP: Duration = Duration::from_millis(50);

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn plan(host: u8) -> HopPlan {
    HopPlan { port: 0, address: [10, 77, 0, host].into(), from: OUR_IPV4.into() }
}

/// One of our ports, its next hops, and the time.
struct Link {
    hops: NextHops,
    now: Duration,
    pool: FramePool,
    /// Whether the next hops answer, and with which MAC address.
    answer: Option<[u8; 6]>,
    /// The probes so far: when, to which MAC address, for which next hop.
    probes: Vec<(Duration, [u8; 6], IpAddr)>,
}

impl Link {
    fn new(plans: &[HopPlan]) -> Self {
        let port = Port::new(OUR_MAC, [IpAddr::from(OUR_IPV4), IpAddr::from(OUR_IPV6)]);
        Self {
            hops: NextHops::new(plans, [port].into(), Seed::new([7; 16])),
            now: Duration::ZERO,
            pool: FramePool::Heap(HeapPool::new(64)),
            answer: Some(GATEWAY),
            probes: Vec::new(),
        }
    }

    /// Turns once and answers.
    fn turn(&mut self) {
        let mut frames = Burst::new();
        self.hops.turn(self.now, &self.pool, &mut frames);
        for frame in &frames {
            let bytes = frame.bytes();
            let to: [u8; 6] = bytes[..6].try_into().unwrap();
            let target = match bytes[13] {
                6 => IpAddr::from(<[u8; 4]>::try_from(&bytes[38..42]).unwrap()),
                _ => IpAddr::from(<[u8; 16]>::try_from(&bytes[62..78]).unwrap()),
            };
            self.probes.push((self.now, to, target));
            if let Some(mac) = self.answer {
                let reply = NeighborMessage { address: target, ..answer_from(mac) };
                self.hops.receive(0, &reply, self.now);
            }
        }
    }

    /// Lets time pass in steps.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += STEP;
            self.turn();
        }
    }

    fn receive(&mut self, heard: &NeighborMessage) -> bool {
        self.hops.receive(0, heard, self.now)
    }

    /// Some thread doubts a next hop.
    fn doubt(&mut self, hop: usize) {
        self.hops.table().doubt(hop);
        self.hops.heed_doubts(self.now);
    }

    fn report(&self, hop: usize) -> HopReport {
        self.hops.table().report(self.now).nth(hop).unwrap()
    }

    fn state(&self) -> HopState {
        self.report(0).state
    }

    fn mac(&self) -> Option<[u8; 6]> {
        self.hops.table().find(0).map(|place| place.mac)
    }

    fn changes(&mut self) -> Vec<HopChange> {
        let mut changes = Vec::new();
        self.hops.report_changes(|_, change| changes.push(change));
        changes
    }
}

/// An answer of the first next hop.
fn answer_from(mac: [u8; 6]) -> NeighborMessage {
    NeighborMessage {
        address: plan(1).address,
        mac,
        solicited: true,
        override_: true,
        is_reply: true,
    }
}

/// What nobody asked for.
fn gratuitous(mac: [u8; 6]) -> NeighborMessage {
    NeighborMessage { solicited: false, ..answer_from(mac) }
}

#[test]
fn a_next_hop_that_answers_is_found_at_once_and_stays_reachable() {
    let mut link = Link::new(&[plan(1)]);
    link.turn();
    assert_eq!((link.state(), link.mac()), (HopState::Reachable, Some(GATEWAY)));
    assert_eq!(link.probes[0].1, BROADCAST, "nobody knows where it is");
    for _ in 0..12_000 {
        link.now += STEP;
        link.turn();
        assert_eq!(link.state(), HopState::Reachable);
        assert!(link.report(0).age.unwrap() <= REFRESH + REFRESH_SPREAD);
    }
    assert!(link.probes[1..].iter().all(|probe| probe.1 == GATEWAY), "asked alone from then on");
    assert!((24..=31).contains(&link.probes.len()), "{} in ten minutes", link.probes.len());
    let counts = link.report(0).counts;
    assert_eq!((counts.failures, counts.outages, counts.mac_changes), (0, 0, 0));
    assert_eq!(counts.probes, counts.answers);
}

#[test]
fn a_next_hop_that_never_answers_is_asked_ever_more_rarely() {
    let mut link = Link::new(&[plan(1)]);
    link.answer = None;
    link.turn();
    assert_eq!(link.state(), HopState::Incomplete);
    link.pass(seconds(10));
    assert_eq!((link.state(), link.mac()), (HopState::Failed, None));
    assert_eq!(link.changes(), [HopChange::Missing]);
    link.pass(seconds(600));
    let times: Vec<_> = link.probes.iter().map(|probe| probe.0).collect();
    let pauses: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (pause, base) in pauses.iter().zip([1, 2, 4, 8, 16, 24, 24, 24]) {
        let most = seconds(base) + seconds(base) / 4 + STEP;
        assert!((seconds(base)..=most).contains(pause), "{pauses:?}");
    }
    assert!(pauses.iter().all(|pause| *pause <= seconds(30) + STEP));
    assert!(link.probes.iter().all(|probe| probe.1 == BROADCAST));
    assert!(link.changes().is_empty(), "it is told once");
    link.answer = Some(GATEWAY);
    link.pass(seconds(31));
    assert_eq!(
        (link.state(), link.changes()),
        (HopState::Reachable, vec![HopChange::Found(GATEWAY)])
    );
}

#[test]
fn a_next_hop_that_falls_silent_is_doubted_then_asked_for_then_lost() {
    let mut link = Link::new(&[plan(1)]);
    link.turn();
    assert_eq!(link.changes(), [HopChange::Found(GATEWAY)]);
    link.probes.clear();
    link.answer = None;
    while link.state() == HopState::Reachable {
        link.pass(STEP);
    }
    assert!(link.now < FRESH, "three probes in vain are enough, {:?}", link.now);
    assert_eq!(link.mac(), Some(GATEWAY), "and it is used on");
    assert!(!link.hops.table().find(0).unwrap().is_fresh);
    link.pass(USABLE - STEP - link.now);
    assert_eq!(link.state(), HopState::Stale);
    link.pass(STEP * 2);
    assert_eq!((link.state(), link.mac()), (HopState::Failed, None));
    assert_eq!(link.changes(), [HopChange::Lost]);
    let alone = link.probes.iter().filter(|probe| probe.1 == GATEWAY).count();
    let all = link.probes.iter().filter(|probe| probe.1 == BROADCAST).count();
    assert_eq!((alone as u32, alone + all), (UNICAST_PROBES, link.probes.len()));
    let counts = link.report(0).counts;
    assert_eq!((counts.outages, counts.answers), (1, 1));
    assert_eq!(counts.failures as usize, link.probes.len() - 1, "the last one still waits");
    link.answer = Some(OTHER);
    link.pass(seconds(31));
    assert_eq!((link.state(), link.mac()), (HopState::Reachable, Some(OTHER)));
    assert_eq!(link.report(0).counts.mac_changes, 0, "it was forgotten");
}

#[test]
fn a_replaced_next_hop_is_found_by_asking_everybody() {
    let mut link = Link::new(&[plan(1)]);
    link.turn();
    link.answer = None;
    link.probes.clear();
    let (mut lost, mut moved) = (false, false);
    while !moved {
        link.pass(STEP);
        lost |= link.mac().is_none();
        if link.probes.last().is_some_and(|probe| probe.1 == BROADCAST) {
            moved = link.receive(&answer_from(OTHER));
        }
    }
    assert!(!lost && link.now < FRESH);
    assert_eq!((link.state(), link.mac()), (HopState::Reachable, Some(OTHER)));
    assert_eq!(link.report(0).counts.mac_changes, 1);
    assert_eq!(link.changes(), [HopChange::Found(OTHER)], "nobody has asked in between");
}

#[test]
fn what_nobody_asked_for_is_used_until_everybody_was_asked() {
    let mut link = Link::new(&[plan(1)]);
    link.turn();
    link.changes();
    link.pass(seconds(5));
    link.probes.clear();
    assert!(link.receive(&gratuitous(OTHER)));
    assert_eq!((link.state(), link.mac()), (HopState::Stale, Some(OTHER)));
    assert_eq!(link.changes(), [HopChange::Moved { from: GATEWAY, to: OTHER }]);
    link.turn();
    assert_eq!(link.probes[0].1, BROADCAST, "the one it was is heard as well");
    assert_eq!((link.state(), link.mac()), (HopState::Reachable, Some(GATEWAY)));
    let counts = link.report(0).counts;
    assert_eq!((counts.gratuitous, counts.mac_changes, counts.refused), (1, 2, 0));
}

#[test]
fn an_announcement_finds_a_next_hop_that_was_lost() {
    let mut link = Link::new(&[plan(1)]);
    link.answer = None;
    link.pass(seconds(60));
    assert_eq!(link.state(), HopState::Failed);
    assert!(link.receive(&gratuitous(GATEWAY)));
    assert_eq!((link.state(), link.mac()), (HopState::Stale, Some(GATEWAY)));
    link.pass(USABLE + STEP);
    assert_eq!(link.mac(), None, "which alone does not keep it");
}

#[test]
fn an_announcement_of_what_is_known_changes_nothing() {
    let mut link = Link::new(&[plan(1)]);
    link.turn();
    let before = link.probes.len();
    for _ in 0..100 {
        link.pass(STEP);
        assert!(link.receive(&gratuitous(GATEWAY)));
    }
    assert_eq!((link.state(), link.probes.len()), (HopState::Reachable, before));
    link.answer = None;
    for _ in 0..2000 {
        link.pass(STEP);
        if link.mac().is_some() {
            link.receive(&gratuitous(GATEWAY));
        }
    }
    assert_eq!(link.report(0).counts.outages, 1, "it has to answer");
}

#[test]
fn only_a_next_hop_on_its_own_port_is_heard() {
    let mut link = Link::new(&[plan(1)]);
    link.turn();
    let stranger = NeighborMessage { address: plan(9).address, ..gratuitous(OTHER) };
    assert!(!link.receive(&stranger));
    assert!(!link.hops.receive(1, &gratuitous(OTHER), link.now), "heard on another port");
    assert_eq!(link.mac(), Some(GATEWAY));
}

#[test]
fn mac_addresses_that_no_host_has_are_refused() {
    let mut link = Link::new(&[plan(1)]);
    link.answer = None;
    link.turn();
    for mac in [[0; 6], BROADCAST, [1, 0, 0x5e, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 1]] {
        assert!(!link.receive(&answer_from(mac)) && !link.receive(&gratuitous(mac)), "{mac:x?}");
    }
    assert_eq!((link.mac(), link.report(0).counts.refused), (None, 8));
}

/// The kernel's end of a net_tap port has the address of the port.
#[test]
fn our_own_mac_address_is_believed_only_in_an_answer() {
    let mut link = Link::new(&[plan(1)]);
    link.answer = None;
    link.turn();
    assert!(!link.receive(&gratuitous(OUR_MAC)));
    assert_eq!((link.mac(), link.report(0).counts.refused), (None, 1));
    assert!(link.receive(&answer_from(OUR_MAC)));
    assert_eq!(link.mac(), Some(OUR_MAC));
}

/// RFC 4861 section 7.2.5: without the override flag nothing known is replaced, but doubted.
#[test]
fn without_the_override_flag_a_known_address_is_kept() {
    let mut link = Link::new(&[plan(1)]);
    link.turn();
    link.pass(seconds(5));
    link.probes.clear();
    for solicited in [false, true] {
        let claim = NeighborMessage { override_: false, solicited, ..answer_from(OTHER) };
        assert!(!link.receive(&claim));
        assert_eq!((link.state(), link.mac()), (HopState::Stale, Some(GATEWAY)));
    }
    link.turn();
    assert_eq!(link.probes[0].1, GATEWAY);
    assert_eq!((link.state(), link.report(0).counts.refused), (HopState::Reachable, 2));
    let mut fresh = Link::new(&[plan(1)]);
    fresh.answer = None;
    fresh.turn();
    assert!(
        fresh.receive(&NeighborMessage { override_: false, ..answer_from(OTHER) }),
        "nothing is replaced here"
    );
    assert_eq!(fresh.state(), HopState::Reachable);
}

#[test]
fn of_two_that_answer_the_first_counts() {
    let mut link = Link::new(&[plan(1)]);
    link.turn();
    assert!(!link.receive(&answer_from(OTHER)), "a second answer to one question");
    assert_eq!((link.mac(), link.report(0).counts.refused), (Some(GATEWAY), 1));
    link.pass(SETTLED);
    assert!(link.receive(&answer_from(OTHER)));
    assert_eq!(link.state(), HopState::Stale, "nobody had asked");
}

#[test]
fn a_flood_of_claims_costs_one_question_a_second() {
    let mut link = Link::new(&[plan(1)]);
    link.turn();
    for number in 0..1000u32 {
        link.pass(STEP);
        for claim in 0..10u8 {
            let mac = [2, claim, 0, 0, 0, number as u8];
            link.receive(&gratuitous(mac));
            link.receive(&NeighborMessage { override_: false, ..gratuitous(mac) });
        }
    }
    assert!(link.probes.len() <= 52, "{} in 50 seconds", link.probes.len());
    let counts = link.report(0).counts;
    assert!(counts.mac_changes <= 102, "each claim is answered by the truth: {counts:?}");
    assert!(counts.refused > 19_000);
}

#[test]
fn a_link_that_comes_up_asks_everybody_at_once() {
    let mut link = Link::new(&[plan(1), HopPlan { port: 1, ..plan(2) }]);
    link.turn();
    link.pass(seconds(5));
    link.probes.clear();
    link.hops.note_link_up(0, link.now);
    link.turn();
    assert_eq!(link.probes, [(link.now, BROADCAST, plan(1).address)]);
    assert_eq!(link.state(), HopState::Reachable);
    for _ in 0..100 {
        link.hops.note_link_up(0, link.now);
        link.pass(STEP);
    }
    assert!(link.probes.len() <= 7, "links that flap do not make it faster");
}

#[test]
fn probes_of_many_next_hops_have_one_bound() {
    let plans: Vec<_> = (1..=MAX_HOPS as u8).map(plan).collect();
    let mut link = Link::new(&plans);
    link.turn();
    assert_eq!(link.probes.len(), BURST as usize);
    link.pass(seconds(15));
    let found = || link.hops.table().report(link.now);
    assert!(found().all(|hop| hop.state == HopState::Reachable), "and each has its turn");
    link.pass(seconds(600));
    let is_steady = link
        .hops
        .table()
        .report(link.now)
        .all(|hop| hop.state == HopState::Reachable && hop.counts.failures == 0);
    assert!(is_steady, "all are refreshed in time");
    for start in 0..600 {
        let window = seconds(start)..seconds(start + 1);
        let probes = link.probes.iter().filter(|probe| window.contains(&probe.0)).count();
        assert!(probes <= (BURST + PROBES_PER_SECOND + 1) as usize);
    }
}

#[test]
fn probes_that_find_no_frame_follow() {
    let mut link = Link::new(&[plan(1), plan(2)]);
    let held: Vec<_> = std::iter::from_fn(|| link.pool.take()).collect();
    link.turn();
    assert!(link.probes.is_empty());
    drop(held);
    link.turn();
    assert_eq!(link.probes.len(), 2);
    let mut full: Burst = std::iter::from_fn(|| link.pool.take()).collect();
    link.now += seconds(26);
    link.hops.turn(link.now, &link.pool, &mut full);
    assert_eq!(link.report(0).counts.probes, 1, "no room in the burst");
    full.clear();
    link.turn();
    assert_eq!(link.report(0).counts.probes, 2);
}

#[test]
fn a_port_that_cannot_ask_is_left_alone() {
    let mixed = HopPlan { from: OUR_IPV6.into(), ..plan(1) };
    let mut link = Link::new(&[mixed, HopPlan { port: 9, ..plan(1) }]);
    link.pass(seconds(60));
    assert!(link.probes.is_empty() && link.pool.in_use() == 0);
    assert_eq!(link.state(), HopState::Incomplete);
    assert!(link.hops.next_due() > link.now);
}
