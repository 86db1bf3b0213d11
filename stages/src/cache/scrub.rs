//! Which records of a reply belong to its question. Nothing else is kept or passed on.
//!
//! So a forger of one reply, or the owner of one zone, has no say about other names. Neither our cache nor a client's
//! can learn name servers, addresses or aliases that were not asked for (CVE-2025-40778).

use arrayvec::ArrayVec;

use super::entry::MAX_RECORDS;
use super::key::Key;
use crate::wire::be16;
use crate::wire::dns::{Rcode, flag, header, rtype};
use crate::wire::labels::{Labels, WholeName};
use crate::wire::name::MAX_NAME;
use crate::wire::rdata::{self, Part};
use crate::wire::record::{Records, Section, WireRecord};

/// Aliases of one answer, at most. Unbound follows 11, BIND 16.
const MAX_ALIASES: usize = 16;
/// Bytes of an RRSIG record before its signer's name.
const BEFORE_SIGNER: usize = 18;

/// Why an upstream's message is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It is not a well-formed response.
    Malformed,
    /// It is not about what was asked.
    OtherQuestion,
    /// It is about what was asked, but no record in it is: the upstream has no answer, or contradicts itself.
    NoAnswer,
    /// Its aliases lead on for longer than they are followed, or in a circle. Without their end a client would take them for a
    /// denial.
    TooManyAliases,
}

/// A record that is passed on.
#[derive(Debug)]
pub(super) enum Kept {
    /// As it came.
    Record(WireRecord),
    /// An alias that the upstream has made of the DNAME record before it, in the random letters of our query.
    Made(WireRecord),
    /// The alias that follows from the DNAME record before it, which the upstream has left out (RFC 6672 section 3.1).
    Synthesis(Box<Synthesis>),
}

/// An alias that follows from a DNAME record.
#[derive(Debug)]
pub(super) struct Synthesis {
    pub(super) owner: WholeName,
    pub(super) target: WholeName,
    /// The DNAME record's.
    pub(super) ttl: u32,
}

/// The parts of a reply that are kept.
#[derive(Debug, Default)]
pub(super) struct Scrubbed {
    /// The answer: aliases in the order in which they lead on, each with its signatures, and then what was asked for.
    pub(super) answer: Vec<Kept>,
    /// Of a negative answer the SOA record; for clients that check signatures, what they need to.
    pub(super) authority: Vec<WireRecord>,
    /// Whether what was asked for is among the answer.
    pub(super) is_answered: bool,
    /// The upper bits of the rcode, of the OPT record.
    pub(super) extended_rcode: u8,
    /// The authority section names servers and has no SOA record: a referral, unless the upstream recurses.
    refers: bool,
    /// There are more records than one answer may have.
    pub(super) is_cut: bool,
    /// Records that do not belong to the question.
    pub(super) dropped: usize,
}

impl Scrubbed {
    /// Reads a reply to `key`, all of it but records beyond [`MAX_RECORDS`].
    pub(super) fn read(labels: &mut Labels<'_>, key: &Key<'_>) -> Result<Self, Unusable> {
        let mut this = Self::default();
        let records = this.collect(labels, key).ok_or(Unusable::Malformed)?;
        let answers = records.partition_point(|record| record.section == Section::Answer);
        let (answers, authorities) = records.split_at(answers);
        let has = |rtype| authorities.iter().any(|record| record.rtype == rtype);
        this.refers = has(rtype::NS) && !has(rtype::SOA);
        let flags = be16(labels.message(), header::FLAGS).unwrap_or(0);
        let is_too_long = Rcode((flags & flag::RCODE) as u8) == Rcode::YXDOMAIN;
        let left = answers.to_vec();
        let mut chain = Chain { labels, key, is_too_long, left, kept: Vec::new() };
        let end = chain.follow()?;
        (this.is_answered, this.answer) = (end.is_answered, chain.kept);
        this.authority = this.proofs(labels, key, &end.name, authorities)?;
        let kept = this.answer.len() + this.authority.len();
        this.dropped += records.len().saturating_sub(kept);
        Ok(this)
    }

