//! One reply under validation: its progress, and the replies it holds.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::ede;
use crate::limits::{Cost, Halt, Meter, ValidatorLimits};
use crate::message::{CanonicalRecord, Section, Unread, rtype};
use crate::name::Name;
use crate::outline::{self, Claim};
use crate::sets::{Checked, Reply, Zone};
use crate::verdict::{Judgement, SecurityStatus};

/// Fetched replies that a job holds: the next one needed, and others that wait for keys of zones above.
const MAX_HELD: usize = 4;

/// One reply under validation.
#[derive(Debug)]
pub struct ValidationJob {
    /// The type that is asked for.
    pub(crate) qtype: u16,
    pub(crate) claims: Vec<Claim>,
    /// The claim that is judged.
    pub(crate) at: usize,
    pub(crate) reply: Arc<Reply>,
    pub(crate) meter: Meter,
    pub(crate) steps: u32,
    /// The fetched replies, with numbers from 1 on.
    held: VecDeque<(u32, Name, u16, Arc<Reply>)>,
    fetched: u32,
    /// The question.
    wanted: Option<(Name, u16)>,
    /// Records that no upstream had.
    missing: Option<(Name, u16)>,
    /// The results of checked sets, by reply, set and zone.
    memo: Vec<(u32, usize, Arc<Zone>, Checked)>,
    /// Zones that signatures name, the next one last.
    pub(crate) hints: Vec<Name>,
    /// Names that turned out not to be zones.
    pub(crate) tried: Vec<Name>,
    /// Zones of secure sets.
    pub(crate) zones: Vec<Arc<Zone>>,
    pub(crate) verdict: SecurityStatus,
    pub(crate) max_ttl: u32,
    /// For each set of the reply: whether it is secure.
    pub(crate) kept: Vec<bool>,
    pub(crate) judgement: Option<Judgement>,
}

impl ValidationJob {
    pub(crate) fn new(name: &[u8], qtype: u16, reply: &[u8], limits: ValidatorLimits) -> Self {
        let mut meter = Meter::new(limits);
        let (reply, verdict) = match Reply::read(reply, &mut meter) {
            Ok(reply) => (reply, None),
            Err(Unread::Malformed) => (Reply::empty(), Some(SecurityStatus::Bogus(ede::BOGUS))),
            Err(Unread::TooMany) => {
                (Reply::empty(), Some(SecurityStatus::OverBudget(ede::INDETERMINATE)))
            }
        };
        let claims = outline::claims(&reply, name, qtype, limits.aliases);
        let verdict = match &claims {
            None => Some(SecurityStatus::OverBudget(ede::INDETERMINATE)),
            Some(_) => verdict,
        };
        let mut this = Self {
            qtype,
            claims: claims.unwrap_or_default(),
            at: 0,
            kept: vec![false; reply.sets.len()],
            reply: Arc::new(reply),
            meter,
            steps: 0,
            held: VecDeque::new(),
            fetched: 0,
            wanted: None,
            missing: None,
            memo: Vec::new(),
            hints: Vec::new(),
            tried: Vec::new(),
            zones: Vec::new(),
            verdict: SecurityStatus::Secure,
            max_ttl: u32::MAX,
            judgement: None,
        };
        if let Some(verdict) = verdict {
            this.end(verdict);
        }
        this
    }

