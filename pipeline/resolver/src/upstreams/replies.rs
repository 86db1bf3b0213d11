//! Replies: which parts of a reply are used, once it is known to belong to its query.
//!
//! docs/adr/0026-what-is-believed-of-replies.md gives the reasons.

use std::net::SocketAddr;

use pmdns_config::Upstream;
use pmdns_stages::cache::{Entry, Head, Lifetimes, Unusable};
use pmdns_stages::wire::edns::{ExtendedError, option, option_in};
use pmdns_stages::wire::subnet::Subnet;

use super::{Replied, Upstreams};
use crate::counters::shared::{add, count};
use crate::origin::Origin;
use crate::questions::plan::{Transport, TryFailure};
use crate::upstreams::query::{Proof, ReplyKind, shows_no_edns};

/// An upstream's answer.
#[derive(Debug)]
pub(crate) struct ResolvedAnswer {
    pub(crate) entry: Entry,
    /// The network it is for; none: it is for everybody.
    pub(crate) network: Option<Subnet>,
    /// Where it came from.
    pub(crate) origin: Origin,
}

/// The context in which replies are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// The second of this turn.
    pub(crate) now: u32,
    /// How long answers are kept.
    pub(crate) lifetimes: Lifetimes,
    /// Whether answers are validated.
    pub(crate) validates: bool,
}

impl Upstreams {
    /// Keeps the memory of an answer that everybody has got, for the next one.
    pub(crate) fn recycle(&mut self, entry: Entry) {
        self.entry_memory = entry.into_memory();
    }

    /// Makes an answer of a reply.
    pub(crate) fn read(
        &mut self,
        replied: &Replied,
        reply: &[u8],
        reading: &Reading,
    ) -> Result<ResolvedAnswer, TryFailure> {
        let Replied { question, attempt, proof, .. } = replied;
        let mut entry = self.read_entry(replied, reply, reading)?;
        let network = match question.subnet().map(|sent| network_of(reply, &entry, sent, *proof)) {
            None => None,
            Some(Ok(network)) => network,
            // RFC 7871 section 7.3: the reply is dropped. A forger cannot do the same over TCP.
            Some(Err(OtherSubnet)) => {
                count(&self.peers.counters(attempt.upstream).other_subnet);
                return Err(TryFailure::NeedsTcp);
            }
        };
        if *proof == Proof::Firm {
            entry.vouch();
        }
        // A validator does not use the AD of others (RFC 4035 section 4.9.3). Without validation, AD that could be
        // forged is not used.
        if reading.validates || !is_believed(self.peers.settings(attempt.upstream)) {
            entry.distrust();
        }
        Ok(ResolvedAnswer { entry, network, origin: Origin::upstream(attempt.upstream) })
    }

    /// Makes an entry of a reply.
    ///
    /// SERVFAIL, REFUSED and similar rcodes mean that this upstream has no answer, so the next one is asked. If no
    /// upstream has one, the client gets SERVFAIL, as from other forwarders. REFUSED is not passed on: it would tell
    /// the client that pmdns refuses to serve it.
    fn read_entry(
        &mut self,
        replied: &Replied,
        reply: &[u8],
        reading: &Reading,
    ) -> Result<Entry, TryFailure> {
        let Replied { question, attempt, proof, .. } = replied;
        let memory = std::mem::take(&mut self.entry_memory);
        let counters = self.peers.counters(attempt.upstream);
        let kind = ReplyKind::of(reply);
        if !matches!(kind, ReplyKind::Answer | ReplyKind::Truncated) {
            count(&counters.rcode_failures);
        }
        match kind {
            ReplyKind::Answer => {
                let (key, hash) = (question.key(), question.hash());
                let scrubbed =
                    Entry::scrub(reply, key, hash, reading.now, &reading.lifetimes, memory);
                let (entry, dropped) = match scrubbed {
                    Ok(scrubbed) => scrubbed,
                    Err(Unusable::NoAnswer) => {
                        count(&counters.no_answer);
                        return Err(refusal(reply));
                    }
                    Err(Unusable::TooManyAliases) => {
                        count(&counters.no_answer);
                        return Err(TryFailure::Refused(Some(ExtendedError::INVALID_DATA)));
                    }
                    Err(Unusable::Malformed | Unusable::OtherQuestion) => {
                        count(&counters.malformed);
                        return Err(TryFailure::NeedsTcp);
                    }
                };
                add(&counters.scrubbed, dropped as u64);
                // Extended rcodes such as BADVERS are visible only in the OPT record (RFC 6891 section 6.1.3).
                if !entry.head().rcode.is_answer() {
                    count(&counters.rcode_failures);
                    return Err(refusal(reply));
                }
                Ok(entry)
            }
            ReplyKind::Truncated => Err(TryFailure::NeedsTcp),
            ReplyKind::FormatError if !attempt.edns => Err(refusal(reply)),
            ReplyKind::FormatError if shows_no_edns(reply, *proof, reading.validates) => {
                Err(TryFailure::NeedsPlainDns)
            }
            ReplyKind::BadCookie
                if *proof == Proof::Firm && attempt.transport != Transport::Tcp =>
            {
                Err(TryFailure::BadCookie)
            }
            ReplyKind::FormatError | ReplyKind::BadCookie if *proof == Proof::Guessed => {
                Err(TryFailure::NeedsTcp)
            }
            ReplyKind::FormatError | ReplyKind::BadCookie | ReplyKind::Failure => {
                Err(refusal(reply))
            }
        }
    }
}

/// A reply names another network than its query, or none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OtherSubnet;

