//! Records of answers, as data cores make them and others read them.
//!
//! ```text
//!  recorder on each data core ─ ring of cells ─► thread: whole records, one after another
//! ```
//!
//! A data core copies what it has at hand and waits for nobody: a full ring loses the record and counts it.

mod cells;
mod question;
mod recorder;
mod rings;
mod sample;
mod source;

pub(crate) use cells::{CELL, QueryRecord, QueryRecordHead, records};
pub(crate) use question::{Mask, question, rcode, readable};
pub(crate) use recorder::Recording;
pub use rings::Rings;
pub(crate) use rings::{Core, NAP, lost};
pub(crate) use source::Source;