    /// Whether the upstream has nothing to say about the question: all it says is about something else, or it does not
    /// recurse and refers to other servers (RFC 2308 section 2.2).
    pub(super) fn says_nothing(&self, labels: &Labels<'_>, rcode: Rcode) -> bool {
        let word = |at| be16(labels.message(), at).unwrap_or(0);
        let is_referral = self.refers && word(header::FLAGS) & flag::RA == 0;
        let is_about_others = word(header::ANCOUNT) > 0 || is_referral;
        rcode == Rcode::NOERROR && self.answer.is_empty() && is_about_others
    }

    /// The records of answer and authority section, of the question's class and of types that are data. Their data are
    /// read when they are kept: a malformed record that is dropped harms nobody. `None`: the reply is malformed.
    fn collect(&mut self, labels: &mut Labels<'_>, key: &Key<'_>) -> Option<Vec<WireRecord>> {
        let message = labels.message();
        let all = Records::new(message).ok()?;
        let needed = usize::from(be16(message, header::ANCOUNT)?)
            + usize::from(be16(message, header::NSCOUNT)?);
        self.is_cut = needed > MAX_RECORDS;
        let mut records = Vec::with_capacity(needed.min(MAX_RECORDS));
        for record in all.take(MAX_RECORDS) {
            let record = record.ok()?;
            let is_additional = record.section == Section::Additional;
            if !is_additional {
                labels.length(record.start)?;
            }
            if matches!(record.rtype, rtype::OPT | rtype::TSIG) {
                // RFC 6891 section 6.1.1, RFC 8945 section 5.1: nowhere else.
                if !is_additional {
                    return None;
                }
                if record.rtype == rtype::OPT {
                    self.extended_rcode = (record.ttl >> 24) as u8;
                }
            } else if record.class == key.qclass && !is_meta(record.rtype) && !is_additional {
                records.push(record);
                continue;
            }
            self.dropped += usize::from(!is_additional);
        }
        Some(records)
    }

    /// The SOA record of a negative answer. For clients that check signatures also its proof, or the proof that a
    /// wildcard was in its place (RFC 4035 section 3.1.3).
    fn proofs(
        &self,
        labels: &mut Labels<'_>,
        key: &Key<'_>,
        end: &[u8],
        records: &[WireRecord],
    ) -> Result<Vec<WireRecord>, Unusable> {
        let mut zones = Vec::new();
        let mut soa = None;
        for record in records.iter().filter(|record| record.rtype == rtype::SOA) {
            if soa.is_none() && !self.is_answered && encloses(labels, record.start, end)? {
                soa = Some(record.start);
                zones.push(labels.whole(record.start).ok_or(Unusable::Malformed)?);
            }
        }
        if key.flags & Key::DO != 0 {
            self.add_signers(labels, &mut zones)?;
        }
        let mut proofs = Vec::new();
        for record in records {
            let covered = if record.rtype == rtype::RRSIG { covered(labels, record) } else { 0 };
            let is_kept = match (record.rtype, covered) {
                (rtype::SOA, _) => soa == Some(record.start),
                _ if key.flags & Key::DO == 0 => false,
                (rtype::RRSIG, rtype::SOA) if soa.is_none() => false,
                (rtype::NSEC | rtype::NSEC3, _)
                | (rtype::RRSIG, rtype::NSEC | rtype::NSEC3 | rtype::SOA) => {
                    let owner = labels.whole(record.start).ok_or(Unusable::Malformed)?;
                    zones.iter().any(|zone| is_within(&owner, zone))
                }
                _ => false,
            };
            if is_kept {
                check(labels, record).ok_or(Unusable::Malformed)?;
                proofs.push(*record);
            }
        }
        Ok(proofs)
    }

