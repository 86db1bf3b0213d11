//! From families to the older text format of Prometheus, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>), and the choice between both formats.

use std::fmt::{self, Write as _};

use super::families::families;
use super::family::{Family, MetricKind, Value};
use pmdns_control::report::Report;

/// The content type of the text, for HTTP.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether this `Accept` header (RFC 9110 section 12.5.1) asks for OpenMetrics. Without it the older format is sent,
/// which people and `promtool check metrics` read.
pub fn wants_openmetrics(accept: &str) -> bool {
    let quality = |wanted: &[&str]| {
        let ranges = accept.split(',').filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let is_wanted = wanted.contains(&&*parts.next()?.to_ascii_lowercase());
            let quality = parts.find_map(|part| part.strip_prefix("q="));
            is_wanted.then(|| quality.map_or(Some(1.0), |text| text.parse().ok()).unwrap_or(0.0))
        });
        ranges.fold(0.0, f64::max)
    };
    let openmetrics = quality(&["application/openmetrics-text"]);
    openmetrics > 0.0 && openmetrics >= quality(&["text/plain", "text/*"])
}

/// The whole report as text.
pub fn encode(report: &Report) -> Result<String, fmt::Error> {
    let mut text = String::new();
    families(report).iter().try_for_each(|family| write_family(&mut text, family))?;
    Ok(text)
}

fn write_family(text: &mut String, family: &Family) -> fmt::Result {
    let name = family.exported_name();
    let kind = match family.kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge | MetricKind::Info => "gauge",
        MetricKind::Histogram => "histogram",
    };
    let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}")?;
    for (values, value) in &family.samples {
        let labels: Vec<String> =
            family.labels.iter().zip(values).map(|(label, value)| written(label, value)).collect();
        match value {
            _ if family.kind == MetricKind::Info => sample(text, &name, &labels, 1)?,
            Value::Count(count) => sample(text, &name, &labels, count)?,
            Value::Number(number) => sample(text, &name, &labels, number)?,
            Value::Distribution { sum, count, buckets } => {
                let mut so_far = 0;
                for (bound, count) in buckets {
                    so_far += count;
                    let bound = match bound.is_finite() {
                        true => bound.to_string(),
                        false => "+Inf".to_owned(),
                    };
                    let labels = [&labels[..], &[written("le", &bound)]].concat();
                    sample(text, &format!("{name}_bucket"), &labels, so_far)?;
                }
                sample(text, &format!("{name}_sum"), &labels, sum)?;
                sample(text, &format!("{name}_count"), &labels, count)?;
            }
        }
    }
    Ok(())
}

fn sample(
    text: &mut String,
    name: &str,
    labels: &[String],
    value: impl fmt::Display,
) -> fmt::Result {
    match labels {
        [] => writeln!(text, "{name} {value}"),
        labels => writeln!(text, "{name}{{{}}} {value}", labels.join(",")),
    }
}

/// A label with its escaped value.
fn written(label: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{label}=\"{value}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmdns_control::testing as fixture;

    #[test]
    fn d15_text_is_plain_unless_openmetrics_is_asked_for() {
        for plain in [
            "",
            "*/*",
            "text/plain",
            "text/plain;version=0.0.4",
            "application/openmetrics-text;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.5",
            "application/openmetrics-text;q=0",
        ] {
            assert!(!wants_openmetrics(plain), "{plain}");
        }
        for openmetrics in [
            "application/openmetrics-text",
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            "Application/OpenMetrics-Text; q=1.0, text/plain",
        ] {
            assert!(wants_openmetrics(openmetrics), "{openmetrics}");
        }
    }

    #[test]
    fn d15_every_sample_belongs_to_the_family_above_it() {
        let (_, mut report) = fixture::reports();
        report.upstreams[0].address = "a\"b\\c\nd".to_owned();
        let text = encode(&report).unwrap();
        let (mut family, mut kind) = ("", "");
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                (family, kind) = rest.split_once(' ').unwrap();
            } else if !line.starts_with('#') {
                let (sample, value) = line.rsplit_once(' ').unwrap();
                let name = sample.split('{').next().unwrap();
                let suffix =
                    name.strip_prefix(family).unwrap_or_else(|| panic!("{line} in {family}"));
                let allowed: &[&str] =
                    if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
                assert!(allowed.contains(&suffix), "{line} in {family}");
                value.parse::<f64>().unwrap_or_else(|_| panic!("no number in {line}"));
            }
        }
        for line in [
            "# TYPE pmdns_cache_hits_total counter\npmdns_cache_hits_total 1960000\n",
            "pmdns_build_info{version=\"1.2.3\"} 1\n",
            "pmdns_latency_seconds_bucket{answered_by=\"hit\",le=\"0.0000025\"} 1959000\n",
            "pmdns_latency_seconds_bucket{answered_by=\"hit\",le=\"+Inf\"} 1960000\n",
            "pmdns_latency_seconds_count{answered_by=\"hit\"} 1960000\n",
            "pmdns_upstream_queries_total{address=\"a\\\"b\\\\c\\nd\"} ",
        ] {
            assert!(text.contains(line), "no {line:?} in\n{text}");
        }
        assert!(!text.contains("# EOF") && !text.contains("# UNIT"));
    }
}
