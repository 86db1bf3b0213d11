//! The way from a trust anchor down to the zone of a name, by DS and DNSKEY records (RFC 4035 section 5).
//!
//! A zone is known by its parent's DS records, never by the signer's name in a signature. That name is only a hint where to
//! look next; it saves questions about the names between.

use std::sync::Arc;

use crate::judge::{Judge, ZoneFound};
use crate::limits::Halt;
use crate::message::{Section, rtype};
use crate::name::{self, Name};
use crate::nsec::Cut;
use crate::nsec3::Proof;
use crate::rdata::{Ds, Key};
use crate::sets::{Checked, Reply, Zone};
use crate::table::NameStatus;
use crate::trust::{Anchor, Start};
use crate::verdict::SecurityStatus;
use crate::{crypto, ede};

/// DS records of a zone that are looked at, and keys, at most.
const MAX_DS: usize = 16;
const MAX_KEYS: usize = 64;
/// Digests of keys that are computed for one zone: tags tell most keys apart.
const MAX_DIGESTS: usize = 32;

/// The result of a reply about DS records.
enum DsOutcome {
    /// Its state, for so many seconds.
    Status(NameStatus, u32),
    /// It is a name of the zone, and so are those between it and this one.
    Inside(Option<Name>, u32),
    /// A zone between this one and the name signed the reply.
    Between(Name),
    /// Nothing that is proved.
    Nothing(u16),
}

