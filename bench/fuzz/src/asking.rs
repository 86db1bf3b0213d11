//! A pmdns whose upstreams are asked over its port, by the real cores, rings and port driver. A question about a new name is under
//! way whenever a frame comes, so that frames can be about it.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use pmdns_config::Config;
use pmdns_counters::Totals;
use pmdns_engine::clock::{Clock, FIRST_SECOND, SteppedTime};
use pmdns_engine::ring::RingSender;
use pmdns_engine::slowpath::{
    Inlets, OutgoingAnswer, PortDriver, SlowPathParts, send_answers, time,
};
use pmdns_engine::testing::Rig;
use pmdns_hierarchy::Rng;
use pmdns_nics::{Burst, Verified};
use pmdns_resolver::{Means, NetworkLimits, Output, Random, Resolver, Time};
use pmdns_stages::Step;
use pmdns_stages::ports::Port;
use pmdns_stages::query_sources::QuerySources;
use pmdns_stages::testing::{Hosts, query};
use pmdns_stages::wire::ip::{ETHERNET_LEN, IPV4_MIN_LEN, IPV6_LEN, PROTOCOL_UDP, UDP_LEN, v4, v6};
use pmdns_stages::wire::name::Seed;

use crate::forwarder::MAX_FRAME;

/// Our query sources and the upstreams, by family.
pub(crate) const SOURCES: [&str; 2] = ["10.77.0.60", "fd77::60"];
/// See [`SOURCES`].
pub(crate) const UPSTREAMS: [&str; 2] = ["192.0.2.1:53", "[2001:db8::1]:53"];
/// The hardware address of the gateways.
pub(crate) const FAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xfa];

/// The configuration.
const CONFIG: &str = r#"
    [control]
    socket = "unused"
    [acl]
    default = "allow"
    [[port]]
    name = "p0"
    device = "memory"
    addresses = ["10.77.0.2/24", "fd77::2/64"]
    query_sources = ["10.77.0.60", "fd77::60"]
    gateways = ["10.77.0.1", "fd77::1"]
    vlans = ["untagged", 7]
    [[upstream]]
    address = "192.0.2.1:53"
    port = "p0"
    [[upstream]]
    address = "[2001:db8::1]:53"
    port = "p0"
    group = "six"
    [[forward]]
    zone = "six"
    group = "six"
    [health]
    failures = 100
    [cache]
    size = "2MiB"
    pages = "normal"
"#;
/// What passes between two inputs. So fewer ICMP errors come in a second than are believed.
const STEP: Duration = Duration::from_millis(20);
/// Turns in which a question leaves.
const TURNS: usize = 8;
/// Datagrams for a query that do not belong to it, after which it goes over TCP.
const FLOOD: u64 = 32;

/// Inputs between two looks at all UDP ports.
const LOOK: usize = 256;
/// Tries that a question has.
const TRIES: usize = 8;

/// A pmdns that asks.
pub(crate) struct Asking {
    rig: Rig,
    time: SteppedTime,
    clock: Clock,
    resolver: Resolver,
    inlets: Inlets,
    outlets: Vec<RingSender<OutgoingAnswer>>,
    driver: PortDriver,
    sources: Arc<QuerySources>,
    far: Hosts,
    names: usize,
    inputs: usize,
    /// The last query that has left, by family, and the mismatches before it.
    asked: [Option<(Asked, u64)>; 2],
}

/// A query that has left.
#[derive(Clone)]
pub(crate) struct Asked {
    /// Our end.
    pub(crate) from: SocketAddr,
    /// The upstream.
    pub(crate) to: SocketAddr,
    /// The IP packet, which ICMP errors quote.
    pub(crate) packet: Vec<u8>,
    /// Where the message starts in it.
    pub(crate) message_at: usize,
}

