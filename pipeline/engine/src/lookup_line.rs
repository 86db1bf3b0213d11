//! The line of lookups: what becomes of a query, found by taking a made one through one of each stage.
//!
//! The stages are copies of those of the data cores. They read the same cache, and the same rules if these are lent to them.
//! Nothing else is shared, so nobody sees the query: no ring takes it, no meter counts it, no sample notes its hit. Limits are
//! off, for they are states of one core and a client's to use up. It comes by the port of health checks, which has an address of
//! each family.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use pmdns_config::narrow::to_u8;
use pmdns_config::{Config, StageName};
use pmdns_nics::{FramePool, HeapPool};
use pmdns_stages::acl::{Acl, Dropped};
use pmdns_stages::cache::Entry;
use pmdns_stages::miss::Miss;
use pmdns_stages::policy::Ruleset;
use pmdns_stages::ports::Ports;
use pmdns_stages::wire::dns::{Rcode, header};
use pmdns_stages::wire::edns::{self, ExtendedError};
use pmdns_stages::wire::ip::{ETHERNET_LEN, v4, v6};
use pmdns_stages::wire::name::Seed;
use pmdns_stages::wire::put16;
use pmdns_stages::{Answer, Batch, Context, Packet, Reason, Step};

use crate::line::Stages;
use crate::probe;
use crate::rule_names::RulesInUse;

/// The address of a client in no view: the last one before those of groups. No network has it.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(223, 255, 255, 255));
/// The same of IPv6: the last one of documentation.
const NOBODY_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, !0, !0, !0, !0, !0, !0));
/// The UDP port of the client.
const UDP_PORT: u16 = 40_000;
/// The UDP payload that it can take: the operator's limit decides.
const UDP_SIZE: u16 = u16::MAX;
/// Frames that one lookup has in use at a time.
pub const FRAMES: usize = 2;

/// One of each stage, which no core runs. It keeps no rules: each lookup gets a copy under those in use.
#[derive(Clone)]
pub struct LookupLine {
    stages: Stages,
    ports: Ports,
    pool: FramePool,
}

/// What becomes of a query.
#[derive(Debug)]
pub struct Passage {
    /// The packet. If it is transmitted, its frame is the answer.
    pub packet: Packet,
    /// The query as the slow path would get it.
    pub miss: Miss,
    /// Whether no query over UDP comes from its client. Then it is taken behind parse like one over a stream.
    pub is_impossible: bool,
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

/// Why a query cannot be taken through the stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPassage {
    /// As many lookups as may be are under way.
    #[error("there is no frame for the query; ask again")]
    NoFrame,
    /// It does not fit a frame.
    #[error("the query does not fit a packet")]
    TooLong,
    /// Parse has not read it.
    #[error("the stages do not read such a query")]
    NotRead,
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
    pub(crate) fn new(stages: Stages, ports: Ports, seed: Seed) -> Self {
        let (stages, pool) = (stages.without_limits(seed), FramePool::Heap(HeapPool::new(0)));
        let none = Arc::new(Ruleset::empty(seed));
        let acl = Acl::new(&Config::default(), &none);
        Self { stages, ports, pool }.ruled(Dropped::nobody(), acl, &none)
    }

    /// The same under these rules, with room for so many queries at a time.
    pub fn under(&self, in_use: &RulesInUse, frames: usize) -> Self {
        let (config, rules) = (in_use.config(), &in_use.rules);
        let pool = FramePool::Heap(HeapPool::new(frames));
        let own = Self { pool, ..self.clone() };
        own.ruled(Dropped::new(config), Acl::new(config, rules), rules)
    }

    fn ruled(mut self, mut dropped: Dropped, mut acl: Acl, rules: &Arc<Ruleset>) -> Self {
        let stages = &mut self.stages;
        stages.parse.swap_rules(&mut dropped);
        stages.acl.swap_rules(&mut acl);
        stages.lookup.swap_rules(&mut Arc::clone(rules));
        stages.policy.swap_rules(&mut Arc::clone(rules));
        stages.encode.swap_rules(&mut Arc::clone(rules));
        self
    }

    /// The generation of its rules.
    pub fn generation(&self) -> u16 {
        self.stages.policy.generation()
    }

