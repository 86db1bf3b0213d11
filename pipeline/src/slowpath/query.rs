//! What is asked upstream: the question that clients share, the message sent for it, and which replies
//! belong to it.

use std::hash::{Hash, Hasher};

use arrayvec::ArrayVec;
use pmdns_stages::cache::{Entry, Key, NameBuffer};
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::dns::{
    CLASS_IN, HEADER_LEN, QUESTION_FIXED_LEN, Rcode, flag, header, rtype,
};
use pmdns_stages::wire::edns::{OPT_LEN, opt};
use pmdns_stages::wire::name::{MAX_NAME, Seed};
use pmdns_stages::wire::{be16, put16};

use super::spelling::Spelling;

/// The UDP size our OPT record announces: replies of that size cross the Internet unfragmented
/// (DNS flag day 2020).
const OUR_UDP_SIZE: u16 = 1232;

/// The EDNS option that pads a message (RFC 7830).
const PADDING: u16 = 12;
/// Bytes of an option before its data.
const PADDING_HEAD_LEN: usize = 4;
/// Padded queries are multiples of this long (RFC 8467 section 4.1).
const PADDING_BLOCK: usize = 128;

/// The longest query we send.
const MAX_QUERY: usize = HEADER_LEN + MAX_NAME + QUESTION_FIXED_LEN + OPT_LEN;

/// A question, owned: what pending questions and remembered failures are found by.
///
/// It hashes as its cache key does, with the process's seed, and compares in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// Lower case.
    name: Box<[u8]>,
    qtype: u16,
    qclass: u16,
    flags: u8,
    /// Whether answers are validated, unless clients say that they do so themselves.
    validates: bool,
    hash: u64,
}

impl Question {
    /// What the client of `miss` asks.
    pub(super) fn of(miss: &Miss, seed: Seed) -> Self {
        let key = miss.key();
        Self::new(key, key.hash(seed, miss.key))
    }

    /// What the cache has under `key`.
    pub(super) fn of_key(key: Key<'_>, seed: Seed) -> Self {
        Self::new(key, key.hash(seed, seed.hash(key.name)))
    }

    fn new(key: Key<'_>, hash: u64) -> Self {
        Self {
            name: key.name.to_ascii_lowercase().into(),
            qtype: key.qtype,
            qclass: key.qclass,
            flags: key.flags,
            validates: false,
            hash,
        }
    }

    /// The same where answers are validated, or not.
    pub(super) fn validating(self, validates: bool) -> Self {
        Self { validates, ..self }
    }

    /// Whether the answer is validated: the client does not say that it does so itself (RFC 4035 section 4.9.2).
    pub(super) fn is_checked(&self) -> bool {
        self.validates && self.flags & Key::CD == 0
    }

    /// A name in the zone that is asked. Who validates asks for a delegation's DS records where they are: in the zone
    /// above (RFC 4035 section 3.1.4.1).
    pub(super) fn zone_name(&self) -> &[u8] {
        match self.name.split_first() {
            Some((label @ 1.., rest)) if self.validates && self.qtype == rtype::DS => {
                rest.get(usize::from(*label)..).unwrap_or(&self.name)
            }
            _ => &self.name,
        }
    }

    /// The flags that it is asked with, as in its key. A validator wants the data even if the upstream's own
    /// validation refuses them (RFC 6840 section 5.9).
    fn asked_flags(&self) -> u8 {
        if self.is_checked() { self.flags | Key::DO | Key::CD } else { self.flags }
    }

    /// What probes ask: the root's SOA record, which is short, and which every resolver knows.
    pub(super) fn probe() -> Self {
        Self::new(Key { name: &[0], qtype: rtype::SOA, qclass: CLASS_IN, flags: 0 }, 0)
    }

    /// What an entry of the cache answers.
    pub(super) fn of_entry(entry: &Entry) -> Self {
        let mut buffer = NameBuffer::default();
        Self::new(entry.key(&mut buffer), entry.head().hash)
    }

