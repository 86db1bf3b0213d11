//! The counters of pmdns, as its JSON has them. Where a counter stands in it is known only here.

use serde_json::Value;

/// Counters at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Stats(Value);

impl Stats {
    /// Reads the report of `pmdns stats --json` or of a stopped `pmdns run --json`.
    pub(crate) fn parse(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text:?}")))
    }

    /// A counter of clients over TCP.
    pub(crate) fn over_tcp(&self, name: &str) -> u64 {
        self.number(&format!("/streams/0/{name}"))
    }

    /// The number at a JSON pointer, which must exist.
    pub(crate) fn number(&self, pointer: &str) -> u64 {
        let value = self.0.pointer(pointer).and_then(Value::as_u64);
        value.unwrap_or_else(|| panic!("no number at {pointer} in {:#}", self.0))
    }

    /// The text at a JSON pointer; empty if there is none.
    pub(crate) fn text(&self, pointer: &str) -> String {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// A number of `totals`.
    pub(crate) fn total(&self, name: &str) -> u64 {
        self.number(&format!("/totals/{name}"))
    }

    /// How often a stage sent packets to `exit`, on all cores.
    pub(crate) fn exits(&self, stage: &str, exit: &str) -> u64 {
        self.each_exit(stage).filter(|(name, _)| *name == exit).map(|(_, count)| count).sum()
    }

    /// How many packets each stage let off the line, over all stages and cores.
    pub(crate) fn left_the_line(&self) -> u64 {
        let stages = pmdns_config::StageName::ALL.map(pmdns_config::StageName::name);
        let exits = stages.iter().flat_map(|stage| self.each_exit(stage));
        exits.filter(|(exit, _)| !stages.contains(exit)).map(|(_, count)| count).sum()
    }

    /// All exits of a stage, with their counts, core by core.
    pub(crate) fn each_exit(&self, stage: &str) -> impl Iterator<Item = (&str, u64)> {
        let pointer = format!("/stages/{stage}/exits");
        let workers = self.0["workers"].as_array().expect("a list of workers");
        workers
            .iter()
            .filter_map(move |worker| worker.pointer(&pointer)?.as_object())
            .flatten()
            .map(|(exit, count)| (exit.as_str(), count.as_u64().unwrap()))
    }

    /// Packets that each worker has parsed.
    pub(crate) fn received_by_worker(&self) -> Vec<u64> {
        let workers = self.0["workers"].as_array().expect("a list of workers");
        let exits = |worker: &Value| worker.pointer("/stages/parse/exits")?.as_object().cloned();
        let sum = |worker| exits(worker).iter().flatten().filter_map(|(_, n)| n.as_u64()).sum();
        workers.iter().map(sum).collect()
    }

    /// Frames that announce addresses and groups.
    pub(crate) fn announced(&self) -> u64 {
        let workers = self.0["workers"].as_array().map_or(&[][..], Vec::as_slice);
        workers.iter().filter_map(|worker| worker["announced"].as_u64()).sum()
    }

    /// Answers that cost no question to an upstream: found in the cache.
    pub(crate) fn cache_hits(&self) -> u64 {
        self.exits("lookup", "encode")
    }

    /// A number of the first port.
    pub(crate) fn port(&self, name: &str) -> u64 {
        self.number(&format!("/ports/0/{name}"))
    }

    /// A number of the slow path, over all its threads.
    pub(crate) fn slow_path(&self, name: &str) -> u64 {
        let threads = self.0["slow_path"].as_array().expect("a list of threads");
        threads.iter().map(|thread| thread[name].as_u64().expect(name)).sum()
    }

    /// A number of an upstream, counted from 0 as the config lists them.
    pub(crate) fn upstream(&self, index: usize, name: &str) -> u64 {
        self.number(&format!("/upstreams/{index}/{name}"))
    }

    /// Frames of the pool that somebody holds, RX queues among them.
    pub(crate) fn frames_in_use(&self) -> u64 {
        self.number("/frames/in_use")
    }

    /// Fails unless every frame that came in or was made is in exactly one counter (invariant 1 of
    /// docs/architecture.md).
    pub(crate) fn assert_balanced(&self) {
        let [received, made] = ["received", "made"].map(|name| self.total(name));
        let fates = ["transmitted", "dropped", "slow_path", "exceptions", "held"];
        let fates = fates.map(|name| self.total(name));
        assert_eq!(
            received + made,
            fates.iter().sum::<u64>(),
            "received + made = transmitted + dropped + slow_path + exceptions + held in {:#}",
            self.0
        );
    }

    /// The totals in one line.
    pub(crate) fn summary(&self) -> String {
        self.0["totals"].to_string()
    }
}