    /// The zones that have signed the answer.
    fn add_signers(
        &self,
        labels: &mut Labels<'_>,
        zones: &mut Vec<WholeName>,
    ) -> Result<(), Unusable> {
        for kept in &self.answer {
            let Kept::Record(record) = kept else { continue };
            if record.rtype != rtype::RRSIG || zones.len() > MAX_ALIASES {
                continue;
            }
            let read = |at: usize, labels: &mut Labels<'_>| labels.whole(at);
            let signer = read(record.data_at + BEFORE_SIGNER, labels).ok_or(Unusable::Malformed)?;
            let owner = read(record.start, labels).ok_or(Unusable::Malformed)?;
            if is_within(&owner, &signer) && !zones.contains(&signer) {
                zones.push(signer);
            }
        }
        Ok(())
    }
}

/// Where aliases have led.
struct End {
    name: WholeName,
    is_answered: bool,
}

/// The records of the answer section that are not known yet to belong to the question, and those that are.
struct Chain<'l, 'm, 'k> {
    labels: &'l mut Labels<'m>,
    key: &'l Key<'k>,
    /// The rcode says that a DNAME record makes too long a name (RFC 6672 section 2.2).
    is_too_long: bool,
    left: Vec<WireRecord>,
    kept: Vec<Kept>,
}

impl Chain<'_, '_, '_> {
    /// Goes from alias to alias, in any order in which they stand, until the records that were asked for are there. A
    /// circle has no end, as a chain that is too long has none.
    fn follow(&mut self) -> Result<End, Unusable> {
        let mut name: WholeName = self.key.name.iter().copied().collect();
        name.make_ascii_lowercase();
        let qtype = self.key.qtype;
        let mut passed: ArrayVec<WholeName, MAX_ALIASES> = ArrayVec::new();
        for _ in 0..MAX_ALIASES {
            if qtype != rtype::CNAME && self.take(&name, qtype, usize::MAX)? {
                return Ok(End { name, is_answered: true });
            }
            let Some(target) = self.alias(&name)? else { break };
            if qtype == rtype::CNAME {
                return Ok(End { name, is_answered: true });
            }
            passed.push(name);
            name = target;
            if passed.iter().any(|earlier| earlier.eq_ignore_ascii_case(&name)) {
                return Err(Unusable::TooManyAliases);
            }
        }
        // After the last alias that is followed there may be what it leads to.
        let is_answered = qtype != rtype::CNAME && self.take(&name, qtype, usize::MAX)?;
        if !is_answered && qtype != rtype::CNAME && self.alias(&name)?.is_some() {
            return Err(Unusable::TooManyAliases);
        }
        Ok(End { name, is_answered })
    }

    /// Keeps the records of this owner and type, `most` of them, with their signatures. Says whether there are any.
    fn take(&mut self, owner: &[u8], rtype: u16, most: usize) -> Result<bool, Unusable> {
        let Self { labels, key, left, kept, .. } = self;
        let (before, mut signatures, mut is_read) = (kept.len(), Vec::new(), true);
        left.retain(|record| {
            let is_of_type = record.rtype == rtype || rtype == rtype::ANY;
            let signs = record.rtype == rtype::RRSIG && covered(labels, record) == rtype;
            if !is_read || !(is_of_type || signs) {
                return true;
            }
            let is_owner = labels.is(record.start, owner);
            is_read = is_owner.is_some();
            let takes = is_of_type && kept.len() - before < most;
            let signs = signs && key.flags & Key::DO != 0;
            if is_owner != Some(true) || !(takes || signs) {
                return true;
            }
            is_read = check(labels, record).is_some();
            let list = if takes { &mut *kept } else { &mut signatures };
            list.push(Kept::Record(*record));
            !takes
        });
        let is_there = kept.len() > before;
        if is_there {
            kept.append(&mut signatures);
        }
        if is_read { Ok(is_there) } else { Err(Unusable::Malformed) }
    }

    /// Keeps the alias of this owner, and says where it leads. `None`: it has none.
    fn alias(&mut self, owner: &[u8]) -> Result<Option<WholeName>, Unusable> {
        let (mut alias, mut tree) = (None, None);
        for record in &self.left {
            let at = record.start;
            if record.rtype == rtype::CNAME && alias.is_none() {
                if self.labels.is(at, owner).ok_or(Unusable::Malformed)? {
                    alias = Some(self.labels.whole(record.data_at).ok_or(Unusable::Malformed)?);
                }
            } else if record.rtype == rtype::DNAME && tree.is_none() {
                let above = self.labels.below(at, owner).ok_or(Unusable::Malformed)?;
                tree = above.filter(|prefix| !prefix.is_empty()).map(|prefix| (*record, prefix));
            }
        }
        if let Some((record, prefix)) = tree {
            return self.follow_tree(&record, prefix, owner, alias);
        }
        if alias.is_some() {
            self.take(owner, rtype::CNAME, 1)?;
        }
        Ok(alias)
    }

    /// Keeps a DNAME record and the alias that follows from it, which is made if it is not there. `None`: it is too long,
    /// and the reply says so.
    fn follow_tree(
        &mut self,
        record: &WireRecord,
        prefix: &[u8],
        owner: &[u8],
        alias: Option<WholeName>,
    ) -> Result<Option<WholeName>, Unusable> {
        let end = self.labels.whole(record.data_at).ok_or(Unusable::Malformed)?;
        let tree = self.labels.whole(record.start).ok_or(Unusable::Malformed)?;
        self.take(&tree, rtype::DNAME, 1)?;
        // RFC 6672 section 2.2: the name is too long to exist, and the server has to say YXDOMAIN.
        if prefix.len() + end.len() > MAX_NAME {
            return if self.is_too_long { Ok(None) } else { Err(Unusable::NoAnswer) };
        }
        let target: WholeName = prefix.iter().chain(&end).copied().collect();
        match alias {
            None => self.kept.push(Kept::Synthesis(Box::new(Synthesis {
                owner: owner.iter().copied().collect(),
                target: target.clone(),
                ttl: record.ttl,
            }))),
            Some(alias) if alias == target => {
                let at = self.kept.len();
                self.take(owner, rtype::CNAME, 1)?;
                if let Some(kept) = self.kept.get_mut(at)
                    && let Kept::Record(record) = *kept
                {
                    *kept = Kept::Made(record);
                }
            }
            Some(_) => return Err(Unusable::NoAnswer),
        }
        Ok(Some(target))
    }
}

