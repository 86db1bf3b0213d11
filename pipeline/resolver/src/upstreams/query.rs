//! Queries: the message sent upstream for a question, and which replies belong to it.

use std::rc::Rc;

use arrayvec::ArrayVec;
use pmdns_config::narrow::to_u16;
use pmdns_stages::cache::Key;
use pmdns_stages::wire::dns::{HEADER_LEN, QUESTION_FIXED_LEN, Rcode, flag, header};
use pmdns_stages::wire::edns::{OPT_DATA_LEN, OPT_LEN, OPTION_HEAD_LEN, opt, option};
use pmdns_stages::wire::name::{MAX_NAME, equal};
use pmdns_stages::wire::subnet::SUBNET_LEN;
use pmdns_stages::wire::{be16, field16, put16};

use crate::questions::pending::Ticket;
use crate::questions::plan::Attempt;
use crate::questions::question::Question;
use crate::upstreams::cookies::MAX_COOKIE;
use crate::upstreams::letter_case::LetterCase;

/// A question that one upstream is asked.
#[derive(Debug)]
pub(crate) struct Try {
    pub(crate) ticket: Ticket,
    /// As it is asked.
    pub(crate) question: Rc<Question>,
    pub(crate) attempt: Attempt,
}

/// The UDP size that the OPT record announces. Replies of that size cross the Internet unfragmented (DNS flag day
/// 2020).
const OUR_UDP_SIZE: u16 = 1232;
/// The size of replies to queries without OPT record (RFC 1035 section 4.2.1).
const PLAIN_UDP_SIZE: u16 = 512;

/// The longest reply over UDP that a query allows, with an OPT record or without. A longer one may have come in
/// fragments, and all fragments but the first are easily forged.
pub(crate) fn announced_size(edns: bool) -> usize {
    usize::from(if edns { OUR_UDP_SIZE } else { PLAIN_UDP_SIZE })
}

/// The EDNS option that pads a message (RFC 7830).
const PADDING: u16 = 12;
/// Padded queries are multiples of this long (RFC 8467 section 4.1).
const PADDING_BLOCK: usize = 128;

/// The lower four bits of BADCOOKIE, 23 (RFC 7873 section 8), as in the header. Of other rcodes only YXRRSET has them,
/// which is for updates.
const BADCOOKIE_BITS: Rcode = Rcode(7);

/// The longest query we send.
const MAX_QUERY: usize = HEADER_LEN
    + MAX_NAME
    + QUESTION_FIXED_LEN
    + OPT_LEN
    + 2 * OPTION_HEAD_LEN
    + SUBNET_LEN
    + MAX_COOKIE;

/// How a reply matches a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// It has the question in the right letter case, or any if that does not matter.
    Spelt,
    /// It has the question, but in another letter case.
    Misspelt,
    /// It does not belong to the query.
    None,
}

impl Question {
    /// Whether `reply` belongs to the query for this question with this id. It must have the id, QR=1, opcode QUERY,
    /// and the question (RFC 5452 section 9.1). This is checked before anything else of a reply. The letter case must
    /// be `letter_case`; without one, names are compared without regard to case (RFC 4343).
    pub(crate) fn is_answered_by(
        &self,
        id: u16,
        letter_case: Option<LetterCase>,
        reply: &[u8],
    ) -> bool {
        self.match_reply(id, letter_case, reply) == Match::Spelt
    }

    /// The same, and whether only the letter case is another.
    pub(crate) fn match_reply(
        &self,
        id: u16,
        letter_case: Option<LetterCase>,
        reply: &[u8],
    ) -> Match {
        let Some(head) = reply.first_chunk::<HEADER_LEN>() else { return Match::None };
        let flags = field16(head, header::FLAGS);
        if field16(head, header::ID) != id || flags & (flag::QR | flag::OPCODE) != flag::QR {
            return Match::None;
        }
        match field16(head, header::QDCOUNT) {
            1 => self.match_question(letter_case, &reply[HEADER_LEN..]),
            // Servers that do not know EDNS may not have understood the message at all (RFC 6891 section 7). The only
            // effect of such a reply is that the question is asked again without EDNS.
            0 if reply.len() == HEADER_LEN
                && flags & flag::RCODE == u16::from(Rcode::FORMERR.0) =>
            {
                Match::Spelt
            }
            _ => Match::None,
        }
    }

    /// Whether `bytes` begin with this question.
    fn match_question(&self, letter_case: Option<LetterCase>, bytes: &[u8]) -> Match {
        let key = self.key();
        let Some((name, rest)) = bytes.split_at_checked(key.name.len()) else {
            return Match::None;
        };
        if be16(rest, 0) != Some(key.qtype) || be16(rest, 2) != Some(key.qclass) {
            return Match::None;
        }
        match letter_case {
            Some(letter_case) if letter_case.is_of(key.name, name) => Match::Spelt,
            _ if !equal(name, key.name) => Match::None,
            Some(_) => Match::Misspelt,
            None => Match::Spelt,
        }
    }
}

/// One message to an upstream.
#[derive(Clone, Debug, Default)]
pub struct Query {
    message: ArrayVec<u8, MAX_QUERY>,
    /// Where the length of the OPT record's data stands, if there is one. It is the last record.
    data_len_at: Option<usize>,
}

impl Query {
    /// The message that asks `question` with this id and letter case, with an OPT record or without. The default is
    /// lower case.
    pub(crate) fn new(
        question: &Question,
        id: u16,
        letter_case: Option<LetterCase>,
        edns: bool,
    ) -> Self {
        let mut this = Self::default();
        this.compose(question, id, letter_case, edns);
        this
    }

