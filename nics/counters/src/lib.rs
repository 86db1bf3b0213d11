//! What is counted. It lies below all who count, and below those who only read: reports, metrics, the command line.
//!
//! The macro [`counters!`](crate::counters!) declares tables of counters. Each counter stands in one line, with its kind, below
//! the sentence of its meaning. Reports, metrics and their documentation are made of that line.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a test stops at what it does not expect, and its numbers are small"
    )
)]

mod histogram;
pub mod occupancy;
mod totals;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

pub use histogram::{Histogram, PublishedHistogram};
pub use occupancy::{Occupancy, RingGauge};
pub use totals::Totals;

/// Counters by name, as reports have them. A counter that is not there is zero: an older instance does not know it.
pub type Named = BTreeMap<String, u64>;

/// A table of counters by name.
pub fn by_name(counted: impl IntoIterator<Item = Counted>) -> Named {
    counted.into_iter().map(|one| (one.name.to_owned(), one.value)).collect()
}

/// A counter of a table, as reports want it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Its name.
    pub name: &'static str,
    /// The count.
    pub value: u64,
    /// Whether it goes down as well.
    pub is_gauge: bool,
    /// Its meaning, in sentences.
    pub meaning: &'static str,
}

/// Declares a table of counters. With two names, the first is a table of atomics that anybody may read while it is
/// written. The second is its plain image, which serde knows.
///
/// ```
/// pmdns_counters::counters! {
///     /// Counters of a door.
///     Door {
///         /// Times it was opened.
///         opened: counter,
///         /// Guests inside.
///         inside: gauge,
///     }
/// }
/// let door = Door { opened: 3, inside: 1 };
/// assert_eq!(door.named().map(|one| (one.name, one.value, one.is_gauge)), [("opened", 3, false), ("inside", 1, true)]);
/// ```
#[macro_export]
macro_rules! counters {
    (
        $(#[doc = $live_text:literal])* $live:ident,
        $(#[$plain_attribute:meta])* $plain:ident {
            $($(#[doc = $text:literal])* $name:ident: $kind:ident,)*
        }
    ) => {
        $(#[doc = $live_text])*
        #[derive(Debug, Default)]
        pub struct $live { $($(#[doc = $text])* pub $name: ::std::sync::atomic::AtomicU64,)* }

        $crate::counters! {
            $(#[$plain_attribute])*
            #[derive(::serde::Serialize, ::serde::Deserialize)]
            #[serde(default)]
            $plain { $($(#[doc = $text])* $name: $kind,)* }
        }

        impl $live {
            /// Reads every counter. They are read one after another, so sums of them are exact only
            /// while nothing is counted.
            pub fn snapshot(&self) -> $plain {
                $plain { $($name: self.$name.load(::std::sync::atomic::Ordering::Relaxed),)* }
            }
        }
    };
    (
        $(#[$attribute:meta])* $plain:ident {
            $($(#[doc = $text:literal])* $name:ident: $kind:ident,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $plain { $($(#[doc = $text])* pub $name: u64,)* }

        impl $plain {
            /// How many counters there are.
            pub const COUNT: usize = [$(stringify!($name),)*].len();

            /// The counters in order, with what is known of them.
            pub fn named(&self) -> [$crate::Counted; Self::COUNT] {
                [$($crate::Counted {
                    name: stringify!($name),
                    value: self.$name,
                    is_gauge: $crate::counters!(@is_gauge $kind),
                    meaning: concat!($($text,)*),
                },)*]
            }

            /// The counts, in order.
            pub fn values(&self) -> [u64; Self::COUNT] {
                [$(self.$name,)*]
            }

            /// The table of these values, in order.
            pub fn from_values(mut values: impl Iterator<Item = u64>) -> Self {
                Self { $($name: values.next().unwrap_or(0),)* }
            }
        }
    };
    (@is_gauge counter) => { false };
    (@is_gauge gauge) => { true };
}

/// Counts one.
#[inline]
pub fn count(counter: &AtomicU64) {
    add(counter, 1);
}

/// Counts so many.
#[inline]
pub fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

/// Lowers a gauge by one.
#[inline]
pub fn lower(gauge: &AtomicU64) {
    gauge.fetch_sub(1, Ordering::Relaxed);
}
