//! Whose turn it is among upstreams with weights: a smooth weighted round robin.
//!
//! With each turn all that take part earn their weight. The richest has the turn, and pays what all have earned. So after as
//! many turns as the weights add up to, each has had as many as its weight, and they lay far apart.

use pmdns_config::limits::{MAX_UPSTREAMS, MAX_WEIGHT};

const _: () = assert!(MAX_UPSTREAMS <= 64, "a set of them is a u64");
const _: () = assert!(MAX_WEIGHT as usize * MAX_UPSTREAMS < 1 << 24, "no sum of weights is large");

/// The turns of a group, by slots.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    weights: [i32; MAX_UPSTREAMS],
    /// What each has earned and not paid. They add up to 0.
    credits: [i32; MAX_UPSTREAMS],
    /// Those that took part in the last turn, a bit for each.
    among: u64,
}

impl Turns {
    /// Turns of upstreams that have these slots and weights. Others weigh 1.
    pub(crate) fn new(weights: impl IntoIterator<Item = (usize, u32)>) -> Self {
        let mut this = Self { weights: [1; MAX_UPSTREAMS], credits: [0; MAX_UPSTREAMS], among: 0 };
        for (slot, weight) in weights {
            this.weights[slot] = i32::try_from(weight.clamp(1, MAX_WEIGHT)).unwrap_or(1);
        }
        this
    }

    /// The place in `slots` of the one whose turn it is. If others take part than in the last turn, all begin anew. So a share
    /// goes to the others while its owner is away. Nobody makes up for it later.
    pub(crate) fn take(&mut self, slots: &[u8]) -> usize {
        let among = slots.iter().fold(0, |among, slot| among | 1 << slot);
        if std::mem::replace(&mut self.among, among) != among {
            self.credits.fill(0);
        }
        let (mut richest, mut earned) = (0, 0);
        for (place, slot) in slots.iter().enumerate() {
            let slot = usize::from(*slot);
            earned += self.weights[slot];
            self.credits[slot] += self.weights[slot];
            if self.credits[slot] > self.credits[usize::from(slots[richest])] {
                richest = place;
            }
        }
        if let Some(slot) = slots.get(richest) {
            self.credits[usize::from(*slot)] -= earned;
        }
        richest
    }
}

#[cfg(test)]
mod tests {
    use pmdns_config::narrow::to_u8;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn turns(weights: &[u32]) -> (Turns, Vec<u8>) {
        let slots = (0..weights.len()).map(to_u8).collect();
        (Turns::new(weights.iter().copied().enumerate()), slots)
    }

    #[test]
    fn turns_of_one_are_far_apart() {
        let (mut turns, slots) = turns(&[5, 1, 1]);
        let places: Vec<_> = (0..14).map(|_| turns.take(&slots)).collect();
        assert_eq!(places, [0, 0, 1, 0, 2, 0, 0, 0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(turns.take(&[]), 0, "nobody is there to be asked");
    }

    #[test]
    fn equal_weights_are_a_plain_round_robin() {
        for weight in [1, 7, MAX_WEIGHT] {
            let (mut turns, slots) = turns(&[weight; 3]);
            let places: Vec<_> = (0..7).map(|_| turns.take(&slots)).collect();
            assert_eq!(places, [0, 1, 2, 0, 1, 2, 0]);
        }
    }

    proptest! {
        #[test]
        fn each_gets_its_share_evenly_spread_whoever_is_away(
            weights in vec(1..=MAX_WEIGHT, 1..=MAX_UPSTREAMS),
            away in any::<u64>(),
            before in 0..200_usize,
        ) {
            let (mut turns, all) = turns(&weights);
            for _ in 0..before {
                turns.take(&all);
            }
            let there: Vec<u8> = all.iter().copied().filter(|slot| away & 1 << slot == 0).collect();
            prop_assume!(!there.is_empty());
            let weight = |slot: &u8| i64::from(weights[usize::from(*slot)]);
            let sum: i64 = there.iter().map(weight).sum();
            let is_other = there.len() != all.len();
            if !is_other {
                // They end the round that they are in.
                for _ in before..before.next_multiple_of(usize::try_from(sum).unwrap()) {
                    turns.take(&all);
                }
            }
            let mut had = vec![0_i64; there.len()];
            for turn in 1..=sum {
                had[turns.take(&there)] += 1;
                for (had, slot) in had.iter().zip(&there) {
                    // How far it is behind its share of the turns so far, times the sum of weights.
                    let behind = turn * weight(slot) - had * sum;
                    prop_assert!(behind > -sum, "it is a turn ahead");
                    prop_assert!(behind < 3 * sum, "it is three turns behind");
                }
            }
            let expected: Vec<i64> = there.iter().map(weight).collect();
            prop_assert_eq!(had, expected);
            prop_assert_eq!(turns.credits, [0; MAX_UPSTREAMS], "the next round is the same");
        }
    }
}
