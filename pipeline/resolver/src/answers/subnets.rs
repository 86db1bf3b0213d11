//! Answers for one client network only (EDNS Client Subnet, RFC 7871). This file chooses the network that upstreams are
//! told, and stores answers by question and network. docs/adr/0019-answers-for-a-network.md gives the reasons.
//!
//! The cache holds answers for everybody. Answers for one network are stored here; the longest network that contains
//! the client wins. The slow path reads both. Data cores read only the cache.

use std::hash::BuildHasherDefault;
use std::num::NonZeroUsize;

use lru::LruCache;
use pmdns_config::{ClientSubnet as Settings, SubnetPolicy};
use pmdns_stages::cache::Entry;
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::name::Seed;
use pmdns_stages::wire::subnet::Subnet;

use crate::counters::{Counters, count, lower};
use crate::questions::hashed::AsHashed;
use crate::questions::question::Question;

/// The answers that are for one network only.
pub(crate) struct Subnets {
    settings: Settings,
    seed: Seed,
    answers: LruCache<Question, Entry, BuildHasherDefault<AsHashed>>,
    /// The prefix lengths of the networks seen so far, IPv4 and IPv6. The lowest bit stands for length 1.
    lengths: [u128; 2],
}

impl Subnets {
    /// Without answers. All `threads` share the room that the settings allow.
    pub(crate) fn new(settings: Settings, threads: usize, seed: Seed) -> Self {
        let room = settings.max_answers / threads.max(1);
        let room = NonZeroUsize::new(room).unwrap_or(NonZeroUsize::MIN);
        let answers = LruCache::with_hasher(room, BuildHasherDefault::default());
        Self { settings, seed, answers, lengths: [0; 2] }
    }

    /// The client network that is sent to upstreams for `miss`, if any.
    pub(crate) fn forwarded(&self, miss: &Miss) -> Option<Subnet> {
        let subnet = match (self.settings.policy, miss.subnet()) {
            (SubnetPolicy::Strip, _) | (SubnetPolicy::Forward, None) => return None,
            (_, Some(said)) => said,
            (SubnetPolicy::Add, None) => Subnet::of_address(miss.client()),
        };
        Some(subnet.limited(self.settings.ipv4_prefix, self.settings.ipv6_prefix))
    }

    /// The answer to `question` for the client's network, cut to this length.
    pub(crate) fn use_answer(&mut self, question: &Question, length: u8) -> Option<&Entry> {
        let mut wanted = question.clone();
        wanted.ask_for(Some(question.subnet()?.cut(length)), self.seed);
        self.answers.get(&wanted)
    }

    /// The answer to `question` for the longest network that contains the client's, and that network's length. It is not noted
    /// as used.
    pub(crate) fn find(&self, question: &Question, seconds: u32) -> Option<(u8, &Entry)> {
        let subnet = question.subnet()?;
        let mut wanted = question.clone();
        self.lengths_around(subnet).find_map(|length| {
            wanted.ask_for(Some(subnet.cut(length)), self.seed);
            let entry = self.answers.peek(&wanted)?;
            (entry.head().expires > seconds).then_some((length, entry))
        })
    }

    /// The lengths of networks that may contain `subnet`, the longest first. A client that sends a /0 gets only answers
    /// to /0 queries, and nobody else gets those (section 7.3.1).
    fn lengths_around(&self, subnet: Subnet) -> impl Iterator<Item = u8> + use<> {
        let had = self.lengths[usize::from(subnet.is_ipv6())];
        let shortest = subnet.length().min(1);
        let may_be = move |length: &u8| *length == 0 || had >> (*length - 1) & 1 == 1;
        (shortest..=subnet.length()).rev().filter(may_be)
    }

    /// Keeps an answer to `question` that is for this network.
    pub(crate) fn keep(
        &mut self,
        question: &Question,
        network: Subnet,
        entry: Entry,
        counters: &Counters,
    ) {
        if let Some(bit) = network.length().checked_sub(1) {
            self.lengths[usize::from(network.is_ipv6())] |= 1 << bit;
        }
        let mut question = question.clone();
        question.ask_for(Some(network), self.seed);
        // `push` returns the evicted or replaced answer; then the number of answers stays the same.
        if self.answers.push(question, entry).is_none() {
            count(&counters.subnet_answers);
        }
    }

