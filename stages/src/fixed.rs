//! Answers that are the same for every name: who this server is (RFC 4892), and that ANY is not answered in
//! full (RFC 8482). They are made at start, as entries like those of the cache.

use pmdns_config::AnswerSettings;
use pmdns_config::narrow::{to_u8, to_u16};

use crate::answer::{Answer, Fixed};
use crate::cache::{Entry, EntryParts, Head, Key};
use crate::wire::dns::{CLASS_CH, CLASS_IN, HEADER_LEN, Rcode, rtype};
use crate::wire::name::equal;

/// Names in class CH that ask which of several servers this is.
const IDENTITY_NAMES: [&[u8]; 2] = [b"\x02id\x06server\0", b"\x08hostname\x04bind\0"];
/// Names in class CH that ask what it runs.
const VERSION_NAMES: [&[u8]; 2] = [b"\x07version\x06server\0", b"\x07version\x04bind\0"];

/// How long clients may keep the answer to ANY, in seconds.
const ANY_TTL: u32 = 3600;
/// CPU and OS of the HINFO record (RFC 8482 section 4.2).
const ANY_DATA: &[u8] = b"\x07RFC8482\0";

/// The fixed answers, as far as the operator wants them given.
#[derive(Debug)]
pub struct FixedAnswers {
    identity: Option<Entry>,
    version: Option<Entry>,
    any: Option<Entry>,
}

impl FixedAnswers {
    /// The answers that `settings` ask for.
    pub fn new(settings: &AnswerSettings) -> Self {
        let text = |text: &Option<String>| {
            let text = text.as_ref()?.as_bytes();
            let data = [&[to_u8(text.len())], text].concat();
            Some(entry(CLASS_CH, rtype::TXT, 0, &data, Head::AUTHORITATIVE))
        };
        let any = || entry(CLASS_IN, rtype::HINFO, ANY_TTL, ANY_DATA, 0);
        Self {
            identity: text(&settings.identity),
            version: text(&settings.version),
            any: settings.minimal_any.then(any),
        }
    }

    /// The answer to a question in class CH, if there is one.
    pub(crate) fn chaos(&self, name: &[u8], qtype: u16) -> Option<Answer> {
        if qtype != rtype::TXT && qtype != rtype::ANY {
            return None;
        }
        let asks_for = |names: &[&[u8]]| names.iter().any(|known| equal(known, name));
        if asks_for(&IDENTITY_NAMES) {
            self.identity.as_ref().map(|_| Answer::Fixed(Fixed::Identity))
        } else if asks_for(&VERSION_NAMES) {
            self.version.as_ref().map(|_| Answer::Fixed(Fixed::Version))
        } else {
            None
        }
    }

    /// Whether ANY is answered here, and not upstream.
    pub(crate) fn has_any(&self) -> bool {
        self.any.is_some()
    }

    /// The entry to answer with.
    #[inline]
    pub(crate) fn entry(&self, which: Fixed) -> Option<&Entry> {
        match which {
            Fixed::Identity => self.identity.as_ref(),
            Fixed::Version => self.version.as_ref(),
            Fixed::Any => self.any.as_ref(),
        }
    }
}

/// An answer of one record, whose owner is the name in the question.
fn entry(class: u16, rtype: u16, ttl: u32, data: &[u8], flags: u8) -> Entry {
    const ROOT: &[u8] = &[0];
    let body = [
        &[0xc0, to_u8(HEADER_LEN)],
        rtype.to_be_bytes().as_slice(),
        &class.to_be_bytes(),
        &ttl.to_be_bytes(),
        &to_u16(data.len()).to_be_bytes(),
        data,
    ]
    .concat();
    let key = Key { name: ROOT, qtype: rtype, qclass: class, flags: 0 };
    Entry::new(&EntryParts {
        key,
        // It is found by what it is, and never by its hash.
        hash: 0,
        learnt: 0,
        expires: u32::MAX,
        rcode: Rcode::NOERROR,
        flags,
        counts: [1, 0, 0],
        body: &body,
        optional_at: to_u16(body.len()),
        ttls: &[],
    })
}
