//! The rules of `[eal]`: what DPDK would refuse.

use super::rules::{Mistakes, broken};
use crate::problem::Problem;
use crate::settings::Eal;

/// DPDK would take them for one, and print its manual.
const SEVERAL_ARGUMENTS: &str = "has several arguments in one text; write each as a \
    text of its own, as in [\"--no-huge\", \"-m\", \"256\"]";
/// Such a process has no memory and no devices of its own.
const SECONDARY_PROCESS: &str =
    "asks for a secondary process of DPDK, which serves nothing by itself; leave --proc-type out";
/// DPDK takes one or the other.
const NO_HUGE_IN_MEMORY: &str = "has --no-huge and --in-memory, which DPDK refuses together; \
    without hugepages write --no-shconf instead of --in-memory";

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
/// An option, whether a value of it is right, and what that is.
type Value = (&'static str, fn(&str) -> bool, &'static str);

/// Options whose values are known.
const VALUES: [Value; 3] = [
    ("--iova-mode", |value| ["pa", "va"].contains(&value), "`pa` or `va`"),
    (
        "--file-prefix",
        |value| !value.is_empty() && !value.contains(['/', '%']),
        "a name without `/`",
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

pub(super) fn check(eal: &Eal, found: &mut Mistakes) {
    for (index, argument) in eal.args.iter().enumerate() {
        let key = || format!("eal.args[{index}]");
        if argument.is_empty() {
            found.note(broken(key(), Problem::Empty("an argument, or leave the entry out")));
        }
        if argument.contains('\0') {
            found.note(broken(key(), Problem::ZeroByte));
        }
        if argument.contains(" -") {
            found.note(broken(key(), Problem::Dpdk(SEVERAL_ARGUMENTS.to_owned())));
        }
        if argument.starts_with('-') && !is_known(argument) {
            found.note(broken(key(), Problem::Dpdk(unknown(argument))));
        }
        let value = argument.strip_prefix("--proc-type").map(|rest| rest.trim_start_matches('='));
        let value = match value {
            Some("") => eal.args.get(index + 1).map(String::as_str),
            value => value,
        };
        if value == Some("secondary") {
            found.note(broken(key(), Problem::Dpdk(SECONDARY_PROCESS.to_owned())));
        }
    }
    for (name, is_right, what) in VALUES {
        let value = eal.option(name).filter(|(_, value)| !is_right(value));
        if let Some((index, value)) = value {
            let problem = format!("has `{value}` for {name}, which is {what}");
            found.note(broken(format!("eal.args[{index}]"), Problem::Dpdk(problem)));
        }
    }
    let has = |name: &str| eal.args.iter().any(|argument| argument == name);
    if has("--no-huge") && has("--in-memory") {
        found.note(broken("eal.args", Problem::Dpdk(NO_HUGE_IN_MEMORY.to_owned())));
    }
}
