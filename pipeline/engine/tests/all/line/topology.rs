//! What is planned from the CPUs there are: the process's CPU set decides, and nothing else is believed.

use pmdns_config::StageName;
use pmdns_engine::testing::config;
use pmdns_engine::topology::{Topology, TopologyError};
use pmdns_nics::{Nic, PortFacts, Rss, memory};
use proptest::prelude::*;

fn facts(queues: u16) -> [PortFacts; 1] {
    let (nic, _, _) = memory::link("p0", 0, queues, 64);
    [nic.facts().clone()]
}

fn plan(more: &str, available: &[usize]) -> Result<Topology, TopologyError> {
    Topology::plan(&config(more), &facts(8), available)
}

fn cores(topology: &Topology) -> Vec<usize> {
    topology.workers.iter().map(|worker| worker.core).collect()
}

#[test]
fn trap_23_one_cpu_is_enough() {
    let topology = plan("", &[0]).expect("one CPU is enough");
    assert_eq!(cores(&topology), [0]);
    let stages = topology.workers[0].stages;
    assert_eq!((stages.first, stages.last), (StageName::Parse, StageName::Encode));
    assert_eq!(topology.slow_path_shards, 1, "which shares the CPU");
    // The only CPU of a container need not be number 0.
    assert_eq!(cores(&plan("", &[5]).expect("one CPU is enough")), [5]);
}

#[test]
fn cores_that_resolve_have_a_shard_each() {
    let topology =
        plan("[[placement]]\ncores = [1, 3]\nresolver = true\n", &[0, 1, 3]).expect("a plan");
    assert_eq!((topology.slow_path_shards, topology.cores_resolve), (2, true));
    let answered_by: Vec<usize> = topology.workers.iter().map(|one| one.answered_by).collect();
    assert_eq!(answered_by, [0, 1], "each sends the answers to its own misses");
    let printed = topology.to_string();
    assert!(printed.contains("slow path  2 shard(s), turned by the workers"), "{printed}");
    let apart = plan("[[placement]]\ncores = [1, 3]\n[slowpath]\nthreads = 3\n", &[0, 1, 3]);
    let apart = apart.expect("a plan");
    assert_eq!((apart.slow_path_shards, apart.cores_resolve), (3, false));
    assert!(apart.to_string().contains("slow path  3 thread(s)"), "{apart}");
}

#[test]
fn trap_23_smt_siblings_and_gaps_are_the_operator_s_to_choose() {
    // Siblings are numbered 0 and 1 on some machines, 0 and 4 on others: a placement means the CPUs it says.
    for pair in [[0, 1], [0, 4], [1, 3]] {
        let text = format!("[[placement]]\ncores = [{}, {}]\n", pair[0], pair[1]);
        assert_eq!(cores(&plan(&text, &[0, 1, 3, 4]).expect("all are there")), pair);
    }
    let text = "[[placement]]\nstages = \"parse..ratelimit\"\ncores = [6]\n\
        [[placement]]\nstages = \"lookup..encode\"\ncores = [2]\n";
    assert_eq!(cores(&plan(text, &[2, 6]).expect("all are there")), [6, 2]);
}

#[test]
fn trap_23_a_cpu_outside_the_cpu_set_is_refused_by_name() {
    // The machine may well have a CPU 1: this process may not run on it.
    let error = plan("[[placement]]\ncores = [0, 1]\n", &[0, 2]).expect_err("CPU 1 is not ours");
    assert_eq!(error, TopologyError::NoSuchCore { core: 1, available: vec![0, 2] });
    let text = error.to_string();
    assert!(
        text.contains("core 1") && text.contains("[0, 2]") && text.contains("`cores`"),
        "{text}"
    );
}

#[test]
fn bound_b4_limits_need_a_port_that_keeps_a_client_on_one_core() {
    let [facts] = facts(8);
    let plan = |more: &str, keeps_clients| {
        let facts = [PortFacts { keeps_clients, ..facts.clone() }];
        Topology::plan(&config(more), &facts, &[0, 1, 2, 3])
    };
    let shards = "[[placement]]\ncores = [1, 2]\n";
    let queries = "[ratelimit]\nqueries_per_second = 5\n";
    let misses = "[ratelimit]\nmiss_queries_per_second = 5\n";
    for limits in [queries, misses] {
        let refused = plan(&format!("{shards}{limits}"), false).expect_err("not exact").to_string();
        assert!(
            refused.contains("`p0`") && refused.contains("ratelimit.per_core = true"),
            "{refused}"
        );
        assert!(plan(&format!("{shards}{limits}"), true).is_ok(), "RSS by address");
        assert!(plan(&format!("{shards}{limits}per_core = true\n"), false).is_ok(), "accepted");
        assert!(plan(limits, false).is_ok(), "one core");
    }
    assert!(plan(shards, false).is_ok(), "no limits");
    let rss = |more: &str| plan(more, true).map(|topology| topology.ports[0].rss);
    assert_eq!(
        rss(&format!("{shards}{queries}")),
        Ok(Rss::Clients),
        "limits want clients on one core"
    );
    assert_eq!(rss(shards), Ok(Rss::Flows), "without limits one busy client may spread");
    assert_eq!(rss(queries), Ok(Rss::None), "one queue");
    let told = plan(shards, true).expect("a plan").to_string();
    assert!(told.contains("port p0  2 RX queues  RSS by addresses and UDP ports"), "{told}");
    let behind = "[[placement]]\nstages = \"parse..acl\"\ncores = [0, 1]\n\
        [[placement]]\nstages = \"ratelimit..encode\"\ncores = [2]\n";
    assert!(plan(&format!("{behind}{queries}"), false).is_ok(), "one core limits");
}

proptest! {
    /// Whatever CPUs there are, numbered however, nothing is planned on any other.
    #[test]
    fn trap_23_any_cpu_set_is_kept_to(set in proptest::collection::btree_set(0usize..1024, 1..64)) {
        let available: Vec<usize> = set.iter().copied().collect();
        let topology = plan("", &available).expect("there is a CPU");
        prop_assert_eq!(cores(&topology), [available[available.len() - 1]]);
        let shards = available.iter().take(8).map(usize::to_string).collect::<Vec<_>>().join(", ");
        let topology = plan(&format!("[[placement]]\ncores = [{shards}]\n"), &available);
        let manned = cores(&topology.expect("all are there"));
        prop_assert!(manned.iter().all(|core| set.contains(core)));
        prop_assert_eq!(manned.len(), available.len().min(8));
    }
}
