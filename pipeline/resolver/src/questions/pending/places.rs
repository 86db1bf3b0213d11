//! Which client gets a place in the pending table, and which one loses its place for it.

use super::{Expired, Limit, Pending, Ticket};
use crate::questions::prefixes::{Client, ClientPrefix};
use crate::questions::question::Question;

/// The most waiters of a question that are searched for one of another prefix.
const MAX_LOOKED_AT: usize = 32;
/// The most questions that are charged to another prefix while the search looks for one to end.
const MAX_PASSED_ON: usize = 8;

/// The question or client that has to go to make room.
#[derive(Debug)]
pub(crate) enum Displaced {
    /// A question. It is under way until it is settled.
    Question(Ticket),
    /// One waiter, who has left.
    Waiter(Box<Expired>),
}

impl<T> Pending<T> {
    /// Returns what has to go before a client can wait for the answer to `question`; `None`: nothing has to go. An
    /// error is the limit that keeps the client out.
    pub(crate) fn displace(
        &mut self,
        question: &Question,
        client: Client,
    ) -> Result<Option<Displaced>, Limit> {
        let Some(limit) = self.refuses(question, client) else { return Ok(None) };
        let displaced = match limit {
            Limit::Waiting => {
                let heaviest = self.seat_shares.heavier_than(client.prefix);
                heaviest.map(|heaviest| Displaced::Waiter(Box::new(self.leave(heaviest.oldest))))
            }
            Limit::Questions => self.displaceable(client.prefix).map(Displaced::Question),
            Limit::WaitingPerClient | Limit::WaitingPerPrefix => None,
        };
        displaced.map(Some).ok_or(limit)
    }

    /// The prefix that the question in `slot` is charged to.
    fn charged_for(&mut self, slot: u32) -> ClientPrefix {
        let hold = &self.questions[slot as usize].hold;
        hold.as_ref().map_or(ClientPrefix::OURS, |hold| self.slot_shares.key_of(hold))
    }

    /// The limit that keeps a client out. A client's own limits come first: nobody else makes room for a client beyond
    /// those.
    pub(crate) fn refuses(
        &mut self,
        question: &Question,
        Client { address, prefix }: Client,
    ) -> Option<Limit> {
        if self.clients.get(&address).copied().unwrap_or(0) >= self.limits.waiting_per_client {
            return Some(Limit::WaitingPerClient);
        }
        if self.seat_shares.held_by(prefix) >= self.limits.waiting_per_prefix() {
            return Some(Limit::WaitingPerPrefix);
        }
        if self.seat_shares.is_full() {
            return Some(Limit::Waiting);
        }
        (self.is_full() && !self.slots.contains_key(question)).then_some(Limit::Questions)
    }

    /// Whether clients have all the questions that they may have.
    pub(crate) fn is_full(&self) -> bool {
        self.slot_shares.held() + self.ours.max(self.limits.kept) >= self.limits.questions
    }

    /// The question that has to go before another can begin for clients of `prefix`, who wait already. `None`: it can
    /// begin, or no prefix holds more than theirs.
    pub(crate) fn displace_for(&mut self, prefix: ClientPrefix) -> Option<Ticket> {
        let is_charged = prefix != ClientPrefix::OURS && self.is_full();
        if is_charged { self.displaceable(prefix) } else { None }
    }

    /// The question to end for one of `prefix`. A question that another prefix also waits for is charged to that one
    /// instead.
    fn displaceable(&mut self, prefix: ClientPrefix) -> Option<Ticket> {
        for _ in 0..MAX_PASSED_ON {
            let slot = self.slot_shares.heavier_than(prefix)?.oldest;
            let charged = self.charged_for(slot);
            let asked = &self.questions[slot as usize];
            let ticket = Ticket { slot, serial: asked.serial };
            let other = (self.seats.iter(asked.waiting).take(MAX_LOOKED_AT))
                .map(|(_, seat)| seat.client.prefix)
                .find(|prefix| *prefix != charged);
            match other {
                Some(other) => self.charge(slot, other),
                None => return Some(ticket),
            }
        }
        None
    }

    /// The client prefix that a question is charged to.
    pub(crate) fn prefix_of(&mut self, ticket: Ticket) -> Option<ClientPrefix> {
        self.find(ticket)?;
        Some(self.charged_for(ticket.slot))
    }

    /// The client prefixes that a question can be charged to, the one that it is charged to first.
    pub(crate) fn prefixes_of(&mut self, ticket: Ticket) -> Vec<ClientPrefix> {
        let mut prefixes: Vec<_> = self.prefix_of(ticket).into_iter().collect();
        let Some(asked) = self.questions.get(ticket.slot as usize) else { return prefixes };
        for (_, seat) in self.seats.iter(asked.waiting).take(MAX_LOOKED_AT) {
            let prefix = seat.client.prefix;
            if !prefixes.contains(&prefix) {
                prefixes.push(prefix);
            }
        }
        prefixes
    }

    /// Charges a question to another prefix, whose client waits for it as well.
    pub(crate) fn pass_on(&mut self, ticket: Ticket, prefix: ClientPrefix) {
        if self.find(ticket).is_some() {
            self.charge(ticket.slot, prefix);
        }
    }

    /// Charges the question in `slot` to `prefix`, unless it is already.
    pub(crate) fn charge(&mut self, slot: u32, prefix: ClientPrefix) {
        if let Some(hold) = &mut self.questions[slot as usize].hold
            && self.slot_shares.key_of(hold) != prefix
        {
            self.slot_shares.pass_on(hold, prefix);
        }
    }
}
