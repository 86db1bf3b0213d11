//! Which VLANs a port is on, and which one a frame is of.

use pmdns_config::Vlan;

use crate::step::Reason;
use crate::wire::be16;
use crate::wire::ip::{ETHERNET_LEN, ETHERTYPE, TYPE_IPV4, TYPE_QINQ, TYPE_VLAN, VLAN_LEN};

/// The VLAN id in a tag; the other bits are priority (IEEE 802.1Q section 9.6).
const ID: u16 = 0x0fff;
/// The key of no tag, and of a single tag that has a priority and no VLAN.
const UNTAGGED: u32 = 0;
/// The key of tags that no config can name, and an EtherType that no frame can have.
const NONE: u32 = u32::MAX;

/// The VLANs a port is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vlans {
    listed: Box<[Vlan]>,
    /// The keys of `listed`, sorted.
    keys: Box<[u32]>,
    /// The EtherType of IPv4 if untagged frames are welcome, else `NONE`. Parse compares each frame's EtherType with
    /// it first of all, so untagged queries need no check of their own.
    plain_ipv4: u32,
}

/// The tags between a frame's addresses and its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tags {
    /// The type of the payload.
    pub(crate) ethertype: u16,
    /// Where it starts.
    pub(crate) l3: usize,
    /// The one id, or the outer and the inner one.
    key: u32,
}

impl Vlans {
    /// These VLANs and no others.
    pub fn of(listed: &[Vlan]) -> Self {
        let mut keys: Box<[u32]> = listed.iter().copied().map(key_of).collect();
        keys.sort_unstable();
        let plain_ipv4 = if listed.contains(&Vlan::Untagged) { u32::from(TYPE_IPV4) } else { NONE };
        Self { listed: listed.into(), keys, plain_ipv4 }
    }

    /// In the order of the config.
    pub fn listed(&self) -> &[Vlan] {
        &self.listed
    }

    /// Whether a frame with this EtherType is IPv4 without tags, and such frames are welcome.
    #[inline(always)]
    pub(crate) fn is_plain_ipv4(&self, ethertype: u16) -> bool {
        u32::from(ethertype) == self.plain_ipv4
    }

    /// The VLAN of these tags, if it is one of the port's.
    pub(crate) fn find(&self, tags: Tags) -> Option<Vlan> {
        self.listed.iter().copied().find(|vlan| key_of(*vlan) == tags.key)
    }

    /// Whether frames with these tags are welcome.
    #[inline]
    pub(crate) fn have(&self, tags: Tags) -> bool {
        self.keys.binary_search(&tags.key).is_ok()
    }
}

impl Default for Vlans {
    /// Untagged frames only.
    fn default() -> Self {
        Self::of(&[Vlan::Untagged])
    }
}

impl Tags {
    /// Reads the tags of a frame, of which there may be two. The inner one, and one that stands alone, must be a
    /// customer's (0x8100); the outer one may be a provider's (0x88a8).
    #[inline]
    pub(crate) fn read(frame: &[u8]) -> Result<Self, Reason> {
        let (outer_type, l3) = (read16(frame, ETHERTYPE)?, ETHERNET_LEN);
        if !is_tag(outer_type) {
            return Ok(Self { ethertype: outer_type, l3, key: UNTAGGED });
        }
        let outer = read16(frame, l3)? & ID;
        let (inner_type, l3) = (read16(frame, l3 + 2)?, l3 + VLAN_LEN);
        if !is_tag(inner_type) {
            let key = if outer_type == TYPE_VLAN { u32::from(outer) } else { NONE };
            return Ok(Self { ethertype: inner_type, l3, key });
        }
        let inner = read16(frame, l3)? & ID;
        let (ethertype, l3) = (read16(frame, l3 + 2)?, l3 + VLAN_LEN);
        if is_tag(ethertype) {
            return Err(Reason::VlanDepth);
        }
        let is_pair = inner_type == TYPE_VLAN && outer != 0 && inner != 0;
        Ok(Self { ethertype, l3, key: if is_pair { pair(outer, inner) } else { NONE } })
    }
}

