//! Announcements to each link, unasked and in answer to MLD queries: where our addresses are, and which multicast groups
//! we listen to. It is told the time, and writes one frame at a time.

use arrayvec::ArrayVec;
use pmdns_config::Vlan;
use pmdns_nics::{Burst, Frame, FramePool};

use super::ethernet::{BROADCAST, begin};
use super::icmpv6::group_mac;
use super::mld::{MAX_RECORDS, MldQuery, MldReport};
use super::{arp, icmpv6};
use crate::packet::Tick;
use crate::ports::{Port, Ports};
use crate::wire::ip::{TYPE_ARP, TYPE_IPV6};
use crate::wire::name::Seed;

/// How often each announcement is made, a second apart: RFC 4861 section 7.2.6 allows three advertisements, and
/// RFC 5227 section 3 and RFC 3810 section 9.1 want two of theirs.
const ROUNDS: u8 = 3;
const PAUSE_MS: u64 = 1000;
/// Frames written at a time, on each look.
const MAX_FRAMES: usize = 16;
/// How long one answer pauses after so many frames: one query may ask for a thousand of them.
const PACE_MS: u64 = 50;
/// Reports that wait for their time. Queries beyond that are not answered; queriers ask again.
const MAX_REPORTS: usize = 32;
/// The longest time a report waits. Queriers may want longer (RFC 3810 section 5.1.3).
const MAX_DELAY_MS: u32 = 10_000;

/// The announcements of a core.
#[derive(Clone, Debug)]
pub(super) struct Announcer {
    ports: Ports,
    /// The solicited-node groups of each port's addresses, each once.
    groups: Vec<Vec<[u8; 16]>>,
    rounds: Vec<Round>,
    reports: ArrayVec<Pending, MAX_REPORTS>,
    ticks_per_ms: u64,
    seed: Seed,
    /// Delays drawn so far.
    drawn: u64,
}

/// A port's announcements.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    due: Tick,
    /// How often all are still to be made.
    left: u8,
    /// The next one.
    next: usize,
}

/// A report that an MLD query asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pending {
    asked: ReceivedMldQuery,
    due: Tick,
    /// A query for all groups is answered by several reports. The next one.
    next: usize,
}

/// Where an MLD query came from and what it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReceivedMldQuery {
    port: usize,
    vlan: Vlan,
    is_v1: bool,
    group: Option<[u8; 16]>,
}

/// The message of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notice<'g> {
    /// Where this IPv4 address is (RFC 5227 section 3).
    Ipv4([u8; 4]),
    /// Where this IPv6 address is (RFC 4861 section 7.2.6).
    Ipv6([u8; 16]),
    /// Which groups we listen to.
    Groups(MldReport<'g>),
}

impl Announcer {
    pub(super) fn new(ports: Ports, ticks_per_second: u64, seed: Seed) -> Self {
        let groups = ports.iter().map(groups_of).collect();
        let rounds = vec![Round::default(); ports.len()];
        let ticks_per_ms = (ticks_per_second / 1000).max(1);
        Self { ports, groups, rounds, reports: ArrayVec::new(), ticks_per_ms, seed, drawn: 0 }
    }

    /// The port's link came up: everything is said anew, from now on.
    pub(super) fn start_round(&mut self, port: usize, now: Tick) {
        if let Some(round) = self.rounds.get_mut(port) {
            *round = Round { due: now, left: ROUNDS, next: 0 };
        }
    }

    /// Notes that a query came, to be answered at some time within its delay. `None`: it asks for none of our groups,
    /// or too many wait.
    pub(super) fn note(
        &mut self,
        port: usize,
        vlan: Vlan,
        query: MldQuery,
        now: Tick,
    ) -> Option<()> {
        let groups = self.groups.get(port)?;
        let asks_for_ours = match query.group {
            Some(group) => groups.contains(&group),
            None => !groups.is_empty(),
        };
        if !asks_for_ours {
            return None;
        }
        let asked = ReceivedMldQuery { port, vlan, is_v1: query.is_v1, group: query.group };
        if self.reports.iter().any(|pending| pending.asked == asked) {
            return Some(());
        }
        self.drawn += 1;
        let span = u64::from(query.max_delay_ms.min(MAX_DELAY_MS)) + 1;
        let delay = self.seed.hash(&self.drawn.to_le_bytes()) % span;
        let due = now + delay * self.ticks_per_ms;
        self.reports.try_push(Pending { asked, due, next: 0 }).ok()
    }