    /// The cache key.
    pub(super) fn key(&self) -> Key<'_> {
        Key { name: &self.name, qtype: self.qtype, qclass: self.qclass, flags: self.flags }
    }

    /// Hash of the cache key.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// Whether `reply` answers the query that asked this with that id and in those letters: the id, a response,
    /// a standard query, and the question byte for byte (RFC 5452 section 9.1). Nothing else of a reply is looked
    /// at before.
    pub(super) fn is_answered_by(&self, id: u16, spelling: Spelling, reply: &[u8]) -> bool {
        self.is_met_by(id, reply, |written| spelling.is_of(&self.name, written))
    }

    /// As [`Question::is_answered_by`], whatever the letters' case.
    pub(super) fn is_respelt_by(&self, id: u16, reply: &[u8]) -> bool {
        self.is_met_by(id, reply, |written| self.name.eq_ignore_ascii_case(written))
    }

    fn is_met_by(&self, id: u16, reply: &[u8], is_name: impl Fn(&[u8]) -> bool) -> bool {
        if be16(reply, header::ID) != Some(id) {
            return false;
        }
        let (Some(flags), Some(questions)) =
            (be16(reply, header::FLAGS), be16(reply, header::QDCOUNT))
        else {
            return false;
        };
        let same_question = match questions {
            1 => self.is_in(&reply[HEADER_LEN.min(reply.len())..], is_name),
            // Servers that do not know EDNS may not have understood the message at all (RFC 6891
            // section 7); such a reply only makes us ask again without it.
            0 => reply.len() == HEADER_LEN && flags & flag::RCODE == u16::from(Rcode::FORMERR.0),
            _ => false,
        };
        flags & (flag::QR | flag::OPCODE) == flag::QR && same_question
    }

    /// Whether `bytes` begin with this question.
    fn is_in(&self, bytes: &[u8], is_name: impl Fn(&[u8]) -> bool) -> bool {
        let Some((name, rest)) = bytes.split_at_checked(self.name.len()) else { return false };
        is_name(name) && be16(rest, 0) == Some(self.qtype) && be16(rest, 2) == Some(self.qclass)
    }
}

impl Hash for Question {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// One message to an upstream.
#[derive(Clone, Debug)]
pub(super) struct Query {
    message: ArrayVec<u8, MAX_QUERY>,
}

impl Query {
    /// The message that asks `question` with this id, in these letters, with an OPT record or without.
    ///
    /// The client's letters play no part: many clients share the answer, and it must not depend on who asked
    /// first. AD is always set (RFC 6840 section 5.7): clients that
    /// want to know it share answers with clients that do not, and encode tells it to the former only.
    pub(super) fn new(question: &Question, id: u16, spelling: Spelling, edns: bool) -> Self {
        let key = question.key();
        let asked = question.asked_flags();
        let checking_disabled = if asked & Key::CD != 0 { flag::CD } else { 0 };
        let mut head = [0; HEADER_LEN];
        put16(&mut head, header::ID, id);
        put16(&mut head, header::FLAGS, flag::RD | flag::AD | checking_disabled);
        put16(&mut head, header::QDCOUNT, 1);
        put16(&mut head, header::ARCOUNT, u16::from(edns));
        let mut message = ArrayVec::new();
        message.extend(head);
        message.extend(spelling.spell(key.name));
        message.extend(key.qtype.to_be_bytes());
        message.extend(key.qclass.to_be_bytes());
        if edns {
            message.extend(opt(OUR_UDP_SIZE, Rcode::NOERROR, asked & Key::DO != 0));
        }
        Self { message }
    }

    /// The message.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.message
    }

    /// The message, padded so that its length tells an onlooker little about the name (RFC 7830, RFC 8467
    /// section 4.1). Without an OPT record there is no place for that, and it stays as it is.
    pub(super) fn padded(&self) -> Vec<u8> {
        let mut message = self.message.to_vec();
        if be16(&message, header::ARCOUNT) == Some(1) {
            // The OPT record is the last one, and without options its last two bytes are the length of its data.
            let length_at = message.len() - 2;
            let data =
                (message.len() + PADDING_HEAD_LEN).next_multiple_of(PADDING_BLOCK) - message.len();
            put16(&mut message, length_at, data as u16);
            message.extend(PADDING.to_be_bytes());
            message.extend(((data - PADDING_HEAD_LEN) as u16).to_be_bytes());
            message.resize(length_at + 2 + data, 0);
        }
        message
    }
}

