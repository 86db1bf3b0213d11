//! What is true: which names there are, and what each server has to say of them. Servers answer from here, and what clients
//! get and what the cache holds is held against it.
//!
//! The first letter of a name says what there is of it:
//!
//! | letter | what there is |
//! |---|---|
//! | `a` | addresses and a text |
//! | `b` | a text too long for a datagram |
//! | `c` | an alias to the name with `a` |
//! | `e` | a text only |
//! | `x` | nothing, nor anything below; but `in.x0.test` is a zone of its own, which other servers know |
//! | `z` | addresses that nobody may keep (TTL 0) |
//!
//! The data of a record is made of its name and of the second in which a server said it. Liars use other data.

use pmdns_hierarchy::{Name, OwnedRecord, rtype};

/// TTL of most records, in seconds.
pub(crate) const TTL: u32 = 40;
/// TTL of what there is not.
pub(crate) const NEGATIVE_TTL: u32 = 20;
/// Where the data of addresses that are true begin.
const TRUE: u8 = 10;
/// Where those of liars do.
const FALSE: u8 = 66;
/// Length of a text that no datagram takes.
const LONG: usize = 3000;

/// The rcode of a failure.
pub(crate) const SERVFAIL: u16 = 2;
/// The rcode of a name that is not there.
pub(crate) const NXDOMAIN: u16 = 3;
/// Which servers know of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Realm {
    /// Those that are asked for all other names.
    Public,
    /// Those of `in.x0.test`, which the public ones say is not there.
    Inner,
    /// Those that are asked over encrypted connections only, for `sec.test`.
    Secret,
    /// Those that clients of one view ask instead of the public ones. They say other things of the same names.
    Lab,
    /// Those of the signed hierarchy, which are the only ones of their history.
    Signed,
}

/// What there is of a name and type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    Set(Vec<OwnedRecord>),
    Alias(OwnedRecord, Name),
    NoData,
    NoName,
}

impl Realm {
    /// Whose servers are asked for a name by clients in the view `lab`, or by others.
    pub(crate) fn of(name: &Name, is_lab: bool) -> Self {
        if name.is_within(&Name::new("in.x0.test")) {
            Self::Inner
        } else if name.is_within(&Name::new("sec.test")) {
            Self::Secret
        } else if is_lab {
            Self::Lab
        } else {
            Self::Public
        }
    }

    /// Names that are asked for in it are below this one.
    pub(crate) fn apex(self) -> Name {
        Name::new(match self {
            Self::Public | Self::Lab => "test",
            Self::Inner => "in.x0.test",
            Self::Secret => "sec.test",
            Self::Signed => ".",
        })
    }

    /// What its servers say of a name in this second.
    pub(crate) fn fact(self, name: &Name, qtype: u16, second: u32) -> Fact {
        let apex = self.apex();
        if !name.is_within(&apex) {
            return Fact::NoName;
        }
        // The label right below the apex decides, also of names further below.
        let own = name.count() - apex.count();
        let Some(label) = name.labels().take(own).last() else { return Fact::NoData };
        let kind = label[0].to_ascii_lowercase();
        let record = |ttl, data| OwnedRecord { ttl, ..OwnedRecord::new(name, qtype, data) };
        let addresses = |ttl| match self.data(name, qtype, second) {
            Some(data) => Fact::Set(vec![record(ttl, data)]),
            None => Fact::NoData,
        };
        match kind {
            b'a' => addresses(TTL),
            b'z' => addresses(0),
            b'b' | b'e' if qtype == rtype::TXT => {
                let len = if kind == b'b' { LONG } else { 20 };
                Fact::Set(vec![record(TTL, self.text(name, len))])
            }
            b'b' | b'e' => Fact::NoData,
            b'c' if own == 1 => {
                let target = apex
                    .child(&format!("a{}", String::from_utf8_lossy(&label[1..]).to_lowercase()));
                let alias =
                    OwnedRecord { ttl: TTL, ..OwnedRecord::new(name, rtype::CNAME, target.wire()) };
                if qtype == rtype::CNAME {
                    Fact::Set(vec![alias])
                } else {
                    Fact::Alias(alias, target)
                }
            }
            _ => Fact::NoName,
        }
    }

