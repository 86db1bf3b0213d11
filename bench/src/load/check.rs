//! Checks every answer: id, question, rcode and records.
//!
//! The id (with port and client) has already found the query. Here the question's bytes are compared with the query's.
//! Flags, rcode, counts and records are compared with the image of an answer that was checked in full: byte for byte,
//! except TTLs. The first answer of each template, and answers that differ from the image, are checked in full. The
//! `domain` crate parses them, and the set of records is compared with the zone. Every answer is checked.

use domain::base::iana::{Rcode, Rtype};
use domain::base::name::{ParsedName, ToName as _};
use domain::base::rdata::ComposeRecordData as _;
use domain::base::wire::ParseError;
use domain::base::{Message, Name};
use domain::rdata::AllRecordData;
use pmdns_stages::wire::be16;
use pmdns_stages::wire::dns::{HEADER_LEN, RECORD_FIXED_LEN, flag, header};

use super::mix::Kind;
use super::templates::{Template, Templates};
use super::zone::{Expected, Record, Zone};

/// What an answer is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AnswerClass {
    /// Right in all we check.
    Good,
    /// The server says it failed; nothing it says is wrong.
    Servfail,
    /// The server refuses to answer.
    Refused,
    /// The server asks to come again over TCP.
    Truncated,
    /// Not a response, or another opcode.
    WrongHeader,
    /// The question is not the query's.
    WrongQuestion,
    /// Another response code than expected.
    WrongRcode,
    /// Other records than expected.
    WrongRecords,
    /// Not a well-formed message, or wrong lengths around it.
    Malformed,
    /// To another client than the one that asked.
    WrongAddress,
    /// A wrong checksum.
    WrongChecksum,
}

/// How many verdicts there are.
pub const VERDICTS: usize = 11;

impl AnswerClass {
    /// All verdicts, in the order of their numbers.
    pub const ALL: [Self; VERDICTS] = [
        Self::Good,
        Self::Servfail,
        Self::Refused,
        Self::Truncated,
        Self::WrongHeader,
        Self::WrongQuestion,
        Self::WrongRcode,
        Self::WrongRecords,
        Self::Malformed,
        Self::WrongAddress,
        Self::WrongChecksum,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Servfail => "servfail",
            Self::Refused => "refused",
            Self::Truncated => "truncated",
            Self::WrongHeader => "wrong_header",
            Self::WrongQuestion => "wrong_question",
            Self::WrongRcode => "wrong_rcode",
            Self::WrongRecords => "wrong_records",
            Self::Malformed => "malformed",
            Self::WrongAddress => "wrong_address",
            Self::WrongChecksum => "wrong_checksum",
        }
    }

    /// Whether no server may send such an answer.
    pub fn is_wrong(self) -> bool {
        self as usize >= Self::WrongHeader as usize
    }
}

/// What right answers are compared with.
#[derive(Debug)]
pub enum Authority {
    /// A zone.
    Zone(Box<Zone>),
    /// The first answer, whatever records it has.
    FirstAnswer,
    /// A partner that sends queries back as responses.
    Reflector,
}

/// The checker, with the templates whose images it learns.
#[derive(Debug)]
pub struct Checker {
    /// The queries.
    pub templates: Templates,
    authority: Authority,
    full_checks: u64,
}

/// An answer, read in full.
#[derive(Debug, PartialEq, Eq)]
struct Reading {
    rcode: Rcode,
    answer: Vec<Record>,
}

impl Checker {
    /// A checker that has seen no answer yet.
    pub fn new(templates: Templates, authority: Authority) -> Self {
        Self { templates, authority, full_checks: 0 }
    }

    /// Answers that were checked in full so far; the others equalled an image.
    pub fn full_checks(&self) -> u64 {
        self.full_checks
    }

    /// Judges `message`, which came as the answer to query `number`, made from `template`.
    #[inline]
    pub fn judge(&mut self, message: &[u8], template: u32, number: u32) -> AnswerClass {
        let asked = self.templates.get(template);
        if self.templates.is_image(asked, message)
            && asked.is_question(self.templates.payload(asked), message, number)
        {
            return AnswerClass::Good;
        }
        self.judge_in_full(message, template, number)
    }

    #[cold]
    #[inline(never)]
    fn judge_in_full(
        &mut self,
        message: &[u8],
        number_of_template: u32,
        number: u32,
    ) -> AnswerClass {
        self.full_checks += 1;
        let template = self.templates.get(number_of_template);
        let (Some(flags), Some(questions)) =
            (be16(message, header::FLAGS), be16(message, header::QDCOUNT))
        else {
            return AnswerClass::Malformed;
        };
        if message.len() < HEADER_LEN {
            return AnswerClass::Malformed;
        }
        if template.kind == Kind::Malformed {
            return judge_answer_to_malformed(template, flags, message);
        }
        if flags & flag::QR == 0 || flags & flag::OPCODE != 0 {
            return AnswerClass::WrongHeader;
        }
        let payload = self.templates.payload(template);
        if questions != 1 || !template.is_question(payload, message, number) {
            return AnswerClass::WrongQuestion;
        }
        let Ok(reading) = read(message) else { return AnswerClass::Malformed };
        let question = &message[HEADER_LEN..template.question_end()];
        match reading.rcode {
            Rcode::SERVFAIL => return AnswerClass::Servfail,
            Rcode::REFUSED => return AnswerClass::Refused,
            _ if flags & flag::TC != 0 => return AnswerClass::Truncated,
            _ => {}
        }
        let expected = self.expected(template, question, &reading);
        if reading.rcode != expected.rcode {
            return AnswerClass::WrongRcode;
        }
        if reading.answer != expected.answer {
            return AnswerClass::WrongRecords;
        }
        let Some(mask) = ttl_mask(message, template.question_end()) else {
            return AnswerClass::Malformed;
        };
        self.templates.learn(number_of_template, message, &mask);
        AnswerClass::Good
    }

