//! Bitmaps of record types (RFC 4034 section 4.1.2, RFC 2535 section 5.2).

use std::collections::BTreeSet;

use super::Problem;
use super::fields::DataWords;
use super::number::decimal;
use super::types::type_number;
use crate::narrow::to_u8;

/// Octets of one window block.
const MAX_BLOCK: usize = 32;

/// Types that an NXT record can speak of.
const MAX_NXT: u16 = 127;

/// Takes all words that are left as types. An NSEC record has at least one.
pub(super) fn put_bitmap(
    out: &mut Vec<u8>,
    words: &mut DataWords<'_, '_>,
    may_be_empty: bool,
) -> Result<(), Problem> {
    let types = types(words, type_number)?;
    if types.is_empty() && !may_be_empty {
        return Err("at least one record type is missing".to_owned());
    }
    for window in types.iter().map(|number| number >> 8).collect::<BTreeSet<u16>>() {
        let mut block = [0_u8; MAX_BLOCK];
        let mut len = 0;
        for number in types.range(window << 8..=window << 8 | 0xff) {
            let bit = usize::from(number & 0xff);
            block[bit / 8] |= 0x80 >> (bit % 8);
            len = bit / 8 + 1;
        }
        out.extend([to_u8(usize::from(window)), to_u8(len)]);
        out.extend(&block[..len]);
    }
    Ok(())
}

/// Takes all words that are left as the types of an NXT record, whose bitmap has no windows. BIND writes numbers for types
/// without a name there.
pub(super) fn put_nxt(out: &mut Vec<u8>, words: &mut DataWords<'_, '_>) -> Result<(), Problem> {
    let types = types(words, |text| type_number(text).or_else(|| decimal(text)))?;
    let Some(last) = types.last() else { return Ok(()) };
    if *last > MAX_NXT {
        return Err("an NXT record has types up to 127 only".to_owned());
    }
    let mut bits = vec![0_u8; usize::from(*last) / 8 + 1];
    for number in types {
        bits[usize::from(number) / 8] |= 0x80 >> (number % 8);
    }
    out.extend(bits);
    Ok(())
}

fn types(
    words: &mut DataWords<'_, '_>,
    number: impl Fn(&str) -> Option<u16>,
) -> Result<BTreeSet<u16>, Problem> {
    let mut types = BTreeSet::new();
    while words.len() > 0 {
        types.insert(words.take_as("a record type like A or TYPE65280", &number)?);
    }
    Ok(types)
}

/// Whether bytes are window blocks, in order and without zeros at their ends.
pub(super) fn is_bitmap(mut wire: &[u8]) -> bool {
    let mut before = None;
    while let [window, len, rest @ ..] = wire {
        let Some((block, rest)) = rest.split_at_checked(usize::from(*len)) else { return false };
        let is_sound = (1..=MAX_BLOCK).contains(&block.len()) && block.last() != Some(&0);
        if !is_sound || before.is_some_and(|before| before >= *window) {
            return false;
        }
        (before, wire) = (Some(*window), rest);
    }
    wire.is_empty()
}
