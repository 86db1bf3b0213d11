//! The words of a record's data, taken one after the other.

use super::Problem;
use super::words::Word;

/// What is left of the words of a record's data.
pub(super) struct DataWords<'e, 't> {
    rest: &'e [Word<'t>],
    last: Option<&'e Word<'t>>,
    /// What names without a dot at their end are below.
    pub(super) origin: Option<&'e [u8]>,
}

impl<'e, 't> DataWords<'e, 't> {
    pub(super) fn new(words: &'e [Word<'t>], origin: Option<&'e [u8]>) -> Self {
        Self { rest: words, last: None, origin }
    }

    /// Takes a word; `what` says what it should be.
    pub(super) fn take(&mut self, what: &str) -> Result<&'e Word<'t>, Problem> {
        let Some((word, rest)) = self.rest.split_first() else {
            let place = self
                .last
                .map_or_else(|| "here".to_owned(), |last| format!("after {}", last.shown()));
            return Err(format!("{what} is missing {place}"));
        };
        (self.rest, self.last) = (rest, Some(word));
        Ok(word)
    }

    /// Takes a word, which should be UTF-8 as all that is no name nor text is.
    pub(super) fn take_text(&mut self, what: &str) -> Result<&'t str, Problem> {
        let word = self.take(what)?;
        std::str::from_utf8(word.text).map_err(|_| wrong(word, what))
    }

    /// Takes a word that `read` understands.
    pub(super) fn take_as<T>(
        &mut self,
        what: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Problem> {
        let word = self.take(what)?;
        std::str::from_utf8(word.text).ok().and_then(read).ok_or_else(|| wrong(word, what))
    }

    /// Takes the next word if it is like that.
    pub(super) fn take_if(&mut self, is: impl FnOnce(&Word<'t>) -> bool) -> Option<&'e Word<'t>> {
        let (word, rest) = self.rest.split_first()?;
        is(word).then(|| {
            (self.rest, self.last) = (rest, Some(word));
            word
        })
    }

    /// The number of words that are left.
    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }

    /// Takes all words that are left, as one.
    pub(super) fn take_joined(&mut self) -> Result<String, Problem> {
        let mut all = String::new();
        while let Some(word) = self.take_if(|_| true) {
            let text = std::str::from_utf8(word.text);
            all.push_str(text.map_err(|_| wrong(word, "text of ASCII"))?);
        }
        Ok(all)
    }

    /// Says that nothing is left, or what is too much.
    pub(super) fn end(&self) -> Result<(), Problem> {
        match self.rest.first() {
            None => Ok(()),
            Some(word) => Err(format!("{} is too much; leave it out", word.shown())),
        }
    }

    /// The line of the word that was taken last.
    pub(super) fn line(&self) -> Option<u64> {
        self.last.map(|word| word.line)
    }
}

/// Says that a word is not what it should be.
pub(super) fn wrong(word: &Word<'_>, what: &str) -> Problem {
    format!("{} is not {what}", word.shown())
}
