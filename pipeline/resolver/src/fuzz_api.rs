//! What the fuzzer may call (`bench/fuzz`): which replies are taken. Only its build has one.

use pmdns_stages::miss::Miss;
use pmdns_stages::wire::name::Seed;

use crate::questions::query::{Face, Query, Question};
use crate::upstreams::spelling::Spelling;

/// A query that was sent upstream for a client.
#[derive(Debug)]
pub struct Asked {
    question: Question,
    id: u16,
    spelling: Option<Spelling>,
    query: Query,
}

impl Asked {
    /// The query for this miss, its letters large or small as `letters` has them.
    pub fn new(miss: &Miss, seed: Seed, id: u16, letters: u64, edns: bool) -> Self {
        let (question, spelling) = (Question::of(miss, seed), Some(Spelling::new(letters)));
        let query = Query::new(&question, id, spelling, edns);
        Self { question, id, spelling, query }
    }

    /// What was sent.
    pub fn message(&self) -> Vec<u8> {
        self.query.bytes().to_vec()
    }

    /// What would be sent over an encrypted connection.
    pub fn padded(&self) -> Vec<u8> {
        self.query.padded()
    }

    /// Whether `reply` is taken for its reply. Then its face is looked at, too.
    pub fn takes(&self, reply: &[u8]) -> bool {
        let taken = self.question.is_answered_by(self.id, self.spelling, reply);
        assert!(
            !taken || self.question.is_answered_by(self.id, None, reply),
            "it is the same question"
        );
        if taken {
            let _ = Face::of(reply);
        }
        taken
    }
}
