//! The order of queries: cards drawn ahead of time, so that sending one costs no random number.

use std::ops::Range;

use pmdns_config::narrow::{floor_u64, to_usize};
use rand::distr::{Distribution as _, weighted::WeightedIndex};
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::Zipf;

use super::mix::{KINDS, Kind, Mix};

/// The fewest cards: so many queries pass before the same order comes again.
const MIN_CARDS: usize = 1 << 20;
/// The most cards.
const MAX_CARDS: usize = 1 << 23;
/// Cards for each name of the list.
const CARDS_PER_NAME: usize = 4;

/// How often each name of the list is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// All alike.
    Uniform,
    /// The name of rank k in proportion to k to the power of minus this.
    Zipf(f64),
}

/// Template numbers in the order in which they are asked, round and round.
#[derive(Debug)]
pub struct Deck {
    cards: Box<[u32]>,
    at: usize,
}

impl Deck {
    /// How many cards do for a list of so many names.
    pub fn cards_for(names: usize) -> usize {
        (names * CARDS_PER_NAME).clamp(MIN_CARDS, MAX_CARDS)
    }

    /// Shuffles a deck of `cards` cards: kinds by `mix`, templates of each kind out of its range in `pools`.
    pub fn shuffle(
        mix: &Mix,
        pools: &[Range<u32>; KINDS],
        popularity: Popularity,
        cards: usize,
        seed: u64,
    ) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let hits = &pools[Kind::Hit.index()];
        // A kind without templates cannot be asked, whatever its weight.
        let weights: Vec<u32> = (mix.weights().iter().zip(pools))
            .map(|(weight, pool)| if pool.is_empty() { 0 } else { *weight })
            .collect();
        let Ok(kinds) = WeightedIndex::new(&weights) else {
            return Self { cards: Box::new([hits.start]), at: 0 };
        };
        // Ranks are given out by lot, so that popular names do not lie side by side in memory.
        let mut by_rank: Vec<u32> = hits.clone().collect();
        by_rank.shuffle(&mut random);
        let zipf = match popularity {
            Popularity::Zipf(exponent) => Zipf::new(by_rank.len().max(1) as f64, exponent).ok(),
            Popularity::Uniform => None,
        };
        let mut draw = || {
            let kind = kinds.sample(&mut random);
            if kind != Kind::Hit.index() {
                return random.random_range(pools[kind].clone());
            }
            let rank = match &zipf {
                Some(zipf) => to_usize(floor_u64(zipf.sample(&mut random))) - 1,
                None => random.random_range(0..by_rank.len()),
            };
            by_rank[rank.min(by_rank.len() - 1)]
        };
        Self { cards: (0..cards).map(|_| draw()).collect(), at: 0 }
    }

    /// The next card.
    #[inline]
    pub fn draw(&mut self) -> u32 {
        let card = self.cards[self.at];
        self.at += 1;
        if self.at == self.cards.len() {
            self.at = 0;
        }
        card
    }

    /// The card that comes `ahead` cards after the next, for what can be loaded ahead.
    #[inline]
    pub fn look_ahead(&self, ahead: usize) -> u32 {
        self.cards.get(self.at + ahead).copied().unwrap_or(self.cards[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARDS: usize = 400_000;

    /// How often each of the first `names` templates stands in a deck.
    fn counts(deck: &Deck, names: usize) -> Vec<usize> {
        let mut counts = vec![0; names];
        for card in deck.cards.iter().filter(|card| (**card as usize) < names) {
            counts[*card as usize] += 1;
        }
        counts
    }

    fn pools(hits: u32) -> [Range<u32>; KINDS] {
        [0..hits, hits..hits + 1, hits + 1..hits + 11, hits + 11..hits + 14, hits + 14..hits + 15]
    }

    #[test]
    fn zipf_gives_each_rank_its_share() {
        let deck = Deck::shuffle(&Mix::HITS, &pools(1000), Popularity::Zipf(0.9), CARDS, 1);
        let mut counts = counts(&deck, 1000);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let total: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-0.9)).sum();
        for rank in [1, 2, 10, 100] {
            let share = counts[rank - 1] as f64 / CARDS as f64;
            let expected = (rank as f64).powf(-0.9) / total;
            assert!((share / expected - 1.0).abs() < 0.1, "rank {rank}: {share} {expected}");
        }
        assert!(counts[999] > 0, "the rarest comes as well");
    }

    #[test]
    fn uniform_favours_none() {
        let deck = Deck::shuffle(&Mix::HITS, &pools(100), Popularity::Uniform, CARDS, 2);
        let expected = CARDS / 100;
        for count in counts(&deck, 100) {
            assert!(count.abs_diff(expected) < expected / 10, "{count}");
        }
    }

    #[test]
    fn kinds_come_by_their_weights() {
        let mix: Mix = "hit=70,miss=10,nxdomain=10,malformed=5,random-prefix=5".parse().unwrap();
        let pools = pools(50);
        let deck = Deck::shuffle(&mix, &pools, Popularity::Uniform, CARDS, 3);
        for kind in Kind::ALL {
            let pool = &pools[kind.index()];
            let count = deck.cards.iter().filter(|card| pool.contains(card)).count();
            let expected = f64::from(mix.weight(kind)) / 100.0;
            let share = count as f64 / deck.cards.len() as f64;
            assert!((share - expected).abs() < 0.005, "{kind:?}: {share}");
        }
    }

    #[test]
    fn one_seed_one_order_and_it_repeats() {
        let deck = |seed| Deck::shuffle(&Mix::HITS, &pools(64), Popularity::Zipf(1.0), CARDS, seed);
        let (mut first, second) = (deck(7), deck(7));
        assert_eq!(first.cards, second.cards);
        assert_ne!(first.cards, deck(8).cards);
        assert_eq!(first.look_ahead(2), first.cards[2]);
        let round: Vec<u32> = (0..first.cards.len()).map(|_| first.draw()).collect();
        assert_eq!(round[..], second.cards[..]);
        assert_eq!(first.draw(), round[0]);
    }

    #[test]
    fn a_kind_without_templates_is_left_out() {
        let mix: Mix = "hit=1,miss=1".parse().unwrap();
        let deck =
            Deck::shuffle(&mix, &[0..0, 4..5, 0..0, 0..0, 0..0], Popularity::Uniform, CARDS, 4);
        assert!(deck.cards.iter().all(|card| *card == 4));
    }
}
