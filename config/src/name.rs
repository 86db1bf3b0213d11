//! Domain names as people write them, turned into wire format.

use domain::base::Name;

use crate::presentation::name_of;

/// The longest text of a name: 253 characters, each of which may be written `\DDD`.
const MAX_TEXT: usize = 4 * 254;

/// Why a text is no domain name we can use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing was written.
    #[error("a name is empty; write a domain name, or `.` for the root")]
    Empty,
    /// More than a name can hold.
    #[error("the name `{0}...` is too long; a name has at most 253 characters and a label 63")]
    TooLong(String),
    /// DNS carries such names in another spelling (RFC 5891).
    #[error("`{0}` has characters beyond ASCII; write it in its xn-- form")]
    NotAscii(String),
    /// Blanks, quotes and the like are never meant to be part of a name.
    #[error("`{name}` has {character:?} in it; leave it out, or write it as \\{code:03}")]
    Character {
        /// What was written.
        name: String,
        /// The character that cannot stand there.
        character: char,
        /// Its code, for the escape of RFC 1035 section 5.1.
        code: u32,
    },
    /// No rule about names has such a form.
    #[error("`{0}` has a `*` that is not in front; write `*.example.com` or `example.com`")]
    Star(String),
    /// RFC 1035 section 2.3.4 or 5.1 says otherwise.
    #[error("`{name}` is not a domain name: {why}")]
    Malformed {
        /// What was written.
        name: String,
        /// The rule it breaks.
        why: String,
    },
}

/// `text` as a wire-format name: lower case, uncompressed, with the root label at its end.
///
/// The name is absolute with or without its trailing dot; `\.` and `\DDD` escapes are understood
/// (RFC 1035 section 5.1).
///
/// # Errors
///
/// A [`NameError`] that quotes the name and says what to write instead.
pub fn wire_name(text: &str) -> Result<Box<[u8]>, NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > MAX_TEXT {
        return Err(NameError::TooLong(text.chars().take(32).collect()));
    }
    if !text.is_ascii() {
        return Err(NameError::NotAscii(text.to_owned()));
    }
    if let Some(character) = text.chars().find(|c| !c.is_ascii_graphic() || "\"();@$".contains(*c))
    {
        let (name, code) = (text.to_owned(), u32::from(character));
        return Err(NameError::Character { name, character, code });
    }
    let mut wire = name_of(text.as_bytes())
        .map_err(|why| NameError::Malformed { name: text.to_owned(), why })?;
    // Length octets are at most 63 and thus no letters: lowering the whole image is safe.
    wire.make_ascii_lowercase();
    Ok(wire.into_boxed_slice())
}

/// The name of a rule that is about a name and all names below it, as in block lists: a leading `*.` changes nothing.
///
/// # Errors
///
/// As [`wire_name`], and for a `*` in another place, which would be no name that anybody asks for.
pub fn subtree_name(text: &str) -> Result<Box<[u8]>, NameError> {
    let (name, _) = without_wildcard(text);
    match name.split('.').any(|label| label == "*") {
        true => Err(NameError::Star(text.chars().take(MAX_TEXT).collect())),
        false => wire_name(name),
    }
}

/// The text behind a leading `*.`, and whether there was one.
pub fn without_wildcard(text: &str) -> (&str, bool) {
    text.strip_prefix("*.").map_or((text, false), |name| (name, true))
}

/// A wire-format name as people read it.
pub fn readable(wire: &[u8]) -> String {
    match Name::from_octets(wire) {
        Ok(name) => name.to_string(),
        Err(_) => format!("{wire:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_absolute_and_lower_case() {
        let wire = b"\x03www\x07example\x00";
        assert_eq!(*wire_name("WWW.Example").unwrap(), wire[..]);
        assert_eq!(*wire_name("www.example.").unwrap(), wire[..]);
        assert_eq!(*wire_name(".").unwrap(), [0]);
        assert_eq!(*wire_name("a\\.b").unwrap(), b"\x03a.b\x00"[..]);
        assert_eq!(*wire_name("\\065b").unwrap(), b"\x02ab\x00"[..]);
    }

    #[test]
    fn a_label_of_63_fits_and_64_does_not() {
        let label = "a".repeat(63);
        assert!(wire_name(&label).is_ok());
        let error = wire_name(&format!("{label}a")).unwrap_err().to_string();
        assert!(error.contains("is not a domain name"), "{error}");
    }

    #[test]
    fn a_name_has_at_most_255_octets() {
        let long = ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61)].join(".");
        assert_eq!(wire_name(&long).unwrap().len(), 255);
        assert!(wire_name(&format!("{long}d")).is_err());
        assert!(matches!(wire_name(&"a.".repeat(600)), Err(NameError::TooLong(_))));
    }

    #[test]
    fn a_leading_star_is_the_names_subtree_and_another_star_is_refused() {
        let wire = b"\x01x\x07example\x00";
        for text in ["x.example", "*.x.example", "*.X.Example."] {
            assert_eq!(*subtree_name(text).unwrap(), wire[..], "{text}");
        }
        for text in ["*", "*.*.example", "a.*.example", "x.example.*"] {
            let error = subtree_name(text).unwrap_err().to_string();
            assert!(error.contains("`*` that is not in front; write"), "{text}: {error}");
        }
        assert_eq!(subtree_name("*."), Err(NameError::Empty));
        assert!(subtree_name("*x.example").is_ok(), "a star is a letter of a label like others");
    }

    #[test]
    fn what_is_no_name_is_told_why() {
        assert_eq!(wire_name(""), Err(NameError::Empty));
        for text in ["a..b", "..", ".a", "a\\"] {
            assert!(matches!(wire_name(text), Err(NameError::Malformed { .. })), "{text}");
        }
        for text in ["a b", "a\nb", "\"a\"", "a;b", "@", "$INCLUDE", "a(b"] {
            assert!(matches!(wire_name(text), Err(NameError::Character { .. })), "{text}");
        }
        let error = wire_name("bücher.example").unwrap_err().to_string();
        assert!(error.contains("xn--"), "{error}");
    }

    #[test]
    fn a_wire_name_reads_back() {
        assert_eq!(readable(&wire_name("www.example.").unwrap()), "www.example");
        assert_eq!(readable(&[0]), ".");
    }
}
