//! The rules of `[eal]`: what DPDK would refuse.

use super::rules::{Mistakes, broken};
use crate::problem::BrokenRule;
use crate::settings::EalSettings;

/// DPDK would take them for one, and print its manual.
const SEVERAL_ARGUMENTS: &str = "has several arguments in one text; write each as a \
    text of its own, as in [\"--no-huge\", \"-m\", \"256\"]";
/// Such a process has no memory and no devices of its own.
const SECONDARY_PROCESS: &str =
    "asks for a secondary process of DPDK, which serves nothing by itself; leave --proc-type out";
/// It would do so and end.
const MANUAL: &str = "asks for DPDK's manual; leave it out";

/// Options that DPDK refuses together (`eal_check_common_options`), and what to do.
const CONFLICTS: [(&str, &str, &str); 11] = [
    ("--no-huge", "--in-memory", "without hugepages write --no-shconf instead of --in-memory"),
    ("--no-huge", "--socket-mem", "without hugepages write -m"),
    ("--no-huge", "--huge-unlink", "leave --huge-unlink out"),
    ("--no-huge", "--huge-worker-stack", "leave --huge-worker-stack out"),
    ("--no-huge", "--match-allocations", "leave --match-allocations out"),
    ("-m", "--socket-mem", "leave one of them out"),
    ("--legacy-mem", "--in-memory", "leave one of them out"),
    ("--legacy-mem", "--match-allocations", "leave one of them out"),
    ("--legacy-mem", "--socket-limit", "leave one of them out"),
    ("--huge-unlink", "--match-allocations", "leave one of them out"),
    ("--huge-unlink", "--single-file-segments", "leave one of them out"),
];

/// The options of the EAL with one letter (DPDK 22.11 to 25.11, Linux guide, EAL parameters).
const LETTERS: &str = "abcdhlmnrsSv";
/// Those that are words.
const WORDS: [&str; 45] = [
    "allow",
    "base-virtaddr",
    "block",
    "coremask",
    "corelist",
    "create-uio-dev",
    "file-prefix",
    "force-max-simd-bitwidth",
    "help",
    "huge-dir",
    "huge-unlink",
    "huge-worker-stack",
    "in-memory",
    "iova-mode",
    "lcores",
    "legacy-mem",
    "log-color",
    "log-level",
    "log-timestamp",
    "main-lcore",
    "match-allocations",
    "mbuf-pool-ops-name",
    "no-hpet",
    "no-huge",
    "no-pci",
    "no-shconf",
    "no-telemetry",
    "numa-limit",
    "numa-mem",
    "pagesize-mem",
    "proc-type",
    "remap-lcore-ids",
    "service-corelist",
    "service-coremask",
    "single-file-segments",
    "socket-limit",
    "socket-mem",
    "syslog",
    "telemetry",
    "trace",
    "trace-bufsz",
    "trace-dir",
    "trace-mode",
    "vdev",
    "version",
];
/// More of them, which are rare.
const RARE: [&str; 4] = ["vfio-intr", "vfio-vf-token", "vmware-tsc-map", "master-lcore"];
/// The kinds of frame pools that DPDK has without hardware.
const POOLS: [&str; 9] = [
    "ring_mp_mc",
    "ring_sp_sc",
    "ring_mp_sc",
    "ring_sp_mc",
    "ring_mt_rts",
    "ring_mt_hts",
    "stack",
    "lf_stack",
    "bucket",
];
/// An option, whether a value of it is right, and what that is.
type Value = (&'static str, fn(&str) -> bool, &'static str);

/// Options whose values are known.
const VALUES: [Value; 5] = [
    ("--iova-mode", |value| ["pa", "va"].contains(&value), "`pa` or `va`"),
    (
        "--file-prefix",
        |value| !value.is_empty() && !value.contains(['/', '%']),
        "a name without `/`",
    ),
    (
        "--mbuf-pool-ops-name",
        |value| POOLS.contains(&value),
        "a kind of frame pool, as `ring_mp_mc`",
    ),
    (
        "--proc-type",
        |value| ["auto", "primary", "secondary"].contains(&value),
        "`auto` or `primary`",
    ),
    ("-m", |value| value.parse::<u32>().is_ok_and(|it| it > 0), "a number of MiB"),
];

/// Whether DPDK has an option of this name. A word may be shortened as long as it fits one option only.
fn is_known(argument: &str) -> bool {
    let Some(word) = argument.strip_prefix("--") else {
        return argument.chars().nth(1).is_some_and(|letter| LETTERS.contains(letter));
    };
    let word = word.split('=').next().unwrap_or_default();
    let mut words = WORDS.iter().chain(&RARE);
    !word.is_empty() && words.any(|known| known.starts_with(word))
}

fn unknown(argument: &str) -> String {
    format!(
        "has `{argument}`, and DPDK has no such option; see its guide, \"EAL parameters\", or leave it out"
    )
}

pub(super) fn check(eal: &EalSettings, found: &mut Mistakes) {
    for (index, argument) in eal.args.iter().enumerate() {
        let key = || format!("eal.args[{index}]");
        if argument.is_empty() {
            found.note(broken(key(), BrokenRule::Empty("an argument, or leave the entry out")));
        }
        if argument.contains('\0') {
            found.note(broken(key(), BrokenRule::ZeroByte));
        }
        if argument.contains(" -") {
            found.note(broken(key(), BrokenRule::Dpdk(SEVERAL_ARGUMENTS.to_owned())));
        }
        if ["-h", "--help"].contains(&argument.as_str()) {
            found.note(broken(key(), BrokenRule::Dpdk(MANUAL.to_owned())));
        }
        if argument.starts_with('-') && !is_known(argument) {
            found.note(broken(key(), BrokenRule::Dpdk(unknown(argument))));
        }
        let value = argument.strip_prefix("--proc-type").map(|rest| rest.trim_start_matches('='));
        let value = match value {
            Some("") => eal.args.get(index + 1).map(String::as_str),
            value => value,
        };
        if value == Some("secondary") {
            found.note(broken(key(), BrokenRule::Dpdk(SECONDARY_PROCESS.to_owned())));
        }
    }
    for (name, is_right, what) in VALUES {
        let value = eal.option(name).filter(|(_, value)| !is_right(value));
        if let Some((index, value)) = value {
            let problem = format!("has `{value}` for {name}, which is {what}");
            found.note(broken(format!("eal.args[{index}]"), BrokenRule::Dpdk(problem)));
        }
    }
    let has = |name: &str| {
        let of_it = |argument: &String| argument.split('=').next() == Some(name);
        eal.args.iter().any(of_it) || !name.starts_with("--") && eal.option(name).is_some()
    };
    for (one, other, remedy) in CONFLICTS.iter().filter(|(one, other, _)| has(one) && has(other)) {
        let problem = format!("has {one} and {other}, which DPDK refuses together; {remedy}");
        found.note(broken("eal.args", BrokenRule::Dpdk(problem)));
    }
}
