//! Answers that several views share and their rules judge differently. The cache keeps what an upstream said, with the mark
//! [`Head::BY_VIEW`]. Each client gets what its view says, on the way out: from lookup, and from the slow path. So it is with
//! redirections of names that do not exist.

use arrayvec::ArrayVec;

use super::{RuleDecision, RuleSource, RuleVerdict, Ruleset, policy_verdict};
use crate::answer::{Answer, LocalRef};
use crate::cache::{Head, Key, Words, message_start};
use crate::packet::Packet;
use crate::policy::filter::Candidates;
use crate::policy::list_number::ListNumber;
use crate::policy::rpz::{Action, WholeName, alias_targets};
use crate::step::Step;
use crate::wire::dns::{Rcode, rtype};

/// Aliases of one answer that are looked at.
const MAX_ALIASES: usize = 16;

/// Bytes of an answer in which aliases are looked for on the way out. So many aliases with names of full length take less.
const MAX_START: usize = MAX_ALIASES * 600;

/// The names that aliases in an answer lead to, in their order, and the rules that may be about each.
pub(super) type Aliases<'n> = ArrayVec<(&'n [u8], Candidates<'n>), MAX_ALIASES>;

/// The names alone.
pub(super) type AliasNames = ArrayVec<WholeName, MAX_ALIASES>;

/// An answer of an upstream under the rules.
pub(super) struct Judged<'a> {
    pub(super) key: Key<'a>,
    /// The rules that may be about the name that was asked for.
    pub(super) candidates: &'a Candidates<'a>,
    pub(super) message: &'a [u8],
    pub(super) aliases: &'a Aliases<'a>,
    /// Policy zones from this number on do not count, nor do lists then.
    pub(super) end: u8,
}

/// The names that an answer leads a client to. One that asks for an alias itself does not follow it.
pub(super) fn alias_names(key: Key<'_>, message: &[u8]) -> AliasNames {
    let is_followed = !matches!(key.qtype, rtype::CNAME | rtype::ANY);
    alias_targets(message).take(if is_followed { MAX_ALIASES } else { 0 }).collect()
}

impl Ruleset {
    /// What a client gets in the place of an answer that its view shares with others. These are the addresses of a redirection,
    /// or what rules of its view say of the names that the answer leads to. `None`: the answer itself.
    pub(crate) fn instead(&self, packet: &mut Packet, answer: &impl Words) -> Option<Step> {
        let head = Head::read(answer);
        if head.passed != Head::BY_VIEW {
            return self.redirect(packet, &head, answer).then_some(Step::ANSWER);
        }
        let (key, who) = (Key::of(packet.query()), packet.layout.who);
        let end = self.exemption(packet.layout.client(packet.frame.bytes()), who);
        let message = message_start::<MAX_START>(key, answer);
        let (_, verdict) = self.verdict_on_shared(key, &message, who.view(), end);
        // What was read of the cache may be no entry any more, and encode finds that out.
        let step = answer.is_valid().then(|| self.carry_out(verdict, packet))??;
        // The alias of a rule is given as it is.
        Some(if step == Step::SLOW_PATH { Step::ANSWER } else { step })
    }

    /// Puts the addresses of a redirection in the place of the answer that a packet was to get, if one is about it. Says
    /// whether it did.
    fn redirect(&self, packet: &mut Packet, head: &Head, answer: &impl Words) -> bool {
        let view = packet.layout.who.view();
        let found = self.read.redirects.find(Key::of(packet.query()), head, view);
        // What was read of the cache may be no entry any more, and encode finds that out.
        let Some((place, number)) = found.filter(|_| answer.is_valid()) else { return false };
        packet.answer = match number {
            Some(number) => Answer::Local(LocalRef { generation: self.generation, number }),
            None => Answer::Rcode(Rcode::NOERROR),
        };
        packet.extended_error = Some(ListNumber::Redirect(place).as_reason());
        true
    }

    /// Whether clients in one of the views that share this answer are redirected.
    pub(super) fn redirects_in_scope(&self, key: Key<'_>, answer: &Head) -> bool {
        let redirects = &self.read.redirects;
        !redirects.are_none()
            && self.views_of(key.scope()).any(|view| redirects.find(key, answer, view).is_some())
    }

    /// The verdict of a view on an answer that several share, and what it comes from.
    pub(super) fn verdict_on_shared(
        &self,
        key: Key<'_>,
        message: &[u8],
        view: u8,
        end: Option<u8>,
    ) -> (RuleSource, RuleVerdict) {
        let (names, candidates) =
            (alias_names(key, message), self.read.filter.candidates(key.name));
        let (aliases, end) = (self.aliases(&names), end.unwrap_or(u8::MAX));
        let judged = Judged { key, candidates: &candidates, message, aliases: &aliases, end };
        self.verdict_in_view(&judged, view)
    }

    /// The names with the rules that may be about them.
    pub(super) fn aliases<'n>(&self, names: &'n AliasNames) -> Aliases<'n> {
        names.iter().map(|name| (&**name, self.read.filter.candidates(name))).collect()
    }

    /// What all views of a scope say of an answer; `None`: they differ.
    pub(super) fn verdict_in_scope(&self, judged: &Judged<'_>) -> Option<RuleDecision> {
        let views = self.views_of(judged.key.scope());
        let mut verdicts = views.map(|view| self.verdict_in_view(judged, view).1.0);
        let first = verdicts.next().unwrap_or(RuleDecision::Pass);
        verdicts.all(|other| other == first).then_some(first)
    }

    /// What rules say of an answer in a view: those about the names that its aliases lead to, and about the addresses and name
    /// servers in it.
    fn verdict_in_view(&self, judged: &Judged<'_>, view: u8) -> (RuleSource, RuleVerdict) {
        const PASS: RuleVerdict = (RuleDecision::Pass, None);
        let Judged { key, candidates, message, aliases, end } = *judged;
        let said = |name: &[u8]| self.runtime.as_ref()?.override_of(name, view);
        if said(key.name) == Some(None) {
            return (RuleSource::RunTime, PASS);
        }
        if let Some(action) = aliases.iter().find_map(|(name, _)| said(name).flatten()) {
            let why = Some(ListNumber::Runtime.as_reason());
            return (RuleSource::RunTime, (self.block_verdict(Some(action), key.qtype), why));
        }
        let open = || aliases.iter().filter(|(name, _)| said(name).is_none());
        // All views of a scope have the same policy zones.
        let zones = (0..end).zip(&self.read.policies).map(|(_, zone)| zone);
        for zone in zones.filter(|zone| zone.views.has(key.scope())) {
            let source = RuleSource::PolicyZone { number: zone.number, of_client: false };
            // An earlier rule about the name exempts it; any other would have been carried out by now.
            if zone.of_name(key.name, candidates) == Some(Action::Passthru) {
                return (source, PASS);
            }
            let of_alias = open().find_map(|(name, candidates)| zone.of_name(name, candidates));
            if let Some(action) = of_alias.or_else(|| zone.of_response(message)) {
                let why = Some(ListNumber::Zone(zone.number).as_reason());
                return (source, (policy_verdict(zone, action, key.qtype), why));
            }
        }
        if end < u8::MAX {
            return (RuleSource::Blocked, PASS);
        }
        let blocked = |(name, candidates): &(&[u8], Candidates<'_>)| {
            self.read.blocked.decide(name, candidates, view)
        };
        let (action, list) = open().find_map(blocked).unzip();
        let why = list.map(|list| ListNumber::of_blocked(list).as_reason());
        (RuleSource::Blocked, (self.block_verdict(action, key.qtype), why))
    }
}
