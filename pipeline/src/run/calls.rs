//! Calls of operators: each is answered here, or handed to what answers it.

use std::path::Path;
use std::time::Instant;

use hyper::Method;
use pmdns_control::answers::{
    BlockLists, ConfigDifference, Configuration, InstanceState, MAX_CHANGES_SHOWN, UpstreamTable,
};
use pmdns_control::{Call, CallReply, Caller, Refusal};

use super::services::Services;
use crate::control::cache_jobs::CacheJob;
use crate::control::calls::{difference, lists, state, upstreams, views};
use crate::health::{NodeHealth, NodeState};
use crate::hitters;
use crate::runtime::author_of;
use pmdns_changes::overlay::{ConfigChange, ListChange, UpstreamChange};
use pmdns_changes::{OperatorChange, Waiting};

impl Services<'_> {
    /// Answers a call, or has it answered.
    pub(super) fn answer(&mut self, call: Call, caller: Caller) {
        if self.passing.is_under_way && call.route().method != Method::GET {
            let why = "another process takes over; try again in a moment";
            return caller.refuse(Refusal::Busy, why);
        }
        match call {
            Call::State => caller.reply(CallReply::of(&self.state())),
            Call::Stats => caller.reply(CallReply::of(&self.report())),
            Call::Health => self.check_health(caller),
            Call::Drain => self.set_state(NodeState::Drained, caller),
            Call::Resume => self.set_state(NodeState::Serving, caller),
            Call::Reload => self.reloader.ask_for(caller),
            Call::Config => caller.reply(CallReply::of(&self.configuration())),
            Call::ConfigDiff => self.tell_difference(caller),
            Call::Views => caller.reply(CallReply::of(&views(self.reloader.config()))),
            Call::Upstreams => caller.reply(CallReply::of(&self.upstreams())),
            Call::Lists => caller.reply(CallReply::of(&self.lists())),
            Call::RefreshList(name) => self.lists.refresh(name, caller),
            Call::AddList(new) => {
                let caller = self.additions.wait_for(new.name.clone(), caller);
                self.reloader.change(ConfigChange::List(ListChange::Add(new)), caller);
            }
            Call::RemoveList(name) => {
                self.reloader.change(ConfigChange::List(ListChange::Remove(name)), caller);
            }
            Call::AddUpstream(new) => self.change_upstream(UpstreamChange::Add(new), caller),
            Call::SetUpstream(address, state) => {
                self.change_upstream(UpstreamChange::Set(address, state), caller);
            }
            Call::RemoveUpstream(address) => {
                self.change_upstream(UpstreamChange::Remove(address), caller);
            }
            Call::Entries(_)
            | Call::AddEntries(_)
            | Call::RemoveEntry(_)
            | Call::Records(_)
            | Call::AddRecords(_)
            | Call::RemoveRecords(_) => {
                let Self { runtime, reloader, .. } = self;
                runtime.answer(&call, caller, reloader.config(), reloader.seed());
            }
            Call::Clients(_)
            | Call::FindClient(_)
            | Call::ChangeClients(_)
            | Call::RemoveClient(_) => self.ask_client_table(call, caller),
            Call::Hitters(_) | Call::Floods => {
                caller.reply(hitters::answer(&call, self.hitters.as_ref()));
            }
            Call::Limits => caller.reply(CallReply::of(&self.limiter.list(Instant::now()))),
            Call::Limit(_) | Call::Unlimit(_) => self.change_limit(&call, caller),
            Call::Lookup(request) => match self.runtime.in_use().with_rules(&self.gauges.names) {
                Some(rules) => self.lookups.run(request, rules, caller),
                None => caller.refuse(Refusal::Unable, "there are no rules yet"),
            },
            Call::Log(search) => self.log_searches.run(search, caller),
            Call::Capture(search) => self.captures.capture(search, caller),
            Call::Trace(search) => self.captures.trace(search, caller),
            Call::Cache(search) => self.do_to_cache(search.try_into(), caller),
            Call::Purge(order) => self.do_to_cache(order.try_into(), caller),
            Call::CacheDump => self.client_jobs.run(CacheJob::Send, caller),
            Call::CacheLoad => self.client_jobs.run(CacheJob::Receive, caller),
        }
    }

    fn state(&self) -> InstanceState {
        let mut state = state(&self.reloader, &self.gauges);
        self.runtime.note_in(&mut state);
        state
    }

    fn check_health(&mut self, caller: Caller) {
        let tell =
            move |health: &NodeHealth| caller.reply(CallReply::Health(Box::new(health.clone())));
        self.health.ask(Instant::now(), self.reloader.config(), Box::new(tell));
    }

    fn upstreams(&self) -> UpstreamTable {
        upstreams(self.reloader.config(), &self.gauges, self.reloader.overlay())
    }

    fn lists(&self) -> BlockLists {
        let Self { reloader, gauges, lists: fetched, .. } = self;
        let state_of = |file: &Path| fetched.state_of(file);
        lists(reloader.config(), &gauges.names, reloader.overlay(), state_of)
    }

    fn ask_client_table(&self, call: Call, caller: Caller) {
        match &self.clients {
            Some(clients) => clients.answer(call, self.reloader.config(), caller),
            None => {
                let why = "there is no client table; set `clients.max_entries`, and restart";
                caller.refuse(Refusal::Unable, why);
            }
        }
    }

    fn set_state(&mut self, state: NodeState, caller: Caller) {
        self.health.set(state);
        caller.done(state.to_string());
    }

    fn configuration(&self) -> Configuration {
        let toml = self.reloader.written().to_toml();
        let changes = self.changes_of_config().map(|change| change.told()).collect();
        let mut configuration = Configuration { toml, changes, ..Configuration::default() };
        self.runtime.note_in_configuration(&mut configuration);
        configuration
    }

    /// Changes of upstreams, lists and limits.
    fn changes_of_config(&self) -> impl Iterator<Item = OperatorChange> {
        self.reloader.overlay().changes().chain(self.limiter.changes())
    }

    /// Tells where the file differs from the configuration in use. The thread of the client table has the rest.
    fn tell_difference(&mut self, caller: Caller) {
        let InstanceState { entries, records, .. } = self.state();
        let hidden = self.runtime.hidden(self.changes_of_config());
        let hidden = hidden.iter().map(OperatorChange::told_hidden);
        let holds = self.changes_of_config().chain(self.runtime.changes());
        let changes = hidden.chain(holds.map(|change| change.told()));
        let changes = changes.take(MAX_CHANGES_SHOWN).collect();
        let limits = self.limiter.list(Instant::now()).limits.len();
        let rest = difference(&self.reloader);
        let known = ConfigDifference { entries, records, changes, limits, ..rest };
        match &self.clients {
            Some(clients) => clients.tell_changes(known, caller),
            None => caller.reply(CallReply::of(&known)),
        }
    }

    /// Changes a limit, and has its caller wait for the disk.
    fn change_limit(&mut self, call: &Call, caller: Caller) {
        let author = author_of(&caller);
        let Self { runtime, limiter, .. } = self;
        let is_kept = runtime.keeps_limit(call, &author);
        let keep = |line| {
            runtime.askers().check_room()?;
            runtime.keep(&author, vec![line])
        };
        match limiter.change(call, (&author, is_kept), Instant::now(), keep) {
            Ok((done, receipt)) => {
                let done = CallReply::Done(done + runtime.lasting(&author));
                runtime.askers().push(Waiting { caller, version: 0, receipt, done });
            }
            Err((refusal, why)) => caller.refuse(refusal, why),
        }
    }

    fn change_upstream(&mut self, change: UpstreamChange, caller: Caller) {
        self.reloader.change(ConfigChange::Upstream(change), caller);
    }

    fn do_to_cache(&self, job: Result<CacheJob, String>, caller: Caller) {
        match job {
            Ok(job) => self.client_jobs.run(job, caller),
            Err(why) => caller.refuse(Refusal::Wrong, why),
        }
    }
}
