//! A packet: a frame and the facts about it so far.

use arrayvec::ArrayVec;
use pmdns_config::StageName;
use pmdns_nics::Frame;
use pmdns_nics::stream::STREAM_MESSAGE;

use crate::answer::Answer;
use crate::ports::is_for_probes;
use crate::step::Step;
use crate::wire::dns::{Rcode, flag};
use crate::wire::edns::ExtendedError;
use crate::wire::layout::{Flags, Layout};
use crate::wire::query::ClientQuery;
use crate::wire::subnet::SCOPE;

/// A point in time, in ticks of the process's clock.
pub type Tick = u64;

/// Packets in hand, at most.
pub const MAX_BATCH: usize = 64;

/// Packets in hand. Everything on the line is done on batches.
pub type Batch = ArrayVec<Packet, MAX_BATCH>;

/// A frame, and what has been learnt about it. Crosses cores by value.
#[derive(Debug)]
pub struct Packet {
    /// The bytes.
    pub frame: Frame,
    /// Hash of the lower-cased qname, seeded per process; 0 before parse. Of a packet for the slow path that is no query, an
    /// [`Arrival`](crate::Arrival).
    pub key: u64,
    /// When it came.
    pub received: Tick,
    /// The answer that encode shall give.
    pub answer: Answer,
    /// Why, if there is more to say than the rcode does; clients without EDNS are not told.
    pub extended_error: Option<ExtendedError>,
    /// Where its headers are and what it asks.
    pub layout: Layout,
    /// Sum of the question's bytes, which is part of the answer's checksum as it is of the query's.
    pub question_sum: u16,
    /// Where on the line it stands.
    pub step: Step,
}

const _: () = assert!(size_of::<Packet>() <= 64, "a packet crosses cores in one cache line");

impl Packet {
    /// A packet that just arrived.
    #[inline]
    pub fn arrived(frame: Frame, now: Tick) -> Self {
        Self {
            frame,
            key: 0,
            received: now,
            answer: Answer::None,
            extended_error: None,
            layout: Layout::default(),
            question_sum: 0,
            step: Step::at(StageName::Parse),
        }
    }

    /// The packet that tells a stream client's connection that its query was dropped: the frame without a message.
    pub fn into_dropped_note(mut self) -> Self {
        let shortened = self.frame.resize(STREAM_MESSAGE);
        debug_assert!(shortened.is_ok(), "every frame of a stream has room for its header");
        Self { step: Step::TRANSMIT, answer: Answer::None, ..self }
    }

    /// The DNS query in the frame. Only parse has packets without one.
    #[inline]
    pub fn query(&self) -> ClientQuery<'_> {
        ClientQuery::new(&self.frame.bytes()[self.layout.dns()..], self.layout)
    }

    /// Refuses a query that does not want recursion, after what is ours has been looked for (RFC 8914 section 4.21), and
    /// says whether it is one. From the cache nobody gets to know what others asked.
    pub(crate) fn refuse_unless_recursive(&mut self) -> bool {
        let is_refused = !self.wants_recursion();
        if is_refused {
            self.answer = Answer::Rcode(Rcode::REFUSED);
            self.extended_error = Some(ExtendedError::NOT_AUTHORITATIVE);
        }
        is_refused
    }

    /// Whether the client wants us to ask others.
    pub(crate) fn wants_recursion(&self) -> bool {
        self.query().flags() & flag::RD != 0
    }

    /// Whether it is the query of a health check. Its address is one of no port that clients can send to.
    pub(crate) fn is_probe(&self) -> bool {
        is_for_probes(self.layout, self.frame.bytes())
    }

    /// Notes for how long a prefix of the client's network the answer is; a client that said nothing of its network
    /// is not told.
    pub fn set_scope(&mut self, scope: u8) {
        if self.layout.flags.has(Flags::SUBNET) {
            self.frame.bytes_mut()[self.layout.subnet_at() + SCOPE] = scope;
        }
    }
}
