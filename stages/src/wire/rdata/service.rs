//! The parameters of SVCB and HTTPS records (RFC 9460, RFC 9461).

use super::pieces::are_texts;
use crate::wire::be16;

/// Parameters, at most; there are ten known ones.
const MAX_PARAMETERS: usize = 64;

const MANDATORY: u16 = 0;
const ALPN: u16 = 1;
const NO_DEFAULT_ALPN: u16 = 2;
const PORT: u16 = 3;
const IPV4_HINT: u16 = 4;
const IPV6_HINT: u16 = 6;
const DOH_PATH: u16 = 7;

/// Parameters in the order of their keys, each once, their values as RFC 9460 sections 7 and 8 say.
pub(super) fn parameters(rest: &[u8]) -> bool {
    let (mut at, mut last, mut count) = (0, None, 0);
    let (mut mandatory, mut has_alpn): (&[u8], bool) = (&[], false);
    while at < rest.len() {
        let Some((key, value)) = parameter(rest, at) else { return false };
        at += 4 + value.len();
        count += 1;
        if last.is_some_and(|last| key <= last) || count > MAX_PARAMETERS {
            return false;
        }
        last = Some(key);
        let is_right = match key {
            MANDATORY => {
                mandatory = value;
                are_keys(value)
            }
            ALPN => {
                has_alpn = true;
                !value.is_empty() && are_texts(value) && are_names(value)
            }
            NO_DEFAULT_ALPN => value.is_empty() && has_alpn,
            PORT => value.len() == 2,
            IPV4_HINT => !value.is_empty() && value.len().is_multiple_of(4),
            IPV6_HINT => !value.is_empty() && value.len().is_multiple_of(16),
            DOH_PATH => is_path(value),
            _ => true,
        };
        if !is_right {
            return false;
        }
    }
    let has = |key: u16| {
        let mut at = 0;
        std::iter::from_fn(|| {
            let (key, value) = parameter(rest, at)?;
            at += 4 + value.len();
            Some(key)
        })
        .any(|one| one == key)
    };
    mandatory.as_chunks::<2>().0.iter().all(|key| has(u16::from_be_bytes(*key)))
}

/// Key and value of the parameter at `at`.
fn parameter(rest: &[u8], at: usize) -> Option<(u16, &[u8])> {
    let (key, len) = (be16(rest, at)?, be16(rest, at + 2)?);
    Some((key, rest.get(at + 4..at + 4 + usize::from(len))?))
}

/// Whether it is a list of keys in order, each once, without that of the list.
fn are_keys(value: &[u8]) -> bool {
    let (keys, rest) = value.as_chunks::<2>();
    let first = keys.first().is_some_and(|key| u16::from_be_bytes(*key) != MANDATORY);
    first && rest.is_empty() && keys.is_sorted_by(|one, next| one < next)
}

/// Whether none of the strings is empty, and each is UTF-8, as all registered protocols are.
fn are_names(value: &[u8]) -> bool {
    let mut at = 0;
    while let Some(len) = value.get(at) {
        let text = &value[at + 1..at + 1 + usize::from(*len)];
        if text.is_empty() || std::str::from_utf8(text).is_err() {
            return false;
        }
        at += 1 + text.len();
    }
    true
}

/// Whether it is a relative URI template with the variable `dns` (RFC 9461 section 5).
fn is_path(value: &[u8]) -> bool {
    let Ok(path) = std::str::from_utf8(value) else { return false };
    let mut has_variable = false;
    for part in path.split('{').skip(1) {
        let Some((expression, _)) = part.split_once('}') else { return false };
        let names = expression.trim_start_matches(['+', '#', '.', '/', ';', '?', '&']);
        has_variable |= names.split(',').any(|name| name == "dns");
    }
    path.starts_with('/') && has_variable
}