/// Whether records of the type are never passed on: it stands for no data of its own (RFC 6895 section 3.1).
fn is_meta(rtype: u16) -> bool {
    matches!(rtype, 0 | rtype::FIRST_META..=rtype::ANY)
}

/// Checks that what is read of a record's data can be read: all names in it.
fn check(labels: &mut Labels<'_>, record: &WireRecord) -> Option<()> {
    let message = labels.message();
    rdata::parts(message, record.rtype, record.data_at..record.end, |part| match part {
        Part::Name { at, .. } => labels.length(at).map(|_| ()),
        Part::Bytes(_) => Some(()),
    })
}

/// The type that an RRSIG record is about.
fn covered(labels: &Labels<'_>, record: &WireRecord) -> u16 {
    let data = labels.message().get(record.data_at..record.end);
    data.and_then(|data| be16(data, 0)).unwrap_or(0)
}

/// Whether the name at `at` is `name` or one above it.
fn encloses(labels: &mut Labels<'_>, at: usize, name: &[u8]) -> Result<bool, Unusable> {
    labels.below(at, name).map(|below| below.is_some()).ok_or(Unusable::Malformed)
}

/// Whether `name` is `zone` or below it.
fn is_within(name: &[u8], zone: &[u8]) -> bool {
    crate::wire::name::suffixes(name).any(|suffix| suffix == zone)
}
