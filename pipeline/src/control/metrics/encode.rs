//! From families to OpenMetrics text (<https://prometheus.io/docs/specs/om/open_metrics_spec/>).

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::families::families;
use super::family::{Family, MetricKind, Value};
use pmdns_control::report::Report;

/// The content type of the text, for HTTP.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The whole report as OpenMetrics text, its end marked.
pub fn encode(report: &Report) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(families(report))));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

/// The families to encode.
#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in &self.0 {
            let kind = match family.kind {
                MetricKind::Counter => MetricType::Counter,
                MetricKind::Gauge => MetricType::Gauge,
                MetricKind::Histogram => MetricType::Histogram,
                MetricKind::Info => MetricType::Info,
            };
            let unit = family.unit.as_ref();
            // The encoder escapes labels, but leaves the help as it is.
            let help = family.help.replace('\\', "\\\\").replace('"', "\\\"");
            let mut metric = encoder.encode_descriptor(&family.name, &help, unit, kind)?;
            for (labels, value) in &family.samples {
                let labels: Vec<(&str, &str)> =
                    family.labels.iter().copied().zip(labels.iter().map(String::as_str)).collect();
                match family.kind {
                    // An info metric has only labels.
                    MetricKind::Info => metric.encode_info(&labels)?,
                    kind if labels.is_empty() => encode_value(&mut metric, kind, value)?,
                    kind => encode_value(&mut metric.encode_family(&labels)?, kind, value)?,
                }
            }
        }
        Ok(())
    }
}

fn encode_value(
    metric: &mut MetricEncoder<'_>,
    kind: MetricKind,
    value: &Value,
) -> Result<(), fmt::Error> {
    match (kind, value) {
        (MetricKind::Counter, Value::Count(count)) => {
            metric.encode_counter::<NoLabelSet, _, f64>(count, None)
        }
        (MetricKind::Counter, Value::Number(number)) => {
            metric.encode_counter::<NoLabelSet, _, f64>(number, None)
        }
        (_, Value::Count(count)) => metric.encode_gauge(count),
        (_, Value::Number(number)) => metric.encode_gauge(number),
        (_, Value::Distribution { sum, count, buckets }) => {
            metric.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
        }
    }
}
