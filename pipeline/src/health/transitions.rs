//! Log lines about what stops answering and comes back: upstreams, and groups of them. The slow path tells of next hops itself.
//!
//! A line for each change, as far as a budget goes: what flaps cannot fill the log.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pmdns_engine::engine::Gauges;
use pmdns_engine::line_budget::LineBudget;

use super::GroupHealth;

/// How often the states are looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Something that answers or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Upstream,
    Group,
}

/// The states that were told last.
#[derive(Debug, Default)]
pub struct Transitions {
    answers: BTreeMap<(Kind, String), bool>,
    looked: Option<Instant>,
    budget: LineBudget,
}

impl Transitions {
    /// Looks at the states now and then, and logs what has changed.
    pub fn poll(
        &mut self,
        now: Instant,
        gauges: &Gauges,
        groups: impl FnOnce() -> Vec<GroupHealth>,
    ) {
        if self.looked.is_some_and(|looked| now.saturating_duration_since(looked) < LOOK) {
            return;
        }
        self.looked = Some(now);
        let mut states: Vec<((Kind, String), bool)> = Vec::new();
        for (_, slot) in gauges.upstreams.roster().in_use() {
            let name = format!("{} (group {})", slot.upstream.address, slot.upstream.group);
            states.push(((Kind::Upstream, name), slot.counters.snapshot().dead == 0));
        }
        for group in groups() {
            states.push(((Kind::Group, group.group), group.alive > 0));
        }
        for line in self.changes(now, states) {
            match line {
                (true, text) => tracing::info!("{text}"),
                (false, text) => tracing::warn!("{text}"),
            }
        }
    }

    /// The lines about what has changed, and whether each is good news.
    pub(super) fn changes(
        &mut self,
        now: Instant,
        states: Vec<((Kind, String), bool)>,
    ) -> Vec<(bool, String)> {
        let mut lines = Vec::new();
        if let Some(left_out) = self.budget.turn(now) {
            let told = format!("{left_out} more changes of upstreams and groups were not logged");
            lines.push((false, told));
        }
        let mut before = std::mem::take(&mut self.answers);
        for ((kind, name), answers) in states {
            // Everything is taken to answer until it is known not to.
            let answered = before.remove(&(kind, name.clone())).unwrap_or(true);
            if answered != answers && self.budget.has_room() {
                lines.push((answers, text(kind, &name, answers)));
            }
            self.answers.insert((kind, name), answers);
        }
        lines
    }
}

fn text(kind: Kind, name: &str, answers: bool) -> String {
    match (kind, answers) {
        (Kind::Upstream, false) => {
            format!(
                "upstream {name} does not answer, or only SERVFAIL, to a probe either: it is asked after all others"
            )
        }
        (Kind::Upstream, true) => format!("upstream {name} answers again"),
        (Kind::Group, false) => format!("no upstream of the group {name} answers"),
        (Kind::Group, true) => format!("the group {name} has an upstream that answers again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmdns_engine::line_budget::PERIOD;

    fn upstream(answers: bool) -> Vec<((Kind, String), bool)> {
        vec![((Kind::Upstream, "192.0.2.1:53".to_owned()), answers)]
    }

    #[test]
    fn each_change_is_told_once() {
        let (mut transitions, now) = (Transitions::default(), Instant::now());
        assert!(
            transitions.changes(now, upstream(true)).is_empty(),
            "it has answered from the start"
        );
        let told: Vec<bool> = [false, false, true, true]
            .into_iter()
            .flat_map(|answers| transitions.changes(now, upstream(answers)))
            .map(|(is_good, _)| is_good)
            .collect();
        assert_eq!(told, [false, true]);
    }

    #[test]
    fn what_flaps_cannot_fill_the_log_and_what_is_left_out_is_counted() {
        let (mut transitions, now) = (Transitions::default(), Instant::now());
        let lines: Vec<_> = (0..1000)
            .flat_map(|number| transitions.changes(now, upstream(number % 2 == 1)))
            .collect();
        assert_eq!(lines.len(), 20);
        let later = transitions.changes(now + PERIOD, upstream(false));
        assert!(later[0].1.starts_with("980 more changes"), "{later:?}");
        assert_eq!(later.len(), 2, "and the newest change has room again");
        assert!(transitions.changes(now + 2 * PERIOD, upstream(false)).is_empty(), "once");
    }

    #[test]
    fn what_has_left_the_configuration_is_forgotten() {
        let (mut transitions, now) = (Transitions::default(), Instant::now());
        transitions.changes(now, upstream(false));
        assert!(transitions.changes(now, Vec::new()).is_empty() && transitions.answers.is_empty());
    }
}
