//! What is asked upstream: the question that clients share, the message sent for it, and which replies
//! belong to it.

use std::hash::{Hash, Hasher};

use arrayvec::ArrayVec;
use pmdns_stages::answer::LocalRef;
use pmdns_stages::cache::{Entry, Key, NameBuffer};
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::dns::{
    CLASS_IN, HEADER_LEN, QUESTION_FIXED_LEN, Rcode, flag, header, rtype,
};
use pmdns_stages::wire::edns::{OPT_DATA_LEN, OPT_LEN, OPTION_HEAD_LEN, opt, option};
use pmdns_stages::wire::name::{MAX_NAME, Seed};
use pmdns_stages::wire::subnet::{SUBNET_LEN, Subnet};
use pmdns_stages::wire::{be16, put16};

use crate::upstreams::cookies::MAX_COOKIE;
use crate::upstreams::letter_case::LetterCase;

/// The UDP size our OPT record announces: replies of that size cross the Internet unfragmented
/// (DNS flag day 2020).
const OUR_UDP_SIZE: u16 = 1232;
/// The size of replies to queries without OPT record (RFC 1035 section 4.2.1).
const PLAIN_UDP_SIZE: u16 = 512;

/// The longest reply over UDP that a query with an OPT record, or without, asks for. A longer one may have come in
/// fragments, all but the first of which are easily forged.
pub(crate) fn announced_size(edns: bool) -> usize {
    usize::from(if edns { OUR_UDP_SIZE } else { PLAIN_UDP_SIZE })
}

/// The EDNS option that pads a message (RFC 7830).
const PADDING: u16 = 12;
/// Padded queries are multiples of this long (RFC 8467 section 4.1).
const PADDING_BLOCK: usize = 128;

/// The lower four bits of BADCOOKIE, 23 (RFC 7873 section 8), as they stand in the header. No other rcode that a query
/// can have has them: YXRRSET is for updates.
const BADCOOKIE_BITS: Rcode = Rcode(7);

/// The longest query we send.
const MAX_QUERY: usize = HEADER_LEN
    + MAX_NAME
    + QUESTION_FIXED_LEN
    + OPT_LEN
    + 2 * OPTION_HEAD_LEN
    + SUBNET_LEN
    + MAX_COOKIE;

/// What rules make of a question. Questions that differ in it have different answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rule {
    /// It is asked upstream, and rules about answers hold.
    #[default]
    None,
    /// The answer is this alias, and what it leads to in this view.
    Alias(LocalRef, u8),
    /// It is asked upstream, and no rule about answers holds of policy zones from this number on.
    Exempt(u8),
}

impl Rule {
    /// What there is to hash of it.
    fn as_number(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Alias(found, view) => Some(found.as_number() << 8 | u64::from(view)),
            Self::Exempt(zone) => Some(!u64::from(zone)),
        }
    }
}

/// A question, owned: what pending questions and remembered failures are found by.
///
/// It hashes as its cache key does and the network it is asked for, with the process's seed, and compares in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// Lower case.
    name: Box<[u8]>,
    qtype: u16,
    qclass: u16,
    flags: u8,
    /// Whether answers are validated, unless clients say that they do so themselves.
    validates: bool,
    hash: u64,
    /// The network it is asked for (RFC 7871), if for one in particular.
    subnet: Option<Subnet>,
    rule: Rule,
    /// Hash of all that.
    place: u64,
}

impl Question {
    /// What the client of `miss` asks, for no network in particular.
    pub(crate) fn of(miss: &Miss, seed: Seed) -> Self {
        let key = miss.key();
        Self::new(key, key.hash(seed, miss.key))
    }

