//! Service parameters of SVCB and HTTPS records (RFC 9460 section 2.1 and appendix A).

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::Problem;
use super::fields::DataWords;
use super::number::{base64, decimal};
use super::text::bytes_of;
use super::words::shown;
use crate::narrow::to_u8;

/// The value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Keys of other parameters.
    Keys,
    /// Protocol identifiers, each with its length.
    Protocols,
    /// None.
    Empty,
    Port,
    V4,
    V6,
    Base64,
    /// Any bytes.
    Bytes,
}

/// Parameters that have a name; a number's place is its key.
const NAMED: [(&str, Form); 9] = [
    ("mandatory", Form::Keys),
    ("alpn", Form::Protocols),
    ("no-default-alpn", Form::Empty),
    ("port", Form::Port),
    ("ipv4hint", Form::V4),
    ("ech", Form::Base64),
    ("ipv6hint", Form::V6),
    ("dohpath", Form::Bytes),
    ("ohttp", Form::Empty),
];

const MANDATORY: u16 = 0;
const ALPN: u16 = 1;
const NO_DEFAULT_ALPN: u16 = 2;

/// Takes all words that are left as parameters. On the wire they are in the order of their keys.
pub(super) fn put_parameters(
    out: &mut Vec<u8>,
    words: &mut DataWords<'_, '_>,
) -> Result<(), Problem> {
    let mut parameters: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
    while words.len() > 0 {
        let (key, value) = parameter(words)?;
        if parameters.insert(key, value).is_some() {
            return Err(format!("the parameter {} is there twice", key_text(key)));
        }
    }
    check(&parameters)?;
    for (key, value) in parameters {
        let len = u16::try_from(value.len())
            .map_err(|_| format!("the parameter {} is too long", key_text(key)))?;
        out.extend(key.to_be_bytes());
        out.extend(len.to_be_bytes());
        out.extend(value);
    }
    Ok(())
}

/// Takes `key`, `key=value` or `key="value"`.
fn parameter(words: &mut DataWords<'_, '_>) -> Result<(u16, Vec<u8>), Problem> {
    let text = words.take_text("a parameter like alpn=h2")?;
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let key = key_of(name).ok_or_else(|| {
        format!("`{name}` is no parameter; write a name like alpn, or key and its number")
    })?;
    let quoted = match value {
        Some("") => words.take_if(|word| word.is_quoted && word.is_joined),
        _ => None,
    };
    let raw = quoted.map_or_else(|| value.unwrap_or_default().as_bytes(), |word| word.text);
    // Level one: the escapes of a character string, which may be longer than one here.
    let value = bytes_of(raw)?;
    let form = if is_numbered(name) { Form::Bytes } else { form_of(key) };
    let encoded = encode(form, &value)
        .ok_or_else(|| format!("{} is no value of the parameter {name}", shown(&value)))?;
    Ok((key, encoded))
}

/// The key of a name, or of `key` and a number.
fn key_of(name: &str) -> Option<u16> {
    if let Some(key) = NAMED.iter().position(|(known, _)| *known == name) {
        return u16::try_from(key).ok();
    }
    let number = name.strip_prefix("key")?;
    decimal(number).filter(|_| number.len() == 1 || !number.starts_with('0'))
}

/// The key of a list, whose names BIND takes in capitals as well.
fn listed_key(name: &str) -> Option<u16> {
    let known = NAMED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    key_of(known.map_or(name, |(known, _)| known))
}

fn is_numbered(name: &str) -> bool {
    NAMED.iter().all(|(known, _)| *known != name)
}

fn form_of(key: u16) -> Form {
    NAMED.get(usize::from(key)).map_or(Form::Bytes, |(_, form)| *form)
}

fn key_text(key: u16) -> String {
    NAMED.get(usize::from(key)).map_or_else(|| format!("key{key}"), |(name, _)| (*name).to_owned())
}

