//! Records as people write them: the presentation format of zone files (RFC 1035 section 5.1, RFC 3597, RFC 9460
//! appendix A).
//!
//! `words` cuts text into entries and words, `zone` makes records of entries, and `data` reads the words of a record's
//! data by the fields of its type, which `forms` lists. All of it is pure and linear in the text, and has no recursion.

mod address;
mod bitmap;
mod codes;
mod data;
mod directive;
mod field;
mod fields;
mod forms;
mod generate;
mod head;
mod location;
mod number;
mod obsolete;
mod parameters;
mod text;
mod types;
mod words;
mod zone;

pub(crate) use data::{MAX_DATA, read_data, suits};
pub(crate) use head::ZoneRecord;
pub(crate) use text::name_of;
pub(crate) use types::{SetType, is_meta, set_type, type_name, type_number};
pub(crate) use words::ZoneFileEntries;
pub(crate) use zone::Zone;

#[cfg(test)]
mod tests;

/// What is wrong with a text, and what to write instead. Who reads the text knows the line.
pub(crate) type Problem = String;
