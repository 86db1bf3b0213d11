//! A trace on a rig, for tests.

use pmdns_config::Config;
use pmdns_control::lookup::RuleReport;
use pmdns_control::trace::{PacketSearch, TraceReport};
use pmdns_engine::testing::Rig;
use pmdns_nics::Burst;
use pmdns_stages::testing::query;

use super::filter::{MAX_TIME, Selection};
use super::recorder::PacketRecord;
use super::session::Session;
use super::trace::{DEFAULT_PACKETS, Facts, Trace, TracedQuestion};

/// Finds rules.
pub type Finder = Box<dyn FnMut(&TracedQuestion<'_>, &[PacketRecord]) -> Option<RuleReport>>;

/// A trace of queries for these names. `finder` finds rules for the rig.
pub fn traced(
    search: PacketSearch,
    config: &Config,
    names: &[&str],
    finder: impl FnOnce(&Rig) -> Finder,
) -> TraceReport {
    let mut rig = Rig::new(config);
    rig.learn(&query("hit.example. A"), &[(0, 1, 86_400, vec![192, 0, 2, 1])]);
    let selection = Selection::try_from(search).expect("it can be searched for");
    let ports = ["p0".to_owned()];
    let mut filter = selection.filter(&ports, 1).expect("there is such a port");
    filter.every_stage = true;
    let lender = rig.observers.clone();
    let mut session = std::thread::scope(|scope| {
        let session = scope.spawn(|| Session::start(&lender, &filter));
        while !session.is_finished() {
            rig.settle();
        }
        let session = session.join().expect("it does not panic");
        session.expect("nobody else observes")
    });
    let mut frames: Burst =
        names.iter().map(|name| rig.frame(&query(name).frame_bytes())).collect();
    rig.offer(0, &mut frames);
    rig.settle();
    let count = usize::try_from(selection.count.unwrap_or(DEFAULT_PACKETS));
    let mut trace = Trace::new(filter, count.unwrap_or(usize::MAX), 0);
    trace.fill(&mut session, MAX_TIME, || true);
    let (cache, mut find_rule) = (&rig.slow_path[0].resolver.cache, finder(&rig));
    let find_rule = &mut *find_rule;
    trace.report(Facts { ports: &ports, clock: rig.gauges.clock, cache, find_rule }, 0)
}
