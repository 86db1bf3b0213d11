//! Checks of the CPUs that poll: nothing else runs there, they do not slow down, and their memory is near.

use std::collections::BTreeMap;

use pmdns_config::Idle;

use super::facts::Facts;
use super::finding::Finding;
use super::tree::{list, named};

/// The longest that a CPU may take to wake up, in microseconds.
const MAX_WAKE_UP_US: usize = 20;
/// Where the kernel shows CPUs.
const CPUS: &str = "sys/devices/system/cpu";

pub(super) fn isolated(facts: &Facts<'_>) -> Vec<Finding> {
    let isolated = facts.tree.cpus(format!("{CPUS}/isolated"));
    let cores = facts.data_cores();
    let shared: Vec<usize> =
        cores.iter().copied().filter(|core| !isolated.contains(core)).collect();
    if shared.is_empty() {
        return vec![Finding::ok(
            "isolated",
            format!("nothing but pmdns is scheduled on {}", named(&cores)),
        )];
    }
    let (found, all) =
        (format!("other programs may run where pmdns polls: {}", named(&shared)), list(&cores));
    let fix = format!(
        "add `isolcpus={all} nohz_full={all} rcu_nocbs={all}` to GRUB_CMDLINE_LINUX in /etc/default/grub, \
         `update-grub`, restart the machine"
    );
    vec![Finding::warn("isolated", found, fix)]
}

/// CPUs that share a core with one that polls take part of its speed.
pub(super) fn siblings(facts: &Facts<'_>) -> Vec<Finding> {
    let cores = facts.data_cores();
    let isolated = facts.tree.cpus(format!("{CPUS}/isolated"));
    let asked: &[usize] = facts.config.map_or(&[], |config| &config.slowpath.cores);
    let mut findings = Vec::new();
    for core in &cores {
        let siblings = facts.tree.cpus(format!("{CPUS}/cpu{core}/topology/thread_siblings_list"));
        for other in siblings.into_iter().filter(|other| other != core) {
            let (found, fix) = if cores.contains(&other) || asked.contains(&other) {
                if cores.contains(&other) && other < *core {
                    continue; // Told already, from the other one's side.
                }
                (
                    format!("CPU {core} and CPU {other} share a core, and pmdns uses both"),
                    "name CPUs of different cores (`lscpu -e`)".to_owned(),
                )
            } else if isolated.contains(&other) {
                continue;
            } else {
                (
                    format!(
                        "CPU {core} polls, and shares its core with CPU {other}, where other programs run"
                    ),
                    format!(
                        "`echo 0 > /sys/devices/system/cpu/cpu{other}/online`, or isolate it too"
                    ),
                )
            };
            findings.push(Finding::warn("siblings", found, fix));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok(
            "siblings",
            format!("no other CPU in use shares a core with {}", named(&cores)),
        ));
    }
    findings
}

pub(super) fn governor(facts: &Facts<'_>) -> Vec<Finding> {
    let mut slow: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for core in facts.data_cores() {
        let governor = facts.tree.text(format!("{CPUS}/cpu{core}/cpufreq/scaling_governor"));
        if let Some(governor) = governor.filter(|one| one != "performance") {
            slow.entry(governor).or_default().push(core);
        }
    }
    if slow.is_empty() {
        return vec![Finding::ok("governor", "the kernel does not slow down CPUs that poll")];
    }
    let warn = |(governor, cores): (String, Vec<usize>)| {
        let fix = format!("`cpupower -c {} frequency-set -g performance`", list(&cores));
        Finding::warn("governor", format!("`{governor}` on {}", named(&cores)), fix)
    };
    slow.into_iter().map(warn).collect()
}

/// A CPU that spins never sleeps. One that waits for packets may sleep too deeply.
pub(super) fn idle_states(facts: &Facts<'_>) -> Vec<Finding> {
    let sleepers = match facts.config {
        Some(config) if !config.placements.is_empty() => {
            let groups = config.placements.iter().filter(|group| group.idle == Idle::Adaptive);
            groups.flat_map(|group| group.cores.clone()).collect()
        }
        _ => facts.data_cores(),
    };
    let deep = |core: &usize| {
        let folder = format!("{CPUS}/cpu{core}/cpuidle");
        facts.tree.names(&folder).iter().any(|state| {
            let number = |name| facts.tree.number(format!("{folder}/{state}/{name}")).unwrap_or(0);
            number("latency") > MAX_WAKE_UP_US && number("disable") == 0
        })
    };
    let slow: Vec<usize> = sleepers.into_iter().filter(deep).collect();
    if slow.is_empty() {
        return vec![Finding::ok(
            "c-states",
            format!("CPUs that poll wake up within {MAX_WAKE_UP_US} us"),
        )];
    }
    let found = format!("{} may take more than {MAX_WAKE_UP_US} us to wake up", named(&slow));
    let fix = format!(
        "`cpupower -c {} idle-set -D {MAX_WAKE_UP_US}`, or `idle = \"spin\"` in [[placement]]",
        list(&slow)
    );
    vec![Finding::warn("c-states", found, fix)]
}

/// Ports and the CPUs that poll them should be on one NUMA node.
pub(super) fn numa(facts: &Facts<'_>) -> Vec<Finding> {
    let nodes = facts.tree.numbered("sys/devices/system/node", "node");
    if nodes.len() < 2 {
        return vec![Finding::ok("numa", "all memory is equally near")];
    }
    let of_core =
        |core: usize| facts.tree.numbered(format!("{CPUS}/cpu{core}"), "node").first().copied();
    let mut findings = Vec::new();
    for (name, address) in facts.pci_ports() {
        let Some(node) = facts.tree.number(format!("sys/bus/pci/devices/{address}/numa_node"))
        else {
            continue;
        };
        let far = |core: &usize| of_core(*core).is_some_and(|other| other != node);
        let far: Vec<usize> = facts.data_cores().into_iter().filter(far).collect();
        if far.is_empty() {
            findings.push(Finding::ok(
                "numa",
                format!("port {name} and the CPUs that poll it are on node {node}"),
            ));
            continue;
        }
        let near = facts
            .tree
            .text(format!("sys/devices/system/node/node{node}/cpulist"))
            .unwrap_or_default();
        let found = format!(
            "port {name} is on node {node}, but {} polls it from another node",
            named(&far)
        );
        findings.push(Finding::warn(
            "numa",
            found,
            format!("in [[placement]] write `cores` of {near}"),
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::ok("numa", format!("{} nodes, and no PCI port", nodes.len())));
    }
    findings
}
