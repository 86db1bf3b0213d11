//! Calls of operators for captures and traces ([`pmdns_insight::capture`]). Each has a thread of its own.

mod rule;
#[cfg(test)]
mod tests;

use pmdns_control::answers::Done;
use pmdns_control::jobs::Jobs;
use pmdns_control::trace::{PacketSearch, TraceReport};
use pmdns_control::{Caller, Refusal, Reply};
use pmdns_engine::rule_names::RuleNames;
use pmdns_insight::capture::{MAX_CAPTURES, PacketRecord, PacketWatch, Selection, TracedQuestion};

use self::rule::Finder;
use crate::runtime::OverridesInUse;

/// Starts captures and traces.
#[derive(Clone, Debug)]
pub struct Captures {
    watch: PacketWatch,
    names: RuleNames,
    said: OverridesInUse,
    jobs: Jobs,
}

impl Captures {
    /// Captures and traces by `watch`, under the rules that these have.
    pub fn new(watch: PacketWatch, names: RuleNames, said: OverridesInUse) -> Self {
        Self { watch, names, said, jobs: Jobs::new(MAX_CAPTURES) }
    }

    /// Writes the packets that are searched for into the pipe of their caller.
    pub fn capture(&self, search: PacketSearch, caller: Caller) {
        self.run("capture", search, caller, |own, selection, caller| {
            let file = caller.file.take();
            let done = own.watch.write(selection, file, || caller.has_left())?;
            Ok(Done { done })
        });
    }

    /// Sends the caller the packets that are searched for, stage by stage.
    pub fn trace(&self, search: PacketSearch, caller: Caller<TraceReport>) {
        self.run("trace", search, caller, |own, selection, caller| {
            // As they are when it ends.
            let mut finder = None;
            let mut find_rule = |asked: &TracedQuestion<'_>, records: &[PacketRecord]| {
                let new = || own.said.with_rules(&own.names).map(Finder::new);
                finder.get_or_insert_with(new).as_mut()?.rule(asked, records)
            };
            own.watch.trace(selection, &mut find_rule, || caller.has_left())
        });
    }

    fn run<R: Reply + 'static>(
        &self,
        name: &'static str,
        search: PacketSearch,
        caller: Caller<R>,
        job: impl FnOnce(&Self, &Selection, &mut Caller<R>) -> Result<R, String> + Send + 'static,
    ) {
        let (own, selection) = match Selection::try_from(search) {
            Ok(selection) => (self.clone(), selection),
            Err(why) => return caller.refuse(Refusal::Wrong, why),
        };
        self.jobs.start(name, caller, move |caller| {
            job(&own, &selection, caller).map_err(|why| (Refusal::Wrong, why))
        });
    }
}
