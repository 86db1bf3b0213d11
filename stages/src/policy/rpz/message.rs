//! Names and addresses in an answer, for the rules about them.

use arrayvec::ArrayVec;

use crate::wire::dns::rtype;
use crate::wire::name::MAX_NAME;
use crate::wire::record::{Records, Section, WireRecord, take_labels};

/// A name without pointers, in lower case.
pub(in crate::policy) type WholeName = ArrayVec<u8, MAX_NAME>;

/// The name at `at` of a message.
pub(super) fn whole_name(message: &[u8], at: usize) -> Option<WholeName> {
    let mut name = WholeName::new();
    take_labels(message, at, |label| name.try_extend_from_slice(label).is_ok())?;
    name.make_ascii_lowercase();
    Some(name)
}

/// The records of a message, as far as they can be read.
pub(super) fn records(message: &[u8]) -> impl Iterator<Item = WireRecord> {
    Records::new(message).into_iter().flatten().map_while(Result::ok)
}

/// The names that aliases in an answer lead to, in lower case.
pub(in crate::policy) fn alias_targets(message: &[u8]) -> impl Iterator<Item = WholeName> {
    records(message)
        .filter(|record| record.section == Section::Answer && record.rtype == rtype::CNAME)
        .filter_map(|record| whole_name(message, record.data_at))
}

/// The addresses in a section: where their owner's name is, and they themselves.
pub(super) fn addresses(message: &[u8], section: Section) -> impl Iterator<Item = (usize, &[u8])> {
    records(message)
        .filter(move |record| record.section == section)
        .filter(|record| matches!(record.rtype, rtype::A | rtype::AAAA))
        .filter_map(|record| Some((record.start, message.get(record.data_at..record.end)?)))
        .filter(|(_, address)| matches!(address.len(), 4 | 16))
}
