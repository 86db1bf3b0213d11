//! What the benches share: traffic that two runs see alike, the line put together from its parts, and
//! TSC cycles as criterion's unit.
//!
//! Benches call the product through this crate where possible, so that a change of an interface is followed in one
//! place.
#![cfg_attr(
    test,
    allow(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        reason = "numbers of tests are small"
    )
)]

use std::sync::OnceLock;

use core_affinity::CoreId;

pub mod cycles;
pub mod floods;
pub mod kit;
pub mod load;
pub mod misses;
pub mod mixed;
pub mod rules;
pub mod traffic;
pub mod upstream;

pub use cycles::{Cycles, criterion, typical, typical_of};
pub use kit::{Feed, Kit, RigFeed};
pub use mixed::Mixed;
pub use traffic::{host, numbered_query, write_zone};

/// The name criterion groups and tables give a number of names.
pub fn short(names: usize) -> String {
    match names {
        1_000_000.. => format!("{}M", names / 1_000_000),
        1_000.. => format!("{}k", names / 1_000),
        _ => names.to_string(),
    }
}

/// Whether the filter on the command line, if there is one, matches any of these cases. It is for cases with a slow
/// preparation, and for tables that criterion does not know.
pub fn wanted(cases: &[&str]) -> bool {
    match std::env::args().nth(1) {
        Some(filter) if !filter.starts_with('-') => {
            cases.iter().any(|case| case.contains(&filter) || filter.contains(case))
        }
        _ => true,
    }
}

/// Pins the calling thread to the CPU of this index among those the process may use. `false`: there is no such.
pub fn pin(index: usize) -> bool {
    usable().get(index).is_some_and(|cpu| core_affinity::set_for_current(*cpu))
}

/// How many CPUs the process may use.
pub fn cpus() -> usize {
    usable().len().max(1)
}

/// The CPUs as they were at the first call: a pinned thread, and those it starts, see only one.
fn usable() -> &'static [CoreId] {
    static CPUS: OnceLock<Vec<CoreId>> = OnceLock::new();
    CPUS.get_or_init(|| core_affinity::get_core_ids().unwrap_or_default())
}
