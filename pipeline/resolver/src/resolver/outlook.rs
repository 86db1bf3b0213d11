//! The outcome of a miss if it came now, for people. Nothing is asked, counted or changed.

use std::time::Duration;

use pmdns_stages::cache::Key;

use super::Resolver;
use crate::answers::nxdomain_cut::Denial;
use crate::outlook::{Inquiry, Outlook, UpstreamOutlook};
use crate::questions::question::{Question, Rule, zone_of};

impl Resolver {
    /// The outcome of a miss if it came now.
    pub fn outlook(&self, inquiry: &Inquiry) -> Outlook {
        let Inquiry { name, qtype, qclass, flags, exempt } = inquiry;
        let key = Key { name, qtype: *qtype, qclass: *qclass, flags: *flags };
        let (answers, peers, now) = (&self.answers, &self.upstreams.peers, self.time.context);
        let seed = answers.store.seed();
        let rule = exempt.map_or(Rule::None, Rule::Exempt);
        let question = Question::of_key(key, seed).validating(self.validation.is_on());
        let question = question.under(rule, seed);
        let group = peers.group_of(question.zone());
        let is_asked_alike = |key: Key<'_>| peers.group_of(zone_of(key)) == group;
        let standing = answers.store.writer.standing(question.hash(), now.seconds);
        let upstream = |number: u8| {
            let number = usize::from(number);
            let micros = |rtt: Duration| u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX);
            UpstreamOutlook {
                number,
                is_resting: peers.health().next_probe(number).is_some(),
                srtt_us: peers.health().estimate(number, self.time.now).map(micros),
            }
        };
        Outlook {
            hits: standing.map(|standing| standing.hits),
            denial: match answers.denial(&question, is_asked_alike) {
                Denial::Firm(entry) => Some(entry.head()),
                Denial::Doubtful(_) | Denial::None => None,
            },
            failed: self.questions.why_failed(&question),
            has_stale: answers.stale_answer(&question).is_some(),
            is_resting: self.questions.is_resting(&question),
            upstreams: peers.order(&question).into_iter().map(upstream).collect(),
        }
    }
}
