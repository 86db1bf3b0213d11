//! Walking over the records of a whole message, with every length and count checked. Names are not followed: the code
//! that reads them does that, with a budget ([`super::labels`]).

use std::ops::Range;

use super::dns::{HEADER_LEN, QUESTION_FIXED_LEN, RECORD_FIXED_LEN, header};
use super::labels::name_end;
use super::name::{MAX_LABEL, MAX_NAME};
use super::{be16, be32};

/// A pointer may lead to another pointer this often before a name is refused; a name of 255 bytes has no
/// more than 127 labels.
const MAX_POINTERS: usize = 127;

/// Which section a record stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// The answer itself.
    Answer,
    /// Authority: NS or SOA.
    Authority,
    /// Additional data.
    Additional,
}

/// One record of a message. Offsets count from the start of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireRecord {
    /// Where it stands.
    pub section: Section,
    /// Where its owner name starts.
    pub start: usize,
    /// Where its TTL is.
    pub ttl_at: usize,
    /// Where its data starts.
    pub data_at: usize,
    /// Where it ends.
    pub end: usize,
    /// Its type.
    pub rtype: u16,
    /// Its class.
    pub class: u16,
    /// Its time to live, in seconds.
    pub ttl: u32,
}

/// The message is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The records of a message, in order. After an error it ends.
#[derive(Debug)]
pub struct Records<'m> {
    message: &'m [u8],
    at: usize,
    left: [u16; 3],
}

impl<'m> Records<'m> {
    /// The records of `message`, which has one question.
    pub fn new(message: &'m [u8]) -> Result<Self, Malformed> {
        let count = |at| be16(message, at).ok_or(Malformed);
        if count(header::QDCOUNT)? != 1 {
            return Err(Malformed);
        }
        let left = [count(header::ANCOUNT)?, count(header::NSCOUNT)?, count(header::ARCOUNT)?];
        let at = name_end(message, HEADER_LEN).ok_or(Malformed)? + QUESTION_FIXED_LEN;
        if at > message.len() {
            return Err(Malformed);
        }
        Ok(Self { message, at, left })
    }

    /// Where the next record starts, or the message ends.
    pub fn position(&self) -> usize {
        self.at
    }

    fn read(&mut self, section: Section) -> Result<WireRecord, Malformed> {
        let start = self.at;
        let fixed = name_end(self.message, start).ok_or(Malformed)?;
        let data_at = fixed + RECORD_FIXED_LEN;
        let data_len = be16(self.message, fixed + 8).ok_or(Malformed)?;
        let end = data_at + usize::from(data_len);
        if end > self.message.len() {
            return Err(Malformed);
        }
        self.at = end;
        Ok(WireRecord {
            section,
            start,
            ttl_at: fixed + 4,
            data_at,
            end,
            rtype: be16(self.message, fixed).ok_or(Malformed)?,
            class: be16(self.message, fixed + 2).ok_or(Malformed)?,
            ttl: be32(self.message, fixed + 4).ok_or(Malformed)?,
        })
    }
}

impl Iterator for Records<'_> {
    type Item = Result<WireRecord, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let sections = [Section::Answer, Section::Authority, Section::Additional];
        let index = self.left.iter().position(|left| *left > 0)?;
        self.left[index] -= 1;
        let record = self.read(sections[index]);
        if record.is_err() {
            self.left = [0; 3];
        }
        Some(record)
    }
}

/// Where the name at `at` ends in the message itself; a pointer ends it after two bytes. The whole
/// name is followed once, so that what we pass on never loops (RFC 1035 section 4.1.4).
#[inline]
pub fn skip_name(message: &[u8], at: usize) -> Option<usize> {
    follow_name(message, at, |_| true)
}

/// Like [`skip_name`]; `take` gets each label that the name consists of. `None` also if it refuses one.
pub fn take_labels(
    message: &[u8],
    at: usize,
    mut take: impl FnMut(&[u8]) -> bool,
) -> Option<usize> {
    follow_name(message, at, |part| match message.get(part) {
        // A pointer.
        Some([0xc0..=0xff, ..]) => true,
        Some(label) => take(label),
        None => false,
    })
}

/// Like [`skip_name`]; `may_be` is asked about the place of each label and pointer.
#[inline]
fn follow_name(
    message: &[u8],
    at: usize,
    mut may_be: impl FnMut(Range<usize>) -> bool,
) -> Option<usize> {
    let mut position = at;
    let mut end = None;
    let mut pointers = 0;
    let mut length = 0;
    loop {
        let label = usize::from(*message.get(position)?);
        let next = position + if label >= 0xc0 { 2 } else { 1 + label };
        if !may_be(position..next) {
            return None;
        }
        match label {
            0 => return Some(end.unwrap_or(next)),
            1..=MAX_LABEL => {
                position = next;
                length += 1 + label;
                if length >= MAX_NAME {
                    return None;
                }
            }
            0xc0.. => {
                let target = usize::from(be16(message, position)? & 0x3fff);
                end = end.or(Some(next));
                pointers += 1;
                // Pointers lead backwards, to a prior occurrence of a name, and none is in the header.
                if target >= position || target < HEADER_LEN || pointers > MAX_POINTERS {
                    return None;
                }
                position = target;
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A response to `a. A` with the given records behind the question.
    fn message(counts: [u8; 3], records: &[u8]) -> Vec<u8> {
        let [answer, authority, additional] = counts;
        let mut message = vec![
            0, 1, 0x81, 0x80, 0, 1, 0, answer, 0, authority, 0, additional, 1, b'a', 0, 0, 1, 0, 1,
        ];
        message.extend_from_slice(records);
        message
    }

    #[test]
    fn records_are_found_in_their_sections() {
        let a = [0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 192, 0, 2, 1];
        let ns = [0, 0, 2, 0, 1, 0, 0, 0, 9, 0, 1, 0];
        let message = message([1, 1, 0], &[a.as_slice(), &ns].concat());
        let records: Vec<_> = Records::new(&message).unwrap().map(Result::unwrap).collect();
        assert_eq!(records.len(), 2);
        assert_eq!(
            (records[0].section, records[0].rtype, records[0].ttl),
            (Section::Answer, 1, 300)
        );
        assert_eq!(&message[records[0].data_at..records[0].end], [192, 0, 2, 1]);
        assert_eq!((records[1].section, records[1].rtype), (Section::Authority, 2));
        assert_eq!(records[1].end, message.len());
    }

    #[test]
    fn a_record_that_is_cut_off_ends_the_walk_with_an_error() {
        let message = message([2, 0, 0], &[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 192]);
        let mut records = Records::new(&message).unwrap();
        assert_eq!(records.next(), Some(Err(Malformed)));
        assert_eq!(records.next(), None);
    }

    #[test]
    fn trap_07_pointers_never_loop() {
        let message = message([1, 0, 0], &[0xc0, 19, 0xc0, 12]);
        assert_eq!(skip_name(&message, 19), None, "to itself");
        assert_eq!(skip_name(&message, 21), Some(23));
        let forward = [1, b'a', 0xc0, 6, 0, 0, 0];
        assert_eq!(skip_name(&forward, 0), None, "forward");
        let endless = [1, b'a', 0xc0, 0];
        assert_eq!(skip_name(&endless, 0), None, "round and round");
    }
}
