//! The VLANs of a port, as the config names them.

use std::fmt;

use serde::de::{Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// An entry of `vlans`: `"untagged"`, a VLAN id, or `[outer, inner]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vlan {
    /// Frames without a tag, and those whose only tag has a priority and no VLAN (id 0).
    Untagged,
    /// Frames with one tag (IEEE 802.1Q).
    Tagged(u16),
    /// Frames with an outer and an inner tag (IEEE 802.1ad, QinQ).
    Double(u16, u16),
}

/// The word for [`Vlan::Untagged`].
const UNTAGGED: &str = "untagged";

impl Vlan {
    /// The ids of its tags.
    pub fn ids(self) -> impl Iterator<Item = u16> {
        let (outer, inner) = match self {
            Self::Untagged => (None, None),
            Self::Tagged(id) => (Some(id), None),
            Self::Double(outer, inner) => (Some(outer), Some(inner)),
        };
        outer.into_iter().chain(inner)
    }
}

impl fmt::Display for Vlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untagged => f.write_str(UNTAGGED),
            Self::Tagged(id) => write!(f, "{id}"),
            Self::Double(outer, inner) => write!(f, "[{outer}, {inner}]"),
        }
    }
}

impl<'de> Deserialize<'de> for Vlan {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(VlanVisitor)
    }
}

struct VlanVisitor;

impl<'de> Visitor<'de> for VlanVisitor {
    type Value = Vlan;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"untagged\", a VLAN id, or [outer id, inner id]")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vlan, E> {
        match text {
            UNTAGGED => Ok(Vlan::Untagged),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }

    fn visit_i64<E: Error>(self, id: i64) -> Result<Vlan, E> {
        let wrong = |_| E::invalid_value(Unexpected::Signed(id), &self);
        u16::try_from(id).map(Vlan::Tagged).map_err(wrong)
    }

    fn visit_u64<E: Error>(self, id: u64) -> Result<Vlan, E> {
        let wrong = |_| E::invalid_value(Unexpected::Unsigned(id), &self);
        u16::try_from(id).map(Vlan::Tagged).map_err(wrong)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut ids: A) -> Result<Vlan, A::Error> {
        let mut id = |at| ids.next_element()?.ok_or_else(|| A::Error::invalid_length(at, &self));
        let pair = Vlan::Double(id(0)?, id(1)?);
        match ids.next_element::<u16>()? {
            None => Ok(pair),
            Some(_) => Err(A::Error::invalid_length(3, &self)),
        }
    }
}
