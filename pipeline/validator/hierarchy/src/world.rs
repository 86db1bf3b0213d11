//! All zones, and how each hangs from the one above.

use std::collections::BTreeMap;

use crate::content::{QUESTIONS, SMALL_QUESTIONS, fill, fill_small};
use crate::key::SigningKey;
use crate::name::Name;
use crate::rtype;
use crate::zone::{Denial, Status, Zone};
use crate::{EXPIRATION, INCEPTION, NOW};

/// The hierarchy.
pub struct World {
    zones: BTreeMap<Name, Zone>,
    questions: Vec<(Name, u16)>,
}

/// How a zone hangs from the one above.
#[derive(Clone, Copy)]
enum Link {
    /// By a DS record of its key with a digest of this type.
    Ds(u8),
    /// By none.
    None,
    /// By a DS record of another algorithm.
    OtherAlgorithm,
    /// By a DS record with a digest of a type that nobody knows.
    OtherDigest,
    /// By one that nobody can use and one that is good.
    Both,
    /// By a DS record that fits no key.
    Wrong,
}

impl World {
    /// The hierarchy; it is the same every time.
    pub fn new() -> Self {
        let mut world = Self { zones: BTreeMap::new(), questions: Vec::new() };
        world.plant_root();
        let nsec3 = |iterations, salt: &[u8], opt_out| Denial::Nsec3 {
            iterations,
            salt: salt.to_vec(),
            opt_out,
        };
        let secure = Status::Secure;
        world.plant("a5.", 5, Denial::Nsec, secure, Link::Ds(1));
        world.plant("a7.", 7, nsec3(1, b"\xaa\xbb", false), secure, Link::Ds(2));
        world.plant("a8.", 8, nsec3(0, b"", false), secure, Link::Ds(2));
        world.plant("a10.", 10, Denial::Nsec, secure, Link::Ds(4));
        world.plant("a13.", 13, Denial::Nsec, secure, Link::Ds(2));
        world.plant("a14.", 14, nsec3(150, b"\x01", false), secure, Link::Ds(4));
        world.plant("a15.", 15, nsec3(0, b"", true), secure, Link::Both);
        world.plant("a16.", 16, Denial::Nsec, secure, Link::Ds(2));
        // More iterations than anybody takes for a proof.
        world.plant("many.", 15, nsec3(151, b"", false), Status::Open, Link::Ds(2));
        world.plant("open.", 15, Denial::None, Status::Insecure, Link::None);
        for parent in ["a13.", "a8.", "a15."] {
            world.plant_children(parent);
        }
        // Below a zone that is not signed nothing is, whatever it looks like.
        world.plant("signed.open.", 15, Denial::Nsec, Status::Insecure, Link::Ds(2));
        world.plant("deep.sec.a13.", 15, nsec3(5, b"salt", false), secure, Link::Ds(2));
        for zone in world.zones.values_mut() {
            zone.finish();
        }
        world
    }

    fn plant_root(&mut self) {
        let root = Name::root();
        let keys = ["ksk", "zsk"].map(|role| SigningKey::of_zone(&root, role, 8));
        let mut zone = Zone::new(root, Status::Secure, Denial::Nsec, Some(keys));
        fill_small(&mut zone, 1, "a13.");
        self.add_questions(&zone.apex, SMALL_QUESTIONS);
        self.zones.insert(zone.apex.clone(), zone);
    }

    /// Zones that hang from `parent` in every way there is.
    fn plant_children(&mut self, parent: &str) {
        let mut plant = |label: &str, denial: Denial, status, link| {
            self.plant(&format!("{label}.{parent}"), 15, denial, status, link);
        };
        let (insecure, bogus) = (Status::Insecure, Status::Bogus);
        plant("sec", Denial::Nsec, Status::Secure, Link::Ds(2));
        plant("sec3", short_nsec3(), Status::Secure, Link::Both);
        plant("insec", Denial::None, insecure, Link::None);
        plant("island", Denial::Nsec, insecure, Link::None);
        plant("algorithm", Denial::Nsec, insecure, Link::OtherAlgorithm);
        plant("digest", Denial::Nsec, insecure, Link::OtherDigest);
        plant("bogus", Denial::Nsec, bogus, Link::Wrong);
        plant("bare", Denial::None, bogus, Link::Ds(2));
        plant("expired", Denial::Nsec, bogus, Link::Ds(2));
        plant("early", short_nsec3(), bogus, Link::Ds(2));
    }

