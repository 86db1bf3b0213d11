//! Names in wire format, uncompressed and lower case: `3www7example0`.
//!
//! All functions take such names only; [`read`] and [`checked`] make them.

use std::cmp::Ordering;

/// Octets of a name, at most (RFC 1035 section 3.1).
pub(crate) const MAX_LEN: usize = 255;
/// Labels of a name without the root's, at most: each takes two octets.
const MAX_LABELS: usize = 127;
/// Pointers that are followed for one name. Each leads further back, so they end anyway.
const MAX_POINTERS: usize = 127;
/// The root.
pub(crate) const ROOT: &[u8] = &[0];

/// An owned name.
pub(crate) type Name = Box<[u8]>;

/// How a name may stand in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// With compression pointers; converted to lower case.
    Compressed,
    /// Without pointers; converted to lower case.
    Plain,
    /// Without pointers; the letter case is kept.
    Verbatim,
}

/// Appends the name at `at` to `target`; returns where it ends. `None`: it is malformed.
pub(crate) fn read(
    message: &[u8],
    mut at: usize,
    form: Form,
    target: &mut Vec<u8>,
) -> Option<usize> {
    let start = target.len();
    let (mut end, mut pointers) = (None, 0);
    loop {
        let length = *message.get(at)?;
        match length {
            0..64 => {
                let label = message.get(at..=at + usize::from(length))?;
                if target.len() - start + label.len() > MAX_LEN {
                    return None;
                }
                match form {
                    Form::Verbatim => target.extend_from_slice(label),
                    _ => target.extend(label.iter().map(u8::to_ascii_lowercase)),
                }
                at += label.len();
                if length == 0 {
                    return Some(end.unwrap_or(at));
                }
            }
            192.. if form == Form::Compressed => {
                let low = *message.get(at + 1)?;
                let to = usize::from(u16::from_be_bytes([length & 63, low]));
                pointers += 1;
                if to >= at || pointers > MAX_POINTERS {
                    return None;
                }
                end = end.or(Some(at + 2));
                at = to;
            }
            _ => return None,
        }
    }
}

/// A name from outside, in lower case; `None`: it is malformed.
pub(crate) fn checked(name: &[u8]) -> Option<Name> {
    let mut target = Vec::with_capacity(name.len());
    let end = read(name, 0, Form::Plain, &mut target)?;
    (end == name.len()).then(|| target.into())
}

/// The length of the name that `bytes` begin with, root label included; `None`: there is none.
pub(crate) fn length(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1 + length;
        if length >= 64 || at > MAX_LEN || at > bytes.len() {
            return None;
        }
        if length == 0 {
            return Some(at);
        }
    }
}

/// The name itself, the name above it, and so on down to the root.
pub(crate) fn upwards(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(name), |name| parent(name))
}

/// The name above; the root has none.
pub(crate) fn parent(name: &[u8]) -> Option<&[u8]> {
    match name.first() {
        None | Some(0) => None,
        Some(length) => name.get(1 + usize::from(*length)..),
    }
}

/// How many labels it has; the root has none.
pub(crate) fn labels(name: &[u8]) -> usize {
    upwards(name).count() - 1
}

/// How many labels it has, without a `*` that it begins with (RFC 4034 section 3.1.3).
pub(crate) fn signed_labels(name: &[u8]) -> usize {
    labels(name) - usize::from(is_wildcard(name))
}

/// Whether it begins with the label `*`.
pub(crate) fn is_wildcard(name: &[u8]) -> bool {
    name.starts_with(b"\x01*")
}

/// Its last `count` labels: an ancestor of it, or the name itself.
pub(crate) fn last(name: &[u8], count: usize) -> &[u8] {
    let skip = labels(name).saturating_sub(count);
    upwards(name).nth(skip).unwrap_or(ROOT)
}

/// Whether it is `zone` or below it.
pub(crate) fn is_within(name: &[u8], zone: &[u8]) -> bool {
    upwards(name).find(|one| one.len() <= zone.len()) == Some(zone)
}

/// Whether it is below `zone`.
pub(crate) fn is_below(name: &[u8], zone: &[u8]) -> bool {
    name.len() > zone.len() && is_within(name, zone)
}

/// The longest name that both are at or below.
pub(crate) fn common<'n>(name: &'n [u8], other: &[u8]) -> &'n [u8] {
    upwards(name).find(|one| is_within(other, one)).unwrap_or(ROOT)
}

