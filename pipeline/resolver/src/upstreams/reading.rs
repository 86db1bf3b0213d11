//! Replies: what is believed of one that belongs to its query, and what is learnt from it about its upstream.
//!
//! docs/adr/0026-what-is-believed-of-replies.md says what is believed and why.

use std::net::{IpAddr, SocketAddr};

use pmdns_config::Upstream;
use pmdns_stages::cache::{Entry, Unusable};
use pmdns_stages::wire::dns::Rcode;
use pmdns_stages::wire::edns::{ExtendedError, option, option_in};

use crate::answers::subnets::{Answer, OtherSubnet, network_of};
use crate::counters::{add, count};
use crate::questions::pending::Ticket;
use crate::questions::plan::{Attempt, Transport, TryFailure};
use crate::questions::query::{Proof, Question, ReplyKind, announced_size, shows_no_edns};
use crate::resolver::Resolver;
use crate::upstreams::connection::TcpQuery;
use crate::upstreams::cookies::{Learnt, Sent, Shown};
use crate::upstreams::udp_batch::InFlight;

/// What was read of a reply.
pub(crate) struct Read {
    answer: Answer,
    /// The reply itself, if validation is about it.
    to_judge: Option<Vec<u8>>,
}

impl Resolver {
    /// A try as its upstream can take it. A question that is asked in many variants already goes over TCP.
    pub(crate) fn suited(&mut self, ticket: Ticket, attempt: Attempt) -> Attempt {
        let upstream = attempt.upstream;
        let edns = attempt.edns && self.capabilities[upstream].takes_edns(self.now);
        let is_open = attempt.transport != Transport::Tcp
            && self.upstreams[upstream].address.plain().is_some();
        let Some((question, _)) = self.pending.find(ticket).filter(|_| is_open) else {
            return Attempt { edns, ..attempt };
        };
        if self.variants.may_use_udp(question.key(), ticket, self.cache.seed()) {
            return Attempt { edns, ..attempt };
        }
        count(&self.counters.crowded);
        Attempt { edns, transport: Transport::Tcp, ..attempt }
    }

    /// The cookie for queries that leave for this upstream now. Its address is `local` if the operator chose none.
    pub(crate) fn cookie_for(
        &self,
        upstream: usize,
        local: impl FnOnce() -> Option<IpAddr>,
    ) -> Option<Sent> {
        let to = &self.upstreams[upstream];
        let address = to.address.plain().filter(|_| to.cookies)?;
        let source = to.source.or_else(local)?;
        let client = self.cookie_secret.cookie(address, source);
        Some(self.capabilities[upstream].cookies.take(client, self.now))
    }

    /// Goes on with a query whose reply has come over UDP.
    pub(crate) fn take_reply(&mut self, query: &InFlight, reply: &[u8], learnt: Option<Learnt>) {
        let InFlight { ticket, question, attempt, id, letter_case, .. } = query;
        let proof = if learnt.is_some() { Proof::Firm } else { Proof::Guessed };
        let known = &mut self.capabilities[attempt.upstream];
        if let Some(learnt) = learnt {
            count(&self.upstream_counters[attempt.upstream].cookies);
            known.cookies.learn(learnt, self.now);
        }
        if letter_case.is_some() && question.is_answered_by(*id, *letter_case, reply) {
            known.case_mixer.kept();
        }
        let answer = if reply.len() > announced_size(attempt.edns) {
            count(&self.upstream_counters[attempt.upstream].oversized);
            Err(TryFailure::NeedsTcp)
        } else {
            self.read(question, *attempt, proof, reply)
        };
        self.conclude(*ticket, *attempt, answer);
    }

    /// A reply over UDP has other letters than its query, or somebody forged it who knows all but them.
    pub(crate) fn note_case_mismatch(&mut self, upstream: usize) {
        count(&self.upstream_counters[upstream].mismatched);
        count(&self.upstream_counters[upstream].case_mismatch);
        if self.capabilities[upstream].case_mixer.misspelt(self.now) {
            count(&self.upstream_counters[upstream].case_mixing_paused);
            let address = &self.upstreams[upstream].address;
            tracing::warn!(
                "upstream {address} does not keep the letter case of queries, and is asked in small letters \
                 for an hour; leave out its mix_case"
            );
        }
    }

    /// Learns from a reply over TCP whether its upstream shows cookies.
    pub(crate) fn note_cookie(&mut self, query: &TcpQuery, reply: &[u8]) {
        let upstream = query.attempt.upstream;
        let Some(sent) = query.cookie.as_ref().filter(|_| query.attempt.edns) else { return };
        let cookies = &mut self.capabilities[upstream].cookies;
        match sent.shown_in(reply) {
            Shown::Right(learnt) => {
                count(&self.upstream_counters[upstream].cookies);
                cookies.learn(learnt, self.now);
            }
            Shown::Missing
                if ReplyKind::of(reply) == ReplyKind::Answer && cookies.miss(self.now) =>
            {
                let address = &self.upstreams[upstream].address;
                tracing::info!(
                    "upstream {address} has left DNS cookies off, and is not held to them for an hour"
                );
            }
            Shown::Missing | Shown::Wrong => {}
        }
    }

    /// Learns from an answer whether its upstream knows EDNS.
    fn note_edns(&mut self, attempt: Attempt) {
        let known = &mut self.capabilities[attempt.upstream];
        if attempt.edns {
            known.took_edns();
        } else if known.took_plain(self.now) {
            count(&self.upstream_counters[attempt.upstream].without_edns);
            let address = &self.upstreams[attempt.upstream].address;
            tracing::warn!(
                "upstream {address} does not know EDNS, and is asked without for 15 minutes; signatures, subnets \
                 and cookies need it"
            );
        }
    }

