//! Checks of the kernel, the clock and the limits of the process.

use pmdns_config::descriptors;

use super::facts::Facts;
use super::finding::Finding;

/// The oldest kernel that DPDK 22.11 supports (its system requirements).
const OLDEST: (u32, u32) = (4, 14);
/// The first one with Landlock, by which pmdns gives up the file system.
const LANDLOCK: (u32, u32) = (5, 13);
/// Clocks that the kernel falls back to if it does not trust the TSC. Each reading takes a microsecond or so.
const SLOW_CLOCKS: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];

pub(super) fn kernel(facts: &Facts<'_>) -> Vec<Finding> {
    let Some(release) = facts.tree.text("proc/sys/kernel/osrelease") else { return Vec::new() };
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let update =
        "install a newer kernel: `apt-get install linux-image-amd64`, then restart the machine";
    let finding = if version < OLDEST {
        Finding::fail("kernel", format!("{release} is older than 4.14, which DPDK needs"), update)
    } else if version < LANDLOCK {
        Finding::warn(
            "kernel",
            format!("{release} has no Landlock (5.13), so pmdns keeps its files open to itself"),
            update,
        )
    } else {
        Finding::ok("kernel", release)
    };
    vec![finding]
}

/// Latencies and rates are measured by the TSC (Intel SDM volume 3, 18.17.1).
pub(super) fn clock(facts: &Facts<'_>) -> Vec<Finding> {
    // Other architectures than x86 have a timer of one rate, and no such flags.
    let Some(flags) = facts.tree.field("proc/cpuinfo", "flags") else { return Vec::new() };
    let is_invariant =
        ["constant_tsc", "nonstop_tsc"].iter().all(|flag| flags.split(' ').any(|one| one == *flag));
    let source = facts
        .tree
        .text("sys/devices/system/clocksource/clocksource0/current_clocksource")
        .unwrap_or_default();
    let finding = if SLOW_CLOCKS.contains(&&*source) {
        Finding::warn(
            "clock",
            format!("the kernel uses {source}, because it does not trust the TSC"),
            "`dmesg | grep -i tsc` says why; if it is firmware that only starts late, boot with tsc=reliable",
        )
    } else if !is_invariant {
        Finding::warn(
            "clock",
            "the TSC may change its rate: measured latencies may be wrong",
            "in a virtual machine hand the host's processor on: `-cpu host,+invtsc`",
        )
    } else {
        Finding::ok("clock", format!("the TSC is invariant; the kernel uses {source}"))
    };
    vec![finding]
}

pub(super) fn open_files(facts: &Facts<'_>) -> Vec<Finding> {
    let Some(limit) = limit(facts, descriptors::OPEN_FILES) else { return Vec::new() };
    let config = facts.config.cloned().unwrap_or_default();
    let needed = descriptors::needed(&config);
    if limit >= needed {
        return vec![Finding::ok(
            "files",
            format!("{} may be open, {needed} are needed", limit_text(limit)),
        )];
    }
    let found = format!(
        "{limit} may be open, but slowpath.max_pending = {} asks for {needed}",
        config.slowpath.max_pending
    );
    vec![Finding::warn(
        "files",
        found,
        format!("`ulimit -n {needed}`, or LimitNOFILE={needed} in the systemd unit"),
    )]
}

/// A soft limit of this process.
pub(super) fn limit(facts: &Facts<'_>, name: &str) -> Option<usize> {
    descriptors::soft_limit(&facts.tree.text("proc/self/limits")?, name)
}

fn limit_text(limit: usize) -> String {
    if limit == usize::MAX { "any number".to_owned() } else { limit.to_string() }
}
