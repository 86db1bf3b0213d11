//! Shares: how much of a bounded resource each client prefix holds, and which prefix loses some next.
//!
//! A pure state machine. While there is room, every prefix gets it. When the resource is full, the prefix that holds
//! most loses its oldest piece to a prefix that holds less. So a flood takes room from itself, however many addresses
//! of its prefix it uses. Every step takes constant time, because prefixes are kept in lists by the number of their
//! pieces. docs/adr/0025-shares-by-client-prefix.md gives the reasons.

use crate::questions::hashed::HashedMap;
use crate::questions::lists::{List, Lists};
use crate::questions::prefixes::ClientPrefix;

/// One resource of `capacity` pieces.
#[derive(Debug)]
pub(crate) struct Shares {
    capacity: usize,
    /// The pieces that are held, each with its holder and its name.
    pieces: Lists<Piece>,
    holders: Lists<Holder>,
    by_prefix: HashedMap<ClientPrefix, u32>,
    /// Lists of holders, indexed by how many pieces they hold. It grows with the heaviest holder.
    by_weight: Vec<List>,
    /// How many pieces the heaviest holds.
    top: usize,
}

/// A piece that is held. It has to be given back, and can be only once.
#[derive(Debug)]
#[must_use = "a piece that is not given back is lost"]
pub(crate) struct Hold(u32);

/// The prefix that holds most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heaviest {
    /// How many pieces.
    pub(crate) held: usize,
    /// The name of its oldest piece.
    pub(crate) oldest: u32,
}

#[derive(Debug)]
struct Piece {
    holder: u32,
    name: u32,
}

#[derive(Debug)]
struct Holder {
    prefix: ClientPrefix,
    held: usize,
    /// In the order in which they were taken.
    pieces: List,
}

impl Shares {
    /// A resource of which nothing is held.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            pieces: Lists::new(),
            holders: Lists::new(),
            by_prefix: HashedMap::default(),
            by_weight: vec![List::default()],
            top: 0,
        }
    }

    /// Whether all of it is held.
    pub(crate) fn is_full(&self) -> bool {
        self.held() >= self.capacity
    }

    /// How much is held.
    pub(crate) fn held(&self) -> usize {
        self.pieces.len()
    }

    /// How much a prefix holds.
    pub(crate) fn held_by(&mut self, prefix: ClientPrefix) -> usize {
        let holder = self.by_prefix.get(&prefix).copied();
        holder.map_or(0, |holder| self.holders.value(holder).held)
    }

    /// The prefix that holds most, if it holds more than `prefix`. Among equals it is the one that has held that many
    /// for longest.
    pub(crate) fn heavier_than(&mut self, prefix: ClientPrefix) -> Option<Heaviest> {
        if self.top <= self.held_by(prefix) {
            return None;
        }
        let heaviest = self.by_weight[self.top].first()?;
        let Holder { held, pieces, .. } = *self.holders.value(heaviest);
        let oldest = self.pieces.value(pieces.first()?).name;
        Some(Heaviest { held, oldest })
    }

    /// Lets a prefix hold one more piece, with this `name`. The caller makes sure that there is room.
    pub(crate) fn hold(&mut self, prefix: ClientPrefix, name: u32) -> Hold {
        debug_assert!(!self.is_full(), "there is room");
        let holder = self.by_prefix.get(&prefix).copied().unwrap_or_else(|| {
            let holder = Holder { prefix, held: 0, pieces: List::default() };
            let holder = self.holders.keep(holder);
            self.by_prefix.insert(prefix, holder);
            self.holders.append(&mut self.by_weight[0], holder);
            holder
        });
        let piece = self.pieces.keep(Piece { holder, name });
        let mut pieces = self.holders.value(holder).pieces;
        self.pieces.append(&mut pieces, piece);
        self.holders.value(holder).pieces = pieces;
        self.weigh(holder, |held| held + 1);
        Hold(piece)
    }

    /// Takes a piece back.
    pub(crate) fn release(&mut self, Hold(piece): Hold) {
        self.release_piece(piece);
    }

    fn release_piece(&mut self, piece: u32) {
        let holder = self.pieces.value(piece).holder;
        let mut pieces = self.holders.value(holder).pieces;
        self.pieces.unlink(&mut pieces, piece);
        self.pieces.let_go(piece);
        self.holders.value(holder).pieces = pieces;
        self.weigh(holder, |held| held - 1);
        if pieces.is_empty() {
            self.holders.unlink(&mut self.by_weight[0], holder);
            let Holder { prefix, .. } = self.holders.let_go(holder);
            self.by_prefix.remove(&prefix);
        }
    }

    /// Moves a piece to `prefix`.
    pub(crate) fn pass_on(&mut self, hold: &mut Hold, prefix: ClientPrefix) {
        let name = self.pieces.value(hold.0).name;
        self.release_piece(hold.0);
        *hold = self.hold(prefix, name);
    }

    /// The holder of a piece.
    pub(crate) fn prefix_of(&mut self, Hold(piece): &Hold) -> ClientPrefix {
        let holder = self.pieces.value(*piece).holder;
        self.holders.value(holder).prefix
    }

    /// Moves a holder to the list of those that hold as much as it does now.
    fn weigh(&mut self, holder: u32, change: impl FnOnce(usize) -> usize) {
        let before = self.holders.value(holder).held;
        let now = change(before);
        self.holders.value(holder).held = now;
        self.holders.unlink(&mut self.by_weight[before], holder);
        if now == self.by_weight.len() {
            self.by_weight.push(List::default());
        }
        self.holders.append(&mut self.by_weight[now], holder);
        // The holder changed by one piece: either it is now the heaviest, or the heaviest still holds as many as
        // before.
        if now > self.top || self.by_weight[self.top].is_empty() {
            self.top = now;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
