//! The interface for the fuzzer (`bench/fuzz`): which replies are accepted. Only the fuzzer's build has it.

use pmdns_stages::miss::Miss;
use pmdns_stages::wire::name::Seed;

use crate::questions::question::Question;
use crate::upstreams::letter_case::LetterCase;
use crate::upstreams::query::{Query, ReplyKind};

/// A query that was sent upstream for a client.
#[derive(Debug)]
pub struct AskedQuery {
    question: Question,
    id: u16,
    letter_case: Option<LetterCase>,
    query: Query,
}

impl AskedQuery {
    /// The query for this miss. The bits of `letters` choose upper or lower case.
    pub fn new(miss: &Miss, seed: Seed, id: u16, letters: u64, edns: bool) -> Self {
        let (question, letter_case) = (Question::of(miss, seed), Some(LetterCase::new(letters)));
        let query = Query::new(&question, id, letter_case, edns);
        Self { question, id, letter_case, query }
    }

    /// The message as sent.
    pub fn message(&self) -> Vec<u8> {
        self.query.bytes().to_vec()
    }

    /// The message for an encrypted connection.
    pub fn padded(&self) -> Vec<u8> {
        self.query.padded()
    }

    /// Whether `reply` is accepted as its reply. If so, its kind is read as well.
    pub fn takes(&self, reply: &[u8]) -> bool {
        let taken = self.question.is_answered_by(self.id, self.letter_case, reply);
        assert!(
            !taken || self.question.is_answered_by(self.id, None, reply),
            "it is the same question"
        );
        if taken {
            let _ = ReplyKind::of(reply);
        }
        taken
    }
}