    /// Writes what is due, some frames at most; the others follow on the next look.
    pub(super) fn write_due(&mut self, now: Tick, pool: &FramePool, frames: &mut Burst) {
        let limit = MAX_FRAMES.min(frames.remaining_capacity());
        for _ in 0..limit {
            let Some(mut frame) = pool.take() else { return };
            let written = self
                .write_announcement(now, &mut frame)
                .or_else(|| self.write_report(now, &mut frame));
            if written.is_none() {
                return;
            }
            frames.push(frame);
        }
    }

    fn write_announcement(&mut self, now: Tick, frame: &mut Frame) -> Option<()> {
        let is_due = |round: &Round| round.left > 0 && round.due <= now;
        let number = self.rounds.iter().position(is_due)?;
        let (port, groups) = (&self.ports[number], &self.groups[number]);
        let round = &mut self.rounds[number];
        let Some((vlan, notice)) = notice_at(port, groups, round.next) else {
            // Every VLAN has been told everything.
            *round = Round {
                due: round.due + PAUSE_MS * self.ticks_per_ms,
                left: round.left - 1,
                next: 0,
            };
            return self.write_announcement(now, frame);
        };
        round.next += 1;
        write(frame, number, port, vlan, notice)
    }

    fn write_report(&mut self, now: Tick, frame: &mut Frame) -> Option<()> {
        let place = self.reports.iter().position(|pending| pending.due <= now)?;
        let pending = &mut self.reports[place];
        let ReceivedMldQuery { port: number, vlan, is_v1, group } = pending.asked;
        let groups = match &group {
            Some(group) => std::slice::from_ref(group),
            None => self.groups[number].as_slice(),
        };
        let mut parts = groups.chunks(if is_v1 { 1 } else { MAX_RECORDS }).skip(pending.next);
        let report = match parts.next()? {
            [group] if is_v1 => MldReport::V1 { group: *group },
            groups => MldReport::V2 { groups, is_news: false },
        };
        let is_last = parts.next().is_none();
        pending.next += 1;
        if pending.next.is_multiple_of(MAX_FRAMES) {
            pending.due = now + PACE_MS * self.ticks_per_ms;
        }
        let written = write(frame, number, &self.ports[number], vlan, Notice::Groups(report));
        if is_last {
            self.reports.remove(place);
        }
        written
    }
}

/// The message in place `number` of a port's round, and its VLAN. Query sources are in the first VLAN only, so that
/// is told of them before everything else.
fn notice_at<'g>(port: &Port, groups: &'g [[u8; 16]], number: usize) -> Option<(Vlan, Notice<'g>)> {
    let vlans = port.vlans.listed();
    let ipv4 = port.sources.ipv4().map(Notice::Ipv4);
    let mut of_sources = ipv4.chain(port.sources.ipv6().map(Notice::Ipv6));
    let count = port.sources.ipv4().len() + port.sources.ipv6().len();
    let Some(number) = number.checked_sub(count) else {
        return Some((*vlans.first()?, of_sources.nth(number)?));
    };
    let (ipv4, ipv6) = match port.claim.is_standby() {
        true => Default::default(),
        false => (&*port.ipv4, &*port.ipv6),
    };
    let addresses = ipv4.len() + ipv6.len();
    let each = addresses + groups.len().div_ceil(MAX_RECORDS);
    let vlan = *vlans.get(number.checked_div(each)?)?;
    let item = number % each;
    let of_ipv6 = item.checked_sub(ipv4.len()).and_then(|item| ipv6.get(item));
    let notice = match (ipv4.get(item), of_ipv6) {
        (Some(address), _) => Notice::Ipv4(*address),
        (None, Some(address)) => Notice::Ipv6(*address),
        (None, None) => {
            let groups = groups.chunks(MAX_RECORDS).nth(item - addresses)?;
            Notice::Groups(MldReport::V2 { groups, is_news: true })
        }
    };
    Some((vlan, notice))
}

