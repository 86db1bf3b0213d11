//! Heavy hitters, floods, and limits on zones: calls and their answers.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::listings::until_restart_mark;

/// The most rows of one answer.
pub const MAX_ROWS: usize = 1000;

/// The tables of heavy hitters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Hitter {
    /// Names that are asked for.
    #[default]
    Names,
    /// Clients that ask.
    Clients,
    /// Zones with answers that a name does not exist.
    Nxdomain,
    /// Names that are blocked.
    Blocked,
    /// Zones without an answer from upstream.
    Failing,
}

impl Hitter {
    /// Each of them.
    pub const ALL: [Self; 5] =
        [Self::Names, Self::Clients, Self::Nxdomain, Self::Blocked, Self::Failing];
}

/// For how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum Window {
    /// The last whole second.
    #[serde(rename = "1s")]
    Second,
    /// The last minute.
    #[default]
    #[serde(rename = "1m")]
    Minute,
    /// The last hour.
    #[serde(rename = "1h")]
    Hour,
}

/// Which of those that come most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct HittersQuery {
    /// The table.
    #[param(required = false, inline)]
    pub what: Hitter,
    /// For how long.
    #[param(required = false, inline)]
    pub window: Window,
    /// How many at most.
    #[param(required = false, minimum = 1, maximum = 1000, default = 20)]
    pub n: usize,
}

impl Default for HittersQuery {
    fn default() -> Self {
        Self { what: Hitter::default(), window: Window::default(), n: 20 }
    }
}

/// A limit on a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitOrder {
    /// The zone: names in it that the cache cannot answer are limited.
    #[schema(example = "example.com")]
    pub zone: String,
    /// Misses a second; 0: none.
    #[schema(maximum = 1000000)]
    pub rate: u32,
    /// Seconds after which the limit ends; absent: when it is lifted, or the instance stops if it is not kept.
    #[schema(minimum = 1, maximum = 2678400)]
    pub seconds: Option<u32>,
}

/// Those that come most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Hitters)]
pub struct HitterTable {
    /// The table.
    pub what: Hitter,
    /// Seconds that the window has by now, the one under way not among them.
    pub seconds: u64,
    /// How much was counted in all.
    pub total: u64,
    /// No count is more than this too high, and whatever is not in the table was counted no more often.
    pub error: u64,
    /// One in so many answered packets is counted, with so much weight. Over 1 a count of those is an estimate, with a
    /// standard error of the square root of count times sample.
    pub sample: u32,
    /// Those that come most, the first most of all.
    pub rows: Vec<HitterRow>,
}

/// One of those that come most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HitterRow {
    /// The name, zone or address.
    pub key: String,
    /// It was counted no more often.
    pub count: u64,
    /// It was counted no more than this less often.
    pub error: u64,
}

/// Flooded zones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Floods {
    /// In the order of their names.
    pub floods: Vec<FloodRow>,
}

/// A zone with many different misses of which few have an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FloodRow {
    /// The zone.
    pub zone: String,
    /// For how many seconds it has been flooded.
    pub seconds: u64,
    /// Different names in the last second over the bounds, about.
    pub names: u64,
    /// Misses in that second.
    pub misses: u64,
    /// Misses in that second with an answer.
    pub answered: u64,
}

/// Limits on zones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Limits)]
pub struct LimitTable {
    /// In the order in which they were made.
    pub limits: Vec<LimitRow>,
}

/// A limit on a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitRow {
    /// The zone.
    pub zone: String,
    /// Misses a second.
    pub rate: u32,
    /// Seconds until it ends; absent: when it is lifted, or the instance stops if it is not kept.
    pub seconds_left: Option<u64>,
    /// Misses that were let through.
    pub passed: u64,
    /// Misses that were not.
    pub refused: u64,
    /// Who asked for it.
    pub by: String,
    /// Whether it ends with the process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_restart: bool,
}

macro_rules! named {
    ($($type:ident { $($variant:ident = $name:literal,)* })*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $name,)* })
            }
        }

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($name => Ok(Self::$variant),)*
                    _ => Err(format!("`{text}` is none of{}", concat!($(" ", $name),*))),
                }
            }
        }
    )*};
}

named! {
    Hitter {
        Names = "names",
        Clients = "clients",
        Nxdomain = "nxdomain",
        Blocked = "blocked",
        Failing = "failing",
    }
    Window {
        Second = "1s",
        Minute = "1m",
        Hour = "1h",
    }
}

impl fmt::Display for HitterTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, seconds, total, error, sample, .. } = self;
        write!(
            f,
            "{:>12} {:>10}  {what}, {total} in {seconds} s, at most {error} too high",
            "count", "too high"
        )?;
        if *sample > 1 {
            write!(f, "; of answers one in {sample} is counted")?;
        }
        writeln!(f)?;
        self.rows.iter().try_for_each(|HitterRow { key, count, error }| {
            writeln!(f, "{count:>12} {error:>10}  {key}")
        })
    }
}

impl fmt::Display for Floods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.floods.is_empty() {
            return writeln!(f, "no zone is flooded");
        }
        writeln!(
            f,
            "{:>10} {:>10} {:>10} {:>8}  zone",
            "names/s", "misses/s", "answered/s", "since"
        )?;
        self.floods.iter().try_for_each(|FloodRow { zone, seconds, names, misses, answered }| {
            writeln!(f, "{names:>10} {misses:>10} {answered:>10} {seconds:>6} s  {zone}")
        })
    }
}

impl fmt::Display for LimitTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.limits.is_empty() {
            return writeln!(f, "no zone is limited");
        }
        writeln!(
            f,
            "{:>10} {:>12} {:>12} {:>10}  zone (by)",
            "misses/s", "passed", "refused", "ends in"
        )?;
        self.limits.iter().try_for_each(|limit| {
            let LimitRow { zone, rate, seconds_left, passed, refused, by, until_restart } = limit;
            let end = until_restart_mark(*until_restart);
            let left = seconds_left.map_or_else(|| "-".to_owned(), |left| format!("{left} s"));
            writeln!(f, "{rate:>10} {passed:>12} {refused:>12} {left:>10}  {zone} ({by}{end})")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_table_says_that_it_is_empty() {
        assert_eq!(Floods::default().to_string(), "no zone is flooded\n");
        assert_eq!(LimitTable::default().to_string(), "no zone is limited\n");
    }
}