/// A value in wire format. It is checked with the others later.
fn encode(form: Form, value: &[u8]) -> Option<Vec<u8>> {
    let text = || std::str::from_utf8(value).ok();
    match form {
        Form::Bytes => Some(value.to_vec()),
        Form::Empty => value.is_empty().then(Vec::new),
        Form::Port => Some(decimal::<u16>(text()?)?.to_be_bytes().to_vec()),
        Form::Base64 => base64(text()?),
        Form::V4 => all(text()?, |one| Some(one.parse::<Ipv4Addr>().ok()?.octets().to_vec())),
        Form::V6 => all(text()?, |one| Some(one.parse::<Ipv6Addr>().ok()?.octets().to_vec())),
        Form::Keys => {
            let mut keys = text()?.split(',').map(listed_key).collect::<Option<Vec<u16>>>()?;
            keys.sort_unstable();
            Some(keys.into_iter().flat_map(u16::to_be_bytes).collect())
        }
        Form::Protocols => protocols(value),
    }
}

/// The values of a list, one behind the other.
fn all(text: &str, read: impl Fn(&str) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    Some(text.split(',').map(read).collect::<Option<Vec<_>>>()?.concat())
}

/// Level two (RFC 9460 appendix A.1): a comma divides, unless a backslash stands before it.
fn protocols(value: &[u8]) -> Option<Vec<u8>> {
    let mut list = vec![Vec::new()];
    let mut rest = value.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b',' => list.push(Vec::new()),
            b'\\' => list.last_mut()?.push(*rest.next()?),
            byte => list.last_mut()?.push(*byte),
        }
    }
    let mut wire = Vec::new();
    for one in list {
        if !(1..=255).contains(&one.len()) {
            return None;
        }
        wire.push(to_u8(one.len()));
        wire.extend(one);
    }
    Some(wire)
}

/// Whether bytes are parameters in the order of their keys, which go together.
pub(super) fn are_parameters(mut wire: &[u8]) -> bool {
    let mut parameters = BTreeMap::new();
    while let [a, b, c, d, rest @ ..] = wire {
        let (key, len) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
        let Some((value, rest)) = rest.split_at_checked(usize::from(len)) else { return false };
        if parameters.last_key_value().is_some_and(|(last, _)| *last >= key) {
            return false;
        }
        parameters.insert(key, value.to_vec());
        wire = rest;
    }
    wire.is_empty() && check(&parameters).is_ok()
}

/// Checks each value, and that the parameters go together.
fn check(parameters: &BTreeMap<u16, Vec<u8>>) -> Result<(), Problem> {
    for (key, value) in parameters {
        if !is_sound(form_of(*key), value) {
            return Err(format!(
                "the value of the parameter {} is not as it should be",
                key_text(*key)
            ));
        }
    }
    if parameters.contains_key(&NO_DEFAULT_ALPN) && !parameters.contains_key(&ALPN) {
        return Err("the parameter no-default-alpn needs alpn beside it".to_owned());
    }
    for key in parameters.get(&MANDATORY).iter().flat_map(|keys| keys.as_chunks().0) {
        let key = u16::from_be_bytes(*key);
        if key == MANDATORY || !parameters.contains_key(&key) {
            let key = key_text(key);
            return Err(format!("the parameter {key} is mandatory, so it must be there as well"));
        }
    }
    Ok(())
}

fn is_sound(form: Form, value: &[u8]) -> bool {
    match form {
        Form::Bytes | Form::Base64 => true,
        Form::Empty => value.is_empty(),
        Form::Port => value.len() == 2,
        Form::V4 => !value.is_empty() && value.len().is_multiple_of(4),
        Form::V6 => !value.is_empty() && value.len().is_multiple_of(16),
        Form::Keys => {
            let (keys, rest) = value.as_chunks::<2>();
            !keys.is_empty() && rest.is_empty() && keys.is_sorted_by(|one, next| one < next)
        }
        Form::Protocols => {
            let mut rest = value;
            while let Some((len, after)) = rest.split_first() {
                match after.split_at_checked(usize::from(*len)) {
                    Some((_, after)) if *len > 0 => rest = after,
                    _ => return false,
                }
            }
            !value.is_empty()
        }
    }
}
