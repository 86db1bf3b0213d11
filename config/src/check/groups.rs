//! The rules of `[[group]]`, `[[forward]]` and `[health]`: which upstreams are asked for which names.

use std::collections::HashMap;

use super::rules::{Checked, Mistakes, at_most, broken, in_range, plain_name, unlike_earlier};
use crate::limits::{
    MAX_FORWARDS, MAX_IN_A_ROW, MAX_PARALLEL, MAX_PROBE_INTERVAL_MS, MAX_TIMEOUT_MS, MAX_UPSTREAMS,
    MAX_WEIGHT, MIN_PARALLEL, MIN_PROBE_INTERVAL_MS,
};
use crate::name::{NameError, readable, subtree_name};
use crate::problem::BrokenRule;
use crate::reserved::DEFAULT_GROUP;
use crate::settings::{Config, Forward, Group, HealthSettings, Strategy, Upstream};
use crate::views::group_of;

impl Forward {
    /// The zone in wire format, lower case.
    ///
    /// # Errors
    ///
    /// The zone is no name; a checked configuration has no such zone.
    pub fn wire_zone(&self) -> Result<Box<[u8]>, NameError> {
        subtree_name(&self.zone)
    }
}

pub(super) fn check(config: &Config, found: &mut Mistakes) {
    for (index, upstream) in config.upstreams.iter().enumerate() {
        found.note(plain_name(&format!("upstream[{index}].group"), &upstream.group));
        found.note(check_weight(config, index, upstream));
    }
    check_groups(config, found);
    check_forwards(config, found);
    check_use(config, found);
    check_health(&config.health, found);
}

fn check_weight(
    config: &Config,
    index: usize,
    Upstream { weight, group, .. }: &Upstream,
) -> Checked {
    let key = format!("upstream[{index}].weight");
    in_range(&key, *weight, 1, MAX_WEIGHT)?;
    if *weight == 1 || config.strategy_of(group) == Strategy::RoundRobin {
        return Ok(());
    }
    broken(key, BrokenRule::IdleWeight(*weight, group.clone()))
}

fn check_groups(config: &Config, found: &mut Mistakes) {
    found.note(at_most("group", "groups", config.groups.len(), MAX_UPSTREAMS));
    for (index, group) in config.groups.iter().enumerate() {
        let key = format!("group[{index}].name");
        found.note(has_members(config, &key, &group.name));
        let same = |other: &Group| other.name == group.name;
        let (path, name) = (|at| format!("group[{at}].name"), format!("`{}`", group.name));
        let fix = "describe each group once";
        found.note(unlike_earlier(&config.groups, index, same, path, name, fix));
        let key = format!("group[{index}].parallel");
        found.note(in_range(&key, group.parallel, MIN_PARALLEL, MAX_PARALLEL));
    }
}

/// The zone of a resolver's own names (RFC 9462), as it stands in a message. A length never looks like a letter, so a name
/// ends with it only at a label.
const RESOLVER_ARPA: &[u8] = b"\x08resolver\x04arpa\0";

fn check_forwards(config: &Config, found: &mut Mistakes) {
    found.note(at_most("forward", "zones", config.forwards.len(), MAX_FORWARDS));
    let mut zones: HashMap<_, Vec<usize>> = HashMap::new();
    for (index, forward) in config.forwards.iter().enumerate() {
        found.note(has_members(config, &format!("forward[{index}].group"), &forward.group));
        let key = format!("forward[{index}].zone");
        let zone = match forward.wire_zone() {
            Ok(zone) => zone,
            Err(error) => {
                found.note(broken(key, BrokenRule::Zone(error)));
                continue;
            }
        };
        let value = readable(&zone);
        if zone.ends_with(RESOLVER_ARPA) {
            found.note(broken(key, BrokenRule::NeverForwarded(value)));
            continue;
        }
        let set = config.view_set(&forward.views);
        let meets = |other: &&usize| set.meets(config.view_set(&config.forwards[**other].views));
        let earlier = zones.entry(zone).or_default();
        if let Some(first) = earlier.iter().find(meets) {
            let other = format!("forward[{first}].zone");
            let fix = "a zone has one group in each view";
            found.note(broken(key, BrokenRule::Twice { value, other, fix }));
        }
        earlier.push(index);
    }
}

/// Whether every name has an upstream, and every upstream has a name that it is asked for.
fn check_use(config: &Config, found: &mut Mistakes) {
    let roots = config.forwards.iter().filter(|forward| forward.zone == ".");
    let roots: Vec<_> = roots.map(|forward| config.view_set(&forward.views)).collect();
    let views = config.view_numbers().filter(|view| !roots.iter().any(|set| set.has(*view)));
    let rest: Vec<&str> = views.map(|view| group_of(view, &config.views)).collect();
    let has_default = config.upstreams.iter().any(|one| one.group == DEFAULT_GROUP);
    // If there is no upstream at all, that has been told.
    if rest.contains(&DEFAULT_GROUP) && !has_default && !config.upstreams.is_empty() {
        found.note(broken("upstream", BrokenRule::NoDefault));
    }
    for (index, upstream) in config.upstreams.iter().enumerate() {
        let group = &upstream.group;
        let is_asked = rest.contains(&&**group)
            || config.forwards.iter().any(|forward| forward.group == *group);
        if !is_asked {
            found.note(broken(
                format!("upstream[{index}].group"),
                BrokenRule::IdleGroup(group.clone()),
            ));
        }
    }
}

fn check_health(health: &HealthSettings, found: &mut Mistakes) {
    found.note(in_range("health.failures", health.failures, 1, MAX_IN_A_ROW));
    found.note(in_range("health.successes", health.successes, 1, MAX_IN_A_ROW));
    let (min, max) = (MIN_PROBE_INTERVAL_MS, MAX_PROBE_INTERVAL_MS);
    found.note(in_range("health.interval_ms", health.interval_ms, min, max));
    found.note(in_range("health.timeout_ms", health.timeout_ms, 1, MAX_TIMEOUT_MS));
    if health.silence_ms != 0 {
        found.note(in_range("health.silence_ms", health.silence_ms, min, max));
    }
}

pub(super) fn has_members(config: &Config, key: &str, group: &str) -> Checked {
    match config.upstreams.iter().any(|upstream| upstream.group == group) {
        true => Ok(()),
        false => broken(key, BrokenRule::EmptyGroup(group.to_owned())),
    }
}
