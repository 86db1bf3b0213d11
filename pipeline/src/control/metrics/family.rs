//! A family of metrics, before it is encoded.

use prometheus_client::registry::Unit;

/// A family of metrics: one name, one meaning, a sample for each set of labels.
#[derive(Debug)]
pub struct Family {
    /// Its name, without unit and suffix.
    pub name: String,
    /// Its meaning, a sentence.
    pub help: String,
    /// What kind of metric it is.
    pub kind: Kind,
    /// What it is measured in.
    pub unit: Option<Unit>,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// The labels' values, and the sample.
    pub samples: Vec<(Vec<String>, Value)>,
}

/// What kind of metric a family is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only goes up.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
    /// Nothing but labels.
    Info,
}

/// A sample.
#[derive(Debug)]
pub enum Value {
    /// A whole number.
    Count(u64),
    /// Any number.
    Number(f64),
    /// A histogram: counts of their own for each upper bound, infinity last.
    Distribution {
        /// Sum of the values.
        sum: f64,
        /// How many there were.
        count: u64,
        /// Upper bounds and counts.
        buckets: Vec<(f64, u64)>,
    },
}

impl Family {
    pub(super) fn new(kind: Kind, name: &str, help: &str, labels: &'static [&'static str]) -> Self {
        let (name, help) = (format!("pmdns_{name}"), help.trim().to_owned());
        Self { name, help, kind, unit: None, labels, samples: Vec::new() }
    }

    pub(super) fn in_unit(mut self, unit: Unit) -> Self {
        self.unit = Some(unit);
        self
    }

    /// With these samples.
    pub(super) fn of<L: Into<Vec<String>>>(
        mut self,
        samples: impl IntoIterator<Item = (L, Value)>,
    ) -> Self {
        self.samples.extend(samples.into_iter().map(|(labels, value)| (labels.into(), value)));
        self
    }

    pub(super) fn alone(self, value: Value) -> Self {
        self.of([([], value)])
    }

    /// The name its samples have, a histogram's without `_bucket`, `_sum` and `_count`.
    pub fn exported_name(&self) -> String {
        let unit = self.unit.as_ref().map(|unit| format!("_{}", unit.as_str())).unwrap_or_default();
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        format!("{}{unit}{suffix}", self.name)
    }
}
