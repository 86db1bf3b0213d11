//! Addresses that DNS64 makes (RFC 6147): for which questions, of which answers.

use pmdns_stages::cache::{Entry, Head, Key, Lifetimes, Synthesis};
use pmdns_stages::policy::dns64::Dns64;
use pmdns_stages::wire::dns::{CLASS_IN, HEADER_LEN, Rcode, flag, header, rtype};
use pmdns_stages::wire::put16;

use super::Answers;
use crate::origin::Origin;
use crate::questions::question::{Question, Rule};
use crate::upstreams::replies::ResolvedAnswer;

/// The longest TTL of addresses where no SOA record is known (RFC 6147 section 5.1.7), in seconds. The alias of a reverse
/// name has it too.
const MAX_TTL: u32 = 600;

/// The IPv6 addresses of an answer.
pub(crate) enum Ipv6 {
    /// It stays as it is.
    Enough,
    /// Some of its addresses are excluded. This is the rest.
    Some(Entry),
    /// It has none, and others are to be made.
    None,
}

impl Answers {
    /// What an upstream's answer says of IPv6 addresses.
    pub(crate) fn ipv6(&self, question: &Question, entry: &Entry) -> Ipv6 {
        let head = entry.head();
        // What a rule has put in the place of an answer is wanted so. Of a long answer nothing is known.
        let is_fixed = head.flags & Head::REWRITTEN != 0 || head.has_to_be_asked();
        let Some(dns64) = self.dns64(question) else { return Ipv6::Enough };
        if head.rcode != Rcode::NOERROR || is_fixed {
            return Ipv6::Enough;
        }
        let addresses = entry.addresses::<16>();
        let excluded = addresses.iter().filter(|one| dns64.excludes(**one)).count();
        if excluded == addresses.len() {
            return Ipv6::None;
        }
        if excluded == 0 {
            return Ipv6::Enough;
        }
        let is_authentic = head.flags & Head::AUTHENTIC != 0;
        let what = self.synthesis(question, u32::MAX, is_authentic);
        let rest = |address| Some(address).filter(|one| !dns64.excludes(*one)).into_iter();
        let rest = entry.with_addresses(rest, &what, &self.store.lifetimes);
        self.put_together(question, rest, &head).map_or(Ipv6::None, Ipv6::Some)
    }

    /// Whether addresses may be made for this question.
    pub(crate) fn makes_ipv6(&self, question: &Question) -> bool {
        self.dns64(question).is_some()
    }

    /// How they are made. Clients that validate for themselves get none (RFC 6147 section 5.5).
    fn dns64(&self, question: &Question) -> Option<&Dns64> {
        const VALIDATES: u8 = Key::DO | Key::CD;
        let key = question.key();
        let is_for_addresses = (key.qtype, key.qclass) == (rtype::AAAA, CLASS_IN);
        let is_by_rule = matches!(question.rule(), Rule::Alias(..) | Rule::Reverse(_));
        if !is_for_addresses || is_by_rule || key.flags & VALIDATES == VALIDATES {
            return None;
        }
        self.rules().dns64(key.scope())
    }

    /// The question for the A records of the same name, as the same clients would ask it.
    pub(crate) fn for_ipv4(&self, question: &Question, validates: bool) -> Question {
        let seed = self.store.seed();
        let key = Key { qtype: rtype::A, ..question.key() };
        let mut target = Question::of_key(key, seed).validating(validates);
        target = target.under(question.rule(), seed);
        target.ask_for(question.subnet(), seed);
        target
    }

    /// The answer to a question that is known already, and the network it is for.
    pub(crate) fn known_in_network(&mut self, question: &Question) -> Option<ResolvedAnswer> {
        if let Some(entry) = self.known(question) {
            return Some(ResolvedAnswer { entry, network: None, origin: Origin::Cache });
        }
        let subnet = question.subnet()?;
        let (length, _) = self.subnets.find(question, self.context.seconds)?;
        let network = Some(subnet.cut(length));
        let entry = self.subnets.use_answer(question, length)?.clone();
        Some(ResolvedAnswer { entry, network, origin: Origin::Cache })
    }

