//! The network, as drivers tell of it: what has come, what has failed, and what they need to send queries. Slots are those of
//! [`crate::Output`].

use std::io;
use std::net::IpAddr;

use super::{Resolver, Time};
use crate::upstreams::encrypted::EncryptedReport;
use crate::upstreams::port_replies::Arrived;
use crate::upstreams::query::Query;

impl Resolver {
    /// Passes each message of a batch to `send`, until one fails. `local` gives the local address of its socket.
    pub fn send_messages<E>(
        &mut self,
        slot: usize,
        local: impl FnOnce() -> Option<IpAddr>,
        send: impl FnMut(&Query) -> Result<(), E>,
    ) -> Result<(), E> {
        self.upstreams.send_messages(slot, local, send)
    }

    /// The bytes to send over a connection. `local` gives the local address of its socket.
    pub fn outgoing(&mut self, slot: usize, local: impl FnOnce() -> Option<IpAddr>) -> &[u8] {
        self.upstreams.outgoing(slot, local)
    }

    /// `len` of these bytes have been sent.
    pub fn note_sent(&mut self, slot: usize, len: usize) {
        self.upstreams.note_sent(slot, len);
    }

    /// Whether there is a batch in this slot.
    pub fn has_batch(&self, slot: usize) -> bool {
        self.upstreams.has_batch(slot)
    }

    /// Whether there is a connection in this slot.
    pub fn has_connection(&self, slot: usize) -> bool {
        self.upstreams.has_connection(slot)
    }

    /// Takes in a datagram that has come for a batch.
    pub fn receive_batch(&mut self, now: Time, slot: usize, datagram: &[u8]) {
        self.set_time(now);
        if let Some(replied) = self.upstreams.receive_batch(slot, datagram) {
            self.conclude(replied, datagram);
        }
        self.learn_failures();
    }

    /// Takes in an arrival over a port for a batch. Says whether it was the reply to a query.
    pub fn receive_port(&mut self, now: Time, slot: usize, arrived: Arrived<'_>) -> bool {
        self.set_time(now);
        let replied = self.upstreams.receive_port(slot, arrived);
        let is_reply = replied.is_some();
        if let Some(replied) = replied
            && let Arrived::Datagram { message, .. } = arrived
        {
            self.conclude(replied, message);
        }
        self.learn_failures();
        is_reply
    }

    /// Something has come over a port that belongs to no query.
    pub fn note_unclaimed(&self) {
        self.upstreams.note_unclaimed();
    }

    /// The way to an upstream is open again: if it rests, it is probed at once.
    pub fn hurry(&mut self, now: Time, upstream: usize) {
        self.set_time(now);
        self.upstreams.peers.hurry(upstream);
    }

    /// No socket could be opened for a batch.
    pub fn fail_batch(&mut self, now: Time, slot: usize, error: &io::Error) {
        self.set_time(now);
        self.upstreams.fail_batch(slot, error);
        self.learn_failures();
    }

    /// No UDP port of ours was free for a batch.
    pub fn shed_batch(&mut self, now: Time, slot: usize) {
        self.set_time(now);
        self.upstreams.shed_batch(slot);
        self.learn_failures();
    }

    /// Ends a batch whose socket reported an error.
    pub fn break_batch(&mut self, now: Time, slot: usize, error: &io::Error) {
        self.set_time(now);
        self.upstreams.break_batch(slot, error);
        self.learn_failures();
    }

    /// Takes in what has come over a connection.
    pub fn receive_connection(&mut self, now: Time, slot: usize, bytes: &[u8]) {
        self.set_time(now);
        self.upstreams.receive(slot, bytes);
        while let Some((replied, reply)) = self.upstreams.next_tcp_reply(slot) {
            self.conclude(replied, &reply);
        }
        self.learn_failures();
    }

    /// No socket could be opened for a connection.
    pub fn fail_connection(&mut self, now: Time, slot: usize, error: &io::Error) {
        self.set_time(now);
        self.upstreams.fail_connection(slot, error);
        self.learn_failures();
    }

    /// A connection has ended by itself.
    pub fn break_connection(&mut self, now: Time, slot: usize, error: &io::Error) {
        self.set_time(now);
        self.upstreams.break_connection(slot, error);
        self.learn_failures();
    }

    /// Takes in what came of a query to an encrypted upstream.
    pub fn receive_encrypted(&mut self, now: Time, report: EncryptedReport) {
        self.set_time(now);
        if let Some((replied, reply)) = self.upstreams.receive_encrypted(report) {
            self.conclude(replied, &reply);
        }
        self.learn_failures();
    }
}