    /// Removes the answers that match, and returns their number.
    pub(crate) fn lose(
        &mut self,
        mut matches: impl FnMut(&Entry) -> bool,
        counters: &Counters,
    ) -> u64 {
        let all = self.answers.iter();
        let lost: Vec<Question> =
            all.filter(|(_, entry)| matches(entry)).map(|(question, _)| question.clone()).collect();
        for question in &lost {
            self.answers.pop(question);
            lower(&counters.subnet_answers);
        }
        lost.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use pmdns_stages::testing::query;
    use proptest::prelude::*;

    use super::*;
    use crate::upstreams::query::Proof;
    use crate::upstreams::query::tests::question;
    use crate::upstreams::replies::network_of;
    use crate::upstreams::replies::tests::{SENT, entry, reply, seed};

    fn question_of(network: Subnet) -> Question {
        let mut question = question(&query("www.example. A"));
        question.ask_for(Some(network), seed());
        question
    }

    fn subnets(max_answers: usize) -> Subnets {
        Subnets::new(Settings { max_answers, ..Settings::default() }, 1, seed())
    }

    #[test]
    fn an_answer_that_has_expired_is_not_there_and_a_wider_one_is() {
        let (mut subnets, counters) = (subnets(9), Counters::default());
        let sent = Subnet::of_address(&SENT).cut(24);
        subnets.keep(&question_of(sent), sent, entry(1, 5), &counters);
        subnets.keep(&question_of(sent), sent.cut(8), entry(2, 9), &counters);
        let asked = question_of(sent);
        let found = |second| subnets.find(&asked, second).map(|(length, _)| length);
        assert_eq!([4, 5, 8, 9].map(found), [Some(24), Some(8), Some(8), None]);
    }

    /// Any network. Addresses vary in few bits, so many networks contain each other.
    fn any_network() -> impl Strategy<Value = Subnet> {
        (any::<bool>(), 0u8..4, 0u8..12).prop_map(|(is_ipv6, first, length)| {
            let address = [first << 6 | first << 2; 16];
            Subnet::of_address(&address[..if is_ipv6 { 16 } else { 4 }])
                .cut(length)
                .limited(32, 128)
        })
    }

    proptest! {
        #[test]
        fn nobody_gets_an_answer_whose_network_he_is_not_in(
            events in proptest::collection::vec((any_network(), 0u8..20, any::<bool>()), 1..80),
            max_answers in 1usize..40,
        ) {
            let (mut subnets, counters) = (subnets(max_answers), Counters::default());
            // The newest answer kept for each network.
            let mut kept: Vec<(Subnet, Entry)> = Vec::new();
            for (number, (sent, scope, asks)) in events.into_iter().enumerate() {
                let asked = question_of(sent);
                if asks {
                    let is_for = |network: Subnet| {
                        let is_in = sent.cut(network.length()) == network;
                        is_in && (network.length() > 0 || sent.length() == 0)
                    };
                    let best = kept.iter().filter(|(network, _)| is_for(*network));
                    let best = best.max_by_key(|(network, _)| network.length());
                    match (subnets.find(&asked, 0), best) {
                        (Some((length, _)), _) => {
                            let found = subnets.use_answer(&asked, length).unwrap();
                            let right = kept.iter().find(|(network, _)| *network == sent.cut(length));
                            prop_assert!(is_for(sent.cut(length)));
                            prop_assert_eq!(found, &right.unwrap().1);
                            prop_assert!(kept.len() > max_answers || best.unwrap().0.length() == length);
                        }
                        (None, best) => prop_assert!(best.is_none() || kept.len() > max_answers),
                    }
                } else if let Ok(Some(network)) =
                    network_of(&reply(Some(&sent.data(scope))), &entry(1, 9), sent, Proof::Guessed)
                {
                    let entry = entry(number as u8, 9);
                    subnets.keep(&asked, network, entry.clone(), &counters);
                    kept.retain(|(other, _)| *other != network);
                    kept.push((network, entry));
                }
                let count = counters.snapshot().subnet_answers as usize;
                prop_assert_eq!(count, subnets.answers.len());
                prop_assert!(count <= max_answers);
            }
        }
    }
}
