//! Health checks' queries: real packets that enter the line of each data core that polls ports, and whose answers come out.
//!
//! They come from a port of their own, behind all others. A data core looks for them in its housekeeping. Stages, rings and
//! the slow path cannot tell them from a client's. Their answers leave by a TX queue like any other, which here is a ring
//! back to the main thread. So nothing is polled, and no packet is looked at, for a check that nobody asks for.

use std::net::{IpAddr, SocketAddr};

use pmdns_config::narrow::{to_u8, to_u16};
use pmdns_nics::{Burst, Frame, FramePool, TooLong, TxQueue};
use pmdns_stages::datagram::{self, Endpoints};
use pmdns_stages::ports::{PROBED_V4, PROBED_V6, Port};
use pmdns_stages::wire::dns::{CLASS_IN, rtype};

use crate::ring::{RingReceiver, RingSender, ring};
use crate::topology::Topology;
use crate::transmitter::Transmitter;
use crate::worker::WorkerEnds;

/// The name of the port in reports.
pub const PORT_NAME: &str = "probe";
/// Probes that may wait for one data core.
const SLOTS: usize = 4;
/// The UDP port that the first data core's probes come from. Each core has its own, by which answers are told apart.
const FIRST_UDP_PORT: u16 = 40_000;
const DNS_PORT: u16 = 53;
/// Where frames without tags have IP.
const L3: usize = 14;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
/// Where a datagram has the receiver's port, and DNS its id and its rcode.
const UDP_TO: usize = 2;
const ID: usize = 8;
const RCODE: usize = ID + 3;

/// The main thread's ends.
pub struct Prober {
    /// By worker that polls ports.
    entrances: Vec<(usize, RingSender<Frame>)>,
    exits: Vec<RingReceiver<Frame>>,
    pool: FramePool,
    port: Port,
    number: u8,
}

/// An answer to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeAnswer {
    /// The worker whose line it has gone through.
    pub worker: usize,
    /// The id of the query.
    pub id: u16,
    /// Its rcode.
    pub rcode: u8,
}

/// Makes the port, which gets the number behind all others. The workers hold the other ends.
pub(crate) fn lay(topology: &Topology, pool: &FramePool, workers: &mut [WorkerEnds]) -> Prober {
    let (mut entrances, mut exits) = (Vec::new(), Vec::new());
    let pollers = topology.workers.iter().filter(|worker| worker.rx_queue.is_some()).count();
    for (index, (plan, worker)) in topology.workers.iter().zip(workers).enumerate() {
        if plan.rx_queue.is_some() {
            let (sender, receiver) = ring(SLOTS);
            entrances.push((index, sender));
            worker.probes = Some(receiver);
        }
        if plan.tx_queue.is_some() {
            let (sender, receiver) = ring(SLOTS * pollers);
            exits.push(receiver);
            worker.transmitters.push(Transmitter::new(Box::new(Exit(sender))));
        }
    }
    let number = to_u8(topology.ports.len());
    Prober { entrances, exits, pool: pool.clone(), port: Port::probes(), number }
}

impl Prober {
    /// The workers whose lines are asked.
    pub fn workers(&self) -> impl Iterator<Item = usize> {
        self.entrances.iter().map(|(worker, _)| *worker)
    }

    /// Has this client ask each of them for the address of `name`. A core that has not taken the last ones gets no more.
    pub fn ask(&mut self, id: u16, client: IpAddr, name: &[u8]) {
        let message = message(id, name, rtype::A);
        for (worker, entrance) in &mut self.entrances {
            let Some(mut frame) = self.pool.take() else { return };
            let from = SocketAddr::new(client, FIRST_UDP_PORT + to_u16(*worker));
            if write(&mut frame, &self.port, from, &message).is_ok() {
                frame.set_port(self.number);
                // A full ring: the core is stuck, and its probes wait there already.
                let _ = entrance.push(frame);
            }
        }
    }

    /// The answers that have come out since the last call, late ones among them.
    pub fn answers(&mut self) -> Vec<ProbeAnswer> {
        let mut answers = Vec::new();
        for exit in &mut self.exits {
            for _ in 0..exit.len() {
                answers.extend(exit.pop().and_then(|frame| read(frame.bytes())));
            }
        }
        answers
    }
}

