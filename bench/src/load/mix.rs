//! The kinds of traffic, and how much of each.

use std::str::FromStr;

/// How many kinds there are.
pub const KINDS: usize = 5;
/// The largest weight of a kind.
const MAX_WEIGHT: u32 = 1_000_000;

/// What a query is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A name of the list, asked for in the warm-up: the server has the answer.
    Hit,
    /// A name that exists and was never asked for before.
    Miss,
    /// A name that does not exist, one of a few, asked for in the warm-up.
    Nxdomain,
    /// A frame that is no proper query.
    Malformed,
    /// A name that does not exist and was never asked for before.
    RandomPrefix,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; KINDS] =
        [Self::Hit, Self::Miss, Self::Nxdomain, Self::Malformed, Self::RandomPrefix];

    /// How it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Nxdomain => "nxdomain",
            Self::Malformed => "malformed",
            Self::RandomPrefix => "random-prefix",
        }
    }

    /// Its place in a table by kind.
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }

    /// Whether each query asks for a name of its own.
    #[inline]
    pub fn is_fresh(self) -> bool {
        matches!(self, Self::Miss | Self::RandomPrefix)
    }
}

/// The weight of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    weights: [u32; KINDS],
}

/// Why a text is no mix.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MixError {
    /// Not `kind=weight`.
    #[error("`{0}` is not kind=weight; write for example hit=90,miss=10")]
    Form(String),
    /// No such kind.
    #[error("there is no kind `{0}`; the kinds are hit, miss, nxdomain, malformed, random-prefix")]
    Kind(String),
    /// A kind stands twice.
    #[error("`{0}` stands twice; write each kind once")]
    Twice(String),
    /// Not a number, or too large.
    #[error("the weight `{0}` is not a whole number up to {MAX_WEIGHT}")]
    Weight(String),
    /// Nothing to ask.
    #[error("all weights are zero; give at least one kind a weight")]
    Nothing,
}

impl Mix {
    /// Queries for the list only.
    pub const HITS: Self = Self { weights: [1, 0, 0, 0, 0] };

    /// The weight of a kind.
    pub fn weight(&self, kind: Kind) -> u32 {
        self.weights[kind.index()]
    }

    /// The weights in the order of the kinds' numbers.
    pub fn weights(&self) -> [u32; KINDS] {
        self.weights
    }
}

impl FromStr for Mix {
    type Err = MixError;

    fn from_str(text: &str) -> Result<Self, MixError> {
        let mut weights = [None; KINDS];
        for part in text.split(',') {
            let part = part.trim();
            let (name, weight) =
                part.split_once('=').ok_or_else(|| MixError::Form(part.to_owned()))?;
            let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
            let kind = kind.ok_or_else(|| MixError::Kind(name.to_owned()))?;
            let number = weight.parse().ok().filter(|weight| *weight <= MAX_WEIGHT);
            let number = number.ok_or_else(|| MixError::Weight(weight.to_owned()))?;
            if weights[kind.index()].replace(number).is_some() {
                return Err(MixError::Twice(name.to_owned()));
            }
        }
        let weights = weights.map(Option::unwrap_or_default);
        if weights == [0; KINDS] { Err(MixError::Nothing) } else { Ok(Self { weights }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_read() {
        let mix: Mix = "hit=90,miss=5, nxdomain=3,malformed=1,random-prefix=1".parse().unwrap();
        assert_eq!(mix.weights(), [90, 5, 3, 1, 1]);
        assert_eq!("hit=1".parse(), Ok(Mix::HITS));
        let flood: Mix = "malformed=7".parse().unwrap();
        assert_eq!((flood.weight(Kind::Malformed), flood.weight(Kind::Hit)), (7, 0));
    }

    #[test]
    fn what_is_wrong_with_a_mix_is_said() {
        for (text, error) in [
            ("hit", MixError::Form("hit".into())),
            ("", MixError::Form(String::new())),
            ("hits=1", MixError::Kind("hits".into())),
            ("hit=1,hit=2", MixError::Twice("hit".into())),
            ("hit=-1", MixError::Weight("-1".into())),
            ("hit=1000001", MixError::Weight("1000001".into())),
            ("hit=0,miss=0", MixError::Nothing),
        ] {
            assert_eq!(text.parse::<Mix>(), Err(error), "{text}");
        }
    }
}
