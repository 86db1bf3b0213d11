//! The tables of rates over time, of the cache, of answers by rcode and type, of clients over streams, and of the kernel behind
//! ports.

use std::collections::VecDeque;

use ratatui::style::Color;

use super::panel::{Column, Panel};
use super::text::{amount, per_second, percent};
use crate::rates::{AnswerRate, PuntRate, Rates, StreamRate};

/// Rates that are kept for sparklines, at most.
const KEPT: usize = 120;
/// Rows of rcodes and of types, at most.
const MOST_KINDS: usize = 8;
/// Names of the rates over time.
const NAMES: [&str; 5] = ["received", "answered", "hits", "misses", "dropped"];

/// The rates of the last screens.
#[derive(Clone, Debug, Default)]
pub(super) struct History(VecDeque<[f64; NAMES.len()]>);

impl History {
    /// Adds the newest.
    pub(super) fn add(&mut self, rates: &Rates) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        let answered = rates.rcodes.iter().map(|one| one.rate).sum();
        self.0.push_back([rates.received, answered, rates.hits, rates.misses, rates.dropped]);
    }

    /// The table of sparklines, if there is anything to compare.
    pub(super) fn panel(&self) -> Option<Panel> {
        let newest = self.0.back().filter(|_| self.0.len() > 1)?;
        let of = |index: usize| self.0.iter().map(move |rates| rates[index]);
        let highest = (0..NAMES.len()).map(|index| of(index).fold(0.0, f64::max));
        let columns = vec![
            Column::texts("rates", NAMES.iter().map(|name| (*name).to_owned())),
            Column::numbers("now", newest.iter().map(|rate| per_second(*rate))),
            Column::numbers("highest", highest.map(per_second)).rank(1),
            Column::sparklines((0..NAMES.len()).map(|index| of(index).collect()), Color::Blue),
        ];
        Some(Panel::new("over time", columns))
    }
}

/// The cache.
pub(super) fn cache(rates: &Rates) -> Panel {
    let cache = &rates.cache;
    let ratio = rates.hit_ratio();
    let rows = [
        ("entries", amount(cache.entries as f64), 0.0),
        ("full", percent(cache.fill), cache.fill),
        ("hit ratio", ratio.map_or_else(|| "-".to_owned(), percent), ratio.unwrap_or(0.0)),
        ("inserted", per_second(cache.inserted), 0.0),
        ("evicted", per_second(cache.evicted), 0.0),
        ("expired given", per_second(cache.stale), 0.0),
    ];
    let columns = vec![
        Column::texts("", rows.iter().map(|row| row.0.to_owned())),
        Column::bars(rows.iter().map(|row| row.2), Color::Green),
        Column::numbers("now", rows.iter().map(|row| row.1.clone())),
    ];
    Panel::new("cache", columns)
}

/// The most frequent answers in words, for small terminals.
pub(super) fn brief(rates: &Rates) -> Vec<String> {
    let kinds = rates.rcodes.iter().take(2).chain(rates.qtypes.iter().take(3));
    let mut words: Vec<String> =
        kinds.map(|one| format!("{} {}", one.kind.to_uppercase(), percent(one.share))).collect();
    if !words.is_empty() {
        words.insert(0, "answers:".to_owned());
    }
    words
}

/// Answers by rcode.
pub(super) fn rcodes(rates: &Rates) -> Panel {
    kinds("answers by rcode", "rcode", &rates.rcodes)
}

/// Answers by type.
pub(super) fn qtypes(rates: &Rates) -> Panel {
    kinds("answers by type", "type", &rates.qtypes)
}

fn kinds(title: &'static str, head: &'static str, kinds: &[AnswerRate]) -> Panel {
    let kinds = &kinds[..kinds.len().min(MOST_KINDS)];
    let columns = vec![
        Column::texts(head, kinds.iter().map(|one| one.kind.to_uppercase())),
        Column::bars(kinds.iter().map(|one| one.share), Color::Magenta),
        Column::numbers("share", kinds.iter().map(|one| percent(one.share))),
        Column::numbers("now", kinds.iter().map(|one| per_second(one.rate))).rank(1),
    ];
    Panel::new(title, columns)
}

/// Clients over streams, if any have come.
pub(super) fn streams(rates: &[StreamRate]) -> Option<Panel> {
    let columns = vec![
        Column::texts("over", rates.iter().map(|one| one.transport.clone())),
        Column::numbers("open", rates.iter().map(|one| one.open.to_string())),
        Column::numbers("new", rates.iter().map(|one| per_second(one.accepted))).rank(1),
        Column::numbers("queries", rates.iter().map(|one| per_second(one.queries))),
        Column::alarms("refused", rates.iter().map(|one| one.refused)),
    ];
    (!rates.is_empty()).then(|| Panel::new("streams", columns))
}

/// Rates of exceptions to the kernel by class, if a port has a TAP.
pub(super) fn punts(rates: &[PuntRate]) -> Option<Panel> {
    let columns = vec![
        Column::texts("class", rates.iter().map(|one| one.class.to_owned())),
        Column::numbers("passed", rates.iter().map(|one| per_second(one.passed))),
        Column::alarms("limited", rates.iter().map(|one| one.limited)),
        Column::alarms("full", rates.iter().map(|one| one.full)).rank(1),
    ];
    (!rates.is_empty()).then(|| Panel::new("to the kernel", columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_has_a_bound_and_needs_two_rates() {
        let mut history = History::default();
        let rates = |received| Rates { received, ..Rates::default() };
        history.add(&rates(1.0));
        assert!(history.panel().is_none());
        (0..1000).for_each(|received| history.add(&rates(f64::from(received))));
        assert_eq!(history.0.len(), KEPT);
        assert_eq!((history.0[0][0], history.0[KEPT - 1][0]), (880.0, 999.0));
        assert!(history.panel().is_some());
    }
}
