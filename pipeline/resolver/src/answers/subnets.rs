//! Answers that are for one network only (RFC 7871): which network a question is asked for, which one its answer is
//! for, and where such answers are kept. docs/adr/0019-answers-for-a-network.md says why it is so.
//!
//! The cache has what is for everybody. Here is the rest, found by question and network: the longest network that has
//! the client in it counts. Both are looked at by the slow path; data cores see the cache alone.

use std::hash::BuildHasherDefault;
use std::num::NonZeroUsize;
use std::rc::Rc;

use lru::LruCache;
use pmdns_config::{ClientSubnet as Settings, SubnetPolicy};
use pmdns_stages::cache::{Entry, Head};
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::edns::{option, option_in};
use pmdns_stages::wire::name::Seed;
use pmdns_stages::wire::subnet::Subnet;

use crate::counters::{Counters, count, lower};
use crate::questions::pending::AsHashed;
use crate::questions::query::{Proof, Question};
use crate::resolver::Resolver;

/// What an upstream answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) entry: Entry,
    /// The network it is for; none: it is for everybody.
    pub(crate) network: Option<Subnet>,
}

/// The answers that are for one network only.
pub(crate) struct Subnets {
    settings: Settings,
    seed: Seed,
    answers: LruCache<Question, Entry, BuildHasherDefault<AsHashed>>,
    /// The lengths that networks have had: IPv4's and IPv6's, length 1 in the lowest bit.
    lengths: [u128; 2],
}

impl Subnets {
    /// None yet. Room is for so many threads together.
    pub(crate) fn new(settings: Settings, threads: usize, seed: Seed) -> Self {
        let room = settings.max_answers / threads.max(1);
        let room = NonZeroUsize::new(room).unwrap_or(NonZeroUsize::MIN);
        let answers = LruCache::with_hasher(room, BuildHasherDefault::default());
        Self { settings, seed, answers, lengths: [0; 2] }
    }

    /// The network that upstreams are told the question of `miss` is from, where they are told any.
    pub(crate) fn told(&self, miss: &Miss) -> Option<Subnet> {
        let subnet = match (self.settings.policy, miss.subnet()) {
            (SubnetPolicy::Strip, _) | (SubnetPolicy::Forward, None) => return None,
            (_, Some(said)) => said,
            (SubnetPolicy::Add, None) => Subnet::of_address(miss.client()),
        };
        Some(subnet.limited(self.settings.ipv4_prefix, self.settings.ipv6_prefix))
    }

    /// The answer to `question` for the longest network that has its own in it, and how long that is.
    pub(crate) fn find(&mut self, question: &Question, seconds: u32) -> Option<(&Entry, u8)> {
        let subnet = question.subnet()?;
        let mut wanted = question.clone();
        for length in self.lengths_around(subnet) {
            wanted.ask_for(Some(subnet.cut(length)), self.seed);
            let found = self.answers.peek(&wanted);
            if found.is_some_and(|entry| entry.head().expires > seconds) {
                return self.answers.get(&wanted).map(|entry| (entry, length));
            }
        }
        None
    }

    /// Lengths of networks that may have `subnet` in them, the longest first. Answers to those who do not say where
    /// they are go to nobody else (section 7.3.1), and they get no others.
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
        // What comes back made room, or was the answer before.
        if self.answers.push(question, entry).is_none() {
            count(&counters.subnet_answers);
        }
    }

    /// Loses what matches, and says how many answers that were.
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

impl Resolver {
    /// What a client asks, for the network that upstreams will be told, and what rules make of it.
    pub(crate) fn question(&self, miss: &Miss) -> Question {
        let seed = self.cache.seed();
        let question = Question::of(miss, seed).validating(self.validation.is_on());
        let mut question = question.under(self.rule_of(miss), seed);
        if let Some(subnet) = self.subnets.told(miss)
            && self.groups.tells_subnets(question.key())
        {
            question.ask_for(Some(subnet), seed);
        }
        question
    }

