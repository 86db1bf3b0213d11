//! Calls of operators: each is answered here, or handed to what answers it.

use std::path::Path;
use std::time::{Duration, Instant};

use hyper::Method;
use pmdns_control::answers::{
    BlockLists, ConfigDifference, Configuration, Done, InstanceState, MAX_CHANGES_SHOWN,
    UpstreamTable,
};
use pmdns_control::lookup::{LookupReport, LookupRequest};
use pmdns_control::{AnyCaller, Call, Caller, PendingCall, Refusal};
use pmdns_engine::news::PortNews;

use super::services::Services;
use crate::control::calls::{difference, lists, state, upstreams, views};
use crate::health::{NodeHealth, NodeState};
use crate::hitters;
use crate::runtime::{TOO_LATE, author_of};
use pmdns_changes::overlay::{ConfigChange, ListChange, UpstreamChange};
use pmdns_changes::{OperatorChange, Waiting};

/// A node that is told again to be active announces its addresses again after so long.
const ANNOUNCED_AGAIN: Duration = Duration::from_secs(60);

impl Services<'_> {
    /// Answers a call, or has it answered.
    pub(super) fn answer(&mut self, call: Call, caller: AnyCaller) {
        let is_role = matches!(call, Call::Drain | Call::Resume | Call::Standby | Call::Activate);
        let is_late = if is_role { self.passing.has_role } else { self.passing.is_under_way };
        if is_late && call.route().method != Method::GET {
            return caller.refuse(Refusal::Busy, TOO_LATE);
        }
        match call.with(caller) {
            PendingCall::State(caller) => caller.reply(Ok(self.state())),
            PendingCall::Stats(caller) => caller.reply(Ok(self.report())),
            PendingCall::Health(caller) => self.check_health(caller),
            PendingCall::Drain(caller) => self.set_state(NodeState::Drained, caller),
            PendingCall::Resume(caller) => self.set_state(NodeState::Serving, caller),
            PendingCall::Standby(caller) => self.set_standby(true, caller),
            PendingCall::Activate(caller) => self.set_standby(false, caller),
            PendingCall::Reload(caller) => self.reload(caller),
            PendingCall::Upgrade(caller) => self.upgrade(caller),
            PendingCall::Config(caller) => caller.reply(Ok(self.configuration())),
            PendingCall::ConfigDiff(caller) => self.report_difference(caller),
            PendingCall::Views(caller) => caller.reply(Ok(views(self.reloader.config()))),
            PendingCall::Upstreams(caller) => caller.reply(Ok(self.upstreams())),
            PendingCall::Lists(caller) => caller.reply(Ok(self.lists())),
            PendingCall::RefreshList(name, caller) => self.lists.refresh(name, caller),
            PendingCall::AddList(new, caller) => {
                let caller = self.additions.wait_for(new.name.clone(), caller);
                self.reloader.change(ConfigChange::List(ListChange::Add(new)), caller);
            }
            PendingCall::RemoveList(name, caller) => {
                self.reloader.change(ConfigChange::List(ListChange::Remove(name)), caller);
            }
            PendingCall::AddUpstream(new, caller) => {
                self.change_upstream(UpstreamChange::Add(new), caller)
            }
            PendingCall::SetUpstream(address, state, caller) => {
                self.change_upstream(UpstreamChange::Set(address, state), caller);
            }
            PendingCall::RemoveUpstream(address, caller) => {
                self.change_upstream(UpstreamChange::Remove(address), caller);
            }
            call @ (PendingCall::Entries(..)
            | PendingCall::AddEntries(..)
            | PendingCall::RemoveEntry(..)
            | PendingCall::Records(..)
            | PendingCall::AddRecords(..)
            | PendingCall::RemoveRecords(..)) => {
                let Self { runtime, reloader, .. } = self;
                runtime.answer(call, reloader.config(), reloader.seed());
            }
            call @ (PendingCall::Clients(..)
            | PendingCall::FindClient(..)
            | PendingCall::ChangeClients(..)
            | PendingCall::RemoveClient(..)) => self.ask_client_table(call),
            call @ (PendingCall::Hitters(..) | PendingCall::Floods(..)) => {
                hitters::answer(call, self.hitters.as_ref());
            }
            PendingCall::Limits(caller) => caller.reply(Ok(self.limiter.list(Instant::now()))),
            PendingCall::Limit(order, caller) => self.change_limit(&Call::Limit(order), caller),
            PendingCall::Unlimit(zone, caller) => self.change_limit(&Call::Unlimit(zone), caller),
            PendingCall::Lookup(request, caller) => self.look_up(request, caller),
            PendingCall::Log(search, caller) => self.log_searches.run(search, caller),
            PendingCall::Capture(search, caller) => self.captures.capture(search, caller),
            PendingCall::Trace(search, caller) => self.captures.trace(search, caller),
            PendingCall::Crashes(caller) => caller.reply(Ok(self.crashes.list().clone())),
            call @ (PendingCall::Cache(..)
            | PendingCall::Purge(..)
            | PendingCall::CacheDump(..)
            | PendingCall::CacheLoad(..)) => self.client_jobs.answer(call),
        }
    }

    fn reload(&mut self, caller: Caller) {
        match self.passing.check_alone() {
            Ok(()) => self.reloader.ask_for(caller),
            Err(why) => caller.refuse(Refusal::Busy, why),
        }
    }

    fn upgrade(&mut self, caller: Caller) {
        if let Err(why) = self.passing.check_alone() {
            return caller.refuse(Refusal::Busy, why);
        }
        match self.passing.request_successor() {
            Ok(()) => caller.done("the next process is started; this one serves until that does"),
            Err(why) => caller.refuse(Refusal::Unable, why),
        }
    }

    fn look_up(&self, request: LookupRequest, caller: Caller<LookupReport>) {
        match self.runtime.in_use().with_rules(&self.gauges.names) {
            Some(rules) => self.lookups.run(request, rules, caller),
            None => caller.refuse(Refusal::Unable, "there are no rules yet"),
        }
    }

    fn state(&self) -> InstanceState {
        let mut state = state(&self.reloader, &self.gauges);
        self.runtime.note_in(&mut state);
        let role = self.role();
        (state.standby, state.drained) = (role.is_standby, role.is_drained);
        state.hand_over = self.passing.state();
        state
    }

    fn check_health(&mut self, caller: Caller<NodeHealth>) {
        let tell = move |health: &NodeHealth| caller.reply(Ok(health.clone()));
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

    fn ask_client_table(&self, call: PendingCall) {
        match &self.clients {
            Some(clients) => clients.answer(call, self.reloader.config()),
            None => {
                let why = "there is no client table; set `clients.max_entries`, and reload";
                call.refuse(Refusal::Unable, why);
            }
        }
    }

    fn set_state(&mut self, state: NodeState, caller: Caller) {
        self.health.set(state);
        caller.done(state.to_string());
    }

    /// Claims the addresses of the ports from now on, or does not. Who asks again has them announced again, at times: two nodes
    /// may both have been active.
    fn set_standby(&mut self, is_standby: bool, caller: Caller) {
        let is_news = is_standby != self.claim.is_standby();
        let was_long_ago = self.announced.is_none_or(|at| at.elapsed() >= ANNOUNCED_AGAIN);
        if !is_news && (is_standby || !was_long_ago) {
            return caller.done("nothing to do");
        }
        self.claim.set_standby(is_standby);
        let done = match is_standby {
            true => "standby: another node has the addresses",
            false => {
                self.announced = Some(Instant::now());
                self.news.iter().for_each(PortNews::announce_again);
                "active: the addresses are announced"
            }
        };
        tracing::info!("{done}");
        caller.done(done);
    }

    fn configuration(&self) -> Configuration {
        let toml = self.reloader.written().to_toml();
        let changes = self.changes_of_config().map(|change| change.report()).collect();
        let mut configuration = Configuration { toml, changes, ..Configuration::default() };
        self.runtime.note_in_configuration(&mut configuration);
        configuration
    }

    /// Changes of upstreams, lists and limits.
    fn changes_of_config(&self) -> impl Iterator<Item = OperatorChange> {
        self.reloader.overlay().changes().chain(self.limiter.changes())
    }

    /// Tells where the file differs from the configuration in use. The thread of the client table has the rest.
    fn report_difference(&mut self, caller: Caller<ConfigDifference>) {
        let InstanceState { entries, records, .. } = self.state();
        let hidden = self.runtime.hidden(self.changes_of_config());
        let hidden = hidden.iter().map(OperatorChange::report_hidden);
        let holds = self.changes_of_config().chain(self.runtime.changes());
        let changes = hidden.chain(holds.map(|change| change.report()));
        let changes = changes.take(MAX_CHANGES_SHOWN).collect();
        let limits = self.limiter.list(Instant::now()).limits.len();
        let rest = difference(&self.reloader);
        let known = ConfigDifference { entries, records, changes, limits, ..rest };
        match &self.clients {
            Some(clients) => clients.report_changes(known, caller),
            None => caller.reply(Ok(known)),
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
                let done = done + runtime.lasting(&author);
                let reply = caller.prepare(Ok(Done { done }));
                runtime.askers().push(Waiting { reply, version: 0, receipt });
            }
            Err((refusal, why)) => caller.refuse(refusal, why),
        }
    }

    fn change_upstream(&mut self, change: UpstreamChange, caller: Caller) {
        self.reloader.change(ConfigChange::Upstream(change), caller);
    }
}
