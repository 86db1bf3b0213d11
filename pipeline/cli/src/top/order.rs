//! The order of the rows of all tables, which a key changes.

use std::cmp::Ordering;

use crate::rates::Rates;

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// What is looked for most often comes first; stages stand in line order.
    #[default]
    Usual,
    /// By name.
    Name,
    /// The busiest first.
    Load,
}

impl Order {
    /// The next one.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Usual => Self::Name,
            Self::Name => Self::Load,
            Self::Load => Self::Usual,
        }
    }

    /// A note of it; nothing of the usual one.
    pub(super) fn note(self) -> &'static str {
        match self {
            Self::Usual => "",
            Self::Name => "sorted by name,",
            Self::Load => "sorted by load,",
        }
    }

    /// Sorts the rows of every table.
    pub(super) fn sort(self, rates: &mut Rates) {
        let Rates { cores, stages, rings, ports, drops, upstreams, rcodes, qtypes, .. } = rates;
        self.rows(cores, |one| one.core, |one| one.busy);
        self.rows(stages, |one| one.stage, |one| one.ticks_per_packet);
        self.rows(rings, |one| one.ends.clone(), |one| one.occupancy.mean());
        self.rows(ports, |one| one.port.clone(), |one| one.rx_frames);
        self.rows(drops, |one| one.reason.clone(), |one| one.rate);
        self.rows(upstreams, |one| one.address.clone(), |one| one.queries);
        self.rows(rcodes, |one| one.kind.clone(), |one| one.rate);
        self.rows(qtypes, |one| one.kind.clone(), |one| one.rate);
    }

    fn rows<T, N: Ord>(self, rows: &mut [T], name: impl Fn(&T) -> N, load: impl Fn(&T) -> f64) {
        rows.sort_by(|one, other| match self {
            Self::Usual => Ordering::Equal,
            Self::Name => name(one).cmp(&name(other)),
            Self::Load => load(other).total_cmp(&load(one)),
        });
    }
}
