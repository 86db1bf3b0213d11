//! The records of an answer as they are sent, and when they expire.

use pmdns_config::narrow::to_u16;

use super::entry::MAX_RECORDS;
use super::lifetimes::Lifetimes;
use super::scrub::{Kept, Scrubbed, Synthesis};
use crate::wire::dns::{CLASS_IN, HEADER_LEN, RECORD_FIXED_LEN, Rcode, rtype};
use crate::wire::labels::{Cursor, Labels};
use crate::wire::name::MAX_NAME;
use crate::wire::rdata::{self, Part};
use crate::wire::record::WireRecord;
use crate::wire::{be32, put16, put32};

/// The mark of a compression pointer (RFC 1035 section 4.1.4).
pub(super) const POINTER: u16 = 0xc000;
/// Bytes of a message that pointers can lead to.
const POINTED: usize = 1 << 14;
/// Bytes of a record before its data, at most.
const MAX_RECORD_HEAD: usize = MAX_NAME + RECORD_FIXED_LEN;

/// Records in wire format.
///
/// Names are written anew: the bytes that they pointed to need not be there any more. A pointer in the upstream's
/// message leads to a label. If that label has been written, a pointer to it is enough. So each label is written once,
/// names are found without a search, and the image is compressed as well as the message was.
pub(super) struct Image {
    pub(super) body: Vec<u8>,
    pub(super) ttls: Vec<u16>,
    pub(super) counts: [u16; 3],
    /// Where the body starts in a message.
    start: usize,
    /// By place in the upstream's message: where the label that starts there has been written; 0: nowhere.
    moved: Vec<u16>,
    least_ttl: Option<u32>,
    /// TTL for a negative answer: the lesser of the SOA record's own TTL and its minimum field.
    negative_ttl: Option<u32>,
    is_too_long: bool,
    /// Whether names are written in lower case.
    lowers: bool,
}

impl Image {
    /// Writes what is kept of a reply whose question ends at `start`. `None`: the names take too many steps.
    pub(super) fn write(
        scrubbed: &Scrubbed,
        labels: &mut Labels<'_>,
        start: usize,
        lifetimes: &Lifetimes,
    ) -> Option<Self> {
        let message = labels.message();
        let mut image = Self {
            body: Vec::with_capacity(message.len() - start),
            ttls: Vec::new(),
            counts: [0; 3],
            start,
            moved: vec![0; message.len().min(POINTED)],
            least_ttl: None,
            negative_ttl: None,
            is_too_long: scrubbed.is_cut,
            lowers: false,
        };
        image.note_question(labels)?;
        for kept in &scrubbed.answer {
            image.lowers = matches!(kept, Kept::Made(_));
            match kept {
                Kept::Record(record) | Kept::Made(record) => {
                    image.add(labels, record, 0, lifetimes)?
                }
                Kept::Synthesis(alias) => image.add_synthesis(alias, lifetimes),
            }
        }
        image.lowers = false;
        for record in &scrubbed.authority {
            image.add(labels, record, 1, lifetimes)?;
        }
        Some(image)
    }

    /// The question stands before every answer: its labels need not be written again.
    fn note_question(&mut self, labels: &mut Labels<'_>) -> Option<()> {
        let mut cursor = Cursor::new(HEADER_LEN);
        loop {
            let label = labels.next(&mut cursor)?;
            if label.len() == 1 {
                return Some(());
            }
            *self.moved.get_mut(label.start)? = to_u16(label.start);
        }
    }

    fn add(
        &mut self,
        labels: &mut Labels<'_>,
        record: &WireRecord,
        section: usize,
        lifetimes: &Lifetimes,
    ) -> Option<()> {
        let message = labels.message();
        let ttl = self.note_ttl(record.ttl, lifetimes);
        if section == 1 && record.rtype == rtype::SOA {
            let minimum = lifetimes.bound(be32(message, record.end - 4).unwrap_or(0));
            self.negative_ttl = Some(ttl.min(minimum));
        }
        if self.is_full() {
            return Some(());
        }
        self.counts[section] += 1;
        self.add_name(labels, record.start, true)?;
        let data_at = self.add_fixed(record.rtype, record.class, ttl);
        rdata::parts(message, record.rtype, record.data_at..record.end, |part| {
            match part {
                Part::Name { at, may_compress } => self.add_name(labels, at, may_compress)?,
                Part::Bytes(bytes) => self.body.extend_from_slice(&message[bytes]),
            }
            Some(())
        })?;
        self.end_data(data_at);
        Some(())
    }

