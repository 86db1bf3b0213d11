//! The records of a reply that deny something, with checked signatures of the zone.

use crate::limits::{Halt, Meter};
use crate::message::{Section, rtype};
use crate::name;
use crate::nsec::{self, Cut, Nsec};
use crate::nsec3::{Nsec3, Proof};
use crate::outline::Denial;
use crate::sets::{Checked, Reply, Set, Zone};

/// Sets that deny something in one reply, at most: a proof needs three, and there may be one for each alias.
const MAX_SETS: usize = 24;

/// The evidence in a reply.
#[derive(Debug)]
pub(crate) struct Evidence<'m> {
    nsec: Vec<Nsec<'m>>,
    nsec3: Option<Nsec3<'m>>,
    /// The sets, by their numbers.
    pub(crate) sets: Vec<usize>,
    /// How many seconds it is valid.
    pub(crate) max_ttl: u32,
    /// The fault of rejected signatures, as an extended error.
    pub(crate) why: Option<u16>,
}

/// Whether a set may deny something, or limits the TTL of a denial.
pub(crate) fn is_denial(set: &Set) -> bool {
    let types = [rtype::SOA, rtype::NSEC, rtype::NSEC3];
    set.section == Section::Authority && types.contains(&set.rtype)
}

impl<'m> Evidence<'m> {
    /// What the zone signed; `check` checks the signatures of a set.
    pub(crate) fn gather(
        reply: &'m Reply,
        zone: &'m Zone,
        mut check: impl FnMut(usize) -> Result<Checked, Halt>,
    ) -> Result<Self, Halt> {
        let mut this =
            Self { nsec: Vec::new(), nsec3: None, sets: Vec::new(), max_ttl: u32::MAX, why: None };
        let is_concerned = |set: &Set| is_denial(set) && reply.is_signed_by(set, &zone.name);
        let all = || reply.sets.iter().enumerate().filter(|(_, set)| is_concerned(set));
        if all().count() > MAX_SETS {
            return Err(Halt::Over);
        }
        for (at, set) in all() {
            match check(at)? {
                // None of these is made by a wildcard (RFC 4592 section 4.7, RFC 5155 section 7.2.5).
                Checked::Good { labels, max_ttl }
                    if labels == name::signed_labels(reply.owner(set)) =>
                {
                    this.sets.push(at);
                    this.max_ttl = this.max_ttl.min(max_ttl);
                }
                Checked::Good { .. } => {}
                Checked::Bad(why) => this.why = Some(why),
            }
        }
        let records = || this.sets.iter().flat_map(|at| reply.records(&reply.sets[*at]));
        this.nsec = records().filter_map(|record| Nsec::read(record, &zone.name)).collect();
        this.nsec3 = Nsec3::read(records(), &zone.name);
        Ok(this)
    }

    /// Whether a denial is proved.
    pub(crate) fn denies(
        &mut self,
        name: &[u8],
        qtype: u16,
        denial: Denial,
        meter: &mut Meter,
    ) -> Result<Proof, Halt> {
        let is_proved = match denial {
            Denial::Type => nsec::denies_type(&self.nsec, name, qtype),
            Denial::Name => nsec::denies_name(&self.nsec, name),
            Denial::Service => return Ok(Proof::Fails),
        };
        match &mut self.nsec3 {
            _ if is_proved => Ok(Proof::Holds),
            None => Ok(Proof::Fails),
            Some(nsec3) if denial == Denial::Name => nsec3.denies_name(name, meter),
            Some(nsec3) => nsec3.denies_type(name, qtype, meter),
        }
    }

    /// Whether a name has no match that is closer than its last `labels` labels.
    pub(crate) fn denies_closer(
        &mut self,
        name: &[u8],
        labels: usize,
        meter: &mut Meter,
    ) -> Result<Proof, Halt> {
        match &mut self.nsec3 {
            _ if nsec::denies_closer(&self.nsec, name, labels) => Ok(Proof::Holds),
            None => Ok(Proof::Fails),
            Some(nsec3) => nsec3.denies_closer(name, labels, meter),
        }
    }

    /// The kind of a name without DS records.
    pub(crate) fn cut(&mut self, name: &[u8], meter: &mut Meter) -> Result<Option<Cut>, Halt> {
        match (nsec::cut(&self.nsec, name), &mut self.nsec3) {
            (None, Some(nsec3)) => nsec3.cut(name, meter),
            (cut, _) => Ok(cut),
        }
    }
}