impl Judge<'_> {
    /// The zone of a name, as far as it is known; asks for keys that are missing.
    pub(crate) fn locate(&mut self, target: &[u8]) -> Result<ZoneFound, Halt> {
        let (top, anchor) = match self.trust.start(target) {
            Start::None => return Ok(ZoneFound::Settled(SecurityStatus::Indeterminate)),
            Start::Negative => return Ok(ZoneFound::Settled(SecurityStatus::Insecure)),
            Start::Anchor(zone, anchor) => (zone, anchor),
        };
        let mut is_leaf = false;
        for name in name::upwards(target).take_while(|name| name.len() >= top.len()) {
            match self.table.state(name, self.now).cloned() {
                Some(NameStatus::Secure(zone)) => {
                    let next = if is_leaf { None } else { self.next(&zone.name, target) };
                    return Ok(ZoneFound::Zone { zone, next });
                }
                Some(NameStatus::Signed(ds)) => return self.keys(name, &ds, &[]),
                Some(NameStatus::Insecure) => {
                    return Ok(ZoneFound::Settled(SecurityStatus::Insecure));
                }
                Some(NameStatus::NoName) => is_leaf = true,
                Some(NameStatus::Inside | NameStatus::Unknown) | None => {}
            }
        }
        let Anchor { ds, keys } = anchor;
        let is_known = |algorithm: u8| crypto::knows_algorithm(algorithm);
        if usable(ds.clone()).is_empty() && !keys.iter().any(|key| is_known(key.algorithm)) {
            return Ok(ZoneFound::Settled(SecurityStatus::Insecure));
        }
        self.keys(top, &usable(ds.clone()), keys)
    }

    /// The first name on the way down of which nothing is known.
    fn next(&mut self, zone: &[u8], target: &[u8]) -> Option<Name> {
        let labels = name::labels(zone) + 1..=name::labels(target);
        let mut way = labels.map(|count| name::last(target, count));
        way.find(|name| self.table.state(name, self.now).is_none()).map(Name::from)
    }

    /// Gets the keys of a zone: `Err` until they are there, a verdict if they cannot be.
    fn keys(&mut self, zone: &[u8], ds: &[Ds], trusted: &[Key]) -> Result<ZoneFound, Halt> {
        if let Some(why) = self.table.failure(zone, self.now) {
            return Ok(ZoneFound::Settled(SecurityStatus::Bogus(why)));
        }
        let judged = match self.job.obtain(zone, rtype::DNSKEY)? {
            None => Err(ede::UNREACHABLE),
            Some((_, reply)) => self.judge_keys(&reply, zone, ds, trusted)?,
        };
        self.job.release(zone, rtype::DNSKEY);
        match judged {
            Ok((zone, seconds)) => {
                let name = zone.name.clone();
                self.table.keep(&name, NameStatus::Secure(Arc::new(zone)), seconds, self.now);
            }
            Err(why) => self.table.fail(zone, why, self.now),
        }
        Err(Halt::Pause)
    }

    fn judge_keys(
        &mut self,
        reply: &Reply,
        zone: &[u8],
        ds: &[Ds],
        trusted: &[Key],
    ) -> Result<Result<(Zone, u32), u16>, Halt> {
        let Some(at) = reply.find(Section::Answer, zone, rtype::DNSKEY) else {
            return Ok(Err(ede::DNSKEY_MISSING));
        };
        let set = &reply.sets[at];
        let keys: Vec<Key> = reply
            .records(set)
            .filter_map(|record| Key::read(&record.data))
            .filter(|key| crypto::knows_algorithm(key.algorithm))
            .collect();
        if keys.len() > MAX_KEYS {
            return Err(Halt::Over);
        }
        if self.job.meter.is_spent {
            return Err(Halt::Pause);
        }
        self.job.meter.is_spent = true;
        let mut digests = 0;
        let mut entry = Vec::new();
        for key in &keys {
            let candidates =
                ds.iter().filter(|ds| ds.tag == key.tag && ds.algorithm == key.algorithm);
            let mut is_entry = trusted.contains(key);
            for ds in candidates {
                digests += 1;
                if digests > MAX_DIGESTS {
                    return Err(Halt::Over);
                }
                is_entry |= crypto::is_digest_of(ds, zone, key);
            }
            entry.extend(is_entry.then(|| key.clone()));
        }
        if entry.is_empty() {
            return Ok(Err(ede::DNSKEY_MISSING));
        }
        let entry = Zone { name: zone.into(), keys: entry };
        Ok(match reply.check(set, &entry, self.now, &mut self.job.meter)? {
            Checked::Good { max_ttl, labels } if labels == name::labels(zone) => {
                Ok((Zone { name: zone.into(), keys }, max_ttl.min(ttl(reply, at))))
            }
            Checked::Good { .. } => Err(ede::BOGUS),
            Checked::Bad(why) => Err(why),
        })
    }

    /// Asks what is below `zone` on the way to `target`: about `next`, or by a hint. `Err` until something is known, a
    /// verdict if nothing can be.
    pub(crate) fn descend(
        &mut self,
        zone: &Arc<Zone>,
        next: &[u8],
        hint: Option<&[u8]>,
        target: &[u8],
    ) -> Result<SecurityStatus, Halt> {
        let name = self.candidate(zone, next, hint, target);
        let is_hint = *name != *next;
        let said = match (self.table.failure(&name, self.now), is_hint) {
            (Some(why), _) => DsOutcome::Nothing(why),
            (None, _) => match self.job.obtain(&name, rtype::DS)? {
                None => DsOutcome::Nothing(ede::UNREACHABLE),
                Some((id, reply)) => self.judge_ds((id, &reply), &name, zone)?,
            },
        };
        if !matches!(said, DsOutcome::Between(_)) {
            self.job.release(&name, rtype::DS);
        }
        match said {
            DsOutcome::Status(state, seconds) => self.table.keep(&name, state, seconds, self.now),
            DsOutcome::Inside(through, seconds) => {
                self.keep_inside(&name, through, target, seconds)
            }
            DsOutcome::Between(between) if !self.job.tried.contains(&between) => {
                self.job.hints.push(between);
            }
            DsOutcome::Between(_) | DsOutcome::Nothing(_) if is_hint => self.job.tried.push(name),
            DsOutcome::Between(_) => return Ok(SecurityStatus::Bogus(ede::BOGUS)),
            DsOutcome::Nothing(why) => {
                if self.table.failure(&name, self.now).is_none() {
                    self.table.fail(&name, why, self.now);
                }
                return Ok(SecurityStatus::Bogus(why));
            }
        }
        Err(Halt::Pause)
    }

    /// Whose DS records to ask for.
    fn candidate(&mut self, zone: &Zone, next: &[u8], hint: Option<&[u8]>, target: &[u8]) -> Name {
        let tried = &self.job.tried;
        let is_good = |name: &[u8]| {
            name::is_below(name, &zone.name)
                && name::is_within(target, name)
                && !tried.iter().any(|one| **one == *name)
        };
        while self.job.hints.last().is_some_and(|last| !is_good(last)) {
            self.job.hints.pop();
        }
        let last = self.job.hints.last().map(|last| &**last);
        let name = last.or_else(|| hint.filter(|hint| is_good(hint)));
        name.unwrap_or(next).into()
    }

    fn keep_inside(&mut self, name: &[u8], through: Option<Name>, target: &[u8], seconds: u32) {
        self.table.keep(name, NameStatus::Inside, seconds, self.now);
        let Some(through) = through else { return };
        // Names above one that exists are empty, so nothing is delegated there.
        let between = name::upwards(name::common(target, &through));
        for one in between.take_while(|one| one.len() > name.len()).filter(|one| **one != *through)
        {
            self.table.keep(one, NameStatus::Inside, seconds, self.now);
        }
    }

    /// What the reply about a name's DS records proves, by the keys of the zone above.
    fn judge_ds(
        &mut self,
        (id, reply): (u32, &Reply),
        name: &[u8],
        zone: &Arc<Zone>,
    ) -> Result<DsOutcome, Halt> {
        let mut why = None;
        if let Some(at) = self.signed_answer(reply, name, rtype::DS, zone) {
            match self.job.check((id, reply), at, zone, self.now)? {
                Checked::Good { max_ttl, labels } if labels == name::signed_labels(name) => {
                    let set = reply.records(&reply.sets[at]);
                    let ds = usable(set.filter_map(|record| Ds::read(&record.data)).collect());
                    let is_signed = !ds.is_empty();
                    let state = if is_signed {
                        NameStatus::Signed(ds.into())
                    } else {
                        NameStatus::Insecure
                    };
                    return Ok(DsOutcome::Status(state, max_ttl.min(ttl(reply, at))));
                }
                Checked::Good { .. } => return Ok(DsOutcome::Nothing(ede::BOGUS)),
                Checked::Bad(reason) => return Ok(DsOutcome::Nothing(reason)),
            }
        }
        if let Some(said) = self.judge_alias((id, reply), name, zone)? {
            return Ok(said);
        }
        let mut evidence = self.evidence((id, reply), zone)?;
        let seconds = evidence.max_ttl;
        match evidence.cut(name, &mut self.job.meter)? {
            Some(Cut::Unsigned) => return Ok(DsOutcome::Status(NameStatus::Insecure, seconds)),
            Some(Cut::NoName) => return Ok(DsOutcome::Status(NameStatus::NoName, seconds)),
            Some(Cut::Inside(through)) => return Ok(DsOutcome::Inside(through, seconds)),
            None => why = why.or(evidence.why),
        }
        let signers = reply.sets.iter().flat_map(|set| reply.signatures(set)).map(|one| one.signer);
        let between = signers
            .into_iter()
            .find(|signer| name::is_below(signer, &zone.name) && name::is_below(name, signer));
        Ok(match between {
            Some(between) => DsOutcome::Between(between.into()),
            None => DsOutcome::Nothing(why.unwrap_or(ede::RRSIGS_MISSING)),
        })
    }

    /// A name with an alias is no cut; one that a DNAME or a wildcard makes is none either.
    fn judge_alias(
        &mut self,
        (id, reply): (u32, &Reply),
        name: &[u8],
        zone: &Arc<Zone>,
    ) -> Result<Option<DsOutcome>, Halt> {
        if let Some(at) = self.signed_answer(reply, name, rtype::CNAME, zone)
            && let Checked::Good { max_ttl, labels } =
                self.job.check((id, reply), at, zone, self.now)?
        {
            if labels == name::signed_labels(name) {
                return Ok(Some(DsOutcome::Inside(None, max_ttl)));
            }
            let mut evidence = self.evidence((id, reply), zone)?;
            let proof = evidence.denies_closer(name, labels, &mut self.job.meter)?;
            let state = match proof {
                Proof::Holds => NameStatus::NoName,
                Proof::Insecure => NameStatus::Insecure,
                Proof::Fails => return Ok(None),
            };
            return Ok(Some(DsOutcome::Status(state, max_ttl.min(evidence.max_ttl))));
        }
        for above in name::upwards(name).skip(1).take_while(|one| name::is_within(one, &zone.name))
        {
            if let Some(at) = self.signed_answer(reply, above, rtype::DNAME, zone)
                && let Checked::Good { max_ttl, labels } =
                    self.job.check((id, reply), at, zone, self.now)?
                && labels == name::signed_labels(above)
            {
                return Ok(Some(DsOutcome::Status(NameStatus::NoName, max_ttl)));
            }
        }
        Ok(None)
    }

    /// The set of an answer that has a signature of the zone.
    fn signed_answer(&self, reply: &Reply, owner: &[u8], rtype: u16, zone: &Zone) -> Option<usize> {
        let at = reply.find(Section::Answer, owner, rtype)?;
        let set = &reply.sets[at];
        (!set.is_empty() && reply.is_signed_by(set, &zone.name)).then_some(at)
    }
}

/// DS records that keys can be found by. SHA-1 does not count beside better digests (RFC 4509 section 3).
fn usable(mut all: Vec<Ds>) -> Vec<Ds> {
    const SHA1: u8 = 1;
    all.retain(|ds| crypto::knows_algorithm(ds.algorithm) && crypto::knows_digest(ds.digest_type));
    if all.iter().any(|ds| ds.digest_type != SHA1) {
        all.retain(|ds| ds.digest_type != SHA1);
    }
    all.truncate(MAX_DS);
    all
}

/// The shortest TTL of a set.
fn ttl(reply: &Reply, set: usize) -> u32 {
    reply.records(&reply.sets[set]).map(|record| record.ttl).min().unwrap_or(0)
}
