//! Shares: how much of a bounded resource each client prefix holds, and which prefix loses some next.
//!
//! A pure state machine. While there is room, every prefix gets it. When the resource is full, the prefix that holds
//! most loses its oldest piece to a prefix that holds less. So a flood takes room from itself, however many addresses
//! of its prefix it uses, and a newcomer always gets in. Prefixes are kept in lists by what they hold, so every step
//! takes constant time, or time that grows with the weight of one piece.
//! docs/adr/0025-shares-by-client-prefix.md and docs/adr/0068-one-type-for-shares.md give the reasons.
//!
//! This crate is below all that share something, and has no packets, so it has no prefixes either: `K` is what counts
//! as one client.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

pub mod lists;
mod table;

use lists::{LinkedLists, List};
pub use table::{Entered, ShareTable, Ticket};

/// One resource of `capacity` pieces.
#[derive(Debug)]
pub struct Shares<K, S = RandomState> {
    capacity: usize,
    /// What all holders hold.
    held: usize,
    /// The pieces that are held, each with its holder and its name.
    pieces: LinkedLists<Piece>,
    holders: LinkedLists<Holder<K>>,
    by_key: HashMap<K, u32, S>,
    /// Lists of holders, indexed by how much they hold. It grows with the heaviest holder.
    by_weight: Vec<List>,
    /// How much the heaviest holds.
    top: usize,
}

/// A piece that is held. It has to be given back, and can be only once.
#[derive(Debug)]
#[must_use = "a piece that is not given back is lost"]
pub struct Hold(u32);

/// The prefix that holds most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heaviest {
    /// How much.
    pub held: usize,
    /// The name of its oldest piece.
    pub oldest: u32,
}

#[derive(Debug)]
struct Piece {
    holder: u32,
    name: u32,
    weight: u32,
}

#[derive(Debug)]
struct Holder<K> {
    key: K,
    held: usize,
    /// In the order in which they were taken.
    pieces: List,
}

impl<K: Copy + Eq + Hash, S: BuildHasher + Default> Shares<K, S> {
    /// A resource of which nothing is held.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            held: 0,
            pieces: LinkedLists::new(),
            holders: LinkedLists::new(),
            by_key: HashMap::default(),
            by_weight: vec![List::default()],
            top: 0,
        }
    }

    /// How much of it there is.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether all of it is held.
    pub fn is_full(&self) -> bool {
        self.held >= self.capacity
    }

    /// How much is held.
    pub fn held(&self) -> usize {
        self.held
    }

    /// How much a prefix holds.
    pub fn held_by(&self, key: K) -> usize {
        self.by_key.get(&key).map_or(0, |holder| self.holders.get(*holder).held)
    }

    /// The prefix that holds most, if it holds more than that of `key`. Among equals it is the one that has held that
    /// much for longest.
    pub fn heavier_than(&self, key: K) -> Option<Heaviest> {
        if self.top <= self.held_by(key) {
            return None;
        }
        let heaviest = self.by_weight[self.top].first()?;
        let Holder { held, pieces, .. } = self.holders.get(heaviest);
        let oldest = self.pieces.get(pieces.first()?).name;
        Some(Heaviest { held: *held, oldest })
    }

    /// The names of what a prefix holds, the oldest first.
    pub fn names_of(&self, key: K) -> impl Iterator<Item = u32> {
        let holder = self.by_key.get(&key).copied();
        let pieces = holder.map_or_else(List::default, |holder| self.holders.get(holder).pieces);
        self.pieces.iter(pieces).map(|(_, piece)| piece.name)
    }

    /// Lets a prefix hold one more piece, with this `name`. The caller makes sure that there is room.
    pub fn hold(&mut self, key: K, name: u32) -> Hold {
        self.hold_weight(key, name, 1)
    }

    /// The same for a piece that counts as `weight` pieces, one at least.
    pub fn hold_weight(&mut self, key: K, name: u32, weight: u32) -> Hold {
        let weight = weight.max(1);
        debug_assert!(self.held + weight as usize <= self.capacity, "there is room");
        let holder = self.by_key.get(&key).copied().unwrap_or_else(|| {
            let holder = Holder { key, held: 0, pieces: List::default() };
            let holder = self.holders.keep(holder);
            self.by_key.insert(key, holder);
            self.holders.append(&mut self.by_weight[0], holder);
            holder
        });
        let piece = self.pieces.keep(Piece { holder, name, weight });
        let mut pieces = self.holders.value(holder).pieces;
        self.pieces.append(&mut pieces, piece);
        self.holders.value(holder).pieces = pieces;
        self.held += weight as usize;
        self.weigh(holder, |held| held + weight as usize);
        Hold(piece)
    }

    /// Takes a piece back.
    pub fn release(&mut self, Hold(piece): Hold) {
        self.release_piece(piece);
    }

    fn release_piece(&mut self, piece: u32) {
        let holder = self.pieces.value(piece).holder;
        let mut pieces = self.holders.value(holder).pieces;
        self.pieces.unlink(&mut pieces, piece);
        let weight = self.pieces.let_go(piece).weight as usize;
        self.holders.value(holder).pieces = pieces;
        self.held -= weight;
        self.weigh(holder, |held| held - weight);
        if pieces.is_empty() {
            self.holders.unlink(&mut self.by_weight[0], holder);
            let Holder { key, .. } = self.holders.let_go(holder);
            self.by_key.remove(&key);
        }
    }

    /// Makes a piece the youngest of its prefix, and its prefix the youngest of those that hold as much.
    pub fn renew(&mut self, Hold(piece): &Hold) {
        let holder = self.pieces.value(*piece).holder;
        let mut pieces = self.holders.value(holder).pieces;
        self.pieces.unlink(&mut pieces, *piece);
        self.pieces.append(&mut pieces, *piece);
        self.holders.value(holder).pieces = pieces;
        self.weigh(holder, |held| held);
    }

    /// Moves a piece to the prefix of `key`.
    pub fn pass_on(&mut self, hold: &mut Hold, key: K) {
        let Piece { name, weight, .. } = *self.pieces.value(hold.0);
        self.release_piece(hold.0);
        *hold = self.hold_weight(key, name, weight);
    }

    /// The holder of a piece.
    pub fn key_of(&self, Hold(piece): &Hold) -> K {
        self.holders.get(self.pieces.get(*piece).holder).key
    }

    /// Moves a holder to the end of the list of those that hold as much as it does now.
    fn weigh(&mut self, holder: u32, change: impl FnOnce(usize) -> usize) {
        let before = self.holders.value(holder).held;
        let now = change(before);
        self.holders.value(holder).held = now;
        self.holders.unlink(&mut self.by_weight[before], holder);
        while now >= self.by_weight.len() {
            self.by_weight.push(List::default());
        }
        self.holders.append(&mut self.by_weight[now], holder);
        self.top = self.top.max(now);
        // The holder is in the list of what it holds now, so this ends there, after the weight of a piece at most.
        while self.by_weight[self.top].is_empty() && self.top > 0 {
            self.top -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
