//! Reading the names of one message, with one budget for all of them.
//!
//! Names share their ends by pointers, and a pointer may lead to another name that ends in a pointer. A message of 64
//! KB can so have thousands of names of 127 labels each. A reader of them all has to stop somewhere.

use std::ops::Range;

use arrayvec::ArrayVec;

use super::be16;
use super::dns::HEADER_LEN;
use super::name::{MAX_LABEL, MAX_NAME};

/// Labels and pointers that are read of one message, at most. 512 records with two names of 34 labels each (an
/// IPv6 address in `ip6.arpa`) take 35,000.
pub const MAX_LABEL_STEPS: u32 = 1 << 17;

/// A name without pointers, in lower case.
pub type WholeName = ArrayVec<u8, MAX_NAME>;

/// The names of a message. Every step costs; once the budget is spent, no name can be read any more.
#[derive(Debug)]
pub struct Labels<'m> {
    message: &'m [u8],
    steps_left: u32,
}

/// A place in a name.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    at: usize,
    /// Where the labels started that `at` was reached by without a pointer: the next pointer leads before it.
    run: usize,
}

impl Cursor {
    /// At the start of the name at `at`.
    pub fn new(at: usize) -> Self {
        Self { at, run: at }
    }
}

impl<'m> Labels<'m> {
    /// The names of `message`.
    pub fn new(message: &'m [u8]) -> Self {
        Self { message, steps_left: MAX_LABEL_STEPS }
    }

    /// The message itself.
    pub fn message(&self) -> &'m [u8] {
        self.message
    }

    /// How many labels and pointers have been read.
    pub fn steps(&self) -> u32 {
        MAX_LABEL_STEPS - self.steps_left
    }

    /// The next label of a name with its length byte, behind any pointers; the root is one byte.
    ///
    /// A pointer leads to before the labels that end in it (RFC 1035 section 4.1.4: a prior occurrence), so no name is
    /// endless. None leads into the header.
    #[inline]
    pub fn next(&mut self, cursor: &mut Cursor) -> Option<Range<usize>> {
        loop {
            self.steps_left = self.steps_left.checked_sub(1)?;
            let first = usize::from(*self.message.get(cursor.at)?);
            if first <= MAX_LABEL {
                let label = cursor.at..cursor.at + 1 + first;
                cursor.at = label.end;
                return (label.end <= self.message.len()).then_some(label);
            }
            let target = usize::from(be16(self.message, cursor.at)? & 0x3fff);
            if first < 0xc0 || target >= cursor.run || target < HEADER_LEN {
                return None;
            }
            *cursor = Cursor::new(target);
        }
    }

    /// Reads the whole name at `at` and says how long it is without pointers. `None`: it is none.
    pub fn length(&mut self, at: usize) -> Option<usize> {
        let (mut cursor, mut length) = (Cursor::new(at), 0);
        loop {
            let label = self.next(&mut cursor)?.len();
            length += label;
            if length > MAX_NAME {
                return None;
            }
            if label == 1 {
                return Some(length);
            }
        }
    }

    /// The whole name at `at`.
    pub fn whole(&mut self, at: usize) -> Option<WholeName> {
        let (mut cursor, mut name) = (Cursor::new(at), WholeName::new());
        loop {
            let label = self.next(&mut cursor)?;
            name.try_extend_from_slice(&self.message[label.clone()]).ok()?;
            if label.len() == 1 {
                name.make_ascii_lowercase();
                return Some(name);
            }
        }
    }

    /// Whether the name at `at` is `name`, which is in lower case. `None`: it cannot be read.
    pub fn is(&mut self, at: usize, name: &[u8]) -> Option<bool> {
        let (mut cursor, mut rest) = (Cursor::new(at), name);
        loop {
            let label = &self.message[self.next(&mut cursor)?];
            let Some((one, next)) = rest.split_at_checked(label.len()) else {
                return Some(false);
            };
            // A length byte is no letter.
            if !label.eq_ignore_ascii_case(one) {
                return Some(false);
            }
            if label.len() == 1 {
                return Some(next.is_empty());
            }
            rest = next;
        }
    }

    /// The labels of `name` before the name at `at`, if that is `name` or one above it. `None`: it cannot be read.
    pub fn below<'n>(&mut self, at: usize, name: &'n [u8]) -> Option<Option<&'n [u8]>> {
        let length = self.length(at)?;
        let mut rest = name;
        while rest.len() > length {
            rest = &rest[1 + usize::from(rest[0])..];
        }
        let is_above = rest.len() == length && self.is(at, rest)?;
        Some(is_above.then(|| &name[..name.len() - length]))
    }
}

/// Where the name at `at` ends in the message itself; a pointer, which is not followed, ends it.
#[inline]
pub fn name_end(message: &[u8], at: usize) -> Option<usize> {
    let mut end = at;
    while end - at < MAX_NAME {
        match usize::from(*message.get(end)?) {
            0 => return Some(end + 1),
            label @ 1..=MAX_LABEL => end += 1 + label,
            0xc0.. => return (end + 2 <= message.len()).then_some(end + 2),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twelve bytes of header, then these.
    fn message(names: &[u8]) -> Vec<u8> {
        [&[0; HEADER_LEN], names].concat()
    }

    #[test]
    fn a_name_is_read_behind_its_pointers() {
        let message = message(b"\x01a\x01B\0\x01c\xc0\x0e\xc0\x11");
        let mut labels = Labels::new(&message);
        assert_eq!(labels.whole(21).unwrap().as_slice(), b"\x01c\x01b\0");
        assert_eq!((labels.length(21), name_end(&message, 21)), (Some(5), Some(23)));
        assert_eq!(labels.is(21, b"\x01c\x01b\0"), Some(true));
        assert_eq!(labels.is(21, b"\x01c\0"), Some(false));
        assert_eq!(labels.is(21, b"\x01c\x01b\x01d\0"), Some(false));
        assert_eq!(labels.below(14, b"\x02xx\x01c\x01b\0"), Some(Some(&b"\x02xx\x01c"[..])));
        assert_eq!(labels.below(14, b"\x01b\0"), Some(Some(&b""[..])));
        assert_eq!(labels.below(14, b"\x03c\x01b\0"), Some(None), "inside a label");
        assert_eq!(labels.below(12, b"\x01b\0"), Some(None));
    }

    #[test]
    fn pointers_lead_to_before_the_name() {
        for (names, at) in [
            (&b"\xc0\x0c"[..], 12),
            (b"\x01a\xc0\x0c", 12),
            (b"\xc0\x0e\0", 12),
            (b"\xc0\x0b", 12),
            (b"\x01a\x40", 12),
            (b"\x05ab", 12),
            (b"\xc0", 12),
        ] {
            assert_eq!(Labels::new(&message(names)).length(at), None, "{names:?}");
        }
    }

    #[test]
    fn the_budget_ends() {
        let message = message(b"\x01a\0");
        let mut labels = Labels::new(&message);
        let read = (0..u32::MAX).take_while(|_| labels.length(12).is_some()).count();
        assert_eq!(read, MAX_LABEL_STEPS as usize / 2);
        assert_eq!((labels.length(14), labels.steps()), (None, MAX_LABEL_STEPS));
    }
}
