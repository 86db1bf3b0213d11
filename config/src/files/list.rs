//! Block lists, line by line: hosts files, plain names, and the `||name^` rules of ad blockers.
//!
//! Such lists come from the Internet and have lines for other programs in them: rules about parts of pages,
//! regular expressions, options. A line that is no whole name is not guessed at: it is counted, and the
//! first of them is told.

use std::io::{BufRead, BufReader, Read as _};
use std::net::IpAddr;
use std::path::Path;

use super::{FileError, open};
use crate::limits::{MAX_LIST_BYTES, MAX_LIST_LINE};
use crate::name::wire_name;
use crate::narrow::to_u8;
use crate::settings::ListFormat;

/// Names that every hosts file has, and that are not meant to be blocked.
const HOST_ITSELF: [&str; 11] = [
    "localhost",
    "localhost.localdomain",
    "local",
    "broadcasthost",
    "ip6-localhost",
    "ip6-loopback",
    "ip6-localnet",
    "ip6-mcastprefix",
    "ip6-allnodes",
    "ip6-allrouters",
    "ip6-allhosts",
];

/// The longest name in wire format (RFC 1035 section 3.1), and the longest label.
const MAX_NAME: usize = 255;
const MAX_LABEL: usize = 63;

/// The rule of a line about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The name alone is blocked.
    Exact,
    /// The name and everything below it is blocked.
    Below,
    /// The name and everything below it is not blocked, whatever other lines and lists say.
    Except,
}

/// A name of a block list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed<'n> {
    /// In wire format, lower case.
    pub name: &'n [u8],
    /// Its scope.
    pub scope: Scope,
}

/// The content of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListSummary {
    /// Names, exceptions included.
    pub names: u64,
    /// Lines that say nothing we understand.
    pub unknown: u64,
    /// The first such line and its number.
    pub first_unknown: Option<(u64, String)>,
}

/// Reads a block list and hands each of its names to `take`, which says whether there is room for more.
///
/// # Errors
///
/// The file cannot be read, is too long, or has more names than `take` has room for. Or it has lines, but
/// none that is understood.
pub fn read_list(
    path: &Path,
    format: ListFormat,
    take: impl FnMut(Listed<'_>) -> bool,
) -> Result<ListSummary, FileError> {
    // A file that grows while it is read still ends.
    let reader = BufReader::with_capacity(1 << 16, open(path)?.take(MAX_LIST_BYTES));
    list_from(reader, path, format, take)
}

/// The same, of text from elsewhere; `path` is what errors call it.
///
/// # Errors
///
/// As [`read_list`].
pub fn list_from(
    reader: impl BufRead,
    path: &Path,
    format: ListFormat,
    mut take: impl FnMut(Listed<'_>) -> bool,
) -> Result<ListSummary, FileError> {
    lines_from(reader, path, format, |_, listed| take(listed))
}

/// Reads a list and hands each of its names to `take`, with the number of its line.
pub(super) fn lines_from(
    mut reader: impl BufRead,
    path: &Path,
    format: ListFormat,
    mut take: impl FnMut(u64, Listed<'_>) -> bool,
) -> Result<ListSummary, FileError> {
    let unreadable = |source| FileError::Unreadable { file: path.to_owned(), source };
    let mut summary = ListSummary::default();
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        if reader.read_until(b'\n', &mut bytes).map_err(unreadable)? == 0 {
            break;
        }
        let mut full = false;
        let mut count = |listed: Listed<'_>| {
            summary.names += 1;
            full |= !take(line, listed);
        };
        let text = Some(&bytes).filter(|bytes| bytes.len() <= MAX_LIST_LINE);
        let text = text.and_then(|bytes| std::str::from_utf8(bytes).ok());
        let known = text.is_some_and(|text| read_line(text, format, &mut count));
        if full {
            let problem = "there is no room for more names; leave out a list".to_owned();
            return Err(FileError::Line { file: path.to_owned(), line, problem });
        }
        if !known {
            summary.unknown += 1;
            summary.first_unknown.get_or_insert_with(|| (line, shown(&bytes)));
        }
    }
    match &summary.first_unknown {
        Some((line, text)) if summary.names == 0 => {
            let problem = format!("`{text}` is no rule of this format, and no other line is one");
            Err(FileError::Line { file: path.to_owned(), line: *line, problem })
        }
        _ => Ok(summary),
    }
}

/// The beginning of a line, for people.
fn shown(bytes: &[u8]) -> String {
    const SHOWN: usize = 60;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]);
    text.trim().escape_debug().to_string()
}

