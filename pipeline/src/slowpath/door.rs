//! A door for the fuzzer (`bench/fuzz`): which replies are taken. Only its build has one.

use pmdns_stages::miss::Miss;
use pmdns_stages::wire::name::Seed;

use super::query::{Face, Query, Question};

/// A query that was sent upstream for a client.
#[derive(Debug)]
pub struct Asked {
    question: Question,
    id: u16,
    query: Query,
}

impl Asked {
    /// The query for this miss.
    pub fn new(miss: &Miss, seed: Seed, id: u16, edns: bool) -> Self {
        let question = Question::of(miss, seed);
        let query = Query::new(&question, id, edns);
        Self { question, id, query }
    }

    /// What was sent.
    pub fn message(&self) -> Vec<u8> {
        self.query.bytes().to_vec()
    }

    /// Whether `reply` is taken for its reply. Then its face is looked at, too.
    pub fn takes(&self, reply: &[u8]) -> bool {
        let taken = self.question.is_answered_by(self.id, reply);
        if taken {
            let _ = Face::of(reply);
        }
        taken
    }
}