    /// What it has cost so far.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.meter.cost
    }

    /// Ends it with a final verdict.
    pub(crate) fn end(&mut self, verdict: SecurityStatus) {
        let max_ttl = self.max_ttl;
        let keep = match verdict {
            SecurityStatus::Secure => self.secure(),
            SecurityStatus::Insecure | SecurityStatus::Indeterminate => self.claimed(),
            SecurityStatus::Bogus(_) | SecurityStatus::OverBudget(_) => Vec::new(),
        };
        self.judgement = Some(Judgement { verdict, max_ttl, keep });
    }

    /// Ends it for a class without signatures: the whole reply is passed on.
    pub(crate) fn pass(&mut self) {
        let (verdict, keep) = (SecurityStatus::Indeterminate, Vec::new());
        self.judgement = Some(Judgement { verdict, max_ttl: self.max_ttl, keep });
    }

    /// The records of secure sets, and those that no set has.
    fn secure(&self) -> Vec<bool> {
        self.keep(|set| self.kept[set], |record| record.rtype == rtype::OPT)
    }

    /// Of an unsigned reply, answer records that do not belong to the question are left out. They may be of a signed
    /// zone.
    fn claimed(&self) -> Vec<bool> {
        if self.claims.contains(&Claim::Signatures) {
            return Vec::new();
        }
        let mut is_claimed = vec![false; self.reply.sets.len()];
        for claim in &self.claims {
            if let Claim::Set(at) | Claim::Follows(at) = claim {
                is_claimed[*at] = true;
            }
        }
        self.keep(|set| is_claimed[set], |record| record.section != Section::Answer)
    }

    fn keep(
        &self,
        keeps_set: impl Fn(usize) -> bool,
        keeps_record: impl Fn(&CanonicalRecord) -> bool,
    ) -> Vec<bool> {
        let mut keep: Vec<_> = self.reply.message.records.iter().map(keeps_record).collect();
        let sets = self.reply.sets.iter().enumerate().filter(|(at, _)| keeps_set(*at));
        for at in sets.flat_map(|(_, set)| set.records.iter().chain(&set.signatures)) {
            keep[*at] = true;
        }
        if keep.iter().all(|is_kept| *is_kept) { Vec::new() } else { keep }
    }

    /// A fetched reply, with its number; `Ok(None)`: no upstream has it.
    pub(crate) fn obtain(
        &mut self,
        name: &[u8],
        qtype: u16,
    ) -> Result<Option<(u32, Arc<Reply>)>, Halt> {
        let is_it = |one: &Name, other: u16| **one == *name && other == qtype;
        if let Some((id, _, _, reply)) =
            self.held.iter().find(|(_, one, other, _)| is_it(one, *other))
        {
            return Ok(Some((*id, Arc::clone(reply))));
        }
        if self.missing.as_ref().is_some_and(|(one, other)| is_it(one, *other)) {
            return Ok(None);
        }
        if !self.wanted.as_ref().is_some_and(|(one, other)| is_it(one, *other)) {
            self.meter.fetch()?;
            self.wanted = Some((name.into(), qtype));
        }
        Err(Halt::Fetch(name.into(), qtype))
    }

    /// Takes in the result of a fetch. A reply that cannot be read counts as none.
    pub(crate) fn fetched(&mut self, name: &[u8], qtype: u16, reply: Option<&[u8]>) {
        let Some(wanted) = self.wanted.take_if(|(one, other)| **one == *name && *other == qtype)
        else {
            return;
        };
        match reply.and_then(|reply| Reply::read(reply, &mut self.meter).ok()) {
            None => self.missing = Some(wanted),
            Some(reply) => {
                if self.held.len() >= MAX_HELD
                    && let Some((id, ..)) = self.held.pop_front()
                {
                    self.memo.retain(|(one, ..)| *one != id);
                }
                self.fetched += 1;
                self.held.push_back((self.fetched, wanted.0, wanted.1, Arc::new(reply)));
            }
        }
    }

    /// Drops a fetched reply, whose contents are known now.
    pub(crate) fn release(&mut self, name: &[u8], qtype: u16) {
        let is_it = |one: &Name, other: u16| **one == *name && other == qtype;
        let at = self.held.iter().position(|(_, one, other, _)| is_it(one, *other));
        if let Some((id, ..)) = at.and_then(|at| self.held.remove(at)) {
            self.memo.retain(|(one, ..)| *one != id);
        }
    }

    /// Checks a set of a reply, once; only one in a step.
    pub(crate) fn check(
        &mut self,
        (id, reply): (u32, &Reply),
        set: usize,
        zone: &Arc<Zone>,
        now: u64,
    ) -> Result<Checked, Halt> {
        let is_it = |one: u32, at: usize, of: &Zone| one == id && at == set && *of == **zone;
        if let Some((.., checked)) = self.memo.iter().find(|(one, at, of, _)| is_it(*one, *at, of))
        {
            return Ok(*checked);
        }
        if self.meter.is_spent {
            return Err(Halt::Pause);
        }
        let before = self.meter.cost.checks;
        let checked = reply.check(&reply.sets[set], zone, now, &mut self.meter)?;
        self.meter.is_spent = self.meter.cost.checks > before;
        self.memo.push((id, set, Arc::clone(zone), checked));
        Ok(checked)
    }
}
