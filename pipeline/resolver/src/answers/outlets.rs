//! Answers on their way out. Those for one core that transmits wait at one outlet, until the driver takes them all at once.

use std::vec::Drain;

use pmdns_nics::Frame;
use pmdns_stages::wire::edns::ExtendedError;
use pmdns_stages::wire::layout::Layout;
use pmdns_stages::{Packet, Tick};

use crate::origin::Origin;

/// An answer on its way to the core that transmits it.
#[derive(Debug)]
pub struct OutgoingAnswer {
    /// The whole answer.
    pub frame: Frame,
    /// When its query came.
    pub received: Tick,
    /// Where its headers are and what was asked.
    pub layout: Layout,
    /// Where the answer came from.
    pub origin: Origin,
    /// Why it is as it is, if there is more to say.
    pub why: Option<ExtendedError>,
}

impl OutgoingAnswer {
    /// The answer that this packet has become.
    pub fn new(packet: Packet, origin: Origin) -> Self {
        let Packet { frame, received, layout, extended_error: why, .. } = packet;
        Self { frame, received, layout, origin, why }
    }
}

const _: () =
    assert!(size_of::<OutgoingAnswer>() <= 64, "an answer crosses cores in one cache line");

/// The answers of one thread, by outlet. An answer waits only if its outlet has room for it. So no frame is held for an
/// answer that cannot leave, and the fate of every answer is known at once.
pub(crate) struct Outlets(Vec<Outlet>);

/// The answers for one core.
struct Outlet {
    answers: Vec<OutgoingAnswer>,
    /// How many may wait.
    room: usize,
    /// How many were dropped for want of room since the driver was told.
    refused: usize,
}

impl Outlets {
    /// Outlets with this room each, at most.
    pub(crate) fn new(rooms: &[usize]) -> Self {
        let outlet =
            |room: &usize| Outlet { answers: Vec::with_capacity(*room), room: *room, refused: 0 };
        Self(rooms.iter().map(outlet).collect())
    }

    /// Takes an answer, or drops it for want of room. Returns whether it was taken.
    pub(crate) fn push(&mut self, outlet: usize, answer: OutgoingAnswer) -> bool {
        let Outlet { answers, room, refused } = &mut self.0[outlet];
        let has_room = answers.len() < *room;
        if has_room {
            answers.push(answer);
        } else {
            *refused += 1;
        }
        has_room
    }

    /// Whether there is room for one of the many answers to a question. An eighth of the room is left to other questions.
    pub(crate) fn has_room_for_many(&self, outlet: usize) -> bool {
        let Outlet { answers, room, .. } = &self.0[outlet];
        answers.len() < room - room / 8
    }

    /// Takes out all answers that wait.
    pub(crate) fn take(&mut self, outlet: usize) -> Drain<'_, OutgoingAnswer> {
        self.0[outlet].answers.drain(..)
    }

    /// From now on so many may wait. Returns how many answers were dropped before.
    pub(crate) fn set_room(&mut self, outlet: usize, room: usize) -> usize {
        self.0[outlet].room = room;
        std::mem::take(&mut self.0[outlet].refused)
    }
}
