//! unbound.conf: its clauses and settings.

mod bootstrap;
mod clause;
mod clients;
mod dns64;
mod dnstap;
mod forward;
mod kinds;
mod local;
mod paths;
mod rebinding;
mod server;
mod zones;

use self::clause::{Clause, Conf, Setting};
#[cfg(test)]
pub(super) use self::kinds::KINDS;
use super::draft::Draft;
use super::meaning::Forwarder;
use super::source::{Origin, Sources, Text, shown};

/// The names of clauses.
const CLAUSES: [&str; 13] = [
    "server",
    "forward-zone",
    "stub-zone",
    "auth-zone",
    "view",
    "rpz",
    "remote-control",
    "python",
    "dynlib",
    "cachedb",
    "dnstap",
    "ipset",
    "dnscrypt",
];

pub(super) fn import(text: &Text, sources: &mut Sources<'_>) -> Draft {
    let mut forwarder = Forwarder::default();
    let mut clauses = Vec::new();
    parse(text, sources, &mut clauses, &mut forwarder);
    sources.close();
    let conf = Conf::of(clauses);
    server::map(&conf, &mut forwarder);
    paths::chroot(&conf, &mut forwarder);
    dns64::map(&conf, &mut forwarder);
    dnstap::map(&conf, &mut forwarder);
    rebinding::map(&conf, &mut forwarder);
    let groups = clients::map(&conf, &mut forwarder);
    let forwards = forward::map(&conf, &mut forwarder);
    local::map(&conf, &groups, &forwards, &mut forwarder);
    zones::map(&conf, &groups, &mut forwarder);
    forwarder.share_port();
    forwarder.draft
}

/// Reads a file and those that it includes.
fn parse(
    text: &Text,
    sources: &mut Sources<'_>,
    clauses: &mut Vec<Clause>,
    forwarder: &mut Forwarder,
) {
    for (number, line) in (1..).zip(text.text.lines()) {
        let line = line.trim();
        let mut words = words(line).into_iter().peekable();
        while let Some(word) = words.next() {
            let origin = Origin::new(text.at(number), line);
            let Some(key) = word.strip_suffix(':').filter(|key| !key.is_empty()) else {
                // `include "file"` is allowed without a colon.
                if word == "include" && words.peek().is_some() {
                    let pattern = words.next().unwrap_or_default();
                    include(&pattern, &origin, sources, clauses, forwarder);
                    continue;
                }
                forwarder.draft.decisive(&origin, "this is no setting of unbound.conf");
                break;
            };
            if CLAUSES.contains(&key) {
                clauses.push(Clause::new(key, &origin));
                continue;
            }
            let key = key.to_owned();
            let mut values = Vec::new();
            while let Some(value) = words.next_if(|word| !is_key(word) || values.is_empty()) {
                values.push(value);
            }
            if key == "include" || key == "include-toplevel" {
                let pattern = values.first().cloned().unwrap_or_default();
                include(&pattern, &origin, sources, clauses, forwarder);
                continue;
            }
            match clauses.last_mut() {
                Some(clause) => {
                    forwarder.draft.parsed(&origin);
                    clause.push(Setting { key, values, origin });
                }
                None => {
                    forwarder.draft.decisive(&origin, "it stands in no clause, as in `server:`");
                }
            }
        }
    }
}

/// Whether a word behind a value begins another setting on the same line.
fn is_key(word: &str) -> bool {
    let Some(key) = word.strip_suffix(':') else { return false };
    key.len() > 2 && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}

fn include(
    pattern: &str,
    origin: &Origin,
    sources: &mut Sources<'_>,
    clauses: &mut Vec<Clause>,
    forwarder: &mut Forwarder,
) {
    let found = match sources.find(pattern) {
        Ok(found) => found,
        Err(why) => return forwarder.draft.decisive(origin, shown(&why)),
    };
    for path in found {
        match sources.open(&path) {
            Ok(text) => {
                parse(&text, sources, clauses, forwarder);
                sources.close();
            }
            Err(why) => forwarder.draft.decisive(origin, shown(&why)),
        }
    }
}

/// The words of a line, without quotes and comments.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        match first {
            '#' => break,
            '"' | '\'' => {
                let inside = &rest[1..];
                let end = inside.find(first).unwrap_or(inside.len());
                words.push(inside[..end].to_owned());
                rest = inside.get(end + 1..).unwrap_or_default();
            }
            _ => {
                let end = rest.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(rest.len());
                // `key:value` is two words, if what stands before the colon is a key.
                let word = &rest[..end];
                let colon = word.find(':').map(|at| at + 1);
                let end = match colon {
                    Some(at) if at < end && words.is_empty() && is_key(&word[..at]) => at,
                    _ => end,
                };
                words.push(rest[..end].to_owned());
                rest = &rest[end..];
            }
        }
        rest = rest.trim_start();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_at_blanks_and_quotes_hold_them_together() {
        assert_eq!(words("  interface: 192.0.2.1 # x"), ["interface:", "192.0.2.1"]);
        assert_eq!(words("local-data: 'a TXT \"b c\"'"), ["local-data:", "a TXT \"b c\""]);
        assert_eq!(words("name:\".\""), ["name:", "."]);
        assert_eq!(words("interface: ::1"), ["interface:", "::1"]);
        assert_eq!(words("prefetch:yes"), ["prefetch:", "yes"]);
        assert_eq!(words("\"open"), ["open"]);
        assert!(words("# all").is_empty());
    }
}
