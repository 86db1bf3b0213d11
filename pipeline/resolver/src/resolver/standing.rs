//! How things stand for a miss that comes now. The resolver carries it out, and tells it to people who ask.

use std::cell::LazyCell;
use std::time::Duration;

use pmdns_stages::cache::{Entry, Key};
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::edns::ExtendedError;

use super::Resolver;
use crate::answers::nxdomain_cut::Denial;
use crate::outlook::{Foreseen, Inquiry, Outlook, Standing, UpstreamOutlook};
use crate::questions::question::{Question, zone_of};

impl Resolver {
    /// How things stand for a miss. `is_cached`: the cache has an answer, fresh or expired; nearly always it has none, and is read
    /// once. `doubt` gets a denial that may be forged and is to be confirmed.
    pub(super) fn standing(
        &self,
        question: &Question,
        miss: &Miss,
        is_cached: bool,
        doubt: &mut Option<Entry>,
    ) -> Standing {
        let (answers, peers) = (&self.answers, &self.upstreams.peers);
        if !peers.has_scope(question.key().scope()) {
            return Standing::NotReady;
        }
        if is_cached && let Some(found) = answers.find(question) {
            return Standing::Cached(found);
        }
        self.standing_beside_cache(question, miss, is_cached, doubt)
    }

    /// The same if the client cannot get a fresh answer that the cache has, as one over a stream that was shortened for UDP.
    pub(super) fn standing_beside_cache(
        &self,
        question: &Question,
        miss: &Miss,
        is_cached: bool,
        doubt: &mut Option<Entry>,
    ) -> Standing {
        let (answers, peers) = (&self.answers, &self.upstreams.peers);
        if let Some((length, _)) = self.for_subnet(question, miss) {
            return Standing::ForSubnet(length);
        }
        let group = LazyCell::new(|| peers.group_of(question.zone()));
        let is_asked_alike = |key: Key<'_>| peers.group_of(zone_of(key)) == *group;
        match answers.denial(question, is_asked_alike) {
            Denial::Firm(entry) => return Standing::Denied(entry),
            Denial::Doubtful(entry) => *doubt = Some(entry),
            Denial::None => {}
        }
        let stale = if is_cached { answers.stale_answer(question) } else { None };
        match (stale, self.questions.why_failed(question)) {
            (Some(entry), Some(_)) => Standing::Stale(entry),
            (Some(entry), None) if self.questions.is_resting(question) => Standing::Stale(entry),
            (None, Some(why)) => Standing::Failed(once_cached(why)),
            (stale, None) => Standing::Asked { stale },
        }
    }

    /// The answer for the client's network, and how much of that network it is for.
    fn for_subnet(&self, question: &Question, miss: &Miss) -> Option<(u8, &Entry)> {
        let found = self.answers.subnets.find(question, self.time.context.seconds);
        found.filter(|(_, entry)| !miss.is_from_stream() || !entry.head().has_to_be_asked())
    }

    /// The outcome of a miss if it came now, for people. Nothing is asked, counted or changed.
    pub(super) fn outlook(&self, Inquiry { miss, has_client }: &Inquiry) -> Outlook {
        let (answers, peers, now) = (&self.answers, &self.upstreams.peers, self.time.now);
        let mut question = self.question(miss);
        if !has_client {
            question.ask_for(None, answers.store.seed());
        }
        let known = |entry: Option<Entry>| entry.map_or(Foreseen::Asked, Foreseen::Known);
        let foreseen = match self.standing(&question, miss, true, &mut None) {
            _ if miss.judged() != answers.rules().generation() => Foreseen::OtherRules,
            Standing::NotReady => Foreseen::OtherRules,
            Standing::Cached(_) => known(answers.known(&question)),
            Standing::ForSubnet(_) => {
                known(self.for_subnet(&question, miss).map(|(_, entry)| entry.clone()))
            }
            Standing::Denied(entry) => Foreseen::Denied(entry),
            Standing::Stale(entry) => Foreseen::Stale(entry),
            Standing::Failed(_) => Foreseen::Failed,
            Standing::Asked { .. } => Foreseen::Asked,
        };
        let standing = answers.store.writer.standing(question.hash(), self.time.context.seconds);
        let upstream = |number: u8| {
            let number = usize::from(number);
            let micros = |rtt: Duration| u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX);
            UpstreamOutlook {
                number,
                is_resting: peers.health().next_probe(number).is_some(),
                srtt_us: peers.health().estimate(number, now).map(micros),
            }
        };
        Outlook {
            hits: standing.map(|standing| standing.hits),
            foreseen,
            has_stale: answers.stale_answer(&question).is_some(),
            upstreams: peers.order(&question).into_iter().map(upstream).collect(),
        }
    }
}

/// The error to report when a remembered failure is served again. Reasons from an upstream or from validation are kept.
/// Reachability errors become Cached Error.
fn once_cached(why: ExtendedError) -> ExtendedError {
    match why {
        ExtendedError::NO_REACHABLE_AUTHORITY | ExtendedError::NETWORK_ERROR => {
            ExtendedError::CACHED_ERROR
        }
        _ => why,
    }
}