    /// The answer to a question for AAAA records that is made of its answer, if there is one, and of the one for A
    /// records. `None`: there is nothing to make it of.
    pub(crate) fn made_of(
        &self,
        question: &Question,
        answer: Option<&Entry>,
        ipv4: &Entry,
    ) -> Option<Entry> {
        let (key, head, now) = (question.key(), ipv4.head(), self.context.seconds);
        let is_changed = head.flags & Head::REWRITTEN != 0;
        if is_changed && head.rcode != Rcode::NOERROR || head.has_to_be_asked() {
            let flags = head.flags & Head::TOO_LONG;
            return Some(ipv4.denied_as(key, question.hash(), head.rcode, flags));
        }
        let dns64 = self.dns64(question)?;
        let max_ttl = answer.and_then(|entry| entry.negative_ttl(now)).unwrap_or(MAX_TTL);
        let both = answer.map_or(0, |entry| entry.head().flags) & head.flags;
        let what = self.synthesis(question, max_ttl, both & Head::AUTHENTIC != 0);
        let made = ipv4.with_addresses(|one| dns64.addresses(one), &what, &self.store.lifetimes);
        match self.put_together(question, made, &head) {
            // A rule has taken the addresses away.
            None if is_changed => Some(ipv4.denied_as(key, question.hash(), head.rcode, 0)),
            made => made,
        }
    }

    fn synthesis<'q>(
        &self,
        question: &'q Question,
        max_ttl: u32,
        is_authentic: bool,
    ) -> Synthesis<'q> {
        let (key, hash, now) = (question.key(), question.hash(), self.context.seconds);
        Synthesis { key, hash, now, max_ttl, is_authentic }
    }

    /// An answer that has been made, marked as one that needs no judging: what it is made of, which has this head, has been judged.
    /// Where views judge that differently, they do so of what is made of it.
    fn put_together(&self, question: &Question, made: Option<Entry>, of: &Head) -> Option<Entry> {
        let mut entry = made?;
        if of.passed == Head::BY_VIEW {
            entry.set_passed(of.passed);
        } else if question.rule() == Rule::None {
            let head = entry.head();
            entry.set_passed(self.rules().passed(question.key(), &head));
        }
        Some(entry)
    }

    /// Whether a key is of a reverse name under a prefix.
    pub(crate) fn is_reverse(&self, key: Key<'_>) -> bool {
        let dns64 = self.rules().dns64(key.scope());
        let is_pointer = (key.qtype, key.qclass) == (rtype::PTR, CLASS_IN);
        is_pointer && dns64.is_some_and(|dns64| dns64.reverse(key.name).is_some())
    }

    /// The alias that answers a question for a reverse name under a prefix (RFC 6147 section 5.3.1).
    pub(crate) fn reverse_alias(&self, question: &Question) -> Option<Entry> {
        let key = question.key();
        let target = self.rules().dns64(key.scope())?.reverse(key.name)?;
        let mut message = vec![0; HEADER_LEN];
        message.extend_from_slice(key.name);
        message.extend(key.qtype.to_be_bytes());
        message.extend(key.qclass.to_be_bytes());
        message.extend_from_slice(key.name);
        message.extend(rtype::CNAME.to_be_bytes());
        message.extend(CLASS_IN.to_be_bytes());
        message.extend(MAX_TTL.to_be_bytes());
        message.extend(u16::try_from(target.len()).ok()?.to_be_bytes());
        message.extend_from_slice(&target);
        put16(&mut message, header::FLAGS, flag::QR);
        put16(&mut message, header::QDCOUNT, 1);
        put16(&mut message, header::ANCOUNT, 1);
        let lifetimes = Lifetimes { min_ttl: 0, ..self.store.lifetimes };
        Entry::from_reply(&message, key, question.hash(), self.context.seconds, &lifetimes).ok()
    }
}
