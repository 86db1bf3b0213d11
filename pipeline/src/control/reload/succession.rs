//! How comes into use what this process cannot change: another process takes over, or an operator restarts pmdns.

use std::fmt::Display;

use pmdns_config::Config;

/// What keeps a process of the second configuration from taking over from one of the first.
pub type Obstacle = fn(&Config, &Config) -> Option<String>;

/// Why nobody takes over from a process without a keeper.
pub const NO_KEEPER: &str =
    "nobody starts the next process: a keeper does (--keeper), or whoever starts one beside this";

/// The most keys that are named when another process is needed for them.
const MAX_SHOWN: usize = 10;
const NEXT: &str = "the next process takes over";
const LOST: &str = "not all answers of the cache pass";

/// What another process needs to take over from this one.
#[derive(Clone, Debug)]
pub(super) struct Succession {
    /// Or why nobody can take over, whatever the file says.
    pub(super) obstacle: Result<Obstacle, String>,
    /// The [settings](Config::answers_basis) that answers depend on. A reload changes none of them.
    pub(super) answers_basis: String,
}

impl Succession {
    /// What follows if `next` is in the file, and `in_use` in this process.
    pub(super) fn to(&self, in_use: &Config, next: &Config) -> Successor {
        let obstacle = self.obstacle.as_ref().map(|obstacle| obstacle(in_use, next));
        if let Some(why) = obstacle.unwrap_or_else(|why| Some(why.clone())) {
            return Successor::Nobody(why);
        }
        // This process has the views of both by then, if it can have them.
        let views = match next.clone().following(in_use) {
            Ok(both) => both.scope_map(),
            Err(_) => in_use.scope_map(),
        };
        let has_all = next.answers_basis() == self.answers_basis && next.scope_map() == views;
        if has_all { Successor::Next } else { Successor::NextWithLoss }
    }
}

/// Who brings into use what this process cannot change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Successor {
    /// Another process, which takes over.
    Next,
    /// The same, to which not all answers of the cache pass.
    NextWithLoss,
    /// Nobody but an operator who restarts pmdns, and why.
    Nobody(String),
}

impl Successor {
    /// A sentence about changed keys that need another process, if there are some.
    pub(super) fn describe(&self, changed: &[String]) -> Option<String> {
        let (shown, others) = changed.split_at(changed.len().min(MAX_SHOWN));
        let mut keys = shown.join(", ");
        if !others.is_empty() {
            keys = format!("{keys} and {} more", others.len());
        }
        let sentence = match self {
            Self::Next => format!("{NEXT} with {keys}"),
            Self::NextWithLoss => format!("{NEXT} with {keys}; {LOST}"),
            Self::Nobody(why) => format!("restart for {keys}: {why}"),
        };
        (!changed.is_empty()).then_some(sentence)
    }

    /// How a configuration comes into use that this process cannot take over at all, because of `error`. An error: not by another
    /// process.
    pub(super) fn instead_of(&self, error: &impl Display) -> Result<String, String> {
        match self {
            Self::Next => Ok(format!("{NEXT}, because {error}")),
            Self::NextWithLoss => Ok(format!("{NEXT}, because {error}; {LOST}")),
            Self::Nobody(why) => Err(format!("{error}; restart pmdns: {why}")),
        }
    }
}