impl Asking {
    /// One that has found its next hops.
    pub(crate) fn start() -> Self {
        let config = Config::from_toml(CONFIG).expect("a lawful configuration");
        let time = SteppedTime::default();
        let clock = Clock::stepped(time).with_first_second(FIRST_SECOND);
        let mut rig = Rig::of(&config, clock, Seed::new([7; 16]), 1024);
        let parts = rig.slow_path.remove(0);
        let SlowPathParts { resolver, inlets, ports, outlets, .. } = parts;
        let (port_parts, hops) = ports.expect("upstreams are asked over the port");
        let sources = Arc::clone(&port_parts.sources);
        let hosts = hops.routes.plans().iter().map(|plan| plan.address);
        let far = Hosts::new([Port::new(FAR_MAC, hosts)].into());
        let driver = PortDriver::new(port_parts, hops, UPSTREAMS.len(), random(1));
        let means = Means {
            time: pmdns_engine::slowpath::time(&clock),
            ticks: &|duration| clock.ticks_of(duration),
            random: random(2),
            outlets: outlets.iter().map(RingSender::capacity).collect(),
            limits: NetworkLimits { sockets: 64, port_queries: driver.max_queries(1).collect() },
        };
        let resolver = Resolver::new(resolver, means).expect("the groups have members");
        let asked = [None, None];
        let (names, inputs) = (0, 0);
        let mut asking = Self {
            rig,
            time,
            clock,
            resolver,
            inlets,
            outlets,
            driver,
            sources,
            far,
            names,
            inputs,
            asked,
        };
        (0..TURNS).for_each(|_| asking.turn());
        for is_ipv6 in [false, true] {
            assert!(asking.under_way(is_ipv6).is_some(), "the gateways are found");
        }
        asking
    }

    /// A query over this family that is under way. `None`: none leaves any more.
    pub(crate) fn under_way(&mut self, is_ipv6: bool) -> Option<Asked> {
        for turn in 0..TURNS {
            let waiting = self.asked[usize::from(is_ipv6)].as_ref().map(|(asked, _)| asked.clone());
            if let Some(asked) = waiting.filter(|asked| self.waits(asked)) {
                return Some(asked);
            }
            if turn == 0 {
                self.names += 1;
                let zone = if is_ipv6 { "six" } else { "four" };
                let frame = query(&format!("n{}.{zone}. A", self.names)).frame_bytes();
                self.offer(&frame, Verified::NOTHING);
            }
            self.turn();
        }
        None
    }

    /// Whether a query still waits for its reply.
    pub(crate) fn waits(&self, asked: &Asked) -> bool {
        let source = self.sources.find(0, asked.from.ip());
        source.is_some_and(|source| self.sources.owner(source, asked.from.port()).is_some())
    }

    fn mismatched(&self) -> u64 {
        let roster = self.rig.gauges.upstreams.roster();
        roster.slots().iter().map(|slot| slot.counters.snapshot().mismatched).sum()
    }

    /// A frame comes while a query of each family is under way. It ends one only if it has three things of that query in it: the
    /// UDP port, the id and the upstream's address. The last of many that do not belong to the query ends it too.
    pub(crate) fn hand(&mut self, bytes: &[u8], verified: Verified) {
        let before = self.totals();
        let waiting: Vec<(Asked, u64)> = self.asked.iter().flatten().cloned().collect();
        let waiting: Vec<_> = waiting.into_iter().filter(|(asked, _)| self.waits(asked)).collect();
        let bytes = &bytes[..bytes.len().min(MAX_FRAME)];
        self.offer(bytes, verified);
        self.rig.settle();
        let now = time(&self.clock);
        self.driver.receive(now, &mut self.resolver);
        self.carry_out(now);
        for (asked, mismatched) in waiting {
            let is_flooded = self.mismatched() - mismatched >= FLOOD;
            let is_known = has(bytes, &asked.from.port().to_be_bytes())
                && has(bytes, &asked.packet[asked.message_at..][..2])
                && match asked.to.ip() {
                    IpAddr::V4(upstream) => has(bytes, &upstream.octets()),
                    IpAddr::V6(upstream) => has(bytes, &upstream.octets()),
                };
            assert!(
                self.waits(&asked) || is_known || is_flooded,
                "it ends a query that it cannot know"
            );
        }
        self.turn();
        let after = self.totals();
        assert!(after.balance(), "{after:?}");
        assert!(after.received > before.received);
        assert_eq!(self.rig.pool.in_use(), 0, "every frame came back");
        self.time.advance(STEP);
        self.inputs += 1;
        if self.inputs.is_multiple_of(LOOK) {
            let (claimed, most) = (self.sources.claimed(), self.names);
            assert!(claimed <= TRIES * most, "{claimed} UDP ports have an owner");
        }
    }