/// The network that the answer in a reply is for; `None`: it is for everybody. The query was for `sent`.
pub(crate) fn network_of(
    reply: &[u8],
    entry: &Entry,
    sent: Subnet,
    proof: Proof,
) -> Result<Option<Subnet>, OtherSubnet> {
    let scope = match option_in(reply, option::SUBNET) {
        // One name may be asked for many networks at once. If replies without the option were accepted over UDP, a
        // forger need not know the network, and each datagram could match any of these queries.
        None if proof == Proof::Guessed => return Err(OtherSubnet),
        // RFC 7871 section 7.3: as with a scope of zero.
        None => 0,
        Some(data) => match Subnet::read(data) {
            Some((source, scope)) if source == sent => scope,
            Some((source, _)) if (source.length(), sent.length()) == (0, 0) => 0,
            _ => return Err(OtherSubnet),
        },
    };
    // RFC 7871 section 7.4: a negative answer is for everybody.
    let is_negative = entry.head().flags & Head::NEGATIVE != 0;
    // An answer to a /0 query may not suit everybody, so it is kept for /0 clients only (section 7.3.1). A scope longer
    // than the source prefix counts as the source prefix (also section 7.3.1).
    let is_narrow = scope > 0 || sent.length() == 0;
    Ok((is_narrow && !is_negative).then(|| sent.cut(scope)))
}

/// The failure of an upstream without an answer, with its extended error if there is one.
fn refusal(reply: &[u8]) -> TryFailure {
    let why = option_in(reply, option::EXTENDED_ERROR);
    TryFailure::Refused(why.and_then(ExtendedError::read))
}

/// Whether AD of an upstream is used. It is if nobody can forge it on the way (encryption or a loopback address), or if
/// the operator set `trust_ad`.
fn is_believed(upstream: &Upstream) -> bool {
    let is_near = |address: SocketAddr| address.ip().to_canonical().is_loopback();
    let address = &upstream.address;
    upstream.trust_ad || address.is_encrypted() || address.plain().is_some_and(is_near)
}

#[cfg(test)]
pub(crate) mod tests {
    use pmdns_stages::testing::{ReplyRecord, entry_of, query};
    use pmdns_stages::wire::name::Seed;
    use pmdns_stages::wire::{be16, dns::header, put16};

    use super::*;

    pub(crate) const SENT: [u8; 4] = [10, 1, 0, 0];

    pub(crate) fn seed() -> Seed {
        Seed::new([7; 16])
    }

    /// An answer that expires at `second` and contains `number`.
    pub(crate) fn entry(number: u8, second: u32) -> Entry {
        let records: [ReplyRecord; 1] = [(0, 1, second, vec![192, 0, 2, number])];
        entry_of(&query("www.example. A"), &records, 0, seed())
    }

    /// A reply with this subnet option, or without one.
    pub(crate) fn reply(data: Option<&[u8]>) -> Vec<u8> {
        let asked = query("www.example. A").edns(1232, false);
        let asked = data.into_iter().fold(asked, |asked, data| asked.option(option::SUBNET, data));
        let mut reply = asked.message();
        let flags = be16(&reply, header::FLAGS).unwrap();
        put16(&mut reply, header::FLAGS, flags | 1 << 15);
        reply
    }

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

    #[test]
    fn whom_an_answer_is_for() {
        let sent = Subnet::of_address(&SENT).cut(16);
        let of =
            |data: Option<&[u8]>, sent| network_of(&reply(data), &entry(1, 9), sent, Proof::Firm);
        let scoped = |scope| of(Some(&sent.data(scope)), sent);
        assert_eq!(of(None, sent), Ok(None));
        assert_eq!(scoped(0), Ok(None));
        assert_eq!(scoped(8), Ok(Some(sent.cut(8))));
        assert_eq!(scoped(16), Ok(Some(sent)));
        assert_eq!(scoped(32), Ok(Some(sent)), "it was not asked for less");
        let others = [sent.cut(15), Subnet::of_address(&[10, 2, 0, 0]).cut(16), Subnet::NOWHERE];
        for other in others {
            assert_eq!(of(Some(&other.data(8)), sent), Err(OtherSubnet));
        }
        assert_eq!(of(Some(&[0, 1, 16, 8, 10]), sent), Err(OtherSubnet), "malformed");
        // Clients that send a /0 share answers with each other, whatever scope the upstream returns.
        for data in [None, Some(&[0, 1, 0, 0][..]), Some(&[0, 2, 0, 5]), Some(&[0, 0, 0, 0])] {
            assert_eq!(of(data, Subnet::NOWHERE), Ok(Some(Subnet::NOWHERE)));
        }
        assert_eq!(of(Some(&sent.data(8)), Subnet::NOWHERE), Err(OtherSubnet));
        let soa = [&[0; 18][..], &9_u32.to_be_bytes()].concat();
        let negative = entry_of(&query("www.example. A"), &[(1, 6, 9, soa)], 0, seed());
        assert_eq!(
            network_of(&reply(Some(&sent.data(8))), &negative, sent, Proof::Guessed),
            Ok(None)
        );
    }

    #[test]
    fn audit_04_a_reply_without_the_option_is_for_nobody_unless_it_is_firm() {
        let negative = entry_of(&query("www.example. A"), &[], 0, seed());
        for sent in [Subnet::of_address(&SENT).cut(16), Subnet::NOWHERE] {
            for entry in [&entry(1, 9), &negative] {
                let of = |proof| network_of(&reply(None), entry, sent, proof);
                assert_eq!(of(Proof::Guessed), Err(OtherSubnet));
                assert!(of(Proof::Firm).is_ok());
            }
        }
    }
}