/// The TX queue of the port on one core.
struct Exit(RingSender<Frame>);

impl TxQueue for Exit {
    fn transmit(&mut self, burst: &mut Burst) -> usize {
        self.0.push_batch(burst)
    }
}

/// Writes the frame of a query from here to the port of health checks.
pub(crate) fn write(
    frame: &mut Frame,
    port: &Port,
    from: SocketAddr,
    message: &[u8],
) -> Result<(), TooLong> {
    let ours: IpAddr = match from {
        SocketAddr::V4(_) => PROBED_V4.into(),
        SocketAddr::V6(_) => PROBED_V6.into(),
    };
    let to = SocketAddr::new(ours, DNS_PORT);
    datagram::write(frame, port, Endpoints { next_hop: port.mac, from, to }, message)
}

/// A query that wants recursion.
pub(crate) fn message(id: u16, name: &[u8], qtype: u16) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend([0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    message.extend(name);
    message.extend(qtype.to_be_bytes());
    message.extend(CLASS_IN.to_be_bytes());
    message
}

/// Reads an answer, which our own line has written.
fn read(frame: &[u8]) -> Option<ProbeAnswer> {
    let l4 = L3 + if *frame.get(L3)? >> 4 == 4 { IPV4_LEN } else { IPV6_LEN };
    let field = |at: usize| frame.get(l4 + at..)?.first_chunk().map(|it| u16::from_be_bytes(*it));
    let worker = usize::from(field(UDP_TO)?.checked_sub(FIRST_UDP_PORT)?);
    Some(ProbeAnswer { worker, id: field(ID)?, rcode: frame.get(l4 + RCODE)? & 0xf })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rig, config};
    use pmdns_config::wire_name;

    const NO_ERROR: u8 = 0;
    const REFUSED: u8 = 5;
    const SPLIT: &str = "[[placement]]\nstages = \"parse..ratelimit\"\ncores = [1, 2]\n\
        [[placement]]\nstages = \"lookup..encode\"\ncores = [3]\n";

    fn answers(rig: &mut Rig, client: &str) -> Vec<ProbeAnswer> {
        let name = wire_name("localhost").unwrap();
        rig.prober.ask(7, client.parse().unwrap(), &name);
        // The workers' first turns are housekeeping.
        rig.settle();
        rig.prober.answers()
    }

    #[test]
    fn a_probe_goes_through_the_line_of_each_core_that_polls() {
        for (placement, workers) in [("", 1), (SPLIT, 2)] {
            for client in ["192.0.2.1", "2001:db8::1"] {
                let mut rig = Rig::new(&config(placement));
                let mut found = answers(&mut rig, client);
                found.sort_by_key(|answer| answer.worker);
                let rcode = NO_ERROR;
                let wanted: Vec<_> =
                    (0..workers).map(|worker| ProbeAnswer { worker, id: 7, rcode }).collect();
                assert_eq!(found, wanted, "{client} {placement}");
                assert!(rig.sent().is_empty(), "nothing leaves by the wire");
                let counters: Vec<_> = rig.workers.iter().map(|one| one.counters()).collect();
                let totals = crate::counters::totals(&counters);
                assert!(totals.balance() && totals.made == workers as u64, "{totals:?}");
                let probes: u64 = counters.iter().map(|one| one.tally.probes).sum();
                assert_eq!((probes, rig.pool.in_use()), (workers as u64, 0));
            }
        }
    }

    #[test]
    fn a_core_that_does_not_turn_does_not_answer_and_its_probes_have_a_bound() {
        let mut rig = Rig::new(&config(""));
        let name = wire_name("localhost").unwrap();
        for id in 0..3 * SLOTS {
            rig.prober.ask(to_u16(id), "192.0.2.1".parse().unwrap(), &name);
        }
        assert_eq!((rig.prober.answers(), rig.pool.in_use()), (vec![], SLOTS));
    }

    #[test]
    fn a_client_that_may_not_ask_is_refused() {
        let mut rig = Rig::new(&config("[acl]\nallow = [\"10.0.0.0/8\"]\n"));
        let found = answers(&mut rig, "192.0.2.1");
        assert_eq!(found[0].rcode, REFUSED);
    }
}
