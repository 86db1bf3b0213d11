//! Answers that names do not exist, under the redirections. Lookup, the slow path and people who ask why get the same decision.

use super::Ruleset;
use crate::answer::{Answer, LocalRef};
use crate::cache::{Entry, Head, Key, Words};
use crate::packet::Packet;
use crate::policy::list_number::ListNumber;
use crate::wire::dns::Rcode;

/// The answer to a client that is redirected.
#[derive(Clone, Copy, Debug)]
pub struct Redirected<'r> {
    /// The place of the redirection in the configuration.
    pub place: u8,
    /// The addresses; `None`: it has none of the type that is asked for, and the answer has no records.
    pub entry: Option<&'r Entry>,
}

impl Ruleset {
    /// Puts the addresses of a redirection in the place of the answer that a packet was to get, if one is about it. Says
    /// whether it did.
    pub(super) fn redirect(&self, packet: &mut Packet, head: &Head, answer: &impl Words) -> bool {
        let view = packet.layout.who.view();
        let found = self.read.redirects.find(Key::of(packet.query()), head, view);
        // What was read of the cache may be no entry any more, and encode finds that out.
        let Some((place, number)) = found.filter(|_| answer.is_valid()) else { return false };
        packet.answer = match number {
            Some(number) => Answer::Local(LocalRef { generation: self.generation, number }),
            None => Answer::Rcode(Rcode::NOERROR),
        };
        packet.extended_error = Some(ListNumber::Redirect(place).as_reason());
        true
    }

    /// The answer to a client in `view` instead of this one to `key`, if it is redirected.
    pub fn redirected(&self, key: Key<'_>, answer: &Head, view: u8) -> Option<Redirected<'_>> {
        let (place, number) = self.read.redirects.find(key, answer, view)?;
        Some(Redirected { place, entry: number.and_then(|number| self.entry_of(number)) })
    }

    /// Whether clients in one of the views that share this answer are redirected.
    pub(super) fn redirects_in_scope(&self, key: Key<'_>, answer: &Head) -> bool {
        let redirects = &self.read.redirects;
        !redirects.are_none()
            && self.views_of(key.scope()).any(|view| redirects.find(key, answer, view).is_some())
    }
}
