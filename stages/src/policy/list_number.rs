//! The lists of rules, by number: which one decides about a packet, for those who count and log it.

use pmdns_config::limits::{MAX_BLOCKLISTS, MAX_REDIRECTS, MAX_RPZ};
use pmdns_config::narrow::to_u8;

use super::lists::{CANARY, FIRST_LIST};
use crate::wire::edns::ExtendedError;

/// A list of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListNumber {
    /// A name of run time.
    Runtime,
    /// The names of `[block]`.
    Block,
    /// The name by which browsers ask whether to keep to their resolver.
    Canary,
    /// A block list, by its place in the configuration.
    List(u8),
    /// A policy zone, by its place in the configuration.
    Zone(u8),
    /// A redirection of names that do not exist, by its place in the configuration.
    Redirect(u8),
}

impl ListNumber {
    pub(super) const FIRST_LIST: usize = FIRST_LIST as usize;
    pub(super) const FIRST_ZONE: usize = Self::FIRST_LIST + MAX_BLOCKLISTS;
    pub(super) const FIRST_REDIRECT: usize = Self::FIRST_ZONE + MAX_RPZ;
    const RUNTIME: usize = Self::FIRST_REDIRECT + MAX_REDIRECTS;
    /// How many lists there can be.
    pub const COUNT: usize = Self::RUNTIME + 1;

    /// Every list that there can be, by its place in a table of [`Self::COUNT`].
    pub fn all() -> impl Iterator<Item = Self> {
        (0..to_u8(Self::COUNT)).map(Self::at)
    }

    /// Its place in a table of [`Self::COUNT`].
    pub fn index(self) -> usize {
        match self {
            Self::Block => 0,
            Self::Canary => usize::from(CANARY),
            Self::List(place) => Self::FIRST_LIST + usize::from(place),
            Self::Zone(place) => Self::FIRST_ZONE + usize::from(place),
            Self::Redirect(place) => Self::FIRST_REDIRECT + usize::from(place),
            Self::Runtime => Self::RUNTIME,
        }
    }

    /// The list of blocked names with this number among them.
    pub(super) fn of_blocked(number: u8) -> Self {
        Self::at(number)
    }

    /// The list that an answer has as its reason.
    pub fn of_reason(reason: ExtendedError) -> Option<Self> {
        reason.rule().map(Self::at)
    }

    /// The list at this place in a table of [`Self::COUNT`].
    pub fn at(index: u8) -> Self {
        match usize::from(index) {
            0 => Self::Block,
            Self::RUNTIME.. => Self::Runtime,
            at if at >= Self::FIRST_REDIRECT => Self::Redirect(to_u8(at - Self::FIRST_REDIRECT)),
            at if at >= Self::FIRST_ZONE => Self::Zone(to_u8(at - Self::FIRST_ZONE)),
            _ if index == CANARY => Self::Canary,
            _ => Self::List(index - FIRST_LIST),
        }
    }

    /// As the reason of an answer.
    pub(super) fn as_reason(self) -> ExtendedError {
        ExtendedError::of_rule(to_u8(self.index()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_has_its_own_place() {
        let all: Vec<ListNumber> = ListNumber::all().collect();
        assert_eq!(all.len(), ListNumber::COUNT);
        for (index, list) in all.iter().enumerate() {
            assert_eq!(list.index(), index);
            assert_eq!(list.as_reason().rule().map(usize::from), Some(index));
            assert_eq!(ListNumber::of_reason(list.as_reason()), Some(*list));
        }
        assert!(all.contains(&ListNumber::List(to_u8(MAX_BLOCKLISTS - 1))));
        assert!(all.contains(&ListNumber::Zone(to_u8(MAX_RPZ - 1))));
        assert!(all.contains(&ListNumber::Redirect(to_u8(MAX_REDIRECTS - 1))));
        assert_eq!([all[0], all[1]], [ListNumber::Block, ListNumber::Canary]);
    }
}
