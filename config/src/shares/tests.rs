//! Who loses, that nothing is lost, and that a flood takes room from itself.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// A client prefix of this number.
fn prefix(number: u16) -> u16 {
    number
}

#[test]
fn the_heaviest_prefix_loses_what_it_has_held_for_longest() {
    let mut shares = Shares::<u16>::new(4);
    let holds: Vec<Hold> = [(1, 10), (2, 20), (1, 11), (1, 12)]
        .map(|(number, name)| shares.hold(prefix(number), name))
        .into();
    assert!(shares.is_full());
    assert_eq!(shares.heavier_than(prefix(3)), Some(Heaviest { held: 3, oldest: 10 }));
    assert_eq!(shares.heavier_than(prefix(2)), Some(Heaviest { held: 3, oldest: 10 }));
    assert_eq!(shares.heavier_than(prefix(1)), None, "it is the heaviest itself");
    for hold in holds {
        shares.release(hold);
    }
    assert_eq!(shares.heavier_than(prefix(3)), None);
}

#[test]
fn of_equally_heavy_prefixes_that_which_has_been_so_for_longest_loses() {
    let mut shares = Shares::<u16>::new(3);
    let first = shares.hold(prefix(1), 10);
    let second = shares.hold(prefix(2), 20);
    let third = shares.hold(prefix(3), 30);
    assert_eq!(shares.heavier_than(prefix(4)), Some(Heaviest { held: 1, oldest: 10 }));
    shares.release(first);
    assert_eq!(shares.heavier_than(prefix(4)), Some(Heaviest { held: 1, oldest: 20 }));
    shares.release(second);
    shares.release(third);
}

/// A resource, as users like the pending table see it.
struct User {
    shares: Shares<u16>,
    /// By name: who holds it, and the hold.
    held: HashMap<u32, (u16, Hold)>,
    next_name: u32,
}

impl User {
    fn new(capacity: usize) -> Self {
        Self { shares: Shares::<u16>::new(capacity), held: HashMap::new(), next_name: 0 }
    }

    /// Asks for a piece: whether it got one, and who lost one for it.
    fn ask(&mut self, number: u16) -> (bool, Option<u16>) {
        let mut loser = None;
        if self.shares.is_full() {
            let Some(heaviest) = self.shares.heavier_than(prefix(number)) else {
                return (false, None);
            };
            let (prefix, hold) = self.held.remove(&heaviest.oldest).unwrap();
            self.shares.release(hold);
            loser = Some(prefix);
        }
        self.next_name += 1;
        let hold = self.shares.hold(prefix(number), self.next_name);
        self.held.insert(self.next_name, (number, hold));
        (true, loser)
    }
}

#[test]
fn audit_05_a_newcomer_gets_room_whatever_the_flood() {
    for prefixes in [1, 64, 10_000_u16] {
        let mut user = User::new(1000);
        for number in 0..20_000_u16 {
            user.ask(number % prefixes);
        }
        assert!(user.shares.is_full());
        let (got, loser) = user.ask(60_000);
        assert!(got && loser.is_some(), "{prefixes} prefixes");
    }
}

/// Retransmits were once taken for news and kept a question young (CVE-2026-42534).
#[test]
fn a_piece_is_as_old_as_it_is_whatever_comes_after() {
    let mut user = User::new(3);
    for _ in 0..50 {
        user.ask(1);
    }
    let oldest = *user.held.keys().min().unwrap();
    assert_eq!(user.shares.heavier_than(prefix(2)).unwrap().oldest, oldest);
}

proptest! {
    #[test]
    fn everything_is_released_once_and_the_heaviest_is_the_heaviest(
        capacity in 1..20usize,
        events in proptest::collection::vec((0..6u16, any::<bool>(), 0..20usize), 1..200),
    ) {
        let mut user = User::new(capacity);
        let mut order: VecDeque<(u32, u16)> = VecDeque::new();
        for (number, asks, which) in events {
            if asks {
                let weights = |order: &VecDeque<(u32, u16)>, of: u16| order.iter().filter(|(_, holder)| *holder == of).count();
                let before: Vec<usize> = (0..6).map(|of| weights(&order, of)).collect();
                let was_full = user.shares.is_full();
                let (got, loser) = user.ask(number);
                let most = *before.iter().max().unwrap();
                match loser {
                    Some(loser) => {
                        prop_assert!(was_full && before[usize::from(loser)] == most);
                        prop_assert!(most > before[usize::from(number)]);
                        let at = order.iter().position(|(_, holder)| *holder == loser).unwrap();
                        let (oldest, _) = order.remove(at).unwrap();
                        prop_assert!(!user.held.contains_key(&oldest), "the oldest goes");
                    }
                    None => prop_assert!(got != (was_full && most == before[usize::from(number)])),
                }
                if got {
                    order.push_back((user.next_name, number));
                }
            } else if let Some((name, _)) = order.remove(which) {
                let (_, hold) = user.held.remove(&name).unwrap();
                user.shares.release(hold);
            }
            prop_assert!(user.shares.held() <= capacity);
            prop_assert_eq!(user.shares.held(), order.len());
            for of in 0..6 {
                let held = order.iter().filter(|(_, holder)| *holder == of).count();
                prop_assert_eq!(user.shares.held_by(prefix(of)), held);
            }
        }
        for (_, (_, hold)) in user.held.drain() {
            user.shares.release(hold);
        }
        prop_assert_eq!((user.shares.held(), user.shares.holders.len(), user.shares.top), (0, 0, 0));
        prop_assert!(user.shares.by_key.is_empty());
        prop_assert!(user.shares.by_weight.iter().all(|list| list.is_empty()));
    }
}