    /// How many frames have come. One that has seen many is replaced, so that what was found can be replayed.
    pub(crate) fn inputs(&self) -> usize {
        self.inputs
    }

    fn totals(&self) -> Totals {
        let counters: Vec<_> = self.rig.workers.iter().map(|worker| worker.counters()).collect();
        pmdns_engine::counters::totals(&counters)
    }

    fn offer(&mut self, bytes: &[u8], verified: Verified) {
        let mut frame = self.rig.frame(bytes);
        frame.set_verified(verified);
        self.rig.offer(0, &mut Burst::from_iter([frame]));
    }

    /// All threads take a turn, and the gateways answer.
    fn turn(&mut self) {
        self.rig.settle();
        let now = time(&self.clock);
        self.inlets.take_rules(now, &mut self.resolver, |_| {});
        self.inlets.take_misses(now, &mut self.resolver);
        self.driver.receive(now, &mut self.resolver);
        self.resolver.turn(now);
        self.carry_out(now);
        self.rig.settle();
        for frame in self.rig.sent() {
            self.take(frame.bytes());
        }
        self.rig.settle();
        self.driver.receive(now, &mut self.resolver);
    }

    /// Does what the resolver wants done. Nobody listens for connections.
    fn carry_out(&mut self, now: Time) {
        while let Some(output) = self.resolver.next_output() {
            match output {
                Output::SendBatch { slot, route } => {
                    self.driver.send_batch(now, slot, route, &mut self.resolver);
                }
                Output::CloseBatch(slot) => self.driver.close_batch(slot),
                Output::Connect { slot, .. } => {
                    self.resolver.fail_connection(now, slot, &ErrorKind::ConnectionRefused.into());
                }
                _ => {}
            }
        }
        self.driver.flush();
        send_answers(&mut self.resolver, &mut self.outlets);
    }

    /// Takes a frame that was sent: a query, a question for a gateway, or an answer to a client.
    fn take(&mut self, frame: &[u8]) {
        let packet = frame.get(ETHERNET_LEN..).unwrap_or_default();
        let is_ipv6 = packet.first().is_some_and(|first| first >> 4 == 6);
        if let Some(asked) = read(packet, is_ipv6) {
            let mismatched = self.mismatched();
            self.asked[usize::from(is_ipv6)] = Some((asked, mismatched));
            return;
        }
        let packet = self.far.take(frame);
        if packet.step == Step::TRANSMIT {
            self.offer(packet.frame.bytes(), Verified::NOTHING);
        }
    }
}

/// The query in an IP packet, if it is one of ours.
fn read(packet: &[u8], is_ipv6: bool) -> Option<Asked> {
    let (l4, addresses, protocol) = match is_ipv6 {
        true => (IPV6_LEN, packet.get(v6::SOURCE..IPV6_LEN)?, packet[v6::NEXT_HEADER]),
        false => (IPV4_MIN_LEN, packet.get(v4::SOURCE..IPV4_MIN_LEN)?, packet[v4::PROTOCOL]),
    };
    if protocol != PROTOCOL_UDP {
        return None;
    }
    let (source, _) = addresses.split_at(addresses.len() / 2);
    let is = |text: &&str| match text.parse() {
        Ok(IpAddr::V4(address)) => source == address.octets(),
        Ok(IpAddr::V6(address)) => source == address.octets(),
        Err(_) => false,
    };
    let family = SOURCES.iter().position(|text| is(text))?;
    let port = packet.get(l4..l4 + 2)?.first_chunk().copied().map(u16::from_be_bytes)?;
    let message_at = l4 + UDP_LEN;
    packet.get(message_at..message_at + 2)?;
    Some(Asked {
        from: SocketAddr::new(SOURCES[family].parse().ok()?, port),
        to: UPSTREAMS[family].parse().ok()?,
        packet: packet.to_vec(),
        message_at,
    })
}

fn has(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

fn random(seed: u64) -> Random {
    let mut chance = Rng::new(seed);
    Random::new(move |bytes| {
        chance.fill(bytes);
        Ok(())
    })
}
