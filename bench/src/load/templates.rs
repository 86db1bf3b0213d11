//! Queries prepared ahead of time, and beside each the image of its right answer.
//!
//! A template fills two cache lines. It has the payload to send. After a first answer has been checked in full, it also
//! has the image of that answer. Later answers must equal the image byte for byte, except TTLs. Names that are too long
//! for it are kept elsewhere.

use std::collections::HashMap;

use pmdns_config::narrow::{to_u8, to_u16, to_u32};
use pmdns_stages::wire::checksum::Sum;
use pmdns_stages::wire::dns::{HEADER_LEN, flag, header, rtype};
use pmdns_stages::wire::edns::OPT_DO;
use pmdns_stages::wire::name::word;
use pmdns_stages::wire::{put16, put32};

use super::malformed::{Damage, Malformed};
use super::mix::Kind;

/// Bytes in a template for payload and image.
const ROOM: usize = 96;
/// Hexadecimal digits of a fresh name that differ from query to query.
pub const FRESH_DIGITS: usize = 8;
/// Header bytes of an answer that an image holds: flags and counts.
const HEAD: std::ops::Range<usize> = header::FLAGS..HEADER_LEN;
/// An index that stands for nothing.
const NONE: u32 = u32::MAX;

/// One query, ready to be sent.
#[repr(align(64))]
#[derive(Clone, Debug)]
pub struct Template {
    /// What it is for.
    pub kind: Kind,
    /// What is wrong below the DNS message.
    pub damage: Damage,
    /// Length of the question; 0 if there is none to compare.
    question_len: u16,
    /// Where the digits of a fresh name stand in the payload; 0 if the name is fixed.
    fresh_at: u8,
    payload_len: u16,
    image_len: u16,
    /// The payload's sum, its id zero, not complemented.
    sum: u16,
    head: [u8; HEAD.end - HEAD.start],
    mask: u32,
    long: u32,
    bytes: [u8; ROOM],
}

const _: () = assert!(size_of::<Template>() == 128, "two cache lines");

/// Payload and image that do not fit a template.
#[derive(Debug, Default)]
struct Long {
    payload: Box<[u8]>,
    image: Box<[u8]>,
}

/// EDNS as the queries have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    /// The UDP payload size that is announced.
    pub udp_size: u16,
    /// The DO bit.
    pub dnssec_ok: bool,
}

/// All templates.
#[derive(Debug, Default)]
pub struct Templates {
    all: Vec<Template>,
    long: Vec<Long>,
    masks: Vec<Box<[u8]>>,
    mask_numbers: HashMap<Box<[u8]>, u32>,
}

impl Templates {
    /// Adds a query for `name` (wire format) and `qtype`. The first label of a fresh name ends with
    /// [`FRESH_DIGITS`] digits that each query replaces with its own.
    pub fn add_query(&mut self, kind: Kind, name: &[u8], qtype: u16, edns: Option<Edns>) {
        let mut payload = vec![0; HEADER_LEN];
        put16(&mut payload, header::FLAGS, flag::RD);
        put16(&mut payload, header::QDCOUNT, 1);
        payload.extend_from_slice(name);
        payload.extend_from_slice(&qtype.to_be_bytes());
        payload.extend_from_slice(&[0, 1]);
        let question_len = payload.len() - HEADER_LEN;
        if let Some(edns) = edns {
            put16(&mut payload, header::ARCOUNT, 1);
            let opt = payload.len();
            payload.extend_from_slice(&[0; 11]);
            put16(&mut payload, opt + 1, rtype::OPT);
            put16(&mut payload, opt + 3, edns.udp_size);
            put32(&mut payload, opt + 5, u32::from(if edns.dnssec_ok { OPT_DO } else { 0 }));
        }
        let fresh_at = match kind.is_fresh() {
            true => HEADER_LEN + 1 + usize::from(name[0]) - FRESH_DIGITS,
            false => 0,
        };
        let template = Template {
            question_len: to_u16(question_len),
            fresh_at: to_u8(fresh_at),
            ..Template::empty(kind)
        };
        self.push(template, payload);
    }

    /// Adds a malformed query.
    pub fn add_malformed(&mut self, malformed: &Malformed) {
        let template = Template { damage: malformed.damage, ..Template::empty(Kind::Malformed) };
        self.push(template, malformed.payload.clone());
    }