/// `*` below a name; `None`: it would be too long.
pub(crate) fn wildcard(above: &[u8]) -> Option<Name> {
    (above.len() + 2 <= MAX_LEN).then(|| [b"\x01*", above].concat().into())
}

/// Canonical order (RFC 4034 section 6.1).
pub(crate) fn compare(left: &[u8], right: &[u8]) -> Ordering {
    let (mut left_starts, mut right_starts) = ([0; MAX_LABELS + 1], [0; MAX_LABELS + 1]);
    let left_count = starts(left, &mut left_starts);
    let right_count = starts(right, &mut right_starts);
    let mut ordering = Ordering::Equal;
    for back in 1..=left_count.min(right_count) {
        let label = |name: &'_ [u8], at: u8| -> (usize, usize) {
            let at = usize::from(at);
            (at + 1, at + 1 + usize::from(name[at]))
        };
        let (from, to) = label(left, left_starts[left_count - back]);
        let (from_other, to_other) = label(right, right_starts[right_count - back]);
        ordering = left[from..to].cmp(&right[from_other..to_other]);
        if ordering.is_ne() {
            break;
        }
    }
    ordering.then(left_count.cmp(&right_count))
}

/// Writes down where each label begins; returns how many there are.
fn starts(name: &[u8], starts: &mut [u8; MAX_LABELS + 1]) -> usize {
    // A name has 255 octets and 127 labels at most.
    let (mut at, mut count) = (0u8, 0);
    while name[usize::from(at)] != 0 {
        starts[count] = at;
        count += 1;
        at += 1 + name[usize::from(at)];
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::name;

    #[test]
    fn names_are_in_canonical_order() {
        // RFC 4034 section 6.1.
        let order = [
            "example",
            "a.example",
            "yljkjljk.a.example",
            "z.a.example",
            "zabc.a.example",
            "z.example",
        ];
        for pair in order.windows(2) {
            assert_eq!(compare(&name(pair[0]), &name(pair[1])), Ordering::Less, "{pair:?}");
            assert_eq!(compare(&name(pair[1]), &name(pair[0])), Ordering::Greater, "{pair:?}");
        }
        assert_eq!(compare(ROOT, ROOT), Ordering::Equal);
        assert_eq!(compare(ROOT, &name("a")), Ordering::Less);
    }

    #[test]
    fn names_are_within_zones_by_whole_labels() {
        assert!(is_within(&name("www.example"), &name("example")));
        assert!(is_within(&name("example"), &name("example")));
        assert!(!is_below(&name("example"), &name("example")));
        assert!(!is_within(&name("wwwexample"), &name("example")));
        assert!(!is_within(&name("example"), &name("www.example")));
        assert!(is_within(&name("example"), ROOT));
        assert_eq!(common(&name("a.b.example"), &name("c.b.example")), &*name("b.example"));
        assert_eq!(last(&name("a.b.example"), 2), &*name("b.example"));
    }

    #[test]
    fn pointers_lead_back_and_end() {
        let message = b"\x03www\x00\x01a\xc0\x00\xc0\x05\xc0\x0b";
        let mut target = Vec::new();
        assert_eq!(read(message, 5, Form::Compressed, &mut target), Some(9));
        assert_eq!(target, b"\x01a\x03www\x00");
        assert_eq!(read(message, 9, Form::Compressed, &mut Vec::new()), Some(11));
        assert_eq!(read(message, 11, Form::Compressed, &mut Vec::new()), None, "to itself");
        assert_eq!(read(message, 5, Form::Plain, &mut Vec::new()), None);
    }

    #[test]
    fn a_name_is_too_long_by_what_it_expands_to() {
        // Each label is followed by a pointer to the last: few octets in the message, many in the name.
        let mut message = [&[63][..], &[b'x'; 63], &[0]].concat();
        let mut before = 0;
        for _ in 0..4 {
            let at = message.len();
            message.push(63);
            message.extend([b'y'; 63]);
            message.extend([0xc0, before as u8]);
            before = at;
            let read = read(&message, at, Form::Compressed, &mut Vec::new());
            assert_eq!(read.is_some(), at < 65 + 2 * 66, "at {at}");
            if before > 255 {
                break;
            }
        }
    }
}
