//! Fuzz target: which of the datagrams that reach our socket are taken for the reply to our query.
//!
//! Three bytes describe the client, one the query, two are its id, and one says which letters are large. Then either
//! the datagram follows as it stands, or changes to the right reply: pairs of a place and what it is XORed with.

use std::cell::RefCell;

use crate::check::question;
use crate::forwarder::Forwarder;
use crate::input::Input;
use hickory_proto::op::Message;
use pmdns_engine::slowpath::fuzz_api::AskedQuery;
use pmdns_nics::Verified;
use pmdns_stages::cache::{Entry, Lifetimes, Unusable};
use pmdns_stages::testing::query;
use pmdns_stages::wire::dns::{HEADER_LEN, QUESTION_FIXED_LEN, Rcode, flag, header};
use pmdns_stages::wire::{be16, put16};

thread_local! {
    static FORWARDER: RefCell<Forwarder> = RefCell::new(Forwarder::new(""));
}

/// Whether RFC 5452 section 9.1 lets `reply` answer `sent`; without a question only a bare FORMERR does.
fn may_answer(sent: &[u8], reply: &[u8]) -> bool {
    let flags = be16(reply, header::FLAGS).unwrap_or(0);
    let is_response = flags & (flag::QR | flag::OPCODE) == flag::QR;
    let end =
        HEADER_LEN + question(sent).expect("we ask one question").0.len() + QUESTION_FIXED_LEN;
    let matches = match be16(reply, header::QDCOUNT) {
        Some(1) => reply.get(HEADER_LEN..end) == Some(&sent[HEADER_LEN..end]),
        Some(0) => reply.len() == HEADER_LEN && flags & flag::RCODE == u16::from(Rcode::FORMERR.0),
        _ => false,
    };
    be16(reply, header::ID) == be16(sent, header::ID) && is_response && matches
}

/// The right reply to `sent`, with changes.
fn changed_reply(sent: &[u8], input: &mut Input<'_>) -> Vec<u8> {
    let end =
        HEADER_LEN + question(sent).expect("we ask one question").0.len() + QUESTION_FIXED_LEN;
    let mut reply = sent[..end].to_vec();
    put16(&mut reply, header::FLAGS, flag::QR | flag::RD | flag::RA);
    put16(&mut reply, header::ANCOUNT, 1);
    put16(&mut reply, header::ARCOUNT, 0);
    reply.extend(b"\xc0\x0c\0\x01\0\x01\0\0\x01\x2c\0\x04\xc0\0\x02\x01");
    while !input.is_empty() {
        let at = usize::from(input.byte());
        match reply.get_mut(at) {
            Some(byte) => *byte ^= input.byte(),
            None => reply.truncate(at - reply.len()),
        }
    }
    reply
}

/// One input.
pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let client = input.dress(query("www.example. A"));
    let (how, id) = (input.byte(), input.number());
    // The same for each eight letters.
    let letters = u64::from_le_bytes([input.byte(); 8]);
    FORWARDER.with_borrow_mut(|forwarder| {
        let miss = forwarder.hand(&client.frame_bytes(), Verified::NOTHING).misses.pop();
        let miss = miss.expect("nothing is cached or refused here");
        let seed = forwarder.rig.slow_path[0].resolver.cache.seed();
        let asked = AskedQuery::new(&miss, seed, id, letters, how & 2 == 0);
        let sent = asked.message();
        assert!(Message::from_vec(&asked.padded()).is_ok(), "others can read what we ask");
        let reply = match how & 1 {
            0 => input.rest().to_vec(),
            _ => changed_reply(&sent, &mut input),
        };
        let taken = asked.takes(&reply);
        assert_eq!(taken, may_answer(&sent, &reply));
        if taken && be16(&reply, header::QDCOUNT) == Some(1) {
            let lifetimes =
                Lifetimes { min_ttl: 0, max_ttl: 86_400, max_negative_ttl: 900, max_body: 1232 };
            let entry = Entry::from_reply(&reply, miss.key(), 0, 0, &lifetimes);
            assert_ne!(entry.err(), Some(Unusable::OtherQuestion), "it was just matched");
        }
    });
}
