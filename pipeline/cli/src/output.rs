//! Where everything goes that the command line prints. An instance behind `--api` may be hostile, and its names and errors must not
//! steer the operator's terminal. So what is not seen, or reorders other text, is escaped here and not by each command.
//!
//! The escape is that of JSON. So JSON means the same afterwards: there such characters stand in strings only. `serde_json` escapes
//! those below U+0020, but neither the others nor bidirectional controls.

use std::io::{self, StderrLock, StdoutLock, Write};

use pmdns_control::audit::is_plain;

/// Standard output, for text.
#[expect(clippy::disallowed_methods, reason = "what is written to it is escaped")]
pub(crate) fn output() -> EscapedOutput<StdoutLock<'static>> {
    EscapedOutput(io::stdout().lock())
}

/// Standard error, for text.
#[expect(clippy::disallowed_methods, reason = "what is written to it is escaped")]
pub(crate) fn errors() -> EscapedOutput<StderrLock<'static>> {
    EscapedOutput(io::stderr().lock())
}

/// An output of text that passes printable characters, ends of lines and tabs. A write has whole characters, as those of `write!`
/// have.
pub(crate) struct EscapedOutput<W>(W);

impl<W: Write> Write for EscapedOutput<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.write_all(escaped(&String::from_utf8_lossy(text)).as_bytes())?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_printed(c) {
            out.push(c);
        } else {
            let units = &mut [0; 2];
            out.extend(c.encode_utf16(units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}

/// Whether a character comes out as it is.
pub(crate) fn is_printed(c: char) -> bool {
    matches!(c, '\n' | '\t') || is_plain(c)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::Value;

    /// An escape sequence, one in a single character, a carriage return, DEL, a bidirectional override and a tag beyond U+FFFF.
    pub(crate) const HOSTILE: &str = "a\u{1b}[2Jb\u{9b}2Jc\rd\u{7f}e\u{202e}f\u{e0041}g";

    /// What comes out when this is printed.
    pub(crate) fn printed(print: impl FnOnce(&mut EscapedOutput<Vec<u8>>)) -> String {
        let mut out = EscapedOutput(Vec::new());
        print(&mut out);
        let text = String::from_utf8(out.0).unwrap();
        let hostile: Vec<char> = text.chars().filter(|c| !is_printed(*c)).collect();
        assert!(hostile.is_empty(), "{hostile:?} in {text}");
        text
    }

    /// Makes every text in a reply hostile, names of fields included where they name what the instance has.
    pub(crate) fn make_hostile(reply: &mut Value) {
        match reply {
            Value::String(text) => text.push_str(HOSTILE),
            Value::Array(items) => items.iter_mut().for_each(make_hostile),
            Value::Object(fields) => {
                fields.values_mut().for_each(make_hostile);
                fields.insert(HOSTILE.to_owned(), Value::from(7));
            }
            _ => {}
        }
    }

    #[test]
    fn no_terminal_obeys_what_is_printed() {
        let text = printed(|out| writeln!(out, "{HOSTILE}\tä").unwrap());
        let expected = r"a\u001b[2Jb\u009b2Jc\u000dd\u007fe\u202ef\udb40\udc41g";
        assert_eq!(text, format!("{expected}\tä\n"));
    }

    #[test]
    fn json_means_the_same_afterwards() {
        let mut sent = serde_json::json!({ "name": "a\"\\", "all": ["b"] });
        make_hostile(&mut sent);
        let text = printed(|out| serde_json::to_writer(out, &sent).unwrap());
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), sent);
    }

    #[test]
    fn an_error_of_an_instance_is_escaped() {
        let failure = serde_json::from_str::<Kind>(&serde_json::json!(HOSTILE).to_string());
        let failure = crate::Failure::from(failure.unwrap_err());
        let text = printed(|out| failure.print(out).unwrap());
        assert!(text.contains(r"\u001b[2J") && text.starts_with("pmdns: "), "{text}");
    }

    #[derive(Debug, serde::Deserialize)]
    enum Kind {}
}