    fn push(&mut self, mut template: Template, mut payload: Vec<u8>) {
        if payload.len() >= 2 {
            put16(&mut payload, header::ID, 0);
        }
        template.payload_len = to_u16(payload.len());
        template.sum = Sum::default().add_bytes(&payload).folded();
        match template.bytes.get_mut(..payload.len()) {
            Some(room) => room.copy_from_slice(&payload),
            None => {
                template.long = to_u32(self.long.len());
                self.long.push(Long { payload: payload.into(), image: Box::default() });
            }
        }
        self.all.push(template);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Template `number`.
    #[inline]
    pub fn get(&self, number: u32) -> &Template {
        &self.all[number as usize]
    }

    /// Starts loading template `number`.
    #[inline]
    pub fn prefetch(&self, number: u32) {
        let template = (&raw const self.all[number as usize]).cast::<u8>();
        pmdns_nics::prefetch(template);
        pmdns_nics::prefetch(template.wrapping_add(64));
    }

    /// The payload, with zeros for the id and for the digits of a fresh name.
    #[inline]
    pub fn payload<'t>(&'t self, template: &'t Template) -> &'t [u8] {
        if template.long == NONE {
            return &template.bytes[..usize::from(template.payload_len)];
        }
        &self.long[template.long as usize].payload
    }

    /// Whether a right answer is known.
    pub fn has_image(&self, number: u32) -> bool {
        self.get(number).mask != NONE
    }

    /// Whether `message` is the known right answer, the id and the question apart.
    #[inline]
    pub fn is_image(&self, template: &Template, message: &[u8]) -> bool {
        let start = template.question_end();
        if template.mask == NONE
            || message.len() != start + usize::from(template.image_len)
            || message[HEAD] != template.head
        {
            return false;
        }
        let (records, image) = (&message[start..], self.image(template));
        let mask = &self.masks[template.mask as usize];
        let mut at = 0;
        while at < records.len() {
            if (word(records, at) ^ word(image, at)) & word(mask, at) != 0 {
                return false;
            }
            at += 8;
        }
        true
    }

    #[inline]
    fn image<'t>(&'t self, template: &'t Template) -> &'t [u8] {
        if template.long == NONE {
            let start = usize::from(template.payload_len);
            return &template.bytes[start..start + usize::from(template.image_len)];
        }
        &self.long[template.long as usize].image
    }

    /// Keeps `message`, which was checked in full, as the right answer of template `number`. `mask` has a
    /// zero for each byte of the message that is part of a TTL, 0xff for the others.
    pub fn learn(&mut self, number: u32, message: &[u8], mask: &[u8]) {
        let start = self.get(number).question_end();
        let (Some(image), Some(mask)) = (message.get(start..), mask.get(start..)) else { return };
        let Ok(image_len) = u16::try_from(image.len()) else { return };
        let payload = self.payload(self.get(number)).to_vec();
        let mask_number = self.mask_number(mask);
        let template = &mut self.all[number as usize];
        template.head.copy_from_slice(&message[HEAD]);
        template.image_len = image_len;
        template.mask = mask_number;
        let room = payload.len()..payload.len() + image.len();
        if template.long == NONE && room.end <= ROOM {
            template.bytes[room].copy_from_slice(image);
            return;
        }
        if template.long == NONE {
            template.long = to_u32(self.long.len());
            self.long.push(Long::default());
        }
        let long = &mut self.long[template.long as usize];
        (long.payload, long.image) = (payload.into(), image.into());
    }

    fn mask_number(&mut self, mask: &[u8]) -> u32 {
        if let Some(number) = self.mask_numbers.get(mask) {
            return *number;
        }
        let number = to_u32(self.masks.len());
        self.masks.push(mask.into());
        self.mask_numbers.insert(mask.into(), number);
        number
    }

    /// The right answer as a message with id zero, if it is known.
    pub fn known_answer(&self, template: &Template, question: &[u8]) -> Option<Vec<u8>> {
        (template.mask != NONE)
            .then(|| [&[0, 0], &template.head[..], question, self.image(template)].concat())
    }
}

impl Template {
    fn empty(kind: Kind) -> Self {
        Self {
            kind,
            damage: Damage::None,
            question_len: 0,
            fresh_at: 0,
            payload_len: 0,
            image_len: 0,
            sum: 0,
            head: [0; HEAD.end - HEAD.start],
            mask: NONE,
            long: NONE,
            bytes: [0; ROOM],
        }
    }

    /// Length of the payload.
    #[inline]
    pub fn payload_len(&self) -> usize {
        usize::from(self.payload_len)
    }

    /// The sum of the payload, if it is sent as it is.
    #[inline]
    pub fn fixed_sum(&self) -> Option<u16> {
        (self.fresh_at == 0).then_some(self.sum)
    }

    /// Completes a copy of the payload: its id, and for a fresh name the digits of query `number`.
    #[inline]
    pub fn complete(&self, payload: &mut [u8], id: u16, number: u32) {
        if let Some(place) = payload.first_chunk_mut::<2>() {
            *place = id.to_be_bytes();
        }
        if self.fresh_at != 0 {
            let at = usize::from(self.fresh_at);
            payload[at..at + FRESH_DIGITS].copy_from_slice(&digits(number));
        }
    }

    /// Whether `message` repeats the question of query `number`, made from this template with `payload`.
    #[inline]
    pub fn is_question(&self, payload: &[u8], message: &[u8], number: u32) -> bool {
        let end = self.question_end();
        let (Some(asked), Some(question)) = (payload.get(..end), message.get(..end)) else {
            return false;
        };
        if self.fresh_at == 0 {
            let mut at = HEADER_LEN;
            while at < end && word(asked, at) == word(question, at) {
                at += 8;
            }
            return at >= end;
        }
        let at = usize::from(self.fresh_at);
        let after = at + FRESH_DIGITS;
        question[HEADER_LEN..at] == asked[HEADER_LEN..at]
            && question[at..after] == digits(number)
            && question[after..] == asked[after..]
    }

    /// Where the question of an answer ends.
    #[inline]
    pub fn question_end(&self) -> usize {
        HEADER_LEN + usize::from(self.question_len)
    }
}

/// Eight hexadecimal digits that differ for every number, in an order that does not look like one.
#[inline]
fn digits(number: u32) -> [u8; FRESH_DIGITS] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // Odd multiplications and shifted xors lose nothing: two numbers never give the same digits.
    let mut mixed = number.wrapping_mul(0x9e37_79b1);
    mixed = (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca77);
    mixed ^= mixed >> 13;
    std::array::from_fn(|at| DIGITS[(mixed >> (28 - 4 * at) & 0xf) as usize])
}

#[cfg(test)]
mod tests;
