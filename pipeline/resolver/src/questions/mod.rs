//! What clients ask: questions under way, whom they are put to, and how what is bounded is shared.

pub(crate) mod failures;
pub(crate) mod groups;
pub(crate) mod lists;
pub(crate) mod pending;
pub(crate) mod plan;
pub(crate) mod prefixes;
pub(crate) mod query;
pub(crate) mod quota;
pub(crate) mod refusals;
pub(crate) mod round_robin;
pub(crate) mod shares;
pub(crate) mod shedding;
pub(crate) mod variants;