    /// What the cache has under `key`.
    pub(crate) fn of_key(key: Key<'_>, seed: Seed) -> Self {
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
            subnet: None,
            rule: Rule::None,
            place: hash,
        }
    }

    /// The same where answers are validated, or not.
    pub(crate) fn validating(self, validates: bool) -> Self {
        Self { validates, ..self }
    }

    /// Whether the answer is validated: the client does not say that it does so itself (RFC 4035 section 4.9.2).
    pub(crate) fn is_checked(&self) -> bool {
        self.validates && self.flags & Key::CD == 0
    }

    /// The key, with a name in the zone that is asked.
    pub(crate) fn zone(&self) -> Key<'_> {
        self.zone_of(self.key())
    }

    /// Another key that is asked as this one is, with a name in the zone that is asked. Who validates asks for a
    /// delegation's DS records where they are: in the zone above (RFC 4035 section 3.1.4.1).
    pub(crate) fn zone_of<'k>(&self, key: Key<'k>) -> Key<'k> {
        match key.name.split_first() {
            Some((label @ 1.., rest)) if self.validates && key.qtype == rtype::DS => {
                Key { name: rest.get(usize::from(*label)..).unwrap_or(key.name), ..key }
            }
            _ => key,
        }
    }

    /// The flags that it is asked with, as in its key. A validator wants the data even if the upstream's own
    /// validation refuses them (RFC 6840 section 5.9).
    fn asked_flags(&self) -> u8 {
        if self.is_checked() { self.flags | Key::DO | Key::CD } else { self.flags }
    }

    /// What probes ask: the root's SOA record, which is short, and which every resolver knows.
    pub(crate) fn probe() -> Self {
        Self::new(Key { name: &[0], qtype: rtype::SOA, qclass: CLASS_IN, flags: 0 }, 0)
    }

    /// What an entry of the cache answers.
    pub(crate) fn of_entry(entry: &Entry) -> Self {
        let mut buffer = NameBuffer::default();
        Self::new(entry.key(&mut buffer), entry.head().hash)
    }

    /// Makes it the same question for this network, or for none in particular.
    pub(crate) fn ask_for(&mut self, subnet: Option<Subnet>, seed: Seed) {
        self.subnet = subnet;
        self.hash_again(seed);
    }

    /// The same question where rules make this of it.
    pub(crate) fn under(mut self, rule: Rule, seed: Seed) -> Self {
        self.rule = rule;
        self.hash_again(seed);
        self
    }

    /// What rules make of it.
    pub(crate) fn rule(&self) -> Rule {
        self.rule
    }

    fn hash_again(&mut self, seed: Seed) {
        let words = self.subnet.into_iter().flat_map(Subnet::words).chain(self.rule.as_number());
        self.place = words.fold(self.hash, |hash, word| seed.mix(hash, word));
    }

    /// The network it is asked for.
    pub(crate) fn subnet(&self) -> Option<Subnet> {
        self.subnet
    }

    /// The cache key.
    pub(crate) fn key(&self) -> Key<'_> {
        Key { name: &self.name, qtype: self.qtype, qclass: self.qclass, flags: self.flags }
    }

    /// Hash of the cache key.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// Whether `reply` answers the query that asked this with that id: the id, a response, a standard query, and the
    /// question (RFC 5452 section 9.1). Nothing else of a reply is looked at before. Letters must be those of
    /// `letter_case`; without one, names are compared as RFC 4343 compares them: whatever the letters' case.
    pub(crate) fn is_answered_by(
        &self,
        id: u16,
        letter_case: Option<LetterCase>,
        reply: &[u8],
    ) -> bool {
        self.is_met_by(id, reply, |written| match letter_case {
            Some(letter_case) => letter_case.is_of(&self.name, written),
            None => self.name.eq_ignore_ascii_case(written),
        })
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
        state.write_u64(self.place);
    }
}

/// One message to an upstream.
#[derive(Clone, Debug)]
pub struct Query {
    message: ArrayVec<u8, MAX_QUERY>,
    /// Where the length of the OPT record's data stands, if there is one. It is the last record.
    data_len_at: Option<usize>,
}