    /// Takes the query of this client through all stages. Without a client it is that of one in no view, who may ask: it passes by
    /// acl.
    pub fn ask(
        &mut self,
        client: Option<IpAddr>,
        query: &[u8],
        context: &Context,
    ) -> Result<Passage, NoPassage> {
        let mut packet = self.parsed(client.unwrap_or(NOBODY), query, context)?;
        let is_impossible = packet.step == Step::drop(Reason::SourceAddress);
        if let Some(client) = client.filter(|_| is_impossible) {
            drop(packet);
            let stand_in = if client.is_ipv4() { NOBODY } else { NOBODY_V6 };
            packet = self.parsed(stand_in, query, context)?;
            set_source(&mut packet, client);
        }
        let (mut left, mut miss) = ([None; StageName::COUNT], None);
        left[StageName::Parse as usize] = Some(Left::of(&packet));
        let mut batch = Batch::new();
        batch.push(packet);
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
        let packet = batch.pop().ok_or(NoPassage::NotRead)?;
        if packet.step != Step::TRANSMIT {
            miss = self.miss(&packet);
        }
        let miss = miss.ok_or(NoPassage::NotRead)?;
        Ok(Passage { packet, miss, is_impossible, left })
    }

    /// The packet of a query from this address behind parse.
    fn parsed(
        &mut self,
        from: IpAddr,
        query: &[u8],
        context: &Context,
    ) -> Result<Packet, NoPassage> {
        let mut frame = self.pool.take().ok_or(NoPassage::NoFrame)?;
        let (port, number) =
            self.ports.last().zip(self.ports.len().checked_sub(1)).ok_or(NoPassage::NotRead)?;
        probe::write(&mut frame, port, (from, UDP_PORT).into(), query)
            .map_err(|_| NoPassage::TooLong)?;
        frame.set_port(to_u8(number));
        let mut batch = Batch::new();
        batch.push(Packet::arrived(frame, context.now));
        self.stages.process_at(StageName::Parse, &mut batch, context);
        batch.pop().ok_or(NoPassage::NotRead)
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

/// Puts the address of a client into a packet behind parse, in the place of one of the same family.
fn set_source(packet: &mut Packet, client: IpAddr) {
    let ip = &mut packet.frame.bytes_mut()[ETHERNET_LEN..];
    match client {
        IpAddr::V4(address) => ip[v4::SOURCE..][..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => ip[v6::SOURCE..][..16].copy_from_slice(&address.octets()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pmdns_stages::Step;

    use super::*;
    use crate::testing::{Rig, config};

    const NAME: &[u8] = b"\x03www\x07example\0";

    #[test]
    fn it_keeps_no_rules() {
        let rig = Rig::new(&config(""));
        let in_use = rig.gauges.names.in_use().unwrap();
        let (rules, lookups) = (Arc::downgrade(&in_use.rules), rig.lookups.clone());
        drop(lookups.under(&in_use, FRAMES));
        drop((rig, in_use));
        assert!(rules.upgrade().is_none(), "the rules of the start are free");
    }

    #[test]
    fn an_address_that_no_query_over_udp_has_is_looked_up_with_what_its_client_may() {
        let rig = Rig::new(&config("[acl]\nallow = [\"127.0.0.0/8\", \"192.0.2.0/24\"]\n"));
        let mut line = rig.lookups.under(&rig.gauges.names.in_use().unwrap(), FRAMES);
        let context = rig.gauges.clock.context(rig.gauges.clock.now());
        for (client, is_impossible, step) in [
            ("192.0.2.1", false, Step::SLOW_PATH),
            ("198.51.100.1", false, Step::TRANSMIT),
            ("127.0.0.1", true, Step::SLOW_PATH),
            ("::1", true, Step::TRANSMIT),
        ] {
            let client = client.parse().unwrap();
            let passage = line.ask(Some(client), &query(NAME, 1), &context).unwrap();
            let expected = (is_impossible, step);
            assert_eq!((passage.is_impossible, passage.packet.step), expected, "{client}");
        }
        let long = vec![0; 1 << 14];
        assert_eq!(line.ask(None, &long, &context).unwrap_err(), NoPassage::TooLong);
        let held: Vec<_> = (0..FRAMES).map(|_| line.ask(None, &query(NAME, 1), &context)).collect();
        assert!(held.iter().all(Result::is_ok));
        let more = line.ask(None, &query(NAME, 1), &context);
        assert_eq!(more.unwrap_err(), NoPassage::NoFrame);
    }
}