/// The bytes between a frame's addresses and its EtherType that put it into `vlan`.
pub(crate) fn write(vlan: Vlan) -> arrayvec::ArrayVec<u8, { 2 * VLAN_LEN }> {
    let mut bytes = arrayvec::ArrayVec::new();
    let tags = match vlan {
        Vlan::Untagged => [None, None],
        Vlan::Tagged(id) => [Some((TYPE_VLAN, id)), None],
        Vlan::Double(outer, inner) => [Some((TYPE_QINQ, outer)), Some((TYPE_VLAN, inner))],
    };
    for (ethertype, id) in tags.into_iter().flatten() {
        bytes.extend(ethertype.to_be_bytes());
        bytes.extend(id.to_be_bytes());
    }
    bytes
}

fn read16(frame: &[u8], at: usize) -> Result<u16, Reason> {
    be16(frame, at).ok_or(Reason::Runt)
}

fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, TYPE_VLAN | TYPE_QINQ)
}

fn key_of(vlan: Vlan) -> u32 {
    match vlan {
        Vlan::Untagged => UNTAGGED,
        Vlan::Tagged(id) => id.into(),
        Vlan::Double(outer, inner) => pair(outer, inner),
    }
}

fn pair(outer: u16, inner: u16) -> u32 {
    u32::from(outer) << 16 | u32::from(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An EtherType and a tag's two bytes.
    type Tag = (u16, u16);

    /// A frame with these tags.
    fn frame(tags: &[Tag]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        for number in tags.iter().flat_map(|(ethertype, tag)| [ethertype, tag]) {
            frame.extend(number.to_be_bytes());
        }
        frame.extend(TYPE_IPV4.to_be_bytes());
        frame
    }

    #[test]
    fn vlans_are_those_that_the_config_lists() {
        use Vlan::{Double, Tagged, Untagged};
        let (c, s) = (TYPE_VLAN, TYPE_QINQ);
        let cases: [(&[Tag], Option<Vlan>); 12] = [
            (&[], Some(Untagged)),
            (&[(c, 0xe000)], Some(Untagged)),
            (&[(c, 7)], Some(Tagged(7))),
            (&[(c, 0xf007)], Some(Tagged(7))),
            (&[(s, 7)], None),
            (&[(s, 0)], None),
            (&[(s, 7), (c, 8)], Some(Double(7, 8))),
            (&[(c, 7), (c, 8)], Some(Double(7, 8))),
            (&[(c, 7), (s, 8)], None),
            (&[(c, 0), (c, 7)], None),
            (&[(c, 7), (c, 0)], None),
            (&[(s, 0x2fff), (c, 0x3fff)], None),
        ];
        let all = [Untagged, Tagged(7), Tagged(8), Double(7, 8), Double(8, 7)];
        for (tags, expected) in cases {
            let read = Tags::read(&frame(tags)).unwrap();
            assert_eq!((read.ethertype, read.l3), (TYPE_IPV4, 14 + 4 * tags.len()));
            for vlan in all {
                let have = Vlans::of(&[vlan]).have(read);
                assert_eq!(have, expected == Some(vlan), "{tags:x?} in {vlan}");
            }
            assert_eq!(Vlans::of(&all).have(read), expected.is_some(), "{tags:x?}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for vlan in [Vlan::Untagged, Vlan::Tagged(4094), Vlan::Double(4094, 1)] {
            let frame = [&[0; 12], &*write(vlan), &TYPE_IPV4.to_be_bytes()].concat();
            assert!(Vlans::of(&[vlan]).have(Tags::read(&frame).unwrap()), "{vlan}");
        }
    }

    #[test]
    fn frames_that_end_in_their_tags_are_runts() {
        let whole = frame(&[(TYPE_QINQ, 7), (TYPE_VLAN, 8)]);
        for len in 0..whole.len() {
            assert_eq!(Tags::read(&whole[..len]), Err(Reason::Runt), "{len}");
        }
        let deep = frame(&[(TYPE_QINQ, 7), (TYPE_VLAN, 8), (TYPE_VLAN, 9)]);
        assert_eq!(Tags::read(&deep), Err(Reason::VlanDepth));
    }
}
