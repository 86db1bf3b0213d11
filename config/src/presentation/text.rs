//! Escapes, names and character strings (RFC 1035 sections 3.3 and 5.1).

use super::Problem;
use super::words::{Word, shown};
use crate::narrow::to_u8;

/// The longest name in wire format (RFC 1035 section 3.1), and the longest label.
const MAX_NAME: usize = 255;
const MAX_LABEL: usize = 63;

/// The longest character string (RFC 1035 section 3.3).
pub(super) const MAX_STRING: usize = 255;

/// Hands on each byte that a text stands for, and whether it was escaped.
pub(super) fn unescape(
    text: &[u8],
    mut take: impl FnMut(u8, bool) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        if *byte != b'\\' {
            take(*byte, false)?;
            rest = after;
            continue;
        }
        let (byte, after) = match after {
            [first, second, third, after @ ..]
                if [first, second, third].iter().all(|digit| digit.is_ascii_digit()) =>
            {
                let number = [first, second, third]
                    .iter()
                    .fold(0, |sum, digit| sum * 10 + u16::from(*digit - b'0'));
                (u8::try_from(number).map_err(|_| bad_escape(rest))?, after)
            }
            [digit, ..] if digit.is_ascii_digit() => return Err(bad_escape(rest)),
            [byte, after @ ..] => (*byte, after),
            [] => return Err("it ends in the middle of an escape".to_owned()),
        };
        take(byte, true)?;
        rest = after;
    }
    Ok(())
}

fn bad_escape(text: &[u8]) -> Problem {
    let text = shown(text.get(..4).unwrap_or(text));
    format!("{text} is no escape; write \\ and three digits up to 255")
}

/// The bytes that a text stands for.
pub(super) fn bytes_of(text: &[u8]) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::with_capacity(text.len());
    unescape(text, |byte, _| {
        bytes.push(byte);
        Ok(())
    })?;
    Ok(bytes)
}

/// Writes the name that a word stands for. Without a dot at its end it is below `origin`, which `@` stands for.
/// Without an origin every name is absolute.
pub(super) fn put_name(
    out: &mut Vec<u8>,
    word: &Word<'_>,
    origin: Option<&[u8]>,
) -> Result<(), Problem> {
    let wrong = |problem| format!("{} is not a domain name: {problem}", word.shown());
    if word.text == b"@" {
        let origin = origin.ok_or_else(|| {
            "`@` stands for the origin of a zone file, and there is none here; write the name"
                .to_owned()
        })?;
        out.extend(origin);
        return Ok(());
    }
    let start = out.len();
    let is_absolute = put_labels(out, word.text).map_err(wrong)?;
    match origin.filter(|_| !is_absolute) {
        Some(origin) => out.extend(origin),
        None => out.push(0),
    }
    if out.len() - start > MAX_NAME {
        return Err(wrong("it has more than 255 bytes".to_owned()));
    }
    Ok(())
}

/// The absolute name that a text stands for, with or without a dot at its end, in wire format.
pub(crate) fn name_of(text: &[u8]) -> Result<Vec<u8>, Problem> {
    let mut name = Vec::with_capacity(text.len() + 2);
    put_labels(&mut name, text)?;
    name.push(0);
    if name.len() > MAX_NAME {
        return Err("it has more than 255 bytes".to_owned());
    }
    Ok(name)
}

/// Writes the labels of a name, without the root's, and says whether it is absolute.
fn put_labels(out: &mut Vec<u8>, text: &[u8]) -> Result<bool, Problem> {
    if text == b"." {
        return Ok(true);
    }
    let start = out.len();
    let mut label = start;
    out.push(0);
    unescape(text, |byte, is_escaped| {
        if byte == b'.' && !is_escaped {
            close_label(out, label)?;
            label = out.len();
            out.push(0);
        } else if !byte.is_ascii() && !is_escaped {
            return Err("it has characters beyond ASCII; write it in its xn-- form".to_owned());
        } else {
            out.push(byte);
        }
        // A text of a gigabyte is no name either.
        match out.len() - start > MAX_NAME + 1 {
            true => Err("it has more than 255 bytes".to_owned()),
            false => Ok(()),
        }
    })?;
    let is_absolute = out.len() == label + 1 && label > start;
    match is_absolute {
        true => out.truncate(label),
        false => close_label(out, label)?,
    }
    Ok(is_absolute)
}

