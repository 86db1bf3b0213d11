//! The words of a zone file (RFC 1035 section 5.1): text is cut into entries, and an entry into words.

use super::Problem;

/// Words of one entry, at most. Data of the longest record, written with a digit to a word, has fewer.
const MAX_WORDS: usize = 140_000;

/// A word of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word<'t> {
    /// Without quotes around it. Escapes are as they were written.
    pub(super) text: &'t [u8],
    /// Whether it stood in double quotes.
    pub(super) is_quoted: bool,
    /// Whether nothing stands between it and the word before it.
    pub(super) is_joined: bool,
    /// Its line, from 1.
    pub(super) line: u64,
}

impl Word<'_> {
    /// Whether it is this word, which has letters of ASCII only.
    pub(super) fn is(&self, other: &str) -> bool {
        !self.is_quoted && self.text.eq_ignore_ascii_case(other.as_bytes())
    }

    /// As people read it.
    pub(super) fn shown(&self) -> String {
        shown(self.text)
    }
}

/// A text as people read it in a message: its beginning, if it is long, in backquotes.
pub(super) fn shown(text: &[u8]) -> String {
    const SHOWN: usize = 60;
    let start = text.get(..SHOWN).unwrap_or(text);
    let more = if start.len() < text.len() { "..." } else { "" };
    let mut out = String::from("`");
    for character in String::from_utf8_lossy(start).chars() {
        match character.is_control() {
            true => out.extend(character.escape_default()),
            false => out.push(character),
        }
    }
    out + more + "`"
}

/// An entry: a line, or several that parentheses join.
pub(crate) struct ZoneFileEntry<'e, 't> {
    pub(super) words: &'e [Word<'t>],
    /// Whether it begins with a blank: then it has the owner of the one before.
    pub(super) starts_blank: bool,
    /// The line that it ends at.
    pub(super) line: u64,
}

impl<'e, 't> ZoneFileEntry<'e, 't> {
    /// Its words.
    pub(crate) fn words(&self) -> &'e [Word<'t>] {
        self.words
    }
}

/// A mistake of the text itself, with its line.
pub(crate) type Mistake = (u64, Problem);

/// Reads text entry by entry.
pub(crate) struct ZoneFileEntries<'t> {
    rest: &'t [u8],
    line: u64,
    /// Words of the entry. Kept from one to the next, so that memory is taken once.
    words: Vec<Word<'t>>,
    /// Parentheses that are open, and the line of the first. They only join lines, so a number is enough.
    open: u64,
    opened_at: u64,
}

impl<'t> ZoneFileEntries<'t> {
    pub(crate) fn new(text: &'t [u8]) -> Self {
        Self { rest: text, line: 1, words: Vec::new(), open: 0, opened_at: 0 }
    }

    /// The next entry that has words.
    pub(crate) fn next(&mut self) -> Result<Option<ZoneFileEntry<'_, 't>>, Mistake> {
        self.words.clear();
        let mut starts_blank = self.starts_blank();
        let mut is_joined = false;
        while let Some(byte) = self.rest.first() {
            let before = self.words.len();
            match byte {
                b'\n' => {
                    self.skip(1);
                    self.line += 1;
                    if self.open == 0 {
                        if !self.words.is_empty() {
                            let line = self.line - 1;
                            return Ok(Some(ZoneFileEntry {
                                words: &self.words,
                                starts_blank,
                                line,
                            }));
                        }
                        starts_blank = self.starts_blank();
                    }
                }
                b' ' | b'\t' | b'\r' => self.skip(1),
                b';' => {
                    let end = self.rest.iter().position(|byte| *byte == b'\n');
                    self.skip(end.unwrap_or(self.rest.len()));
                }
                b'(' => {
                    if self.open == 0 {
                        self.opened_at = self.line;
                    }
                    self.open += 1;
                    self.skip(1);
                }
                b')' => {
                    let closed = self.open.checked_sub(1);
                    self.open = closed.ok_or_else(|| {
                        self.mistake("a parenthesis is closed that was not opened")
                    })?;
                    self.skip(1);
                }
                b'"' => self.quoted(is_joined)?,
                _ => self.bare(is_joined)?,
            }
            is_joined = self.words.len() > before;
        }
        if self.open > 0 {
            let problem = "a parenthesis is opened here and never closed";
            return Err((self.opened_at, problem.to_owned()));
        }
        let line = self.line;
        Ok((!self.words.is_empty()).then_some(ZoneFileEntry {
            words: &self.words,
            starts_blank,
            line,
        }))
    }

    fn starts_blank(&self) -> bool {
        self.rest.first().is_some_and(|byte| matches!(byte, b' ' | b'\t'))
    }

    fn skip(&mut self, len: usize) {
        self.rest = self.rest.get(len..).unwrap_or_default();
    }

