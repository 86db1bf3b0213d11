//! Counters by name, as reports have them.

use std::collections::BTreeMap;

use pmdns_nics::counters::Counted;

/// Counters by name.
pub type Named = BTreeMap<String, u64>;

/// A table of counters by name.
pub(super) fn by_name<const N: usize>(counted: [Counted; N]) -> Named {
    counted.map(|one| (one.name.to_owned(), one.value)).into()
}
