//! The checked configuration of pmdns.
//!
//! [`Config::load`] reads a TOML file, refuses unknown keys, and checks the rules that concern several
//! keys. Every error is a sentence that says what to change.
#![deny(clippy::print_stderr, clippy::print_stdout)] // They panic when nobody reads.
#![forbid(unsafe_code)]

mod advice;
mod arrange;
mod changes;
mod check;
mod client_prefix;
mod cookies;
pub mod descriptors;
mod device;
mod discovery;
mod error;
mod explain;
pub mod files;
mod from_text;
mod gather;
pub mod limits;
mod load;
mod local;
mod locate;
mod name;
pub mod narrow;
mod nearest;
mod paths;
mod pin;
mod placement;
mod port_blocks;
mod prefix;
mod presentation;
mod problem;
mod reserved;
mod running;
mod settings;
pub mod shares;
mod size;
mod token;
mod tsig;
mod upstream;
mod views;
mod vlan;

pub use arrange::ViewsError;
pub use changes::{FixedKeys, is_reloaded};
pub use client_prefix::{ClientPrefix, PrefixLengths};
pub use cookies::{CookieSecret, CookieSecrets};
pub use device::{PciAddress, device_name, device_text, interface_made};
pub use error::{ConfigError, Location, list_mistakes};
pub use files::FileError;
pub use load::ConfigText;
pub use local::{Local, LocalError, LocalProblem, LocalRecord, type_name, type_number};
pub use name::{NameError, readable, subtree_name, wire_name, without_wildcard};
pub use paths::{NamedPath, PathUse};
pub use pin::{Pin, PinError};
pub use placement::{PlacementError, StageName, Stretch, StretchError};
pub use prefix::{InterfaceAddress, Prefix, PrefixError};
pub use problem::BrokenRule;
pub use reserved::{DEFAULT_GROUP, DEFAULT_VIEW};
pub use running::{KeyDifference, WrittenConfig};
pub use settings::*;
pub use size::ByteSize;
pub use token::TokenSecret;
pub use tsig::{TsigSecret, TsigSecretError};
pub use upstream::{Endpoint, Host, HostError, Protocol, Server, UpstreamAddress, UpstreamError};
pub use views::{ViewSet, group_of, view_at, view_name, view_number};
pub use vlan::Vlan;
