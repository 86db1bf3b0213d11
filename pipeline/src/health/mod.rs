//! Whether this node is fit to serve. Routers are told to send clients elsewhere while it is not, or while it is drained.
//!
//! The main thread checks when it is asked ([`HealthChecks`]). A process beside it asks again and again, and holds the
//! interface whose addresses are announced ([`watch`]).

mod checks;
mod hysteresis;
mod rings;
mod transitions;
pub mod watch;

pub use checks::{Asker, HealthChecks};
pub use pmdns_control::health::{
    CoreHealth, GroupHealth, NodeHealth, NodeState, NodeVerdict, PortHealth,
};
pub use transitions::Transitions;