    fn add_synthesis(&mut self, alias: &Synthesis, lifetimes: &Lifetimes) {
        let ttl = self.note_ttl(alias.ttl, lifetimes);
        if self.is_full() {
            return;
        }
        self.counts[0] += 1;
        self.body.extend_from_slice(&alias.owner);
        let data_at = self.add_fixed(rtype::CNAME, CLASS_IN, ttl);
        self.body.extend_from_slice(&alias.target);
        self.end_data(data_at);
    }

    /// Writes type, class, TTL and room for the data's length. Says where the data starts.
    fn add_fixed(&mut self, rtype: u16, class: u16, ttl: u32) -> usize {
        self.body.extend_from_slice(&rtype.to_be_bytes());
        self.body.extend_from_slice(&class.to_be_bytes());
        self.ttls.push(to_u16(self.body.len()));
        self.body.extend_from_slice(&ttl.to_be_bytes());
        self.body.extend_from_slice(&[0; 2]);
        self.body.len()
    }

    /// Writes the length of the data that ends here.
    fn end_data(&mut self, data_at: usize) {
        match u16::try_from(self.body.len() - data_at) {
            Ok(len) => put16(&mut self.body, data_at - 2, len),
            Err(_) => self.is_too_long = true,
        }
    }

    /// Writes the name at `at` of the upstream's message.
    fn add_name(&mut self, labels: &mut Labels<'_>, at: usize, may_compress: bool) -> Option<()> {
        let (message, mut cursor) = (labels.message(), Cursor::new(at));
        loop {
            let label = labels.next(&mut cursor)?;
            let here = self.start + self.body.len();
            if let Some(moved) = self.moved.get_mut(label.start)
                && may_compress
                && label.len() > 1
            {
                if *moved > 0 {
                    self.body.extend_from_slice(&(POINTER | *moved).to_be_bytes());
                    return Some(());
                }
                *moved = if here < POINTED { to_u16(here) } else { 0 };
            }
            // No length byte is a letter.
            let bytes = &message[label.clone()];
            match self.lowers {
                true => self.body.extend(bytes.iter().map(u8::to_ascii_lowercase)),
                false => self.body.extend_from_slice(bytes),
            }
            if label.len() == 1 {
                return Some(());
            }
        }
    }

    /// Whether the next record can not be found by an offset, or not be counted.
    fn is_full(&mut self) -> bool {
        self.is_too_long |= self.body.len() > usize::from(u16::MAX) - MAX_RECORD_HEAD
            || self.ttls.len() == MAX_RECORDS;
        self.is_too_long
    }

    /// A record's TTL within bounds, which is one of those that the answer's life depends on.
    fn note_ttl(&mut self, ttl: u32, lifetimes: &Lifetimes) -> u32 {
        let ttl = lifetimes.bound(ttl);
        self.least_ttl = Some(self.least_ttl.map_or(ttl, |least| least.min(ttl)));
        ttl
    }

    /// How long the answer is kept, in seconds. The proofs of a negative one live no longer than a denial may. The aliases before
    /// it are as true as others, also if it must not be kept.
    pub(super) fn settle_ttl(
        &mut self,
        rcode: Rcode,
        is_negative: bool,
        lifetimes: &Lifetimes,
    ) -> u32 {
        // A failure is for those who wait for it; the slow path keeps account of failures (RFC 9520).
        if !rcode.is_answer() {
            return 0;
        }
        let least = self.least_ttl.unwrap_or(0);
        // A name that is too long has no SOA record to say how long that holds: the DNAME record does.
        let is_too_long = rcode == Rcode::YXDOMAIN;
        if !is_negative && !is_too_long {
            return least;
        }
        // RFC 2308 section 5: without SOA it must not be kept.
        let denied = self.negative_ttl.unwrap_or(if is_too_long { least } else { 0 });
        let ttl = denied.min(lifetimes.max_negative_ttl);
        let aliases = if is_too_long { 0 } else { self.counts[0].into() };
        for at in self.ttls.iter().skip(aliases).map(|at| usize::from(*at)) {
            let own = be32(&self.body, at).unwrap_or(0);
            put32(&mut self.body, at, own.min(ttl));
        }
        // Aliases on the way may expire earlier.
        ttl.min(least)
    }

    /// Whether it can be sent and kept as a whole.
    pub(super) fn fits(&self, lifetimes: &Lifetimes) -> bool {
        let whole = self.start + self.body.len();
        !self.is_too_long && self.body.len() <= lifetimes.max_body && whole <= usize::from(u16::MAX)
    }

    /// Keeps nothing but the time.
    pub(super) fn forget(&mut self) {
        self.body.clear();
        self.ttls.clear();
        self.counts = [0; 3];
    }
}
