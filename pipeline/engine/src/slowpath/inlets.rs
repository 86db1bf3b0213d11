//! The rings of one slow path thread. Misses and hits come in from the data cores, and new rules. Answers leave. Tests that step
//! a resolver use the same code.

use pmdns_resolver::{OutgoingAnswer, Resolver, Time};
use pmdns_stages::cache::Hit;
use pmdns_stages::miss::Miss;

use crate::clock::Clock;
use crate::encrypted::EncryptedChange;
use crate::ring::{RingReceiver, RingSender};
use crate::rules::{ResolverRules, RulesInbox};

/// The most misses, and the most replies over ports, taken from one ring before the next ring's turn.
pub(super) const MAX_TAKEN: usize = 32;
/// The most notes of hits taken from one ring in a turn.
const MAX_NOTES: usize = 256;

/// The ends of one thread's rings.
pub struct Inlets {
    /// Rings of misses, by worker.
    pub misses: Vec<RingReceiver<Miss>>,
    /// The outlet by which a worker's misses are answered, by worker.
    pub answered_by: Vec<usize>,
    /// Rings of notes of hits, if the workers report hits.
    pub hits: Vec<RingReceiver<Hit>>,
    /// The most misses taken from each ring in a turn: [`burst`].
    pub burst: usize,
    /// Where other rules come from.
    pub rules: RulesInbox<ResolverRules>,
}

impl Inlets {
    /// Gives the resolver the newest rules and settings, and `encrypted` what changes of encrypted upstreams. The old ones go
    /// back when the new ones hold for every answer.
    pub fn take_rules(
        &mut self,
        now: Time,
        resolver: &mut Resolver,
        encrypted: impl FnOnce(&mut EncryptedChange),
    ) {
        if let Some(mut rules) = self.rules.take() {
            resolver.swap_rules(now, &mut rules.names);
            if let Some(update) = &mut rules.update {
                // Before the queries that the resolver sends to new upstreams.
                update.encrypted.as_mut().map(encrypted);
                resolver.swap_settings(now, &mut update.settings);
            }
            self.rules.hold(rules);
        }
        if self.rules.holds_some() && resolver.has_judged() {
            self.rules.give_back_held();
        }
    }

    /// Gives the resolver the next misses. Returns their number.
    pub fn take_misses(&mut self, now: Time, resolver: &mut Resolver) -> usize {
        let Self { misses, answered_by, burst, .. } = self;
        let take_in = |resolver: &mut Resolver, miss: &Miss, worker: usize| {
            resolver.take_in(now, miss, answered_by[worker]);
        };
        take(misses, *burst, resolver, Resolver::expect, take_in)
    }

    /// Tells the resolver of the next hits. Returns how many there were.
    pub fn take_hits(&mut self, now: Time, resolver: &mut Resolver) -> usize {
        let credit = |resolver: &mut Resolver, hit: &Hit, _| resolver.credit(now, *hit);
        take(&mut self.hits, MAX_NOTES, resolver, |_, _| {}, credit)
    }

    /// Has the resolver refuse the next misses, because the thread is about to end. Returns how many there were.
    pub fn turn_away(&mut self, now: Time, resolver: &mut Resolver) -> usize {
        let Self { misses, answered_by, burst, .. } = self;
        let turn_away = |resolver: &mut Resolver, miss: &Miss, worker: usize| {
            resolver.turn_away(now, miss, answered_by[worker]);
        };
        take(misses, *burst, resolver, |_, _| {}, turn_away)
    }

    /// Whether no worker can send a miss any more.
    pub fn have_ended(&self) -> bool {
        self.misses.iter().all(RingReceiver::has_ended)
    }
}

/// The number of values that a shard takes from each of its rings in a turn. Hits wait for the turns of a shard whose core
/// runs the line too. So there the rings of all `workers` share the burst of one.
pub fn burst(cores_resolve: bool, workers: usize) -> usize {
    if cores_resolve { (MAX_TAKEN / workers.max(1)).max(1) } else { MAX_TAKEN }
}

/// Pushes the resolver's answers into the rings to the cores that transmit, and says how much room is left. There is a ring for
/// each outlet.
pub fn send_answers(resolver: &mut Resolver, rings: &mut [RingSender<OutgoingAnswer>]) {
    for (outlet, ring) in rings.iter_mut().enumerate() {
        let answers = resolver.take_answers(outlet);
        let count = answers.len();
        // Nobody else pushes, so there is still the room that the resolver was told of.
        let pushed = ring.push_from(answers, count);
        debug_assert_eq!(pushed, count, "there is room for them");
        let dropped = resolver.set_room(outlet, ring.free(ring.capacity()));
        if dropped > 0 {
            ring.refuse(dropped);
        }
    }
}

/// The current time for a resolver.
pub fn time(clock: &Clock) -> Time {
    let now = clock.now();
    Time { context: clock.context(now), now: clock.duration_of(now) }
}

/// Passes up to `burst` values from each ring to `take_in`, with the index of the worker. Before, each is shown to `expect`.
/// Returns how many there were.
fn take<T>(
    rings: &mut [RingReceiver<T>],
    burst: usize,
    resolver: &mut Resolver,
    expect: impl Fn(&Resolver, &T),
    take_in: impl Fn(&mut Resolver, &T, usize),
) -> usize {
    let mut taken = 0;
    for (worker, ring) in rings.iter_mut().enumerate() {
        let seen = ring.see_batch(burst, |first, second| {
            let values = first.iter().chain(second);
            values.clone().for_each(|value| expect(resolver, value));
            values.for_each(|value| take_in(resolver, value, worker));
        });
        if seen > 0 {
            ring.publish();
        }
        taken += seen;
    }
    taken
}
