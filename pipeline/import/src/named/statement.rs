//! A statement of named.conf.

use crate::draft::Draft;
use crate::source::{Origin, SettingPosition};

/// A statement: words, and the statements of its blocks.
#[derive(Clone, Default)]
pub(super) struct Statement {
    pub(super) words: Vec<String>,
    pub(super) block: Option<Vec<Statement>>,
    /// Where in the block those of a second block begin, as behind `except-from`.
    pub(super) second: Option<usize>,
    pub(super) place: SettingPosition,
}

impl Statement {
    /// The word at this place; empty if there is none.
    pub(super) fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }

    /// The word behind `word`.
    pub(super) fn behind(&self, word: &str) -> Option<&str> {
        let at = self.words.iter().position(|other| other == word)?;
        self.words.get(at + 1).map(String::as_str)
    }

    /// The options behind the first `from` words, each with its value.
    pub(super) fn pairs(&self, from: usize) -> impl Iterator<Item = (&str, &str)> {
        let words = self.words.get(from..).unwrap_or_default();
        words.chunks(2).map(|pair| (&*pair[0], pair.get(1).map_or("", |value| value)))
    }

    pub(super) fn block(&self) -> &[Self] {
        self.block.as_deref().unwrap_or_default()
    }

    /// The last statement in the block that begins with `word`.
    pub(super) fn find(&self, word: &str) -> Option<&Self> {
        self.block().iter().rfind(|one| one.word(0) == word)
    }

    pub(super) fn origin(&self) -> Origin {
        let block = if self.block.is_some() { " { ... }" } else { "" };
        Origin::new(self.place, &format!("{}{block}", self.words.join(" ")))
    }

    /// Notes the statements that no others are in: each of them has to be read.
    pub(super) fn note_parsed(&self, draft: &mut Draft) {
        match self.block() {
            [] => draft.parsed(&self.origin()),
            inside => inside.iter().for_each(|one| one.note_parsed(draft)),
        }
    }

    /// All of it has been read, or has no meaning.
    pub(super) fn note_read(&self, draft: &mut Draft) {
        match self.block() {
            [] => draft.read(&self.origin()),
            inside => inside.iter().for_each(|one| one.note_read(draft)),
        }
    }
}