impl Query {
    /// The message that asks `question` with this id, in these letters or in small ones, with an OPT record or without.
    ///
    /// The client's letters play no part: many clients share the answer, and it must not depend on who asked
    /// first. AD is always set (RFC 6840 section 5.7): clients that
    /// want to know it share answers with clients that do not, and encode tells it to the former only.
    pub(crate) fn new(
        question: &Question,
        id: u16,
        letter_case: Option<LetterCase>,
        edns: bool,
    ) -> Self {
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
        message.extend(letter_case.unwrap_or(LetterCase::PLAIN).spell(key.name));
        message.extend(key.qtype.to_be_bytes());
        message.extend(key.qclass.to_be_bytes());
        let data_len_at = edns.then(|| message.len() + OPT_DATA_LEN);
        if edns {
            let data = question.subnet.map(|subnet| subnet.data(0)).unwrap_or_default();
            let options_len = if data.is_empty() { 0 } else { OPTION_HEAD_LEN + data.len() };
            let mut record = opt(OUR_UDP_SIZE, Rcode::NOERROR, asked & Key::DO != 0);
            put16(&mut record, OPT_DATA_LEN, options_len as u16);
            message.extend(record);
            if options_len > 0 {
                message.extend(option::SUBNET.to_be_bytes());
                message.extend((data.len() as u16).to_be_bytes());
                message.extend(data);
            }
        }
        Self { message, data_len_at }
    }

    /// The same with this cookie, if it has an OPT record (RFC 7873 section 5.1).
    pub(crate) fn with_cookie(mut self, data: &[u8]) -> Self {
        if let Some(data_len_at) = self.data_len_at {
            self.message.extend(option::COOKIE.to_be_bytes());
            self.message.extend((data.len() as u16).to_be_bytes());
            self.message.extend(data.iter().copied());
            let data_len = self.message.len() - data_len_at - 2;
            put16(&mut self.message, data_len_at, data_len as u16);
        }
        self
    }

    /// The message.
    pub fn bytes(&self) -> &[u8] {
        &self.message
    }

    /// The message, padded so that its length tells an onlooker little about the name (RFC 7830, RFC 8467
    /// section 4.1). Without an OPT record there is no place for that, and it stays as it is.
    pub(crate) fn padded(&self) -> Vec<u8> {
        let mut message = self.message.to_vec();
        if let Some(data_len_at) = self.data_len_at {
            let end = (message.len() + OPTION_HEAD_LEN).next_multiple_of(PADDING_BLOCK);
            let padding = end - message.len() - OPTION_HEAD_LEN;
            put16(&mut message, data_len_at, (end - data_len_at - 2) as u16);
            message.extend(PADDING.to_be_bytes());
            message.extend((padding as u16).to_be_bytes());
            message.resize(end, 0);
        }
        message
    }
}

/// How sure it is who sent a reply that belongs to its query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// It came over UDP: whoever guessed port, id and letters could have sent it.
    Guessed,
    /// It came over a connection, or has the cookie of its query: nobody sends that who is not on the path.
    Firm,
}

/// What a reply says on its face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyKind {
    /// NOERROR or NXDOMAIN: an answer.
    Answer,
    /// An answer, but not all of it: TC=1.
    Truncated,
    /// It did not understand the query.
    FormatError,
    /// The server cookie that the query had is not right, or too old.
    BadCookie,
    /// Any other rcode.
    Failure,
}

impl ReplyKind {
    /// The kind of a reply that answers its query.
    pub(crate) fn of(reply: &[u8]) -> Self {
        let flags = be16(reply, header::FLAGS).unwrap_or(0);
        let rcode = Rcode((flags & flag::RCODE) as u8);
        match rcode {
            Rcode::NOERROR | Rcode::NXDOMAIN if flags & flag::TC != 0 => Self::Truncated,
            Rcode::NOERROR | Rcode::NXDOMAIN => Self::Answer,
            Rcode::FORMERR => Self::FormatError,
            BADCOOKIE_BITS => Self::BadCookie,
            _ => Self::Failure,
        }
    }
}

/// Whether a FORMERR shows that the upstream does not know EDNS. One without the question needs only the id, so it has
/// to be firm. Where replies are validated, a forged one would take the signatures away.
pub(crate) fn shows_no_edns(reply: &[u8], proof: Proof, validates: bool) -> bool {
    let has_question = be16(reply, header::QDCOUNT) != Some(0);
    proof == Proof::Firm || (has_question && !validates)
}

#[cfg(test)]
pub(crate) mod tests;
