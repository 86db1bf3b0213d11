//! A statement of named.conf.

use crate::import::source::{Origin, Place};

/// A statement: words, and the statements of its blocks.
#[derive(Clone, Default)]
pub(super) struct Statement {
    pub(super) words: Vec<String>,
    pub(super) block: Option<Vec<Statement>>,
    pub(super) place: Place,
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
}