/// Hands on what one line says; `false`: nothing that we understand.
fn read_line(text: &str, format: ListFormat, take: &mut impl FnMut(Listed<'_>)) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim();
    let allowed = |this| format == this || format == ListFormat::Auto;
    // Comments of all three, and the header of an ad blocker's list.
    if text.is_empty() || text.starts_with(['#', '!']) || is_header(text) {
        return true;
    }
    if let Some((scope, name)) = adblock(text) {
        return allowed(ListFormat::Adblock) && hand_on(name, scope, take);
    }
    let text = without_comment(text);
    let mut words = text.split_ascii_whitespace();
    match (words.next(), words.next()) {
        (Some(address), Some(name)) => {
            let Ok(address) = address.parse::<IpAddr>() else { return false };
            let names = std::iter::once(name).chain(words);
            allowed(ListFormat::Hosts)
                && (address.is_loopback() || address.is_unspecified())
                && names.map(|name| host(name, take)).filter(|known| !known).count() == 0
        }
        (Some(name), None) => {
            let name = name.strip_prefix("*.").unwrap_or(name);
            allowed(ListFormat::Domains) && hand_on(name, Scope::Below, take)
        }
        (None, _) => false,
    }
}

/// The text before a comment, which begins with a `#` behind a blank.
fn without_comment(text: &str) -> &str {
    let comment = text.match_indices('#').find(|(at, _)| text[..*at].ends_with([' ', '\t']));
    comment.map_or(text, |(at, _)| text[..at].trim_end())
}

/// `[Adblock Plus 2.0]`, the first line of an ad blocker's list.
fn is_header(text: &str) -> bool {
    text.starts_with('[') && text.ends_with(']')
}

/// The name of a rule like `||name^`. A rule with options is about some requests only, and no rule for us.
fn adblock(text: &str) -> Option<(Scope, &str)> {
    let (scope, rule) = match text.strip_prefix("@@") {
        Some(rule) => (Scope::Except, rule),
        None => (Scope::Below, text),
    };
    let name = rule.strip_prefix("||")?.strip_suffix('^')?;
    Some((scope, name.strip_prefix("*.").unwrap_or(name)))
}

/// A name of a hosts file.
fn host(name: &str, take: &mut impl FnMut(Listed<'_>)) -> bool {
    let is_itself = HOST_ITSELF.iter().any(|itself| itself.eq_ignore_ascii_case(name));
    is_itself || name.parse::<IpAddr>().is_ok() || hand_on(name, Scope::Exact, take)
}

/// Hands on the name that `text` is; `false`: it is none. A number alone, or an address, is none either: a
/// list of names never means them.
fn hand_on(text: &str, scope: Scope, take: &mut impl FnMut(Listed<'_>)) -> bool {
    let mut plain = [0; MAX_NAME];
    if let Some(len) = plain_name(text, &mut plain) {
        if text.parse::<IpAddr>().is_ok() {
            return false;
        }
        take(Listed { name: &plain[..len], scope });
        return true;
    }
    let escaped = text.contains('\\').then(|| wire_name(text));
    match escaped {
        Some(Ok(name)) => {
            take(Listed { name: &name, scope });
            true
        }
        _ => false,
    }
}

/// Writes a name without escapes to `wire`, which is what nearly every line of a long list has, and gives its
/// length. `None`: it is not a name of that kind.
fn plain_name(text: &str, wire: &mut [u8; MAX_NAME]) -> Option<usize> {
    let text = text.strip_suffix('.').unwrap_or(text);
    let (mut at, mut label) = (1, 0);
    for byte in text.bytes() {
        if byte == b'.' {
            *wire.get_mut(label)? = label_len(label, at)?;
            label = at;
        } else if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            *wire.get_mut(at)? = byte.to_ascii_lowercase();
        } else {
            return None;
        }
        at += 1;
    }
    *wire.get_mut(label)? = label_len(label, at)?;
    *wire.get_mut(at)? = 0;
    Some(at + 1)
}

/// The length of the label between its length byte and `end`, if a label can be as long.
fn label_len(start: usize, end: usize) -> Option<u8> {
    let len = end - start - 1;
    (1..=MAX_LABEL).contains(&len).then(|| to_u8(len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::readable;

    /// What a line says, as `scope name` for each name; `None`: nothing we understand.
    fn line(text: &str, format: ListFormat) -> Option<Vec<String>> {
        let mut found = Vec::new();
        let mut take = |listed: Listed<'_>| {
            found.push(format!("{:?} {}", listed.scope, readable(listed.name)));
        };
        read_line(text, format, &mut take).then_some(found)
    }

    fn auto(text: &str) -> Option<Vec<String>> {
        line(text, ListFormat::Auto)
    }

    fn says(texts: &[&str]) -> Option<Vec<String>> {
        Some(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn every_kind_of_line_is_known_by_its_look() {
        assert_eq!(auto("0.0.0.0 Ads.example"), says(&["Exact ads.example"]));
        assert_eq!(
            auto("127.0.0.1\ta.example b.example # both"),
            says(&["Exact a.example", "Exact b.example"])
        );
        assert_eq!(auto(":: six.example"), says(&["Exact six.example"]));
        assert_eq!(auto("ads.example."), says(&["Below ads.example"]));
        assert_eq!(auto("*.ads.example"), says(&["Below ads.example"]));
        assert_eq!(auto("  ads_1.example\r\n"), says(&["Below ads_1.example"]));
        assert_eq!(auto("||ads.example^"), says(&["Below ads.example"]));
        assert_eq!(auto("@@||good.example^"), says(&["Except good.example"]));
        assert_eq!(auto("a\\.b.example"), says(&["Below a\\.b.example"]));
    }

    #[test]
    fn comments_and_the_host_itself_are_no_rules() {
        for text in [
            "",
            "# a comment",
            "! a comment",
            "[Adblock Plus 2.0]",
            "127.0.0.1 localhost",
            "::1 ip6-localhost ip6-loopback",
            "0.0.0.0 0.0.0.0",
            "\u{feff}# first line",
        ] {
            assert_eq!(auto(text), says(&[]), "{text}");
        }
    }

    #[test]
    fn what_is_no_whole_name_is_not_guessed_at() {
        for text in [
            "||ads.example^$third-party",
            "||ads.example/banner",
            "example##.ad",
            "/ads[0-9]+/",
            "192.0.2.1 printer.example",
            "192.0.2.1",
            "two words",
            "a..example",
            "||^",
            "-",
            "bücher.example",
            "||a b^",
            "|https://ads.example^",
            &"a".repeat(64),
        ] {
            let known = auto(text);
            assert!(known.is_none() || text == "-", "{text}: {known:?}");
        }
        assert_eq!(auto("-"), says(&["Below -"]), "odd, but a name");
    }

    #[test]
    fn a_format_admits_its_own_lines_only() {
        let lines = [
            (ListFormat::Hosts, "0.0.0.0 a.example"),
            (ListFormat::Domains, "a.example"),
            (ListFormat::Adblock, "||a.example^"),
        ];
        for (format, _) in lines {
            for (own, text) in lines {
                assert_eq!(line(text, format).is_some(), own == format, "{format:?}: {text}");
            }
        }
    }

    #[test]
    fn the_longest_name_fits_and_a_longer_one_does_not() {
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
        assert!(auto(&longest).is_some());
        assert!(auto(&format!("{longest}a")).is_none());
        assert!(auto(&format!("{label}a.example")).is_none());
    }

    /// Reads a file of this text and gives what was said of it, and the names.
    fn read(text: &str, room: usize) -> (Result<ListSummary, FileError>, usize) {
        let mut taken = 0;
        let summary = list_from(text.as_bytes(), Path::new("list"), ListFormat::Auto, |_| {
            taken += 1;
            taken <= room
        });
        (summary, taken)
    }

    #[test]
    fn lines_not_understood_are_counted_and_the_first_is_told() {
        let (summary, taken) = read("a.example\nexample##.ad\n/x/\nb.example", 9);
        let summary = summary.unwrap();
        assert_eq!((summary.names, summary.unknown, taken), (2, 2, 2));
        assert_eq!(summary.first_unknown, Some((2, "example##.ad".into())));
    }

    #[test]
    fn a_file_of_something_else_is_an_error() {
        let text = read("<html>\n<body>\n", 9).0.unwrap_err().to_string();
        assert!(text.contains("line 1: `<html>` is no rule of this format"), "{text}");
        assert_eq!(read("# nothing yet\n", 9).0.unwrap(), ListSummary::default());
        let error = read_list(Path::new("/nonexistent"), ListFormat::Auto, |_| true).unwrap_err();
        assert!(error.to_string().contains("cannot be read"), "{error}");
    }

    #[test]
    fn trap_14_names_without_room_are_an_error_and_never_skipped() {
        let text = read("a.example\nb.example\nc.example\n", 2).0.unwrap_err().to_string();
        assert!(text.contains("line 3: there is no room for more names"), "{text}");
        assert!(read("a.example\nb.example\n", 2).0.is_ok());
    }
}