    /// Ends a question with its answer, or goes on with its plan.
    pub(crate) fn conclude(
        &mut self,
        ticket: Ticket,
        attempt: Attempt,
        answer: Result<Read, TryFailure>,
    ) {
        if answer.is_ok() {
            self.note_edns(attempt);
        }
        match answer {
            Ok(Read { answer, to_judge: None }) => self.answer(ticket, answer),
            Ok(Read { answer, to_judge: Some(reply) }) => {
                self.judge(ticket, attempt, answer, reply);
            }
            Err(failure) => self.learn(ticket, attempt, failure),
        }
    }

    /// Makes an answer of a reply that is known to belong to its query.
    pub(crate) fn read(
        &self,
        question: &Question,
        attempt: Attempt,
        proof: Proof,
        reply: &[u8],
    ) -> Result<Read, TryFailure> {
        let counters = &self.upstream_counters[attempt.upstream];
        let mut entry = self.read_entry(question, attempt, proof, reply)?;
        let network = match question.subnet().map(|sent| network_of(reply, &entry, sent, proof)) {
            None => None,
            Some(Ok(network)) => network,
            // RFC 7871 section 7.3: it is dropped. Whoever forged it cannot do so over TCP.
            Some(Err(OtherSubnet)) => {
                count(&counters.other_subnet);
                return Err(TryFailure::NeedsTcp);
            }
        };
        if proof == Proof::Firm {
            entry.vouch();
        }
        // Who validates believes nobody's AD (RFC 4035 section 4.9.3), and nobody else believes what can be forged.
        if self.validation.is_on() || !is_believed(&self.upstreams[attempt.upstream]) {
            entry.distrust();
        }
        if question.is_checked() || self.validation.wants(question) {
            return Ok(Read { answer: Answer { entry, network }, to_judge: Some(reply.to_vec()) });
        }
        let entry = self.judged(question, entry, reply);
        Ok(Read { answer: Answer { entry, network }, to_judge: None })
    }

    /// Makes an entry of a reply that is known to belong to its query.
    ///
    /// An upstream's SERVFAIL, REFUSED and the like say that *it* has no answer: the next one is asked, and
    /// if none has any, the client gets SERVFAIL, as from other forwarders. To pass on REFUSED would tell the
    /// client that we refuse to serve it.
    fn read_entry(
        &self,
        question: &Question,
        attempt: Attempt,
        proof: Proof,
        reply: &[u8],
    ) -> Result<Entry, TryFailure> {
        let counters = &self.upstream_counters[attempt.upstream];
        let kind = ReplyKind::of(reply);
        if !matches!(kind, ReplyKind::Answer | ReplyKind::Truncated) {
            count(&counters.rcode_failures);
        }
        match kind {
            ReplyKind::Answer => {
                let (key, hash) = (question.key(), question.hash());
                let now = self.context.seconds;
                let (entry, dropped) = match Entry::scrub(reply, key, hash, now, &self.lifetimes) {
                    Ok(scrubbed) => scrubbed,
                    Err(Unusable::NoAnswer) => {
                        count(&counters.no_answer);
                        return Err(refusal(reply));
                    }
                    Err(Unusable::Malformed | Unusable::OtherQuestion) => {
                        count(&counters.malformed);
                        return Err(TryFailure::NeedsTcp);
                    }
                };
                add(&counters.scrubbed, dropped as u64);
                // BADVERS and its like show in the OPT record only (RFC 6891 section 6.1.3).
                if !matches!(entry.head().rcode, Rcode::NOERROR | Rcode::NXDOMAIN) {
                    count(&counters.rcode_failures);
                    return Err(refusal(reply));
                }
                Ok(entry)
            }
            ReplyKind::Truncated => Err(TryFailure::NeedsTcp),
            ReplyKind::FormatError if !attempt.edns => Err(refusal(reply)),
            ReplyKind::FormatError if shows_no_edns(reply, proof, self.validation.is_on()) => {
                Err(TryFailure::NeedsPlainDns)
            }
            ReplyKind::BadCookie if proof == Proof::Firm && attempt.transport != Transport::Tcp => {
                Err(TryFailure::BadCookie)
            }
            ReplyKind::FormatError | ReplyKind::BadCookie if proof == Proof::Guessed => {
                Err(TryFailure::NeedsTcp)
            }
            ReplyKind::FormatError | ReplyKind::BadCookie | ReplyKind::Failure => {
                Err(refusal(reply))
            }
        }
    }
}

/// That an upstream has no answer, and why, if it says so.
fn refusal(reply: &[u8]) -> TryFailure {
    let why = option_in(reply, option::EXTENDED_ERROR);
    TryFailure::Refused(why.and_then(ExtendedError::read))
}

/// Whether it is believed of an upstream that it has checked signatures: nobody between it and us could say so in its
/// name, or the operator knows better.
fn is_believed(upstream: &Upstream) -> bool {
    let is_near = |address: SocketAddr| address.ip().to_canonical().is_loopback();
    upstream.trust_ad || upstream.address.plain().is_none_or(is_near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_low_ad_is_believed_where_nobody_else_can_say_it() {
        for (address, believed) in [
            ("192.0.2.53:53", false),
            ("[2001:db8::53]:53", false),
            ("127.0.0.1:53", true),
            ("127.1.2.3:5353", true),
            ("[::1]:53", true),
            ("[::ffff:127.0.0.1]:53", true),
            ("tls://192.0.2.53", true),
            ("https://dns.example/dns-query", true),
            ("quic://192.0.2.53", true),
        ] {
            let mut upstream = Upstream::at(address.parse().unwrap());
            assert_eq!(is_believed(&upstream), believed, "{address}");
            upstream.trust_ad = true;
            assert!(is_believed(&upstream), "{address}, as the operator says");
        }
    }
}
