//! The families of answers, of lists and certificates, and of the process.

use prometheus_client::registry::Unit;

use super::family::{Family, MetricKind};
use pmdns_control::report::{Named, Report};

/// Answers by rcode, type, transport and view, and what belongs to lists and certificates.
pub(super) fn answers(report: &Report) -> Vec<Family> {
    let answers = &report.answers;
    let lists = report.lists.iter();
    let modified = lists.clone().filter_map(|(name, list)| Some(([name.clone()], list.modified?)));
    vec![
        counted("rcode_answers", "Answers to clients by rcode.", &["rcode"], &answers.rcodes),
        counted(
            "qtype_answers",
            "Answers to clients by type asked for.",
            &["qtype"],
            &answers.qtypes,
        ),
        counted(
            "transport_answers",
            "Answers to clients by transport.",
            &["transport"],
            &answers.transports,
        ),
        counted("view_answers", "Answers to clients by view.", &["view"], &answers.views),
        Family::counter("list_hits", "Queries that a list or policy zone decided.", &["list"])
            .of(lists.map(|(name, list)| ([name.clone()], list.hits))),
        Family::gauge(
            "list_modified_timestamp",
            "When a list in use was written, or confirmed by its server, since 1970.",
            &["list"],
        )
        .in_unit(Unit::Seconds)
        .of(modified),
        Family::gauge(
            "certificate_expiry_timestamp",
            "When a certificate of ours expires, since 1970.",
            &["table"],
        )
        .in_unit(Unit::Seconds)
        .of(rows(&report.certificates)),
    ]
}

/// The metrics that client libraries of Prometheus export of their process.
pub(super) fn process(report: &Report) -> Vec<Family> {
    let process = &report.process;
    let gauge = |name, help| Family::of_process(MetricKind::Gauge, name, help);
    vec![
        Family::of_process(MetricKind::Counter, "cpu", "Time on CPUs, of all threads.")
            .in_unit(Unit::Seconds)
            .alone(process.cpu_seconds),
        gauge("resident_memory", "Memory in use, without huge pages.")
            .in_unit(Unit::Bytes)
            .alone(process.resident_bytes),
        gauge("virtual_memory", "Address space.").in_unit(Unit::Bytes).alone(process.virtual_bytes),
        gauge("virtual_memory_max", "The most address space that it may have; absent: no limit.")
            .in_unit(Unit::Bytes)
            .of(process.max_virtual_bytes.map(|bytes| ([], bytes))),
        gauge("open_fds", "File descriptors that are open.").alone(process.open_fds),
        gauge("max_fds", "The most file descriptors that it may have.").alone(process.max_fds),
        gauge("threads", "Threads.").alone(process.threads),
        gauge("start_time", "When it was started, since 1970.")
            .in_unit(Unit::Seconds)
            .alone(process.start_seconds),
    ]
}

fn counted(name: &str, help: &str, labels: &'static [&'static str], table: &Named) -> Family {
    Family::counter(name, help, labels).of(rows(table))
}

fn rows(table: &Named) -> impl Iterator<Item = ([String; 1], u64)> {
    table.iter().map(|(name, count)| ([name.clone()], *count))
}
