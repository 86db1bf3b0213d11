//! The audit: a line of the log for every call that changes something or shows what clients ask, with what came of it.
//!
//! ```text
//! audit by="token ops from 192.0.2.1" call="block ads.example suffix view kids" outcome="done" detail="1 name set"
//! ```
//!
//! People read it as it is. Programs have the same as fields of `PMDNS_LOG_FORMAT=json`. A call whose client leaves before
//! its end has a line too.

use crate::CallReply;
use crate::answers::EntriesDone;

/// The most characters of a text in a line.
const MAX_TEXT: usize = 2000;

/// A call under way, whose line is written at its end at the latest when it is dropped.
#[derive(Debug)]
pub struct Audit {
    by: String,
    calls: Vec<String>,
    is_open: bool,
}

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome<'o> {
    Done(&'o str),
    Refused(&'o str),
    /// Nobody waited for it, or it takes longer than its client's patience.
    Unknown(&'o str),
}

impl Audit {
    /// Calls by somebody, as lines of words.
    pub fn begin(by: &str, calls: Vec<String>) -> Self {
        Self { by: by.to_owned(), calls, is_open: true }
    }

    /// They have ended.
    pub fn end(mut self, reply: &CallReply) {
        self.write(outcome_of(reply));
    }

    /// Its client no longer waits, though it goes on.
    pub fn leave(mut self, why: &str) {
        self.write(Outcome::Unknown(why));
    }

    /// A request that is refused before it became a call.
    pub fn refuse(by: &str, call: String, why: &str) {
        Self::begin(by, vec![call]).write(Outcome::Refused(why));
    }

    fn write(&mut self, outcome: Outcome<'_>) {
        self.is_open = false;
        let (outcome, detail) = match outcome {
            Outcome::Done(detail) => ("done", detail),
            Outcome::Refused(detail) => ("refused", detail),
            Outcome::Unknown(detail) => ("unknown", detail),
        };
        let (by, detail) = (plain(&self.by), plain(detail));
        for call in &self.calls {
            let call = plain(call);
            tracing::info!(by, call, outcome, detail, "audit");
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        if self.is_open {
            self.write(Outcome::Unknown("its client left before the end"));
        }
    }
}

fn outcome_of(reply: &CallReply) -> Outcome<'_> {
    match reply {
        CallReply::Json(_) | CallReply::Health(_) => Outcome::Done(""),
        CallReply::Done(done) | CallReply::Entries(EntriesDone { done, .. }) => Outcome::Done(done),
        CallReply::Refused(_, why) => Outcome::Refused(why),
    }
}

/// Adds a character; one that is not seen, or that reorders others, is escaped.
pub(crate) fn put_plain(out: &mut String, c: char) {
    match is_plain(c) {
        true => out.push(c),
        false => out.extend(c.escape_debug()),
    }
}

/// Whether a character is seen, and reorders no others.
pub fn is_plain(c: char) -> bool {
    matches!(c, '"' | '\'' | '\\') || c.escape_debug().eq([c])
}

/// The text without characters that are not seen or that reorder others, in every form of the log, and not without end.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars().take(MAX_TEXT) {
        put_plain(&mut out, c);
    }
    if text.chars().nth(MAX_TEXT).is_some() {
        out += "...";
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Refusal;

    #[test]
    fn outcomes_are_those_of_replies() {
        for (reply, outcome) in [
            (CallReply::Json("{}".into()), Outcome::Done("")),
            (CallReply::Done("1 name set".into()), Outcome::Done("1 name set")),
            (CallReply::Refused(Refusal::Unable, "no".into()), Outcome::Refused("no")),
        ] {
            assert_eq!(outcome_of(&reply), outcome);
        }
    }

    #[test]
    fn a_line_has_no_control_characters_and_an_end() {
        assert_eq!(
            plain("block a.example\n\u{1b}[2J\u{9b}\u{202e}"),
            "block a.example\\n\\u{1b}[2J\\u{9b}\\u{202e}"
        );
        assert_eq!(plain("\"a\" 'b' \\c ä"), "\"a\" 'b' \\c ä");
        let long = plain(&"a".repeat(MAX_TEXT + 1));
        assert!(long.len() == MAX_TEXT + 3 && long.ends_with("a..."));
    }
}
