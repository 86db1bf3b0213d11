//! Checks of huge pages and of memory that may be locked.

use pmdns_config::ByteSize;
use pmdns_nics::machine::{USUAL_PAGE, huge_bytes};

use super::facts::Facts;
use super::finding::Finding;
use super::system::limit;

/// The capability that lifts the limit on locked memory (capabilities(7), `CAP_IPC_LOCK`).
const IPC_LOCK: u64 = 1 << 14;

/// vfio locks all memory that a device may reach.
pub(super) fn locked(facts: &Facts<'_>) -> Vec<Finding> {
    let Some(limit) = limit(facts, "Max locked memory") else { return Vec::new() };
    let capabilities = facts.tree.field("proc/self/status", "CapEff");
    let capabilities = capabilities.and_then(|text| u64::from_str_radix(&text, 16).ok());
    let finding = if limit == usize::MAX {
        Finding::ok("memlock", "any amount of memory may be locked")
    } else if capabilities.is_some_and(|set| set & IPC_LOCK != 0) {
        Finding::ok("memlock", "CAP_IPC_LOCK lifts the limit")
    } else {
        let found = format!(
            "{} may be locked, too little for devices that reach the frames",
            ByteSize(limit)
        );
        Finding::lacks(
            facts.has_pci(),
            "memlock",
            found,
            "`ulimit -l unlimited`, or LimitMEMLOCK=infinity in the systemd unit",
        )
    };
    vec![finding]
}

/// The pages of each node, and whether they suffice.
pub(super) fn huge_pages(facts: &Facts<'_>) -> Vec<Finding> {
    let is_needed = facts.has_argument("--no-huge").map(|without| !without);
    let nodes = by_node(facts);
    let there: usize = nodes.iter().map(|node| node.bytes).sum();
    let wanted = huge_bytes(facts.config);
    let told: Vec<String> = nodes.iter().map(|node| node.told.clone()).collect();
    let reserve = format!(
        "`sysctl -w vm.nr_hugepages={}`, and the same line in /etc/sysctl.d/",
        wanted.div_ceil(USUAL_PAGE)
    );
    let finding = if there == 0 {
        Finding::lacks(is_needed, "hugepages", "none are reserved", reserve)
    } else if is_needed == Some(true) && there < wanted {
        let found =
            format!("{}; frames and cache take about {}", told.join("; "), ByteSize(wanted));
        Finding::warn("hugepages", found, reserve)
    } else {
        Finding::ok("hugepages", told.join("; "))
    };
    let mut findings = vec![finding];
    if there > 0 && is_needed == Some(true) {
        findings.extend(empty_nodes(facts, &nodes, wanted));
    }
    findings
}

/// The EAL maps huge pages as files, unless it keeps them to itself.
pub(super) fn huge_page_mount(facts: &Facts<'_>) -> Vec<Finding> {
    let does_without =
        ["--no-huge", "--in-memory"].iter().any(|one| facts.has_argument(one) == Some(true));
    let is_needed = facts.config.map(|_| !does_without);
    let mounts = facts.tree.text("proc/self/mounts").unwrap_or_default();
    let mount = mounts.lines().map(|line| line.split(' ')).find_map(|mut words| {
        let folder = words.nth(1)?;
        (words.next()? == "hugetlbfs").then(|| folder.to_owned())
    });
    let mount_it = "`mkdir -p /dev/hugepages && mount -t hugetlbfs nodev /dev/hugepages`";
    vec![match mount {
        Some(folder) => Finding::ok("hugetlbfs", format!("is mounted at {folder}")),
        None => Finding::lacks(is_needed, "hugetlbfs", "is not mounted", mount_it),
    }]
}

/// The huge pages of one NUMA node.
struct Node {
    number: usize,
    bytes: usize,
    told: String,
}

fn by_node(facts: &Facts<'_>) -> Vec<Node> {
    let tree = &facts.tree;
    let node = |number: usize| {
        let folder = format!("sys/devices/system/node/node{number}/hugepages");
        let mut bytes = 0;
        let mut told = Vec::new();
        for size in tree.names(&folder) {
            let kibibytes =
                size.strip_prefix("hugepages-").and_then(|rest| rest.strip_suffix("kB"));
            let Some(kibibytes) = kibibytes.and_then(|text| text.parse::<usize>().ok()) else {
                continue;
            };
            let pages = tree.number(format!("{folder}/{size}/nr_hugepages")).unwrap_or(0);
            let free = tree.number(format!("{folder}/{size}/free_hugepages")).unwrap_or(0);
            if pages > 0 {
                bytes += pages.saturating_mul(kibibytes << 10);
                told.push(format!("{pages} of {}, {free} free", ByteSize(kibibytes << 10)));
            }
        }
        let told = if told.is_empty() { "none".to_owned() } else { told.join(" and ") };
        Node { number, bytes, told: format!("node {number}: {told}") }
    };
    tree.numbered("sys/devices/system/node", "node").into_iter().map(node).collect()
}

/// Nodes of data cores that have no huge pages although others do.
fn empty_nodes<'n>(
    facts: &'n Facts<'_>,
    nodes: &'n [Node],
    wanted: usize,
) -> impl Iterator<Item = Finding> + 'n {
    let cores = facts.data_cores();
    nodes.iter().filter(|node| node.bytes == 0).filter_map(move |Node { number, .. }| {
        let cpus = facts.tree.cpus(format!("sys/devices/system/node/node{number}/cpulist"));
        let core = cores.iter().find(|core| cpus.contains(core))?;
        let found = format!("node {number} has none, and CPU {core} polls there: its memory would be on another node");
        let pages = wanted.div_ceil(USUAL_PAGE);
        let folder = format!("/sys/devices/system/node/node{number}/hugepages/hugepages-2048kB");
        Some(Finding::warn("hugepages", found, format!("`echo {pages} > {folder}/nr_hugepages`")))
    })
}
