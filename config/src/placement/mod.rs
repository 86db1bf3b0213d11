//! The line's vocabulary and order, and which core runs which stretch of it.

mod error;
mod lawful;

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

pub use error::PlacementError;
pub(crate) use lawful::check_placements;

use crate::nearest::nearest;

/// Declares the stages, with the names used in the config, the counters and the reports.
macro_rules! stages {
    ($($(#[doc = $text:literal])* $stage:ident = $name:literal,)*) => {
        /// A stage's place on the line. The order of the variants is the order of the line.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum StageName { $($(#[doc = $text])* $stage,)* }

        impl StageName {
            /// Every stage, in line order.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$stage,)*];

            /// How many stages the line has.
            pub const COUNT: usize = [$($name,)*].len();

            /// The name used in the config, the counters and the reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$stage => $name,)* }
            }
        }
    };
}

stages! {
    /// Is it for us, is it DNS, what does it ask.
    Parse = "parse",
    /// ARP, neighbour discovery and ping, so that others can find us.
    Neighbor = "neighbor",
    /// The clients that may ask.
    Acl = "acl",
    /// How fast they may ask.
    RateLimit = "ratelimit",
    /// An answer from the cache.
    Lookup = "lookup",
    /// Local records and blocked names; any other name is a miss.
    Policy = "policy",
    /// The answer, written into the frame the query came in.
    Encode = "encode",
}

impl StageName {
    /// Whether queries go round it: it is for other packets, which are sent there by name.
    pub const fn is_aside(self) -> bool {
        matches!(self, Self::Neighbor)
    }

    /// The stage called `name`, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }

    /// The stage after this one; none after the last.
    pub fn next(self) -> Option<Self> {
        Self::ALL.get(self as usize + 1).copied()
    }

    /// The stage before this one; none before the first.
    pub fn previous(self) -> Option<Self> {
        (self as usize).checked_sub(1).map(|index| Self::ALL[index])
    }
}

impl fmt::Display for StageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A contiguous run of stages, written `"lookup"` or `"parse..ratelimit"` (both ends included), or
/// `"all"` for the whole line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The first stage of the run.
    pub first: StageName,
    /// The last stage of the run.
    pub last: StageName,
}

impl Stretch {
    /// The whole line.
    pub const ALL: Self = Self { first: StageName::Parse, last: StageName::Encode };

    /// Whether `stage` belongs to the run.
    pub fn contains(self, stage: StageName) -> bool {
        self.first <= stage && stage <= self.last
    }

    /// The stages of the run, in line order.
    pub fn stages(self) -> impl Iterator<Item = StageName> {
        StageName::ALL.into_iter().filter(move |stage| self.contains(*stage))
    }
}

/// Why a text is no stretch of the line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StretchError {
    /// No stage has that name.
    #[error("there is no stage `{name}`{hint}; the line is {}", line())]
    Unknown {
        /// What was written.
        name: String,
        /// `, did you mean ...?` or nothing.
        hint: String,
    },
    /// The ends are the wrong way round.
    #[error("`{first}..{last}` runs against the line; write `{last}..{first}`")]
    Backwards {
        /// The end that was written first.
        first: StageName,
        /// The end that was written last.
        last: StageName,
    },
}

impl FromStr for Stretch {
    type Err = StretchError;

    fn from_str(text: &str) -> Result<Self, StretchError> {
        if text == "all" {
            return Ok(Self::ALL);
        }
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let (first, last) = (stage(first)?, stage(last)?);
        if last < first {
            return Err(StretchError::Backwards { first, last });
        }
        Ok(Self { first, last })
    }
}

impl fmt::Display for Stretch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ALL => f.write_str("all"),
            Self { first, last } if first == last => first.fmt(f),
            Self { first, last } => write!(f, "{first}..{last}"),
        }
    }
}

impl Serialize for Stretch {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// The stage that one end of a stretch names.
fn stage(name: &str) -> Result<StageName, StretchError> {
    let name = name.trim();
    StageName::from_name(name).ok_or_else(|| StretchError::Unknown {
        name: name.to_owned(),
        hint: match nearest(name, StageName::ALL.map(StageName::name)) {
            Some(meant) => format!(", did you mean `{meant}`?"),
            None => String::new(),
        },
    })
}

/// The stages as an operator reads them.
fn line() -> String {
    StageName::ALL.map(StageName::name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stages_are_listed_for_operators_in_the_order_of_the_line() {
        let page = include_str!("../../../docs/configuration.md");
        let words: Vec<&str> = page.split_whitespace().collect();
        let list = StageName::ALL.map(|stage| format!("`{stage}`")).join(", ");
        assert!(
            words.join(" ").contains(&list),
            "docs/configuration.md, [[placement]], lacks {list}"
        );
    }

    #[test]
    fn stretches_read_and_print_alike() {
        for text in ["all", "lookup", "parse..lookup", "policy..encode"] {
            assert_eq!(text.parse::<Stretch>().unwrap().to_string(), text);
        }
        assert_eq!("parse..encode".parse::<Stretch>().unwrap(), Stretch::ALL);
        assert_eq!("acl..acl".parse::<Stretch>().unwrap().to_string(), "acl");
    }

    #[test]
    fn a_misspelt_stage_is_answered_with_the_right_one() {
        let error = "parse..lookpu".parse::<Stretch>().unwrap_err().to_string();
        assert!(error.starts_with("there is no stage `lookpu`, did you mean `lookup`?"), "{error}");
        assert!(error.ends_with("parse, neighbor, acl, ratelimit, lookup, policy, encode"));
        let error = "cook".parse::<Stretch>().unwrap_err().to_string();
        assert!(!error.contains("did you mean"), "{error}");
    }

    #[test]
    fn a_stretch_runs_down_the_line() {
        let error = "policy..parse".parse::<Stretch>().unwrap_err().to_string();
        assert!(error.ends_with("write `parse..policy`"), "{error}");
    }

    #[test]
    fn a_stretch_lists_its_stages_in_order() {
        let stretch: Stretch = "acl..lookup".parse().unwrap();
        let stages: Vec<_> = stretch.stages().collect();
        assert_eq!(stages, [StageName::Acl, StageName::RateLimit, StageName::Lookup]);
    }

    #[test]
    fn the_line_is_walked_both_ways() {
        for pair in StageName::ALL.windows(2) {
            assert_eq!(pair[0].next(), Some(pair[1]));
            assert_eq!(pair[1].previous(), Some(pair[0]));
        }
        assert_eq!(StageName::Encode.next(), None);
        assert_eq!(StageName::Parse.previous(), None);
    }
}
