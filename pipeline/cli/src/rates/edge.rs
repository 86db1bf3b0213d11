//! Rates of clients over streams, and of packets for the kernel behind ports.

use pmdns_control::report::StreamReport;

use super::span::Span;

/// How clients over a transport were served.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamRate {
    /// The transport.
    pub transport: String,
    /// Connections that are open.
    pub open: u64,
    /// Connections accepted in a second.
    pub accepted: f64,
    /// Queries given to the line in a second.
    pub queries: f64,
    /// Connections and queries in a second that found no place.
    pub refused: f64,
}

/// The rate of one class of exceptions to the kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct PuntRate {
    /// The class.
    pub class: &'static str,
    /// Exceptions in a second that went to a TAP's thread.
    pub passed: f64,
    /// Exceptions in a second over a limit.
    pub limited: f64,
    /// Exceptions in a second that found the ring full.
    pub full: f64,
}

/// The classes of exceptions, with their counters.
const CLASSES: [(&str, [&str; 3]); 4] = [
    ("link", ["kernel_link", "kernel_link_limited", "kernel_link_full"]),
    ("control", ["kernel_control", "kernel_control_limited", "kernel_control_full"]),
    ("streams", ["kernel_streams", "kernel_streams_limited", "kernel_streams_full"]),
    ("rest", ["kernel_rest", "kernel_rest_limited", "kernel_rest_full"]),
];

/// What refuses connections and queries over streams.
const REFUSED: [&str; 5] = ["refused_full", "refused_prefix", "displaced", "no_room", "shed"];

impl Span<'_> {
    /// The transports that clients have come by.
    pub(super) fn streams(&self) -> Vec<StreamRate> {
        let refused = |of: &StreamReport| REFUSED.iter().map(|name| of.counter(name)).sum();
        let rate = |(index, later): (usize, &StreamReport)| {
            let earlier = self.earlier.streams.get(index).cloned().unwrap_or_default();
            let grown = |name| self.per_second(earlier.counter(name), later.counter(name));
            let rate = StreamRate {
                transport: later.transport.clone(),
                open: later.counter("open"),
                accepted: grown("accepted"),
                queries: grown("queries"),
                refused: self.per_second(refused(&earlier), refused(later)),
            };
            (later.counter("accepted") + refused(later) > 0).then_some(rate)
        };
        self.later.streams.iter().enumerate().filter_map(rate).collect()
    }

    /// What goes to the kernel, if a port has a TAP.
    pub(super) fn punts(&self) -> Vec<PuntRate> {
        let rate = |(class, counters): (&'static str, [&str; 3])| {
            let [passed, limited, full] =
                counters.map(|name| self.rate(|worker| worker.counter(name)));
            PuntRate { class, passed, limited, full }
        };
        if self.later.taps.is_empty() { Vec::new() } else { CLASSES.map(rate).into() }
    }
}

#[cfg(test)]
mod tests {
    use crate::rates::Rates;
    use pmdns_control::report::Report;
    use pmdns_control::testing as fixture;

    #[test]
    fn transports_that_were_used_and_classes_of_a_tap_have_rates() {
        let (earlier, later) = fixture::reports();
        let rates = Rates::between(&earlier, &later);
        let streams: Vec<_> = rates.streams.iter().map(|one| &*one.transport).collect();
        assert_eq!(streams, ["tcp"], "nobody came over TLS");
        let tcp = &rates.streams[0];
        assert_eq!((tcp.open, tcp.accepted, tcp.queries, tcp.refused), (7, 100.0, 1000.0, 2.0));
        let punts = rates.punts.iter().map(|one| (one.class, one.passed, one.limited, one.full));
        let punts: Vec<_> = punts.collect();
        assert_eq!(punts[1..3], [("control", 10.0, 0.0, 0.0), ("streams", 50.0, 10.0, 0.0)]);
        let without = Report { taps: Vec::new(), ..later };
        assert!(Rates::between(&earlier, &without).punts.is_empty());
    }
}
