//! Judges the claims of a reply, each by its zone.

use std::sync::Arc;

use crate::ede;
use crate::evidence::{Evidence, is_denial};
use crate::job::ValidationJob;
use crate::limits::Halt;
use crate::message::{Section, rtype};
use crate::name::{self, Name};
use crate::nsec3::Proof;
use crate::outline::{Claim, Denial};
use crate::sets::{Checked, Reply, Zone};
use crate::table::NameStatusTable;
use crate::trust::{TrustAnchors, zone_name};
use crate::verdict::SecurityStatus;

/// Sets beside the claims whose signatures are checked, at most. Others are left out of a secure reply.
const MAX_BESIDE: usize = 8;

/// The means to judge a job.
pub(crate) struct Judge<'v> {
    pub(crate) trust: &'v TrustAnchors,
    pub(crate) table: &'v mut NameStatusTable,
    pub(crate) job: &'v mut ValidationJob,
    pub(crate) now: u64,
}

/// The zone of a name.
pub(crate) enum ZoneFound {
    /// The name is in this zone, or below `next`, the next name on the way down.
    Zone { zone: Arc<Zone>, next: Option<Name> },
    /// The verdict does not depend on the records.
    Settled(SecurityStatus),
}

impl Judge<'_> {
    /// Continues until the end, or until other jobs should run first.
    pub(crate) fn advance(&mut self) -> Result<SecurityStatus, Halt> {
        while let Some(claim) = self.job.claims.get(self.job.at).cloned() {
            let verdict = self.claim(&claim)?;
            self.job.verdict = worse(self.job.verdict, verdict);
            if let SecurityStatus::Bogus(_) = verdict {
                return Ok(verdict);
            }
            self.job.hints.clear();
            self.job.tried.clear();
            self.job.at += 1;
        }
        if self.job.verdict == SecurityStatus::Secure {
            self.beside()?;
        }
        Ok(self.job.verdict)
    }

    fn claim(&mut self, claim: &Claim) -> Result<SecurityStatus, Halt> {
        match claim {
            Claim::Set(set) => self.set(*set),
            Claim::Follows(set) => {
                self.job.kept[*set] = true;
                Ok(SecurityStatus::Secure)
            }
            Claim::Denial(name, qtype, denial) => self.denial(name, *qtype, *denial),
            Claim::Signatures => Ok(SecurityStatus::Indeterminate),
            Claim::Nonsense => Ok(SecurityStatus::Bogus(ede::BOGUS)),
        }
    }

    fn set(&mut self, at: usize) -> Result<SecurityStatus, Halt> {
        let reply = Arc::clone(&self.job.reply);
        let set = &reply.sets[at];
        let owner = reply.owner(set);
        // An alias instead of DS records belongs to the same zone as they would: the one above the cut.
        let is_ds = self.job.qtype == rtype::DS && set.rtype == rtype::CNAME;
        let target = zone_name(owner, if is_ds { rtype::DS } else { set.rtype });
        let (zone, next) = match self.locate(target)? {
            ZoneFound::Zone { zone, next } => (zone, next),
            ZoneFound::Settled(verdict) => return Ok(verdict),
        };
        if !reply.is_signed_by(set, &zone.name) {
            let Some(next) = next else { return Ok(SecurityStatus::Bogus(ede::RRSIGS_MISSING)) };
            let hint = reply.signatures(set).map(|one| one.signer).next();
            return self.descend(&zone, &next, hint, target);
        }
        let (max_ttl, labels) = match self.job.check((0, &reply), at, &zone, self.now)? {
            Checked::Good { max_ttl, labels } => (max_ttl, labels),
            Checked::Bad(why) => return Ok(SecurityStatus::Bogus(why)),
        };
        if labels < name::signed_labels(owner) {
            // It was made from a wildcard. That is right if no closer name exists (RFC 4035 section 5.3.4).
            let mut evidence = self.evidence((0, &reply), &zone)?;
            match evidence.denies_closer(owner, labels, &mut self.job.meter)? {
                Proof::Fails => {
                    return Ok(SecurityStatus::Bogus(evidence.why.unwrap_or(ede::NSEC_MISSING)));
                }
                Proof::Insecure => return Ok(SecurityStatus::Insecure),
                Proof::Holds => self.believe(&evidence.sets, evidence.max_ttl, &zone),
            }
        }
        self.believe(&[at], max_ttl, &zone);
        Ok(SecurityStatus::Secure)
    }

    fn denial(&mut self, owner: &[u8], qtype: u16, denial: Denial) -> Result<SecurityStatus, Halt> {
        let reply = Arc::clone(&self.job.reply);
        let target = zone_name(owner, qtype);
        let (zone, next) = match self.locate(target)? {
            ZoneFound::Zone { zone, next } => (zone, next),
            ZoneFound::Settled(verdict) => return Ok(verdict),
        };
        let mut evidence = self.evidence((0, &reply), &zone)?;
        let proof = evidence.denies(owner, qtype, denial, &mut self.job.meter)?;
        let soa = reply.find(Section::Authority, &zone.name, rtype::SOA);
        let is_whole = soa.is_none_or(|soa| evidence.sets.contains(&soa));
        match proof {
            Proof::Holds if is_whole => {
                self.believe(&evidence.sets, evidence.max_ttl, &zone);
                return Ok(SecurityStatus::Secure);
            }
            Proof::Insecure if is_whole => return Ok(SecurityStatus::Insecure),
            _ => {}
        }
        let mut signatures =
            reply.sets.iter().filter(|set| is_denial(set)).flat_map(|set| reply.signatures(set));
        if let Some(next) = next {
            let hint = signatures.map(|one| one.signer).find(|one| name::is_within(target, one));
            return self.descend(&zone, &next, hint, target);
        }
        let is_signed = signatures.next().is_some();
        let missing = if is_signed { ede::NSEC_MISSING } else { ede::RRSIGS_MISSING };
        Ok(SecurityStatus::Bogus(evidence.why.unwrap_or(missing)))
    }

    /// Checks the sets beside the claims, as long as no more zones are needed.
    fn beside(&mut self) -> Result<(), Halt> {
        let reply = Arc::clone(&self.job.reply);
        let zones = self.job.zones.clone();
        let others = (0..reply.sets.len()).filter(|at| reply.sets[*at].section != Section::Answer);
        let signer =
            |at: usize| zones.iter().find(|zone| reply.is_signed_by(&reply.sets[at], &zone.name));
        let signed = others.filter_map(|at| signer(at).map(|zone| (at, zone)));
        for (at, zone) in signed.filter(|(at, _)| !reply.sets[*at].is_empty()).take(MAX_BESIDE) {
            let labels = name::signed_labels(reply.owner(&reply.sets[at]));
            match self.job.check((0, &reply), at, zone, self.now) {
                Ok(Checked::Good { max_ttl, labels: signed }) if signed == labels => {
                    self.believe(&[at], max_ttl, zone);
                }
                Ok(_) => {}
                Err(Halt::Over) => return Ok(()),
                Err(halt) => return Err(halt),
            }
        }
        Ok(())
    }

    /// The denial of a zone in a reply.
    pub(crate) fn evidence<'m>(
        &mut self,
        (id, reply): (u32, &'m Reply),
        zone: &'m Arc<Zone>,
    ) -> Result<Evidence<'m>, Halt> {
        let now = self.now;
        Evidence::gather(reply, zone, |set| self.job.check((id, reply), set, zone, now))
    }

    fn believe(&mut self, sets: &[usize], max_ttl: u32, zone: &Arc<Zone>) {
        for set in sets {
            self.job.kept[*set] = true;
        }
        self.job.max_ttl = self.job.max_ttl.min(max_ttl);
        if !self.job.zones.contains(zone) {
            self.job.zones.push(Arc::clone(zone));
        }
    }
}

/// The verdict on two claims together.
fn worse(one: SecurityStatus, other: SecurityStatus) -> SecurityStatus {
    let rank = |verdict: SecurityStatus| match verdict {
        SecurityStatus::Secure => 0,
        SecurityStatus::Indeterminate => 1,
        SecurityStatus::Insecure => 2,
        SecurityStatus::Bogus(_) | SecurityStatus::OverBudget(_) => 3,
    };
    if rank(one) >= rank(other) { one } else { other }
}