/// Writes the frame that says `notice` in a VLAN of a port. `None`: it does not fit.
fn write(
    frame: &mut Frame,
    number: usize,
    port: &Port,
    vlan: Vlan,
    notice: Notice<'_>,
) -> Option<()> {
    let (destination, ethertype, len) = match notice {
        Notice::Ipv4(_) => (BROADCAST, TYPE_ARP, arp::LEN),
        Notice::Ipv6(_) => (icmpv6::ALL_NODES_MAC, TYPE_IPV6, 0),
        Notice::Groups(report) => (group_mac(report.destination()), TYPE_IPV6, report.len()),
    };
    let l3 = begin(frame, number, port, vlan, destination, ethertype, len)?;
    let packet = &mut frame.bytes_mut()[l3..];
    match notice {
        Notice::Ipv4(address) => arp::announce(packet, port, address),
        Notice::Ipv6(address) => icmpv6::announce(frame, l3, address, port)?,
        Notice::Groups(report) => report.write(packet, link_local(port)),
    }
    Some(())
}

/// The groups in which others ask for the port's addresses (RFC 4291 section 2.7.1).
fn groups_of(port: &Port) -> Vec<[u8; 16]> {
    let addresses = port.ipv6.iter().copied().chain(port.sources.ipv6());
    let mut groups: Vec<[u8; 16]> = addresses.map(icmpv6::solicited_node).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// A link-local address of the port: one of its own, or the one made of its MAC address (RFC 4291 appendix A).
fn link_local(port: &Port) -> [u8; 16] {
    let is_link_local = |address: &&[u8; 16]| address[0] == 0xfe && address[1] & 0xc0 == 0x80;
    let [a, b, c, d, e, f] = port.mac;
    let of_mac = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f];
    port.ipv6.iter().find(is_link_local).copied().unwrap_or(of_mac)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;

    use pmdns_nics::HeapPool;

    use super::*;
    use crate::query_sources::{QuerySources, Source};
    use crate::testing::{OUR_IPV4, OUR_IPV6, OUR_MAC};
    use crate::vlan::Vlans;

    /// A clock of a thousand ticks a second.
    const TICKS: u64 = 1000;

    fn announcer(vlans: &[Vlan]) -> Announcer {
        let mut neighbour = OUR_IPV6;
        neighbour[7] = 9;
        let addresses = [IpAddr::from(OUR_IPV4), IpAddr::from(OUR_IPV6), IpAddr::from(neighbour)];
        let port = Port { vlans: Vlans::of(vlans), ..Port::new(OUR_MAC, addresses) };
        Announcer::new([port].into(), TICKS, Seed::new([5; 16]))
    }

    fn due(announcer: &mut Announcer, now: Tick) -> Vec<Vec<u8>> {
        let pool = FramePool::Heap(HeapPool::new(64));
        let mut frames = Burst::new();
        announcer.write_due(now, &pool, &mut frames);
        frames.iter().map(|frame| frame.bytes().to_vec()).collect()
    }

    fn query(group: Option<[u8; 16]>) -> MldQuery {
        MldQuery { is_v1: false, max_delay_ms: 100, group }
    }

    #[test]
    fn bound_b2_a_link_that_comes_up_is_told_everything_three_times() {
        let mut announcer = announcer(&[Vlan::Untagged]);
        assert!(due(&mut announcer, 0).is_empty(), "nothing before that");
        announcer.start_round(0, 50);
        for at in [50, 1050, 2050] {
            assert!(due(&mut announcer, at - 1).is_empty());
            let frames = due(&mut announcer, at);
            let kinds: Vec<u16> = frames
                .iter()
                .map(|frame| frame[12..14].try_into().unwrap())
                .map(u16::from_be_bytes)
                .collect();
            assert_eq!(kinds, [TYPE_ARP, TYPE_IPV6, TYPE_IPV6, TYPE_IPV6]);
            assert!(due(&mut announcer, at).is_empty());
        }
        assert!(due(&mut announcer, 99_999).is_empty(), "and no more");
    }

    #[test]
    fn a_node_that_stands_by_announces_groups_alone() {
        let mut announcer = announcer(&[Vlan::Untagged]);
        announcer.ports[0].claim.set_standby(true);
        announcer.start_round(0, 0);
        assert_eq!(due(&mut announcer, 0).len(), 1);
    }

    #[test]
    fn bound_b2_each_vlan_is_told() {
        let mut announcer = announcer(&[Vlan::Untagged, Vlan::Tagged(7), Vlan::Double(7, 8)]);
        announcer.start_round(0, 0);
        let frames = due(&mut announcer, 0);
        let tags: Vec<_> = frames.iter().map(|frame| &frame[12..frame.len().min(22)]).collect();
        assert_eq!(tags[0][..2], [8, 6]);
        assert_eq!(tags[4][..6], [0x81, 0, 0, 7, 8, 6]);
        assert_eq!(tags[8][..10], [0x88, 0xa8, 0, 7, 0x81, 0, 0, 8, 8, 6]);
        assert_eq!(frames.len(), 12);
    }

    #[test]
    fn query_sources_are_announced_in_the_first_vlan_only() {
        let source = |port, address: IpAddr| Source { port, address };
        let (ipv4, ipv6) = ([10, 77, 0, 60], [0x60; 16]);
        let sources =
            [source(0, ipv4.into()), source(1, [10, 77, 0, 61].into()), source(0, ipv6.into())];
        let sources = Arc::new(QuerySources::new(sources.to_vec()));
        let vlans = Vlans::of(&[Vlan::Tagged(7), Vlan::Untagged]);
        let port = Port { vlans, ..Port::new(OUR_MAC, [OUR_IPV4.into(), OUR_IPV6.into()]) };
        let asking = port.clone().with_query_sources(Arc::clone(&sources), 0);
        let groups = groups_of(&asking);
        assert!(groups.contains(&icmpv6::solicited_node(ipv6)), "others can ask for it");
        let mut announcer = Announcer::new([asking].into(), TICKS, Seed::new([5; 16]));
        announcer.start_round(0, 0);
        let frames = due(&mut announcer, 0);
        let said = |address: &[u8]| {
            let has = |frame: &&Vec<u8>| frame.windows(address.len()).any(|it| it == address);
            let tagged = |frame: &Vec<u8>| frame[12..16] == [0x81, 0, 0, 7];
            frames.iter().filter(has).map(tagged).collect::<Vec<_>>()
        };
        assert_eq!((said(&ipv4), said(&ipv6)), (vec![true], vec![true]));
        assert_eq!((said(&OUR_IPV4), said(&[10, 77, 0, 61])), (vec![true, false], vec![]));
        assert_eq!(frames.len(), 2 + 2 * 3);
        let only = Port { ipv4: vec![], ipv6: vec![], ..port }.with_query_sources(sources, 1);
        let mut announcer = Announcer::new([only].into(), TICKS, Seed::new([5; 16]));
        announcer.start_round(0, 0);
        assert_eq!(due(&mut announcer, 0).len(), 1, "a port that is asked nothing");
    }

    #[test]
    fn frames_are_written_a_few_at_a_time() {
        let vlans: Vec<Vlan> = (1..=8).map(Vlan::Tagged).collect();
        let mut announcer = announcer(&vlans);
        announcer.start_round(0, 0);
        assert_eq!(due(&mut announcer, 0).len(), MAX_FRAMES);
        assert_eq!(due(&mut announcer, 0).len(), MAX_FRAMES);
        assert_eq!(due(&mut announcer, 0).len(), 0);
    }

    #[test]
    fn bound_b2_a_query_is_answered_within_its_delay_and_once() {
        let mut announcer = announcer(&[Vlan::Untagged]);
        for _ in 0..3 {
            assert_eq!(announcer.note(0, Vlan::Untagged, query(None), 0), Some(()));
        }
        let mut at = 0;
        let frames = loop {
            let frames = due(&mut announcer, at);
            if !frames.is_empty() {
                break frames;
            }
            at += 1;
        };
        assert!(at <= 100, "{at} ms");
        let report = &frames[0];
        assert_eq!((frames.len(), &report[..6]), (1, &[0x33, 0x33, 0, 0, 0, 0x16][..]));
        assert_eq!(report[22..38], [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 1]);
        assert_eq!(report[14 + 48 + 7], 1, "both addresses have one group");
        assert!(due(&mut announcer, 99_999).is_empty());
    }

    #[test]
    fn bound_b2_a_query_for_one_group_is_answered_if_it_is_ours() {
        let mut announcer = announcer(&[Vlan::Untagged]);
        let ours = icmpv6::solicited_node(OUR_IPV6);
        assert_eq!(announcer.note(0, Vlan::Untagged, query(Some([7; 16])), 0), None);
        assert_eq!(announcer.note(1, Vlan::Untagged, query(None), 0), None, "no such port");
        assert_eq!(announcer.note(0, Vlan::Untagged, query(Some(ours)), 0), Some(()));
        let old = MldQuery { is_v1: true, ..query(Some(ours)) };
        assert_eq!(announcer.note(0, Vlan::Tagged(7), old, 0), Some(()));
        let frames = due(&mut announcer, 100);
        assert_eq!((frames.len(), frames[0][14 + 48], frames[1][18 + 48]), (2, 143, 131));
        assert_eq!(frames[1][..6], group_mac(ours), "version 1 reports to the group itself");
    }

    #[test]
    fn a_thousand_addresses_are_told_in_reports_that_fit_their_frames() {
        let addresses = (0..1024_u16).map(|n| IpAddr::from([0xfd77, 0, 0, 0, 0, 0, n, n]));
        let port = Port { vlans: Vlans::of(&[Vlan::Untagged]), ..Port::new(OUR_MAC, addresses) };
        let mut announcer = Announcer::new([port].into(), TICKS, Seed::new([5; 16]));
        let all = |announcer: &mut Announcer, from: Tick, until: Tick| {
            let mut frames: Vec<Vec<u8>> = Vec::new();
            let mut at = from;
            while at < until {
                let now = due(announcer, at);
                at += u64::from(now.is_empty());
                frames.extend(now);
            }
            assert!(frames.iter().all(|frame| frame.len() <= 14 + 1280));
            frames
        };
        let records = |frames: &[Vec<u8>]| {
            let of = |frame: &&Vec<u8>| frame[14 + 48] == 143;
            let count =
                |frame: &Vec<u8>| usize::from(u16::from_be_bytes([frame[14 + 54], frame[14 + 55]]));
            frames.iter().filter(of).map(count).collect::<Vec<_>>()
        };
        announcer.start_round(0, 0);
        let frames = all(&mut announcer, 0, 100);
        let reports = records(&frames);
        assert_eq!(
            (reports.len(), reports.iter().sum::<usize>(), frames.len()),
            (17, 1024, 1024 + 17)
        );
        // After the rounds: a query in each version.
        all(&mut announcer, 100, 10_000);
        announcer.note(0, Vlan::Untagged, query(None), 10_000);
        let frames = all(&mut announcer, 10_000, 20_000);
        assert_eq!((frames.len(), records(&frames).iter().sum::<usize>()), (17, 1024));
        announcer.note(0, Vlan::Untagged, MldQuery { is_v1: true, ..query(None) }, 20_000);
        assert!(all(&mut announcer, 20_000, 20_200).len() < 100, "not all of them at once");
        assert!(all(&mut announcer, 20_200, 29_000).len() > 900);
        assert!(due(&mut announcer, 99_999).is_empty(), "that was all");
    }

    #[test]
    fn reports_that_wait_are_bounded() {
        let mut announcer = announcer(&[Vlan::Untagged]);
        let mut note = |id: u16| announcer.note(0, Vlan::Tagged(id), query(None), 0);
        assert!((1..=MAX_REPORTS as u16).all(|id| note(id).is_some()));
        assert_eq!(note(4000), None);
    }
}
