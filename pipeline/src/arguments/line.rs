//! A request to the control socket: one line of words. The shell has parted the arguments already, so one with a blank or
//! a line end would be other words at the socket than its author meant.

use std::fmt::Display;

/// An argument cannot be a word of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
    /// The socket would take it for several words.
    #[error(
        "`{argument}` is one argument and has {character:?} in it; leave that out, or write two arguments"
    )]
    Character {
        /// The argument, escaped.
        argument: String,
        /// The character.
        character: char,
    },
    /// The socket would see nothing.
    #[error("an argument is empty; leave it out, or write a value")]
    Empty,
}

/// A request under way: its words, or the first of them that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line(Result<String, WordError>);

impl Line {
    /// A request that begins with these words.
    pub fn new(words: &str) -> Self {
        Self(Ok(words.to_owned()))
    }

    /// The same with one more word, of an argument.
    pub fn word(self, argument: impl Display) -> Self {
        let argument = argument.to_string();
        let no_word = |c: &char| c.is_whitespace() || c.is_control();
        match argument.chars().find(no_word) {
            Some(character) => self.or(no_word_of(&argument, character)),
            None if argument.is_empty() => self.or(WordError::Empty),
            None => self.and(&argument),
        }
    }

    /// The same with an argument that is the rest of the line, and may have blanks.
    pub fn rest(self, argument: impl Display) -> Self {
        let argument = argument.to_string();
        match argument.chars().find(|c| c.is_control() && *c != '\t') {
            Some(character) => self.or(no_word_of(&argument, character)),
            None => self.and(&argument),
        }
    }

    /// The same with an argument behind a word that says what it is, if there is one.
    pub fn option(self, word: &str, argument: Option<impl Display>) -> Self {
        match argument {
            Some(argument) => self.and(word).word(argument),
            None => self,
        }
    }

    /// The same with an argument, if there is one.
    pub fn maybe(self, argument: Option<impl Display>) -> Self {
        match argument {
            Some(argument) => self.word(argument),
            None => self,
        }
    }

    /// The same with each of these behind the word.
    pub fn each(self, word: &str, arguments: &[String]) -> Self {
        arguments.iter().fold(self, |line, argument| line.option(word, Some(argument)))
    }

    /// The same with a word of our own, if it is wanted.
    pub fn flag(self, word: &str, is_wanted: bool) -> Self {
        if is_wanted { self.and(word) } else { self }
    }

    /// The text of the request.
    ///
    /// # Errors
    ///
    /// The first argument that is no word.
    pub fn text(self) -> Result<String, WordError> {
        self.0
    }

    fn and(self, text: &str) -> Self {
        Self(self.0.map(|line| format!("{line} {text}")))
    }

    fn or(self, error: WordError) -> Self {
        Self(self.0.and(Err(error)))
    }
}

fn no_word_of(argument: &str, character: char) -> WordError {
    WordError::Character { argument: argument.escape_debug().to_string(), character }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_one_word_or_is_refused() {
        let block = |name: &str| Line::new("block").word(name).word("null").flag("suffix", true);
        assert_eq!(block("a.example").text().unwrap(), "block a.example null suffix");
        for name in ["a.example suffix", "a.example\nreload", "a\texample", "a\u{a0}b", "a\0", ""] {
            assert!(block(name).text().is_err(), "{name:?}");
        }
        let told = block("a.example\nreload").text().unwrap_err().to_string();
        assert!(
            told.starts_with("`a.example\\nreload` is one argument and has '\\n' in it"),
            "{told}"
        );
        let views = ["kids".to_owned(), "a b".to_owned()];
        assert!(Line::new("allow").each("view", &views).text().is_err());
        let line = Line::new("allow").each("view", &views[..1]).option("type", None::<&str>);
        assert_eq!(line.text().unwrap(), "allow view kids");
    }

    #[test]
    fn the_rest_of_a_line_may_have_blanks_but_no_line_end() {
        let add = |data: &str| Line::new("local add").word("a.lan").rest(data).text();
        assert_eq!(add("\"a  b\"").unwrap(), "local add a.lan \"a  b\"");
        assert!(add("x\nreload").is_err());
    }
}
