//! What validation reads from a reply, and what it makes of it.

use domain::base::message::RecordSection;
use domain::base::name::ToName as _;
use domain::base::wire::ParseError;
use domain::base::{
    Message, MessageBuilder, Name, ParsedName, ParsedRecord, RecordSectionBuilder, Rtype, Serial,
    StaticCompressor, Ttl, UnknownRecordData,
};
use domain::rdata::dnssec::Timestamp;
use domain::rdata::{AllRecordData, Cname, Rrsig, Soa};
use pmdns_stages::wire::edns::ExtendedError;

/// A set of records that is signed: its owner, its type, and why no signature over it is good at present, if none is.
type SignedSet<'m> = (ParsedName<&'m [u8]>, Rtype, Option<ExtendedError>);

/// What a message is written to.
type Target = StaticCompressor<Vec<u8>>;

/// What a reply's signatures say about it, whoever made them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Signatures {
    /// How many there are.
    count: usize,
    /// The longest that all records may be kept, in seconds: no longer than the zone said in the first place, and
    /// no longer than the signature is good for (RFC 4035 section 5.3.3).
    pub(super) max_ttl: u32,
    /// Why some records have no signature that is good at present, although they have some.
    pub(super) lapsed: Option<ExtendedError>,
}

impl Signatures {
    /// The signatures of answer and authority; `None`: the reply is malformed.
    pub(super) fn of(message: &Message<&[u8]>) -> Option<Self> {
        Self::at(message, Timestamp::now()).ok()
    }

    fn at(message: &Message<&[u8]>, now: Timestamp) -> Result<Self, ParseError> {
        let mut this = Self { count: 0, max_ttl: u32::MAX, lapsed: None };
        let mut sets: Vec<SignedSet<'_>> = Vec::new();
        for record in message.answer()?.chain(message.authority()?) {
            let Some(record) = record?.into_record::<Rrsig<_, _>>()? else { continue };
            let signature = record.data();
            this.count += 1;
            let seconds_left = signature.expiration().into_int().wrapping_sub(now.into_int());
            let why = if signature.expiration() < now {
                Some(ExtendedError::SIGNATURE_EXPIRED)
            } else if signature.inception() > now {
                Some(ExtendedError::SIGNATURE_NOT_YET_VALID)
            } else {
                this.max_ttl =
                    this.max_ttl.min(signature.original_ttl().as_secs()).min(seconds_left);
                None
            };
            let (owner, covered) = (record.owner(), signature.type_covered());
            match sets.iter_mut().find(|(name, rtype, _)| name == owner && *rtype == covered) {
                Some((_, _, lapsed)) => *lapsed = lapsed.and(why),
                None => sets.push((*owner, covered, why)),
            }
        }
        this.lapsed = sets.iter().find_map(|(_, _, lapsed)| *lapsed);
        Ok(this)
    }

    /// Why a reply with these signatures is bogus, as far as they can tell (RFC 8914 section 4).
    pub(super) fn why_bogus(&self) -> ExtendedError {
        match self.lapsed {
            Some(why) => why,
            None if self.count == 0 => ExtendedError::RRSIGS_MISSING,
            None => ExtendedError::DNSSEC_BOGUS,
        }
    }
}

/// Whether anything in the reply is signed.
pub(super) fn is_signed(reply: &[u8]) -> bool {
    let signatures = Message::from_octets(reply).ok().and_then(|one| Signatures::of(&one));
    signatures.is_some_and(|signatures| signatures.count > 0)
}

/// What the library is given of a reply, and whether that is all of it. `None`: its name is spared.
///
/// Records of spared names are left out (RFC 7646 section 2): what leads there is judged alone. So is the first of
/// many types; all others are judged in its company. A denial without SOA record is given one that nobody
/// signed, which is right in a zone that is not signed, and bogus in one that is.
pub(super) fn evidence(
    message: &Message<&[u8]>,
    spare: impl Fn(&[u8]) -> bool,
) -> Option<(Message<Vec<u8>>, bool)> {
    let question = message.sole_question().ok()?;
    let (name, qtype): (Name<Vec<u8>>, Rtype) = (question.qname().to_name(), question.qtype());
    // DS records are the zone's above (RFC 4035 section 3.1.4.1).
    let is_of_zone_above = qtype == Rtype::DS;
    let zone_name = name.parent().filter(|_| is_of_zone_above);
    if spare(zone_name.map_or(name.as_slice(), |above| above.into_octets())) {
        return None;
    }
    let is_spared = |record: &ParsedRecord<'_, &[u8]>| {
        !is_of_zone_above && spare(record.owner().to_vec().as_slice())
    };
    let (mut end, mut first, mut is_answered, mut is_whole) = (name.clone(), None, false, true);
    for record in message.answer().ok()?.flatten() {
        if is_spared(&record) {
            is_whole = false;
            continue;
        }
        let rtype = record.rtype();
        if rtype != Rtype::RRSIG && first.is_none() && record.owner() == name {
            first = Some(rtype);
        }
        is_answered |= record.owner() == end && (rtype == qtype || qtype == Rtype::ANY);
        if qtype != Rtype::CNAME
            && record.owner() == end
            && let Ok(Some(alias)) = record.to_record::<Cname<_>>()
        {
            end = alias.data().cname().to_name();
        }
    }
    let judged = if is_whole && qtype != Rtype::ANY { qtype } else { first.unwrap_or(qtype) };
    let has_soa =
        || message.authority().is_ok_and(|all| all.flatten().any(|one| one.rtype() == Rtype::SOA));
    let soa = (is_whole && !is_answered && !has_soa()).then_some(end);
    let evidence = if is_whole && judged == qtype && soa.is_none() {
        message.as_slice().to_vec()
    } else {
        rewrite(message, judged, soa, |record| !is_spared(record))?
    };
    Some((Message::from_octets(evidence).ok()?, is_whole))
}