    /// The question as it is put to an upstream.
    pub(crate) fn as_told(&self, question: &Rc<Question>, upstream: usize) -> Rc<Question> {
        let may_know = self.upstreams[upstream].client_subnet;
        if may_know || question.subnet().is_none() {
            return Rc::clone(question);
        }
        let mut told = Question::clone(question);
        told.ask_for(None, self.cache.seed());
        Rc::new(told)
    }
}

/// A reply is about another network than its query, or about none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OtherSubnet;

/// The network that the answer in a reply is for, whose query was for `sent`; none: it is for everybody.
pub(crate) fn network_of(
    reply: &[u8],
    entry: &Entry,
    sent: Subnet,
    proof: Proof,
) -> Result<Option<Subnet>, OtherSubnet> {
    let scope = match option_in(reply, option::SUBNET) {
        // One name may be asked for many networks at once, and a forger need not know which: he leaves the option out,
        // and has that many queries to hit.
        None if proof == Proof::Guessed => return Err(OtherSubnet),
        // RFC 7871 section 7.3: as with a scope of zero.
        None => 0,
        Some(data) => match Subnet::read(data) {
            Some((source, scope)) if source == sent => scope,
            Some((source, _)) if (source.length(), sent.length()) == (0, 0) => 0,
            _ => return Err(OtherSubnet),
        },
    };
    // RFC 7871 section 7.4: that there is nothing is for everybody.
    let is_negative = entry.head().flags & Head::NEGATIVE != 0;
    // Whatever the answer to those who do not say where they are was chosen by, it was not chosen for everybody
    // (section 7.3.1). A scope longer than the source is for no more than was sent (section 7.3.1 again).
    let is_narrow = scope > 0 || sent.length() == 0;
    Ok((is_narrow && !is_negative).then(|| sent.cut(scope)))
}

#[cfg(test)]
mod tests {
    use pmdns_stages::testing::{Record, entry_of, query};
    use pmdns_stages::wire::{be16, dns::header, put16};
    use proptest::prelude::*;

    use super::*;
    use crate::questions::query::tests::question;

    const SENT: [u8; 4] = [10, 1, 0, 0];

    fn seed() -> Seed {
        Seed::new([7; 16])
    }

    /// An answer that lives until `second` and says `number`.
    fn entry(number: u8, second: u32) -> Entry {
        let records: [Record; 1] = [(0, 1, second, vec![192, 0, 2, number])];
        entry_of(&query("www.example. A"), &records, 0, seed())
    }

    fn question_of(network: Subnet) -> Question {
        let mut question = question(&query("www.example. A"));
        question.ask_for(Some(network), seed());
        question
    }

    fn subnets(max_answers: usize) -> Subnets {
        Subnets::new(Settings { max_answers, ..Settings::default() }, 1, seed())
    }

    /// A reply with this subnet option, if with any.
    fn reply(data: Option<&[u8]>) -> Vec<u8> {
        let asked = query("www.example. A").edns(1232, false);
        let asked = data.into_iter().fold(asked, |asked, data| asked.option(option::SUBNET, data));
        let mut reply = asked.message();
        let flags = be16(&reply, header::FLAGS).unwrap();
        put16(&mut reply, header::FLAGS, flags | 1 << 15);
        reply
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
        // Who does not say where he is shares with his like, whatever the upstream makes of it.
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

    #[test]
    fn an_answer_that_has_expired_is_not_there_and_a_wider_one_is() {
        let (mut subnets, counters) = (subnets(9), Counters::default());
        let sent = Subnet::of_address(&SENT).cut(24);
        subnets.keep(&question_of(sent), sent, entry(1, 5), &counters);
        subnets.keep(&question_of(sent), sent.cut(8), entry(2, 9), &counters);
        let asked = question_of(sent);
        let mut found = |second| subnets.find(&asked, second).map(|(_, length)| length);
        assert_eq!([4, 5, 8, 9].map(&mut found), [Some(24), Some(8), Some(8), None]);
    }

    /// Any network, in few bits: many lie in each other.
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
            // What was kept last for each network.
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
                        (Some((found, length)), _) => {
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