    /// Makes a zone and its delegation; the zone above stands already.
    fn plant(&mut self, apex: &str, algorithm: u8, denial: Denial, status: Status, link: Link) {
        let apex = Name::new(apex);
        let own = ["a13.", "sec.a13.", "sec.a8."].iter().any(|fixed| Name::new(fixed) == apex);
        let algorithm = if own { 13 } else { algorithm };
        let roles = if apex == Name::new("a13.") { ["ksk", "zsk"] } else { ["csk", "csk"] };
        let keys = roles.map(|role| SigningKey::of_zone(&apex, role, algorithm));
        let first = apex.labels().next().unwrap_or_default().to_vec();
        self.delegate(&apex, &keys[0], link);
        let signs = denial != Denial::None;
        let mut zone = Zone::new(apex.clone(), status, denial, signs.then_some(keys));
        match &*first {
            b"expired" => zone.times = [INCEPTION - 86_400, NOW - 7200],
            b"early" => zone.times = [NOW + 7200, EXPIRATION],
            _ => {}
        }
        let number = self.zones.len() as u8;
        let is_small = apex.count() > 1 && status != Status::Secure;
        let secure = if apex.is_within(&Name::new("a13.")) { "sec.a8." } else { "sec.a13." };
        if is_small {
            fill_small(&mut zone, number, secure);
            self.add_questions(&apex, SMALL_QUESTIONS);
        } else {
            fill(&mut zone, number, [secure, "insec.a13.", "bogus.a13."]);
            self.add_questions(&apex, QUESTIONS);
        }
        self.zones.insert(apex, zone);
    }

    fn delegate(&mut self, apex: &Name, key: &SigningKey, link: Link) {
        let above = apex.parent().unwrap_or_else(Name::root);
        let parent = self.zones.values_mut().filter(|zone| above.is_within(&zone.apex));
        let parent = parent.max_by_key(|zone| zone.apex.count());
        let parent = parent.expect("the root is above all");
        let own = apex.count() - parent.apex.count();
        let labels: Vec<_> = apex.labels().take(own).map(String::from_utf8_lossy).collect();
        let labels = labels.join(".");
        parent.add(&labels, rtype::NS, apex.below("ns").wire());
        let good = |digest_type| key.ds(apex, digest_type);
        let with = |at: usize, value| {
            let mut data = good(2);
            data[at] = value;
            data
        };
        let sets = match link {
            Link::Ds(digest_type) => vec![good(digest_type)],
            Link::None => vec![],
            Link::OtherAlgorithm => vec![with(2, 200)],
            Link::OtherDigest => vec![with(3, 99)],
            Link::Both => vec![with(3, 99), good(2), with(2, 200)],
            Link::Wrong => vec![with(10, good(2)[10] ^ 1)],
        };
        for data in sets {
            parent.add(&labels, rtype::DS, data);
        }
    }

    fn add_questions(&mut self, apex: &Name, questions: &[(&str, &[u16])]) {
        for (labels, types) in questions {
            let name = apex.below(labels);
            self.questions.extend(types.iter().map(|qtype| (name.clone(), *qtype)));
        }
    }

    /// What is worth asking.
    pub fn questions(&self) -> &[(Name, u16)] {
        &self.questions
    }

    /// All zones.
    pub fn zones(&self) -> impl Iterator<Item = &Zone> {
        self.zones.values()
    }

    /// The zone with this apex, or the nearest above it.
    pub fn zone(&self, apex: &Name) -> &Zone {
        let mut chain = apex.chain();
        chain.find_map(|name| self.zones.get(&name)).expect("the root is above all")
    }

    /// The zone that answers for a name and type: of DS records the one above.
    pub fn zone_for(&self, name: &Name, qtype: u16) -> &Zone {
        match name.parent() {
            Some(above) if qtype == rtype::DS => self.zone(&above),
            _ => self.zone(name),
        }
    }

    /// What is trusted: the DS record of the root's key, as owner, type and data.
    pub fn anchor(&self) -> (Vec<u8>, u16, Vec<u8>) {
        let root = Name::root();
        let keys = self.zone(&root).keys.as_ref().expect("the root is signed");
        (root.wire().to_vec(), rtype::DS, keys[0].ds(&root, 2))
    }

    /// The same as a line of a file.
    pub fn anchor_line(&self) -> String {
        let (_, _, data) = self.anchor();
        let [high, low, algorithm, digest_type, digest @ ..] = &data[..] else {
            unreachable!("a DS record has more data");
        };
        let tag = u16::from_be_bytes([*high, *low]);
        let digest: String = digest.iter().map(|byte| format!("{byte:02X}")).collect();
        format!(". 60 IN DS {tag} {algorithm} {digest_type} {digest}\n")
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

fn short_nsec3() -> Denial {
    Denial::Nsec3 { iterations: 2, salt: b"\xab\xcd".to_vec(), opt_out: false }
}