    /// What the answer should have been.
    fn expected(&self, template: &Template, question: &[u8], reading: &Reading) -> Expected {
        let name_end = question.len().saturating_sub(4);
        let qtype = Rtype::from_int(be16(question, name_end).unwrap_or(0));
        let known = match &self.authority {
            Authority::Zone(zone) => zone.answer(&question[..name_end], qtype),
            Authority::Reflector => Some(Expected { rcode: Rcode::NOERROR, answer: Vec::new() }),
            Authority::FirstAnswer => None,
        };
        if let Some(expected) = known {
            return expected;
        }
        // A fresh name has other owners each time, so only the rcode of its kind is known.
        if !template.kind.is_fresh()
            && let Some(first) = self.templates.known_answer(template, question)
            && let Ok(first) = read(&first)
        {
            return Expected { rcode: first.rcode, answer: first.answer };
        }
        let rcode = match template.kind {
            Kind::Nxdomain | Kind::RandomPrefix => Rcode::NXDOMAIN,
            Kind::Miss => Rcode::NOERROR,
            // The list may hold names that do not exist.
            _ if reading.rcode == Rcode::NXDOMAIN => Rcode::NXDOMAIN,
            _ => Rcode::NOERROR,
        };
        Expected { rcode, answer: reading.answer.clone() }
    }
}

/// A malformed query may be answered with an error under its own opcode, if at all.
fn judge_answer_to_malformed(template: &Template, flags: u16, message: &[u8]) -> AnswerClass {
    let rcode = Rcode::masked_from_int(flags.to_be_bytes()[1]);
    let has_answer = be16(message, header::ANCOUNT) != Some(0);
    if flags & flag::QR == 0 || template.damage.forbids_answer() {
        return AnswerClass::WrongHeader;
    }
    match rcode {
        _ if has_answer => AnswerClass::WrongRecords,
        Rcode::FORMERR | Rcode::NOTIMP | Rcode::REFUSED | Rcode::SERVFAIL => AnswerClass::Good,
        _ => AnswerClass::WrongRcode,
    }
}

/// Reads a whole message: every section, every record.
fn read(message: &[u8]) -> Result<Reading, ParseError> {
    let message = Message::from_octets(message).map_err(|_| ParseError::ShortInput)?;
    let mut answer = Vec::new();
    for parsed in message.answer()? {
        let record = parsed?.into_any_record::<AllRecordData<_, ParsedName<_>>>()?;
        let (mut owner, mut data) = (Vec::new(), Vec::new());
        // Appending to a vector cannot fail.
        let _ = record.owner().compose_canonical(&mut owner);
        let _ = record.data().compose_canonical_rdata(&mut data);
        answer.push(Record { owner, rtype: record.rtype(), data });
    }
    for parsed in message.authority()?.chain(message.additional()?) {
        parsed?.into_any_record::<AllRecordData<_, ParsedName<_>>>()?;
    }
    answer.sort_unstable();
    Ok(Reading { rcode: message.header().rcode(), answer })
}

/// Zeros where a well-formed message has TTLs behind the question, 0xff elsewhere. An OPT record has flags
/// where others have a TTL (RFC 6891 section 6.1.3): those count.
fn ttl_mask(message: &[u8], question_end: usize) -> Option<Vec<u8>> {
    let mut mask = vec![0xff; message.len()];
    let counts = [header::ANCOUNT, header::NSCOUNT, header::ARCOUNT];
    let records: u32 = counts.iter().filter_map(|at| be16(message, *at)).map(u32::from).sum();
    let mut at = question_end;
    for _ in 0..records {
        let fixed = after_name(message, at)?;
        if be16(message, fixed)? != Rtype::OPT.to_int() {
            mask.get_mut(fixed + 4..fixed + 8)?.fill(0);
        }
        at = fixed + RECORD_FIXED_LEN + usize::from(be16(message, fixed + 8)?);
    }
    (at == message.len()).then_some(mask)
}

/// Where a name that was found well formed ends.
fn after_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match usize::from(*message.get(at)?) {
            0 => return Some(at + 1),
            0xc0.. => return Some(at + 2),
            label => at += 1 + label,
        }
    }
}

/// A name in wire format as people read it.
pub fn readable(name: &[u8]) -> String {
    Name::from_octets(name).map_or_else(|_| "?".to_owned(), |name| name.to_string())
}

#[cfg(test)]
mod tests;