/// Writes the length of the label that begins here.
fn close_label(out: &mut [u8], label: usize) -> Result<(), Problem> {
    match out.len() - label - 1 {
        0 => Err("empty label".to_owned()),
        len @ 1..=MAX_LABEL => {
            out[label] = to_u8(len);
            Ok(())
        }
        _ => Err("a label has more than 63 characters".to_owned()),
    }
}

/// Writes a character string with its length.
pub(super) fn put_string(out: &mut Vec<u8>, word: &Word<'_>) -> Result<(), Problem> {
    let bytes = bytes_of(word.text)?;
    if bytes.len() > MAX_STRING {
        let text = "is longer than 255 bytes; divide it into several texts";
        return Err(format!("{} {text}", word.shown()));
    }
    out.push(to_u8(bytes.len()));
    out.extend(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Word<'_> {
        Word { text: text.as_bytes(), is_quoted: false, is_joined: false, line: 1 }
    }

    fn name(text: &str, origin: Option<&[u8]>) -> Result<Vec<u8>, Problem> {
        let mut out = b"before".to_vec();
        put_name(&mut out, &word(text), origin)?;
        Ok(out.split_off(6))
    }

    #[test]
    fn names_are_below_the_origin_unless_they_are_absolute() {
        let origin = Some(&b"\x03lan\0"[..]);
        assert_eq!(name("@", origin).unwrap(), b"\x03lan\0");
        assert_eq!(name("\\@", origin).unwrap(), b"\x01@\x03lan\0");
        assert_eq!(name("a.b", origin).unwrap(), b"\x01a\x01b\x03lan\0");
        assert_eq!(name("a.B.", origin).unwrap(), b"\x01a\x01B\0");
        assert_eq!(name(".", origin).unwrap(), b"\0");
        assert_eq!(name("a", None).unwrap(), b"\x01a\0");
        assert!(name("@", None).unwrap_err().contains("write the name"));
    }

    #[test]
    fn escapes_are_characters_like_others() {
        assert_eq!(name("a\\.b\\032\\\\.c.", None).unwrap(), b"\x05a.b \\\x01c\0");
        assert_eq!(name("\\255.", None).unwrap(), b"\x01\xff\0");
        for text in ["\\256", "\\25", "\\2a1"] {
            assert!(name(text, None).unwrap_err().contains("is no escape"), "{text}");
        }
    }

    #[test]
    fn what_is_no_name_is_told_why() {
        for (text, why) in [
            ("a..b", "empty label"),
            ("..", "empty label"),
            (".a", "empty label"),
            ("", "empty label"),
            ("bücher", "xn--"),
            (&*"a".repeat(64), "more than 63"),
            (&*"a.".repeat(128), "more than 255"),
        ] {
            let problem = name(text, None).unwrap_err();
            assert!(problem.contains(why), "{text}: {problem}");
        }
        assert_eq!(name(&"a.".repeat(127), None).unwrap().len(), 255);
        let origin = Some(&b"\x03lan\0"[..]);
        assert!(name("a.".repeat(126).trim_end_matches('.'), origin).is_err());
    }

    #[test]
    fn strings_have_their_length() {
        let mut out = Vec::new();
        put_string(&mut out, &word("a\\\"\\007ü")).unwrap();
        assert_eq!(out, b"\x05a\"\x07\xc3\xbc");
        assert!(put_string(&mut out, &word(&"a".repeat(255))).is_ok());
        assert!(put_string(&mut out, &word(&"a".repeat(256))).unwrap_err().contains("255"));
    }
}