    /// The data of an address record or a text.
    fn data(self, name: &Name, qtype: u16, second: u32) -> Option<Vec<u8>> {
        let [high, low] = (second as u16).to_be_bytes();
        let hash = self.hash(name);
        match qtype {
            rtype::A => Some(vec![TRUE, hash, high, low]),
            rtype::AAAA => {
                let mut address = vec![TRUE; 16];
                address[13..].copy_from_slice(&[hash, high, low]);
                Some(address)
            }
            rtype::TXT => Some(self.text(name, 20)),
            _ => None,
        }
    }

    fn text(self, name: &Name, len: usize) -> Vec<u8> {
        let chunks = vec![self.hash(name); len];
        chunks.chunks(200).flat_map(|chunk| [&[chunk.len() as u8], chunk].concat()).collect()
    }

    fn hash(self, name: &Name) -> u8 {
        let salt = if self == Self::Lab { 8 } else { 7 };
        let lower = name.lower();
        lower.wire().iter().fold(salt, |hash: u8, byte| hash.wrapping_mul(31).wrapping_add(*byte))
    }
}

/// Records of a liar.
pub(crate) fn lie(name: &Name, qtype: u16) -> OwnedRecord {
    let data = match qtype {
        rtype::AAAA => vec![FALSE; 16],
        rtype::TXT => vec![1, FALSE],
        _ => vec![FALSE; 4],
    };
    OwnedRecord {
        ttl: TTL,
        ..OwnedRecord::new(name, if qtype == rtype::CNAME { rtype::A } else { qtype }, data)
    }
}

/// Whether a record is one of [`lie`].
pub(crate) fn is_of_a_liar(record: &OwnedRecord) -> bool {
    record.data.last() == Some(&FALSE) && record.data.iter().skip(1).all(|byte| *byte == FALSE)
}

/// Whether an answer is true that a client gets, or that the cache holds, in this second. Answers may be as old as
/// `oldest` seconds.
pub(crate) fn check(
    (name, qtype, is_lab): (&Name, u16, bool),
    rcode: u16,
    answer: &[OwnedRecord],
    (second, oldest): (u32, u32),
) -> Result<(), String> {
    let mut here = name.clone();
    let mut left: Vec<&OwnedRecord> = answer.iter().collect();
    loop {
        let own: Vec<&OwnedRecord> = left.iter().copied().filter(|one| one.owner == here).collect();
        left.retain(|one| one.owner != here);
        let said = own.first().map_or(second, |one| second_of(one, second));
        if said > second || second - said > oldest {
            return Err(format!(
                "{:?} is {} seconds old",
                own,
                i64::from(second) - i64::from(said)
            ));
        }
        let fact = Realm::of(&here, is_lab).fact(&here, qtype, said);
        let same = |set: &[OwnedRecord]| {
            set.len() == own.len()
                && own.iter().all(|one| set.iter().any(|two| one.says_the_same(two)))
        };
        let is_true = match &fact {
            Fact::Set(set) => rcode == 0 && same(set),
            Fact::Alias(alias, target) => {
                here = target.clone();
                if same(std::slice::from_ref(alias)) {
                    continue;
                }
                false
            }
            Fact::NoData => rcode == 0 && own.is_empty(),
            Fact::NoName => rcode == NXDOMAIN && own.is_empty(),
        };
        return match is_true && left.is_empty() {
            true => Ok(()),
            false => {
                Err(format!("of {here} is true: {fact:?}; not {own:?} {left:?} with rcode {rcode}"))
            }
        };
    }
}

/// The second in which a server said this.
fn second_of(record: &OwnedRecord, now: u32) -> u32 {
    match (record.rtype, &*record.data) {
        (rtype::A | rtype::AAAA, [.., high, low]) => {
            now & !0xffff | u32::from(u16::from_be_bytes([*high, *low]))
        }
        _ => now,
    }
}