/// What a reply says on its face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Face {
    /// NOERROR or NXDOMAIN: an answer.
    Answer,
    /// An answer, but not all of it: TC=1.
    Truncated,
    /// It did not understand the query.
    FormatError,
    /// Any other rcode.
    Failure,
}

impl Face {
    /// The face of a reply that answers its query.
    pub(super) fn of(reply: &[u8]) -> Self {
        let flags = be16(reply, header::FLAGS).unwrap_or(0);
        let rcode = Rcode((flags & flag::RCODE) as u8);
        match rcode {
            Rcode::NOERROR | Rcode::NXDOMAIN if flags & flag::TC != 0 => Self::Truncated,
            Rcode::NOERROR | Rcode::NXDOMAIN => Self::Answer,
            Rcode::FORMERR => Self::FormatError,
            _ => Self::Failure,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use pmdns_stages::parse::Parse;
    use pmdns_stages::ports::Port;
    use pmdns_stages::testing::{OUR_IPV4, OUR_MAC, Query as ClientQuery, act_once, at, query};

    use super::*;

    fn seed() -> Seed {
        Seed::new([7; 16])
    }

    /// The miss of a client's query.
    pub(in super::super) fn miss(client: &ClientQuery) -> Miss {
        let mut parse = Parse::new([Port::new(OUR_MAC, [OUR_IPV4.into()])].into(), seed());
        Miss::of(&act_once(&mut parse, client.packet(), &at(0)))
    }

    /// The question of a client's query.
    pub(in super::super) fn question(client: &ClientQuery) -> Question {
        Question::of(&miss(client), seed())
    }

    /// A reply to `query`, which has an OPT record.
    fn reply_to(query: &Query) -> Vec<u8> {
        let mut reply = query.bytes()[..query.bytes().len() - OPT_LEN].to_vec();
        put16(&mut reply, header::FLAGS, flag::QR | flag::RD | flag::RA);
        put16(&mut reply, header::ARCOUNT, 0);
        reply
    }

    #[test]
    fn letter_case_makes_no_other_question_but_do_and_cd_do() {
        let plain = question(&query("www.example. A"));
        assert_eq!(plain, question(&query("WWW.eXample. A")));
        assert_ne!(plain, question(&query("www.example. AAAA")));
        assert_ne!(plain, question(&query("www.example. A").edns(1232, true)));
        assert_eq!(plain, question(&query("www.example. A").edns(1232, false)));
        let mut checking_disabled = query("www.example. A");
        checking_disabled.flags |= flag::CD;
        assert_ne!(plain, question(&checking_disabled));
    }

    #[test]
    fn the_message_is_what_the_standards_say() {
        let mut client = query("WWW.example. A").edns(4096, true);
        client.flags |= flag::CD;
        let query = Query::new(&question(&client), 0xabcd, Spelling::PLAIN, true);
        let expected = [
            b"\xab\xcd\x01\x30\0\x01\0\0\0\0\0\x01".as_slice(),
            b"\x03www\x07example\0\0\x01\0\x01",
            b"\0\0\x29\x04\xd0\0\0\x80\0\0\0",
        ];
        assert_eq!(query.bytes(), expected.concat());
        let without = Query::new(&question(&client), 0xabcd, Spelling::PLAIN, false);
        assert_eq!(without.bytes()[10..12], [0, 0]);
        assert_eq!(without.bytes().len(), query.bytes().len() - OPT_LEN);
    }

    #[test]
    fn who_validates_asks_with_do_and_cd_and_the_zone_above_for_ds() {
        let plain = question(&query("www.example. TYPE43"));
        assert!(!plain.is_checked());
        assert_eq!(plain.zone_name(), plain.key().name);
        let checked = plain.validating(true);
        assert!(checked.is_checked());
        assert_eq!(checked.zone_name(), b"\x07example\0");
        let message = Query::new(&checked, 0, Spelling::PLAIN, true);
        assert_eq!(message.bytes()[2..4], [0x01, 0x30], "RD, AD and CD");
        assert_eq!(message.bytes()[message.bytes().len() - 4], 0x80, "DO");
        assert_eq!(checked.key().flags, 0, "its answer is for those who asked");
        let mut own = query("www.example. A");
        own.flags |= flag::CD;
        assert!(!question(&own).validating(true).is_checked(), "RFC 4035 section 4.9.2");
        assert_eq!(question(&query(". TYPE43")).validating(true).zone_name(), [0]);
    }

    #[test]
    fn padded_queries_are_128_or_256_or_384_bytes_long() {
        for len in [1, 60, 63] {
            let label = "a".repeat(len);
            let name = [&*label, &label, &label, "example"].join(".");
            let query =
                Query::new(&question(&query(&format!("{name}. A"))), 0, Spelling::PLAIN, true);
            let padded = query.padded();
            assert_eq!(padded.len() % PADDING_BLOCK, 0);
            assert!(padded.len() - query.bytes().len() < PADDING_BLOCK + PADDING_HEAD_LEN);
            let message = hickory_proto::op::Message::from_vec(&padded).unwrap();
            let edns = message.edns.as_ref().unwrap();
            assert!(edns.option(hickory_proto::rr::rdata::opt::EdnsCode::Padding).is_some());
        }
        let plain = Query::new(&question(&query("www.example. A")), 0, Spelling::PLAIN, false);
        assert_eq!(plain.padded(), plain.bytes());
    }

    #[test]
    fn only_the_very_reply_matches() {
        let question = question(&query("www.example. A"));
        let right = reply_to(&Query::new(&question, 0xabcd, Spelling::PLAIN, true));
        let matches = |reply: &[u8]| question.is_answered_by(0xabcd, Spelling::PLAIN, reply);
        assert!(matches(&right));
        for bit in 0..16 {
            let mut other_id = right.clone();
            other_id[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches(&other_id));
        }
        for at in HEADER_LEN..right.len() {
            let mut other_question = right.clone();
            other_question[at] ^= 0x20;
            assert!(!matches(&other_question));
            assert!(!matches(&right[..at]), "cut off");
        }
        let mut not_a_response = right.clone();
        not_a_response[2] &= 0x7f;
        assert!(!matches(&not_a_response));
        let mut notify = right.clone();
        notify[2] |= 0x20;
        assert!(!matches(&notify));
        let mut no_question = right;
        no_question[5] = 0;
        assert!(!matches(&no_question));
        assert!(!matches(&no_question[..HEADER_LEN]), "NOERROR without a question");
        no_question[3] |= 1;
        assert!(matches(&no_question[..HEADER_LEN]), "a bare FORMERR");
    }

    #[test]
    fn only_the_very_letters_match_and_others_are_told_apart() {
        let question = question(&query("www.example. A"));
        let spelling = Spelling::new(0b1010_1010_1010);
        let right = reply_to(&Query::new(&question, 7, spelling, true));
        assert!(question.is_answered_by(7, spelling, &right));
        let mut small = right.clone();
        small.make_ascii_lowercase();
        for reply in [&right, &small] {
            assert!(question.is_respelt_by(7, reply));
            assert!(!question.is_respelt_by(8, reply));
        }
        assert!(!question.is_answered_by(7, spelling, &small));
        assert!(!question.is_answered_by(7, Spelling::PLAIN, &right));
        small[13] = b'x';
        assert!(!question.is_respelt_by(7, &small));
    }

    #[test]
    fn faces() {
        let query = Query::new(&question(&query("www.example. A")), 1, Spelling::PLAIN, true);
        let face = |change: fn(&mut Vec<u8>)| {
            let mut reply = reply_to(&query);
            change(&mut reply);
            Face::of(&reply)
        };
        assert_eq!(face(|_| {}), Face::Answer);
        assert_eq!(face(|reply| reply[3] |= 3), Face::Answer);
        assert_eq!(face(|reply| reply[2] |= 2), Face::Truncated);
        assert_eq!(face(|reply| reply[3] |= 1), Face::FormatError);
        assert_eq!(face(|reply| reply[3] |= 2), Face::Failure);
        assert_eq!(face(|reply| reply[3] |= 5), Face::Failure);
    }
}
