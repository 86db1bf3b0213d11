//! Names that stand for what has none.

/// The group of upstreams that name none, which is asked for all names that no `[[forward]]` claims.
pub const DEFAULT_GROUP: &str = "default";

/// The name of the view of clients that are in no other.
pub const DEFAULT_VIEW: &str = "default";