    fn mistake(&self, problem: &str) -> Mistake {
        (self.line, problem.to_owned())
    }

    /// Takes the quoted text that the rest begins with.
    fn quoted(&mut self, is_joined: bool) -> Result<(), Mistake> {
        let rest = self.rest.get(1..).unwrap_or_default();
        let mut len = 0;
        loop {
            len += match rest.get(len) {
                Some(b'"') => break,
                Some(b'\n') => {
                    return Err(self.mistake("a double quote is not closed on its line"));
                }
                Some(_) => self.character_len(&rest[len..])?,
                None => return Err(self.mistake("a double quote is not closed")),
            };
        }
        let (text, _) = rest.split_at(len);
        self.push(Word { text, is_quoted: true, is_joined, line: self.line })?;
        self.skip(len + 2);
        Ok(())
    }

    /// Takes the word that the rest begins with.
    fn bare(&mut self, is_joined: bool) -> Result<(), Mistake> {
        let rest = self.rest;
        let mut len = 0;
        while let Some(byte) = rest.get(len)
            && !ends_word(*byte)
        {
            len += self.character_len(&rest[len..])?;
        }
        let (text, _) = rest.split_at(len);
        self.push(Word { text, is_quoted: false, is_joined, line: self.line })?;
        self.skip(len);
        Ok(())
    }

    fn push(&mut self, word: Word<'t>) -> Result<(), Mistake> {
        if self.words.len() == MAX_WORDS {
            let problem = "one entry has more than 140000 words; is a parenthesis not closed?";
            return Err(self.mistake(problem));
        }
        self.words.push(word);
        Ok(())
    }

    /// The length of a character, which may be an escape.
    fn character_len(&self, rest: &[u8]) -> Result<usize, Mistake> {
        match rest {
            [b'\\', b'\n', ..] | [b'\\'] => {
                Err(self.mistake("the line ends in the middle of an escape"))
            }
            [b'\\', ..] => Ok(2),
            _ => Ok(1),
        }
    }
}

/// Whether a word is over before this character, unless it is escaped.
fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b';' | b'(' | b')' | b'"')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of each entry, with a blank before the first if it begins with one.
    fn cut(text: &str) -> Result<Vec<String>, Mistake> {
        let mut entries = ZoneFileEntries::new(text.as_bytes());
        let mut all = Vec::new();
        while let Some(entry) = entries.next()? {
            let word = |word: &Word<'_>| String::from_utf8_lossy(word.text).into_owned();
            let words: Vec<_> = entry.words.iter().map(word).collect();
            all.push(format!("{}{}", if entry.starts_blank { " " } else { "" }, words.join("|")));
        }
        Ok(all)
    }

    #[test]
    fn entries_are_lines_and_what_parentheses_join() {
        let text = "a b ; c \" (\n\n \t;\n  c ( d ; e )\n f (g) )h\r\ni";
        assert_eq!(cut(text).unwrap(), ["a|b", " c|d|f|g|h", "i"]);
        assert_eq!(cut("(a\nb)c\n").unwrap(), ["a|b|c"]);
        assert_eq!(cut("").unwrap(), [""; 0]);
    }

    #[test]
    fn quotes_and_escapes_hold_words_together() {
        assert_eq!(cut("a \"b;(c\" d\\ e\\\"f \"\\\"\"").unwrap(), ["a|b;(c|d\\ e\\\"f|\\\""]);
        assert_eq!(cut("a \"x\"y\"z\" w").unwrap(), ["a|x|y|z|w"]);
    }

    #[test]
    fn lines_and_joints_are_known() {
        let mut entries = ZoneFileEntries::new(b"\na (k=\"v\"\n k \"v\"\n)");
        let entry = entries.next().unwrap().unwrap();
        let seen: Vec<_> = entry.words.iter().map(|word| (word.line, word.is_joined)).collect();
        assert_eq!(seen, [(2, false), (2, false), (2, true), (3, false), (3, false)]);
        assert_eq!(entry.line, 4);
    }

    #[test]
    fn what_is_not_closed_is_told_where_it_opens() {
        let mistake = |text| cut(text).unwrap_err();
        assert_eq!(mistake("a\nb (\n(\n)\nc").0, 2);
        assert_eq!(mistake("a\n)").0, 2);
        assert_eq!(mistake("a\n\"b\nc\"").0, 2);
        assert_eq!(mistake("a\n\"b").1, "a double quote is not closed");
        assert_eq!(mistake("a\\\nb").1, "the line ends in the middle of an escape");
        assert_eq!(mistake("a\\").0, 1);
    }

    #[test]
    fn an_entry_has_a_bounded_number_of_words() {
        let text = "a ".repeat(MAX_WORDS);
        assert!(cut(&text).is_ok());
        assert!(cut(&format!("{text}a")).unwrap_err().1.contains("more than 140000 words"));
    }
}
