//! A miss: a question for the slow path, and all that answering its client takes.
//!
//! It keeps the frame's bytes from the Ethernet header to the end of the question, and the answer's cookie and subnet.
//! It does not keep the frame, so waiting misses take nothing from the frame pool. From it the slow path rebuilds the
//! packet in a fresh frame and has it answered by the same encode that answers hits.

use pmdns_config::narrow::to_u16;
use pmdns_nics::FramePool;

use crate::answer::Answer;
use crate::answer::LocalRef;
use crate::cache::Key;
use crate::packet::{Packet, Tick};
use crate::ports::is_for_probes;
use crate::step::Step;
use crate::wire::dns::{HEADER_LEN, QUESTION_FIXED_LEN};
use crate::wire::edns::COOKIE_LEN;
use crate::wire::ip::{ETHERNET_LEN, MAX_VLAN_TAGS, UDP_LEN, VLAN_LEN};
use crate::wire::layout::{Flags, Layout};
use crate::wire::name::MAX_NAME;
use crate::wire::query::ClientQuery;
use crate::wire::subnet::{SUBNET_LEN, Subnet, data_in};

/// Longest IPv4 header (RFC 791 section 3.1).
const MAX_IP_LEN: usize = 60;

/// Headers, question, cookie and subnet of the longest query.
pub const MAX_MISS: usize = ETHERNET_LEN
    + MAX_VLAN_TAGS * VLAN_LEN
    + MAX_IP_LEN
    + UDP_LEN
    + HEADER_LEN
    + MAX_NAME
    + QUESTION_FIXED_LEN
    + COOKIE_LEN
    + SUBNET_LEN;

/// A question for the slow path.
pub struct Miss {
    /// Hash of the name alone, as in [`Packet::key`].
    pub key: u64,
    /// When the query came.
    pub received: Tick,
    layout: Layout,
    /// The alias that a rule answers with, whose target is to be resolved.
    alias: Option<LocalRef>,
    question_sum: u16,
    /// The generation of the rules that have judged it; 0: it is not known.
    judged: u16,
    port: u8,
    len: u16,
    bytes: [u8; MAX_MISS],
}

impl Miss {
    /// The miss of a packet that the line sent to the slow path. `judged` is the generation of the rules that let it pass;
    /// 0: it is not known.
    #[inline]
    pub fn of(packet: &Packet, judged: u16) -> Self {
        let layout = packet.layout;
        let len = layout.kept_end();
        let mut bytes = [0; MAX_MISS];
        bytes[..len].copy_from_slice(&packet.frame.bytes()[..len]);
        Self {
            key: packet.key,
            received: packet.received,
            layout,
            alias: match packet.answer {
                Answer::Local(found) => Some(found),
                _ => None,
            },
            question_sum: packet.question_sum,
            judged,
            port: packet.frame.port(),
            len: to_u16(len),
            bytes,
        }
    }

    /// The query as far as it is kept. What its OPT record said is in the layout.
    #[inline]
    pub fn query(&self) -> ClientQuery<'_> {
        ClientQuery::new(&self.bytes[self.layout.dns()..usize::from(self.len)], self.layout)
    }

    /// Whether the client asks over a stream.
    pub fn is_from_stream(&self) -> bool {
        self.layout.is_stream()
    }

    /// The port that it came by, and its answer leaves by.
    #[inline]
    pub fn port(&self) -> u8 {
        self.port
    }

    /// The cache's key of the question.
    #[inline]
    pub fn key(&self) -> Key<'_> {
        Key::of(self.query())
    }

    /// The alias that a rule answers with, whose target is to be resolved instead of the question.
    #[inline]
    pub fn alias(&self) -> Option<LocalRef> {
        self.alias
    }

    /// The generation of the rules that have judged it; 0: it is not known.
    #[inline]
    pub fn judged(&self) -> u16 {
        self.judged
    }

    /// The same miss as other rules have it: about this alias, or about none.
    pub fn judged_again(&self, judged: u16, alias: Option<LocalRef>) -> Self {
        Self { judged, alias, ..self.clone() }
    }

    /// The client's IP address, 4 or 16 bytes.
    #[inline]
    pub fn client(&self) -> &[u8] {
        self.layout.client(&self.bytes)
    }

    /// The port of the client that asked.
    pub fn client_port(&self) -> u16 {
        self.layout.client_port(&self.bytes)
    }

    /// Whether it is the query of a health check, whose client is only said to have asked.
    pub fn is_probe(&self) -> bool {
        is_for_probes(self.layout, &self.bytes)
    }

    /// The network that the client says it is in, if it does.
    pub fn subnet(&self) -> Option<Subnet> {
        let kept = self.bytes.get(self.layout.subnet_at()..usize::from(self.len))?;
        let is_there = self.layout.flags.has(Flags::SUBNET);
        is_there.then(|| Subnet::read(data_in(kept))).flatten().map(|(subnet, _)| subnet)
    }

    /// The packet again, in a fresh frame, ready for encode; `None` when the pool is empty.
    pub fn packet(&self, pool: &FramePool, answer: Answer) -> Option<Packet> {
        let mut frame = pool.take()?;
        frame.resize(usize::from(self.len)).ok()?;
        frame.bytes_mut().copy_from_slice(&self.bytes[..usize::from(self.len)]);
        frame.set_port(self.port);
        Some(Packet {
            frame,
            key: self.key,
            received: self.received,
            answer,
            extended_error: None,
            layout: self.layout,
            question_sum: self.question_sum,
            step: Step::ANSWER,
        })
    }
}

impl Clone for Miss {
    fn clone(&self) -> Self {
        Self { ..*self }
    }

    /// Copies no more bytes than are kept.
    fn clone_from(&mut self, other: &Self) {
        let Self { key, received, layout, alias, question_sum, judged, port, len, ref bytes } =
            *other;
        let kept = usize::from(len);
        self.bytes[..kept].copy_from_slice(&bytes[..kept]);
        (self.key, self.received, self.layout, self.alias) = (key, received, layout, alias);
        (self.question_sum, self.judged, self.port, self.len) = (question_sum, judged, port, len);
    }
}

impl std::fmt::Debug for Miss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Miss").field("query", &self.query()).finish_non_exhaustive()
    }
}
