//! Trust anchors, and names that are not validated.

use std::collections::{HashMap, HashSet};

use crate::message::{CLASS_IN, be16, rtype};
use crate::name::{self, Form, Name};
use crate::rdata::{Ds, Key};
use crate::verdict::{Question, SecurityStatus};

/// A key, or the digest of a key, that is trusted without proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustAnchor {
    zone: Name,
    data: Data,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Data {
    Ds(Ds),
    Key(Key),
}

impl TrustAnchor {
    /// A DS (43) or DNSKEY (48) record: its owner in wire format, its type, its data. `None`: it is not one, or
    /// nothing may be validated with it.
    #[must_use]
    pub fn new(owner: &[u8], rtype: u16, data: &[u8]) -> Option<Self> {
        let data = match rtype {
            rtype::DS => Data::Ds(Ds::read(data)?),
            rtype::DNSKEY => Data::Key(Key::read(data)?),
            _ => return None,
        };
        Some(Self { zone: name::checked(owner)?, data })
    }
}

/// The anchors of one zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub(crate) ds: Vec<Ds>,
    pub(crate) keys: Vec<Key>,
}

/// Where trust begins and ends, by names.
#[derive(Clone, Debug, Default)]
pub struct TrustAnchors {
    anchors: HashMap<Name, Anchor>,
    negative: HashSet<Name>,
}

/// Where the way to a name begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start<'t> {
    /// At this zone.
    Anchor(&'t [u8], &'t Anchor),
    /// The operator says not to go it.
    Negative,
    /// Nowhere.
    None,
}

impl TrustAnchors {
    /// Trusts `anchors`, and nothing at and below the `negative` names (RFC 7646; wire format) unless an anchor is closer.
    #[must_use]
    pub fn new(anchors: &[TrustAnchor], negative: &[&[u8]]) -> Self {
        let mut this = Self::default();
        for TrustAnchor { zone, data } in anchors {
            let anchor = this.anchors.entry(zone.clone()).or_default();
            match data {
                Data::Ds(ds) => anchor.ds.push(ds.clone()),
                Data::Key(key) => anchor.keys.push(key.clone()),
            }
        }
        this.negative = negative.iter().filter_map(|name| name::checked(name)).collect();
        this
    }

    pub(crate) fn start(&self, name: &[u8]) -> Start<'_> {
        for one in name::upwards(name) {
            if self.negative.contains(one) {
                return Start::Negative;
            }
            if let Some((zone, anchor)) = self.anchors.get_key_value(one) {
                return Start::Anchor(zone, anchor);
            }
        }
        Start::None
    }

    /// The verdict on a reply that needs no validation: neither the name in question nor any owner in the answer is
    /// below a trust anchor. `None`: it has to be validated. This reads the owners in the answer at most.
    #[must_use]
    pub fn verdict(
        &self,
        question: Question<'_>,
        reply: &[u8],
        limit: usize,
    ) -> Option<SecurityStatus> {
        if question.qclass != CLASS_IN {
            return Some(SecurityStatus::Indeterminate);
        }
        let name = name::checked(question.name)?;
        let verdict = match self.start(zone_name(&name, question.qtype)) {
            Start::Anchor(..) => return None,
            Start::Negative => SecurityStatus::Insecure,
            Start::None => SecurityStatus::Indeterminate,
        };
        let is_concerned = |owner: &[u8]| matches!(self.start(owner), Start::Anchor(..));
        let is_free = !owners(reply, limit)?.iter().any(|owner| is_concerned(owner));
        is_free.then_some(verdict)
    }
}

/// The name whose zone records of this type belong to: DS records are the zone's above (RFC 4035 section 3.1.4.1).
pub(crate) fn zone_name(owner: &[u8], rtype: u16) -> &[u8] {
    match rtype {
        rtype::DS => name::parent(owner).unwrap_or(owner),
        _ => owner,
    }
}

/// The owners in the answer section; `None`: there are more than `limit`, or they cannot be read.
fn owners(reply: &[u8], limit: usize) -> Option<Vec<Vec<u8>>> {
    let (questions, answers) = (be16(reply, 4)?, usize::from(be16(reply, 6)?));
    if questions > 1 || answers > limit {
        return None;
    }
    let mut at = 12;
    for _ in 0..questions {
        at = name::read(reply, at, Form::Compressed, &mut Vec::new())? + 4;
    }
    let mut owners = Vec::new();
    for _ in 0..answers {
        let mut owner = Vec::new();
        at = name::read(reply, at, Form::Compressed, &mut owner)?;
        if owners.last() != Some(&owner) {
            owners.push(owner);
        }
        at += 10 + usize::from(be16(reply, at + 8)?);
    }
    Some(owners)
}