/// The reply as clients get it: AD if it is secure, and DNSSEC records only if they were asked for (RFC 4035
/// sections 3.2.1 and 3.2.3).
pub(super) fn passed_on(
    message: &Message<&[u8]>,
    is_secure: bool,
    dnssec_ok: bool,
) -> Option<Vec<u8>> {
    let qtype = message.sole_question().ok()?.qtype();
    let is_asked_for = |record: &ParsedRecord<'_, &[u8]>| {
        let rtype = record.rtype();
        rtype == qtype || !matches!(rtype, Rtype::RRSIG | Rtype::NSEC | Rtype::NSEC3)
    };
    let is_as_asked =
        dnssec_ok || message.iter().flatten().all(|(record, _)| is_asked_for(&record));
    let mut reply = match is_as_asked {
        true => message.as_slice().to_vec(),
        false => rewrite(message, qtype, None, is_asked_for)?,
    };
    Message::from_octets(&mut *reply).ok()?.header_mut().set_ad(is_secure);
    Some(reply)
}

/// The same message, as if it were about another type, with a SOA record for `soa`, and only with the records to
/// `keep`.
fn rewrite(
    message: &Message<&[u8]>,
    qtype: Rtype,
    soa: Option<Name<Vec<u8>>>,
    keep: impl Fn(&ParsedRecord<'_, &[u8]>) -> bool,
) -> Option<Vec<u8>> {
    let mut target = MessageBuilder::from_target(StaticCompressor::new(Vec::new())).ok()?;
    *target.header_mut() = message.header();
    let mut target = target.question();
    let question = message.sole_question().ok()?;
    target.push((question.qname(), qtype, question.qclass())).ok()?;
    let mut target = target.answer();
    copy(message.answer().ok()?, &mut target, &keep)?;
    let mut target = target.authority();
    copy(message.authority().ok()?, &mut target, &keep)?;
    if let Some(owner) = soa {
        let zero = Ttl::ZERO;
        let data = Soa::new(owner.clone(), owner.clone(), Serial(0), zero, zero, zero, zero);
        target.push((owner, question.qclass(), zero, data)).ok()?;
    }
    let mut target = target.additional();
    copy(message.additional().ok()?, &mut target, &keep)?;
    Some(target.finish().into_target())
}

/// Copies records bit by bit, but for names in their data that may be compressed, which may stand elsewhere now.
fn copy(
    section: RecordSection<'_, &[u8]>,
    target: &mut impl RecordSectionBuilder<Target>,
    keep: impl Fn(&ParsedRecord<'_, &[u8]>) -> bool,
) -> Option<()> {
    for record in section {
        let record = record.ok()?;
        if !keep(&record) {
            continue;
        }
        match record.rtype() {
            Rtype::NS | Rtype::CNAME | Rtype::SOA | Rtype::PTR | Rtype::MX | Rtype::SRV => {
                target.push(record.to_record::<AllRecordData<_, ParsedName<_>>>().ok()??).ok()?;
            }
            _ => target.push(record.to_record::<UnknownRecordData<_>>().ok()??).ok()?,
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use domain::base::iana::SecurityAlgorithm;
    use domain::rdata::A;
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> Name<Vec<u8>> {
        Name::vec_from_str(text).unwrap()
    }

    /// A reply about `www.example.`: an alias to `host.other.`, its address, and a signature for each of these times.
    fn reply(qtype: Rtype, times: &[(u32, u32)]) -> Vec<u8> {
        let mut message = MessageBuilder::from_target(StaticCompressor::new(Vec::new())).unwrap();
        message.header_mut().set_qr(true);
        let mut message = message.question();
        message.push((name("www.example"), qtype)).unwrap();
        let mut message = message.answer();
        let ttl = Ttl::from_secs(300);
        message.push((name("www.example"), ttl, Cname::new(name("host.other")))).unwrap();
        for (inception, expiration) in times {
            let signature = Rrsig::new(
                Rtype::CNAME,
                SecurityAlgorithm::ED25519,
                2,
                Ttl::from_secs(100),
                Timestamp::from(*expiration),
                Timestamp::from(*inception),
                7,
                name("example"),
                vec![1, 2, 3],
            );
            message.push((name("www.example"), ttl, signature.unwrap())).unwrap();
        }
        message.push((name("host.other"), ttl, A::from_octets(192, 0, 2, 1))).unwrap();
        message.finish().into_target()
    }

    fn types(message: &[u8]) -> Vec<Rtype> {
        let message = Message::from_octets(message).unwrap();
        message.iter().map(|record| record.unwrap().0.rtype()).collect()
    }

    #[test]
    fn signatures_bound_lifetimes_and_lapse() {
        let expired = Some(ExtendedError::SIGNATURE_EXPIRED);
        let early = Some(ExtendedError::SIGNATURE_NOT_YET_VALID);
        for (times, max_ttl, lapsed, why) in [
            (&[][..], u32::MAX, None, ExtendedError::RRSIGS_MISSING),
            (&[(500, 5000)], 100, None, ExtendedError::DNSSEC_BOGUS),
            (&[(500, 1007)], 7, None, ExtendedError::DNSSEC_BOGUS),
            (&[(500, 999)], u32::MAX, expired, ExtendedError::SIGNATURE_EXPIRED),
            (&[(1001, 2000)], u32::MAX, early, ExtendedError::SIGNATURE_NOT_YET_VALID),
            (&[(500, 999), (500, 5000)], 100, None, ExtendedError::DNSSEC_BOGUS),
        ] {
            let reply = reply(Rtype::A, times);
            let message = Message::from_octets(&*reply).unwrap();
            let signatures = Signatures::at(&message, Timestamp::from(1000)).unwrap();
            assert_eq!((signatures.max_ttl, signatures.lapsed), (max_ttl, lapsed), "{times:?}");
            assert_eq!(signatures.why_bogus(), why, "{times:?}");
        }
    }

    #[test]
    fn signatures_are_passed_on_to_those_who_ask_for_them() {
        let reply = reply(Rtype::A, &[(1, 2)]);
        let message = Message::from_octets(&*reply).unwrap();
        let stripped = passed_on(&message, true, false).unwrap();
        assert_eq!(types(&stripped), [Rtype::CNAME, Rtype::A]);
        assert!(Message::from_octets(&*stripped).unwrap().header().ad());
        let whole = passed_on(&message, false, true).unwrap();
        assert_eq!(whole, reply, "byte for byte");
        let signatures = self::reply(Rtype::RRSIG, &[(1, 2)]);
        let asked_for = passed_on(&Message::from_octets(&*signatures).unwrap(), false, false);
        assert_eq!(types(&asked_for.unwrap()), [Rtype::CNAME, Rtype::RRSIG, Rtype::A]);
    }

    #[test]
    fn what_leads_to_a_spared_name_is_judged_alone() {
        let reply = reply(Rtype::A, &[(1, 2)]);
        let message = Message::from_octets(&*reply).unwrap();
        let is = |text: &'static str| move |one: &[u8]| one == name(text).as_slice();
        assert!(evidence(&message, is("www.example")).is_none());
        let (part, is_whole) = evidence(&message, is("host.other")).unwrap();
        assert!(!is_whole && part.sole_question().unwrap().qtype() == Rtype::CNAME);
        assert_eq!(types(part.as_slice()), [Rtype::CNAME, Rtype::RRSIG]);
        let (whole, is_whole) = evidence(&message, is("example")).unwrap();
        assert!(is_whole && whole.as_slice() == reply);
    }

    #[test]
    fn a_denial_without_soa_is_given_one_at_the_end_of_its_aliases() {
        let reply = reply(Rtype::AAAA, &[]);
        let message = Message::from_octets(&*reply).unwrap();
        let (evidence, _) = evidence(&message, |_| false).unwrap();
        let soa = evidence.authority().unwrap().next().unwrap().unwrap();
        assert_eq!((soa.owner().to_vec(), soa.rtype()), (name("host.other"), Rtype::SOA));
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(
            flips in proptest::collection::vec((0..200usize, any::<u8>()), 0..8),
        ) {
            let mut reply = reply(Rtype::A, &[(1, 2)]);
            for (at, byte) in flips {
                let at = at % reply.len();
                reply[at] = byte;
            }
            let message = Message::from_octets(&*reply).unwrap();
            let _ = Signatures::of(&message);
            let _ = evidence(&message, |name| name.len() == 12);
            let _ = passed_on(&message, true, false);
        }
    }
}
