//! The line of lookups: what becomes of a query, found by taking a made one through one of each stage.
//!
//! The stages are copies of those of the data cores. They read the same cache, and the same rules if these are lent to them.
//! Nothing else is shared, so nobody sees the query: no ring takes it, no meter counts it, no sample notes its hit. Limits are
//! off, for they are states of one core and a client's to use up. It comes by the port of health checks, which has an address of
//! each family.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use pmdns_config::StageName;
use pmdns_config::narrow::to_u8;
use pmdns_nics::{FramePool, HeapPool};
use pmdns_stages::acl::{Acl, Dropped};
use pmdns_stages::cache::Entry;
use pmdns_stages::miss::Miss;
use pmdns_stages::policy::Ruleset;
use pmdns_stages::ports::Ports;
use pmdns_stages::wire::dns::{Rcode, header};
use pmdns_stages::wire::edns::{self, ExtendedError};
use pmdns_stages::wire::name::Seed;
use pmdns_stages::wire::put16;
use pmdns_stages::{Answer, Batch, Context, Packet, Step};

use crate::line::Stages;
use crate::probe;
use crate::rule_names::RulesInUse;

/// The address of a client in no view: the last one before those of groups. No network has it.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(223, 255, 255, 255));
/// The UDP port of the client.
const UDP_PORT: u16 = 40_000;
/// The UDP payload that it can take: the operator's limit decides.
const UDP_SIZE: u16 = u16::MAX;
/// Frames in use at a time.
const FRAMES: usize = 2;

/// One of each stage, which no core runs.
#[derive(Clone)]
pub struct LookupLine {
    stages: Stages,
    rules: Arc<Ruleset>,
    ports: Ports,
    pool: FramePool,
}

/// What becomes of a query.
#[derive(Debug)]
pub struct Passage {
    /// The packet. If it is transmitted, its frame is the answer.
    pub packet: Packet,
    /// The query as the slow path would get it; `None`: parse has not read it.
    pub miss: Option<Miss>,
    /// By stage, how the packet left it.
    left: [Option<Left>; StageName::COUNT],
}

/// How a packet left a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Where it went.
    pub step: Step,
    /// The answer that it had then.
    pub answer: Answer,
    /// The reason of that answer.
    pub extended_error: Option<ExtendedError>,
}

impl Left {
    /// How this packet has left the stage before.
    pub fn of(packet: &Packet) -> Self {
        let Packet { step, answer, extended_error, .. } = *packet;
        Self { step, answer, extended_error }
    }
}

impl Passage {
    /// How the packet left a stage; `None`: it did not come there.
    pub fn left(&self, stage: StageName) -> Option<Left> {
        self.left[stage as usize]
    }

    /// The answer that the client gets; `None`: it is dropped, or the slow path has to answer.
    pub fn message(&self) -> Option<&[u8]> {
        message(&self.packet)
    }
}

/// The DNS message of a packet that is transmitted.
pub fn message(packet: &Packet) -> Option<&[u8]> {
    let is_sent = packet.step == Step::TRANSMIT;
    is_sent.then(|| packet.frame.bytes().get(packet.layout.dns()..)).flatten()
}

/// A query in class IN that wants recursion, has EDNS, and does not ask for signatures.
pub fn query(name: &[u8], qtype: u16) -> Vec<u8> {
    let mut message = probe::message(0, name, qtype);
    put16(&mut message, header::ARCOUNT, 1);
    message.extend(edns::opt(UDP_SIZE, Rcode::NOERROR, false));
    message
}

impl LookupLine {
    /// The line of lookups beside the cores that `stages` are copied to. The last of the ports is that of health checks.
    pub(crate) fn new(stages: Stages, rules: Arc<Ruleset>, ports: Ports, seed: Seed) -> Self {
        Self {
            stages: stages.without_limits(seed),
            rules,
            ports,
            pool: FramePool::Heap(HeapPool::new(FRAMES)),
        }
    }

    /// The same under these rules.
    pub fn under(&self, in_use: &RulesInUse) -> Self {
        let RulesInUse { rules, .. } = in_use;
        let pool = FramePool::Heap(HeapPool::new(FRAMES));
        let mut own = Self { rules: Arc::clone(rules), pool, ..self.clone() };
        let Stages { parse, acl, lookup, policy, encode, .. } = &mut own.stages;
        parse.swap_rules(&mut Dropped::new(in_use.config()));
        acl.swap_rules(&mut Acl::new(in_use.config(), rules));
        lookup.swap_rules(&mut Arc::clone(rules));
        policy.swap_rules(&mut Arc::clone(rules));
        encode.swap_rules(&mut Arc::clone(rules));
        own
    }

    /// The generation of its rules.
    pub fn generation(&self) -> u16 {
        self.rules.generation()
    }

    /// Takes the query of this client through all stages. `None`: it does not fit a frame. Without a client it is that of one in no
    /// view, who may ask: it passes by acl.
    pub fn ask(
        &mut self,
        client: Option<IpAddr>,
        query: &[u8],
        context: &Context,
    ) -> Option<Passage> {
        let number = self.ports.len().checked_sub(1)?;
        let mut frame = self.pool.take()?;
        let from = (client.unwrap_or(NOBODY), UDP_PORT).into();
        probe::write(&mut frame, &self.ports[number], from, query).ok()?;
        frame.set_port(to_u8(number));
        let mut batch = Batch::new();
        batch.push(Packet::arrived(frame, context.now));
        let (mut left, mut miss) = ([None; StageName::COUNT], None);
        for stage in StageName::ALL.iter().copied() {
            if batch[0].step != Step::at(stage) {
                continue;
            }
            if stage == StageName::Acl && client.is_none() {
                batch[0].step = Step::after(stage);
                continue;
            }
            if stage == StageName::Encode {
                miss = self.miss(&batch[0]);
            }
            self.stages.process_at(stage, &mut batch, context);
            left[stage as usize] = Some(Left::of(&batch[0]));
        }
        let packet = batch.pop()?;
        if packet.step != Step::TRANSMIT {
            miss = self.miss(&packet);
        }
        Some(Passage { packet, miss, left })
    }

    fn miss(&self, packet: &Packet) -> Option<Miss> {
        let is_read = packet.layout.name_len > 0;
        is_read.then(|| Miss::of(packet, self.generation()))
    }

    /// The packet that a client gets with this entry of the slow path.
    pub fn give(&self, miss: &Miss, entry: &Entry, context: &Context) -> Option<Packet> {
        let mut packet = miss.packet(&self.pool, Answer::None)?;
        packet.step = self.stages.encode.answer_with(&mut packet, entry, context);
        Some(packet)
    }
}
