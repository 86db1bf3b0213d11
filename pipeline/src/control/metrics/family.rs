//! A family of metrics, before it is encoded.

use prometheus_client::registry::Unit;

/// A family of metrics: one name, one meaning, a sample for each set of labels.
#[derive(Debug)]
pub struct Family {
    /// Its name, without unit and suffix.
    pub name: String,
    /// Its meaning, a sentence.
    pub help: String,
    /// The kind of metric.
    pub kind: MetricKind,
    /// Its unit.
    pub unit: Option<Unit>,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// The labels' values, and the sample.
    pub samples: Vec<(Vec<String>, Value)>,
}

/// The kind of a family's metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
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
    /// A histogram. The counts of the buckets are not cumulative. The last upper bound is infinity.
    Distribution {
        /// Sum of the values.
        sum: f64,
        /// How many there were.
        count: u64,
        /// Upper bounds and counts.
        buckets: Vec<(f64, u64)>,
    },
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl Family {
    pub(super) fn counter(name: &str, help: &str, labels: &'static [&'static str]) -> Self {
        Self::new(MetricKind::Counter, name, help, labels)
    }

    pub(super) fn gauge(name: &str, help: &str, labels: &'static [&'static str]) -> Self {
        Self::new(MetricKind::Gauge, name, help, labels)
    }

    pub(super) fn new(
        kind: MetricKind,
        name: &str,
        help: &str,
        labels: &'static [&'static str],
    ) -> Self {
        Self { labels, ..Self::named(kind, format!("pmdns_{name}"), help) }
    }

    /// A family of the process, which has the name that client libraries of Prometheus give it.
    pub(super) fn of_process(kind: MetricKind, name: &str, help: &str) -> Self {
        Self::named(kind, format!("process_{name}"), help)
    }

    fn named(kind: MetricKind, name: String, help: &str) -> Self {
        let help = help.trim().to_owned();
        Self { name, help, kind, unit: None, labels: &[], samples: Vec::new() }
    }

    pub(super) fn in_unit(mut self, unit: Unit) -> Self {
        self.unit = Some(unit);
        self
    }

    /// With these samples.
    pub(super) fn of<L: Into<Vec<String>>, V: Into<Value>>(
        mut self,
        samples: impl IntoIterator<Item = (L, V)>,
    ) -> Self {
        let samples = samples.into_iter().map(|(labels, value)| (labels.into(), value.into()));
        self.samples.extend(samples);
        self
    }

    pub(super) fn alone(self, value: impl Into<Value>) -> Self {
        self.of([([], value)])
    }

    /// The name of its samples, for a histogram without `_bucket`, `_sum` and `_count`.
    pub fn exported_name(&self) -> String {
        let unit = self.unit.as_ref().map(|unit| format!("_{}", unit.as_str())).unwrap_or_default();
        let suffix = match self.kind {
            MetricKind::Counter => "_total",
            MetricKind::Info => "_info",
            MetricKind::Gauge | MetricKind::Histogram => "",
        };
        format!("{}{unit}{suffix}", self.name)
    }
}