    /// Makes it that message. It is large, so nobody moves it.
    ///
    /// The client's letter case is not used: many clients share the answer, and it must not depend on who asked first.
    /// AD is always set (RFC 6840 section 5.7), because clients that want AD share answers with clients that do not.
    /// Encode sets AD only for the former.
    pub(crate) fn compose(
        &mut self,
        question: &Question,
        id: u16,
        letter_case: Option<LetterCase>,
        edns: bool,
    ) {
        let key = question.key();
        let asked = question.asked_flags();
        let checking_disabled = if asked & Key::CD != 0 { flag::CD } else { 0 };
        let mut head = [0; HEADER_LEN];
        put16(&mut head, header::ID, id);
        put16(&mut head, header::FLAGS, flag::RD | flag::AD | checking_disabled);
        put16(&mut head, header::QDCOUNT, 1);
        put16(&mut head, header::ARCOUNT, u16::from(edns));
        self.message.clear();
        self.data_len_at = None;
        self.put(&head);
        self.put_name(key.name, letter_case);
        self.put(&key.qtype.to_be_bytes());
        self.put(&key.qclass.to_be_bytes());
        if edns {
            self.data_len_at = Some(self.message.len() + OPT_DATA_LEN);
            let data = question.subnet().map(|subnet| subnet.data(0)).unwrap_or_default();
            let options_len = if data.is_empty() { 0 } else { OPTION_HEAD_LEN + data.len() };
            let mut record = opt(OUR_UDP_SIZE, Rcode::NOERROR, asked & Key::DO != 0);
            put16(&mut record, OPT_DATA_LEN, to_u16(options_len));
            self.put(&record);
            if options_len > 0 {
                self.put_option(option::SUBNET, &data);
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        let put = self.message.try_extend_from_slice(bytes);
        put.expect("there is room for the longest query");
    }

    fn put_name(&mut self, name: &[u8], letter_case: Option<LetterCase>) {
        let Some(letter_case) = letter_case else { return self.put(name) };
        let end = self.message.len() + name.len();
        letter_case.spell(name).for_each(|word| self.put(&word.to_le_bytes()));
        self.message.truncate(end);
    }

    fn put_option(&mut self, code: u16, data: &[u8]) {
        self.put(&code.to_be_bytes());
        self.put(&to_u16(data.len()).to_be_bytes());
        self.put(data);
    }

    /// Adds this cookie if there is an OPT record (RFC 7873 section 5.1).
    pub(crate) fn add_cookie(&mut self, data: &[u8]) {
        if let Some(data_len_at) = self.data_len_at {
            self.put_option(option::COOKIE, data);
            let data_len = self.message.len() - data_len_at - 2;
            put16(&mut self.message, data_len_at, to_u16(data_len));
        }
    }

    /// The message.
    pub fn bytes(&self) -> &[u8] {
        &self.message
    }

    /// The message, padded so that its length tells an observer little about the name (RFC 7830, RFC 8467 section 4.1).
    /// Without an OPT record it cannot be padded, and stays as it is.
    pub(crate) fn padded(&self) -> Vec<u8> {
        let mut message = self.message.to_vec();
        if let Some(data_len_at) = self.data_len_at {
            let end = (message.len() + OPTION_HEAD_LEN).next_multiple_of(PADDING_BLOCK);
            let padding = end - message.len() - OPTION_HEAD_LEN;
            put16(&mut message, data_len_at, to_u16(end - data_len_at - 2));
            message.extend(PADDING.to_be_bytes());
            message.extend(to_u16(padding).to_be_bytes());
            message.resize(end, 0);
        }
        message
    }
}

/// How well the sender of a reply is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// It came over UDP. A forger who guessed port, id and letter case could have sent it.
    Guessed,
    /// It came over a connection, or has the cookie of its query. Only a sender on the path can do that.
    Firm,
}

/// The kind of a reply, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyKind {
    /// An answer, by its rcode ([`Rcode::is_answer`]).
    Answer,
    /// An answer, but not all of it: TC=1.
    Truncated,
    /// FORMERR: the upstream did not understand the query.
    FormatError,
    /// The server cookie in the query is wrong or too old.
    BadCookie,
    /// Any other rcode.
    Failure,
}

/// The rcode in a reply's header.
pub(crate) fn rcode_of(reply: &[u8]) -> Rcode {
    Rcode((be16(reply, header::FLAGS).unwrap_or(0) & flag::RCODE) as u8)
}

impl ReplyKind {
    /// The kind of a reply that answers its query.
    pub(crate) fn of(reply: &[u8]) -> Self {
        let flags = be16(reply, header::FLAGS).unwrap_or(0);
        let rcode = rcode_of(reply);
        match rcode {
            _ if rcode.is_answer() && flags & flag::TC != 0 => Self::Truncated,
            _ if rcode.is_answer() => Self::Answer,
            Rcode::FORMERR => Self::FormatError,
            BADCOOKIE_BITS => Self::BadCookie,
            _ => Self::Failure,
        }
    }
}

/// Whether a FORMERR shows that the upstream does not know EDNS. A FORMERR without the question is easy to forge,
/// because only the id must match, so it has to be firm. With validation, a forged one would remove the signatures.
pub(crate) fn shows_no_edns(reply: &[u8], proof: Proof, validates: bool) -> bool {
    let has_question = be16(reply, header::QDCOUNT) != Some(0);
    proof == Proof::Firm || (has_question && !validates)
}

#[cfg(test)]
pub(crate) mod tests;
