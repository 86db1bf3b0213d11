//! A record's data, read from words by the fields of its type.

use super::Problem;
use super::fields::DataWords;
use super::forms::fields_of;
use super::number::{decimal, put_hex};
use super::types::type_name;
use super::words::Word;

/// The longest data (RFC 1035 section 3.2.1).
pub(crate) const MAX_DATA: usize = 65_535;

/// A mistake in the data of a record: the line of the word at fault, if there is one, and what is wrong.
pub(crate) type DataMistake = (Option<u64>, Problem);

/// The data that words stand for, in wire format. Names without a dot at their end are below `origin`.
pub(crate) fn read_data(
    rtype: u16,
    words: &[Word<'_>],
    origin: Option<&[u8]>,
) -> Result<Vec<u8>, DataMistake> {
    let mut words = DataWords::new(words, origin);
    let mut data = Vec::new();
    match put_data(rtype, &mut data, &mut words) {
        Ok(()) if data.len() > MAX_DATA => {
            Err((words.line(), format!("it has more than {MAX_DATA} bytes")))
        }
        Ok(()) => Ok(data),
        Err(problem) => Err((words.line(), problem)),
    }
}

fn put_data(rtype: u16, out: &mut Vec<u8>, words: &mut DataWords<'_, '_>) -> Result<(), Problem> {
    if words.take_if(|word| !word.is_quoted && word.text == b"\\#").is_some() {
        return put_generic(rtype, out, words);
    }
    let Some(fields) = fields_of(rtype) else {
        let rtype = type_name(rtype);
        return Err(format!(
            "data of type {rtype} has no form of its own; write it as \\# and its length and bytes in \
             hexadecimal digits, as in \\# 2 01ff"
        ));
    };
    for field in fields {
        field.put(out, words)?;
    }
    words.end()
}

/// Takes a length and so many bytes (RFC 3597 section 5).
fn put_generic(
    rtype: u16,
    out: &mut Vec<u8>,
    words: &mut DataWords<'_, '_>,
) -> Result<(), Problem> {
    let len = words.take_as("the length of the data, up to 65535", decimal::<u16>)?;
    if words.len() > 0 {
        put_hex(out, words)?;
    }
    if out.len() != usize::from(len) {
        return Err(format!("there are {} bytes, but the length says {len}", out.len()));
    }
    match suits(rtype, out) {
        true => Ok(()),
        false => Err(format!("a record of type {} cannot have this data", type_name(rtype))),
    }
}

/// Whether bytes are what a record of that type has. Names in it are not compressed.
pub(crate) fn suits(rtype: u16, data: &[u8]) -> bool {
    let Some(fields) = fields_of(rtype) else { return true };
    let rest = fields.iter().try_fold(data, |rest, field| field.skip(rest));
    rest.is_some_and(<[u8]>::is_empty)
}
