//! Traffic for the benches: queries over many names, seeded, so that two runs see the same.

use pmdns_stages::testing::{Query, name_of, query};

/// Query number `index` of `names` names, from one of 200 clients.
pub fn numbered_query(index: usize, names: usize) -> Query {
    // A fixed odd multiplier visits every name, in an order no prefetcher guesses.
    let name = index.wrapping_mul(0x9e37_79b1) % names;
    Query {
        name: name_of(&format!("host{name:07}.example.")),
        id: index as u16,
        source: vec![10, 77, 0, 3 + (index % 200) as u8],
        ..query("x. A")
    }
}
