//! Fuzz target: any message of an upstream, made into a cache entry, encoded for some client, and read back.
//!
//! Five bytes choose the client's options, the lifetimes of answers, and the age of this one at the second query. The
//! rest is the message. The client asks the message's own question.

use std::cell::RefCell;

use crate::check::question;
use crate::exchange::exchange;
use crate::forwarder::Forwarder;
use crate::input::Input;
use pmdns_stages::cache::Lifetimes;
use pmdns_stages::testing::query;

thread_local! {
    static FORWARDER: RefCell<Forwarder> = RefCell::new(Forwarder::new(""));
}

/// One input.
pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut client = input.dress(query("a. A"));
    let min_ttl = if input.byte() & 1 == 1 { 60 } else { 0 };
    let later = u32::from(input.byte());
    let message = input.rest();
    let Some((name, qtype, qclass)) = question(message) else { return };
    (client.name, client.qtype, client.qclass) = (name.to_vec(), qtype, qclass);
    let lifetimes = Lifetimes { min_ttl, max_ttl: 86_400, max_negative_ttl: 900, max_body: 1232 };
    FORWARDER.with_borrow_mut(|forwarder| {
        let _ = exchange(forwarder, &client, message, &lifetimes, later);
    });
}
