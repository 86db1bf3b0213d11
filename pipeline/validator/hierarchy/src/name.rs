//! Domain names, uncompressed, with the order of RFC 4034 section 6.1.

use std::cmp::Ordering;
use std::fmt;

/// A name as it stands on the wire. Equality and order take letters of either case for the same.
#[derive(Clone)]
pub struct Name(Vec<u8>);

impl Name {
    /// The root.
    pub fn root() -> Self {
        Self(vec![0])
    }

    /// A name as people write it, without escapes; the dot at the end may be left out.
    pub fn new(text: &str) -> Self {
        let labels = text.split('.').filter(|label| !label.is_empty());
        Self::of_labels(labels.map(str::as_bytes))
    }

    /// A name of these labels, the leftmost first.
    pub fn of_labels<'l>(labels: impl Iterator<Item = &'l [u8]>) -> Self {
        let mut wire = Vec::new();
        for label in labels {
            wire.push(label.len() as u8);
            wire.extend(label);
        }
        wire.push(0);
        Self(wire)
    }

    /// A name at the front of `wire`, and how long it is.
    pub fn parse(message: &[u8], at: usize) -> Option<(Self, usize)> {
        let (mut wire, mut here, mut end) = (Vec::new(), at, None);
        // No name has more labels, and each pointer leads to one at least.
        for _ in 0..256 {
            let len = *message.get(here)?;
            match len {
                0 => {
                    wire.push(0);
                    return (wire.len() <= 255).then_some((Self(wire), end.unwrap_or(here + 1)));
                }
                1..=63 => {
                    wire.extend(message.get(here..=here + usize::from(len))?);
                    here += usize::from(len) + 1;
                }
                0xc0.. => {
                    let low = *message.get(here + 1)?;
                    end.get_or_insert(here + 2);
                    here = usize::from(u16::from_be_bytes([len & 0x3f, low]));
                }
                _ => return None,
            }
        }
        None
    }

    /// As it stands on the wire.
    pub fn wire(&self) -> &[u8] {
        &self.0
    }

    /// The same in lower case.
    pub fn lower(&self) -> Self {
        Self(self.0.to_ascii_lowercase())
    }

    /// Its labels, the leftmost first.
    pub fn labels(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let (len, after) = rest.split_first()?;
            let (label, after) = after.split_at_checked(usize::from(*len))?;
            rest = after;
            (*len > 0).then_some(label)
        })
    }

    /// How many labels it has, the root's not counted.
    pub fn count(&self) -> usize {
        self.labels().count()
    }

    /// How many labels an RRSIG says it has: a wildcard's asterisk does not count.
    pub fn signed_count(&self) -> u8 {
        self.count() as u8 - u8::from(self.is_wildcard())
    }

    /// Whether the leftmost label is an asterisk.
    pub fn is_wildcard(&self) -> bool {
        self.0.starts_with(b"\x01*")
    }

    /// The name above; the root has none.
    pub fn parent(&self) -> Option<Self> {
        let len = usize::from(*self.0.first()?);
        (len > 0).then(|| Self(self.0[len + 1..].to_vec()))
    }

    /// It and all names above it.
    pub fn chain(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self.clone()), Self::parent)
    }

    /// `label` in front of it.
    pub fn child(&self, label: &str) -> Self {
        Self([&[label.len() as u8], label.as_bytes(), &self.0[..]].concat())
    }

    /// `labels`, without the dot at the end, in front of it.
    pub fn below(&self, labels: &str) -> Self {
        let own = labels.split('.').map(str::as_bytes);
        Self::of_labels(own.filter(|label| !label.is_empty()).chain(self.labels()))
    }

    /// Whether it is `other` or a name below.
    pub fn is_within(&self, other: &Self) -> bool {
        self.chain().any(|name| name == *other)
    }

    /// With `from` at its end replaced by `to`, if it is below `from` and the result is a name (RFC 6672 section 2.2).
    pub fn redirected(&self, from: &Self, to: &Self) -> Option<Self> {
        let own = self.count().checked_sub(from.count()).filter(|own| *own > 0)?;
        let name = Self::of_labels(self.labels().take(own).chain(to.labels()));
        (self.is_within(from) && name.0.len() <= 255).then_some(name)
    }

    fn reversed(&self) -> Vec<Vec<u8>> {
        let mut labels: Vec<_> = self.labels().map(<[u8]>::to_ascii_lowercase).collect();
        labels.reverse();
        labels
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for Name {}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        self.reversed().cmp(&other.reversed())
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for label in self.labels() {
            write!(f, "{}.", label.escape_ascii())?;
        }
        if self.0 == [0] { f.write_str(".") } else { Ok(()) }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
