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
use pmdns_stages::cache::{Entry, Head, NameBuffer, Purge};
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::edns::{option, option_in};
use pmdns_stages::wire::name::Seed;
use pmdns_stages::wire::subnet::Subnet;

use super::counters::{Counters, count, lower};
use super::desk::Desk;
use super::pending::AsHashed;
use super::query::Question;

/// What an upstream answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) entry: Entry,
    /// The network it is for; none: it is for everybody.
    pub(super) network: Option<Subnet>,
}

/// The answers that are for one network only.
pub(super) struct Subnets {
    settings: Settings,
    seed: Seed,
    answers: LruCache<Question, Entry, BuildHasherDefault<AsHashed>>,
    /// The lengths that networks have had: IPv4's and IPv6's, length 1 in the lowest bit.
    lengths: [u128; 2],
}

impl Subnets {
    /// None yet. Room is for so many threads together.
    pub(super) fn new(settings: Settings, threads: usize, seed: Seed) -> Self {
        let room = settings.max_answers / threads.max(1);
        let room = NonZeroUsize::new(room).unwrap_or(NonZeroUsize::MIN);
        let answers = LruCache::with_hasher(room, BuildHasherDefault::default());
        Self { settings, seed, answers, lengths: [0; 2] }
    }

    /// The network that upstreams are told the question of `miss` is from, where they are told any.
    pub(super) fn told(&self, miss: &Miss) -> Option<Subnet> {
        let subnet = match (self.settings.policy, miss.subnet()) {
            (SubnetPolicy::Strip, _) | (SubnetPolicy::Forward, None) => return None,
            (_, Some(said)) => said,
            (SubnetPolicy::Add, None) => Subnet::of_address(miss.client()),
        };
        Some(subnet.limited(self.settings.ipv4_prefix, self.settings.ipv6_prefix))
    }

    /// The answer to `question` for the longest network that has its own in it, and how long that is.
    pub(super) fn find(&mut self, question: &Question, seconds: u32) -> Option<(&Entry, u8)> {
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
    pub(super) fn keep(
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

    /// Loses answers, and says how many there were.
    pub(super) fn purge(&mut self, purge: &Purge, counters: &Counters) -> u64 {
        let mut buffer = NameBuffer::default();
        let matches =
            |entry: &Entry, buffer: &mut NameBuffer| purge.matches(&entry.words(), buffer);
        let all = self.answers.iter();
        let lost: Vec<Question> = all
            .filter(|(_, entry)| matches(entry, &mut buffer))
            .map(|(question, _)| question.clone())
            .collect();
        for question in &lost {
            self.answers.pop(question);
            lower(&counters.subnet_answers);
        }
        lost.len() as u64
    }
}

impl Desk {
    /// What a client asks, for the network that upstreams will be told.
    pub(super) fn question(&self, miss: &Miss) -> Question {
        let seed = self.cache.seed();
        let mut question = Question::of(miss, seed);
        if let Some(subnet) = self.subnets.told(miss)
            && self.groups.tells_subnets(question.key().name)
        {
            question.ask_for(Some(subnet), seed);
        }
        question
    }

    /// The question as it is put to an upstream.
    pub(super) fn as_told(&self, question: &Rc<Question>, upstream: usize) -> Rc<Question> {
        let may_know = self.upstreams[upstream].client_subnet;
        if may_know || question.subnet().is_none() {
            return Rc::clone(question);
        }
        let mut told = Question::clone(question);
        told.ask_for(None, self.cache.seed());
        Rc::new(told)
    }
}

/// A reply is about another network than its query.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OtherSubnet;

/// The network that the answer in a reply is for, whose query was for `sent`; none: it is for everybody.
pub(super) fn network_of(
    reply: &[u8],
    entry: &Entry,
    sent: Subnet,
) -> Result<Option<Subnet>, OtherSubnet> {
    let scope = match option_in(reply, option::SUBNET) {
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
