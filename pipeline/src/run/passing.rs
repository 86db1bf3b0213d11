//! The state of a hand-over to another process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pmdns_control::answers::HandOverState;
use pmdns_engine::news::PortNews;
use pmdns_nics::RelayEnd;
use pmdns_stages::Tick;

use super::services::Services;
use crate::handover::{HandOver, passed_hops};
use crate::runtime::TOO_LATE;

/// A process that was asked for comes within this time, or its keeper says why not. That may have been lost.
const COMING: Duration = Duration::from_secs(800);

/// The state of a hand-over to another process.
#[derive(Debug, Default)]
pub(super) struct Passing {
    /// Another process takes over, which has read changes of operators already.
    pub(super) is_under_way: bool,
    /// Its number.
    next: Option<u32>,
    /// It knows the role of the node, too.
    pub(super) has_role: bool,
    /// Why this process can hand over to none that it asks for.
    pub(super) obstacle: Option<String>,
    /// The next process is to be started.
    is_wanted: bool,
    /// It was asked for, and has not come yet. It is given up then.
    awaited_until: Option<Instant>,
    /// Why the last one did not take over.
    failure: Option<String>,
    /// The frames that have come, and the time since when there are no more, as of the last question.
    pub(super) received: u64,
    pub(super) since: Tick,
}

impl Passing {
    /// Has the next process started, or says why it cannot be.
    pub(super) fn request_successor(&mut self) -> Result<(), String> {
        self.obstacle.clone().map_or(Ok(()), Err)?;
        (self.is_wanted, self.failure) = (true, None);
        self.awaited_until = Some(Instant::now() + COMING);
        Ok(())
    }

    /// Whether what is asked for now may concern this process alone, or why not: the next one may have read the file already.
    pub(super) fn check_alone(&self) -> Result<(), &'static str> {
        match self.awaited_until {
            _ if self.is_under_way => Err(TOO_LATE),
            Some(_) => Err("the next process is started already; try again in a moment"),
            None => Ok(()),
        }
    }

    /// Notes how far the hand-over is, and why the last process did not take over, if that is news. The keeper may have `said` it.
    pub(super) fn note(&mut self, hand_over: &mut HandOver, said: Option<String>) {
        self.is_under_way = hand_over.is_under_way();
        self.next = hand_over.next_process();
        self.has_role = hand_over.has_passed_role();
        let failure = hand_over.take_failure();
        let is_over = self.is_under_way || failure.is_some() || said.is_some();
        let now = Instant::now();
        self.awaited_until = self.awaited_until.filter(|until| !is_over && now < *until);
        // What this process has seen says more than its keeper, which sees no more than an end.
        self.failure = failure.or_else(|| self.failure.take()).or(said);
    }

    /// Whether the next process is to be started. It is once for each request.
    pub(super) fn take_request(&mut self) -> bool {
        std::mem::take(&mut self.is_wanted)
    }

    /// For operators.
    pub(super) fn state(&self) -> Option<HandOverState> {
        match &self.failure {
            _ if self.is_under_way => Some(HandOverState::UnderWay(self.next)),
            _ if self.awaited_until.is_some() => Some(HandOverState::Starting),
            why => why.clone().map(HandOverState::Failed),
        }
    }
}

impl Services<'_> {
    /// Tells what the offer is to say of ports.
    pub(super) fn offer_ports(&self, hand_over: &mut HandOver) {
        let hops = passed_hops(self.config, self.gauges.next_hops.known());
        hand_over.set_ports(self.ports.devices(self.config, &self.watch), hops);
    }

    /// The next process serves, and opens these devices. This one has the others yet, and answers who does not know better, but
    /// claims no address any more. Frames go from one to the other by `relay`.
    pub(super) fn step_back(&mut self, wanted: &[String], relay: Option<Arc<RelayEnd>>) {
        self.before_step = Some(self.role());
        self.ports.relay.open_to_next(relay);
        self.claim.set_standby(true);
        self.claim.set_left(true);
        self.ports.close_wanted((self.config, wanted), &mut self.watch, &self.news);
    }

    /// This process serves again, in its old role.
    pub(super) fn step_forward(&mut self, now: Instant) {
        let role = self.before_step.take().unwrap_or_else(|| self.role());
        self.claim.set_standby(role.is_standby);
        self.claim.set_left(false);
        if !role.is_standby {
            self.news.iter().for_each(PortNews::announce_again);
        }
        self.ports.reopen_later(now);
    }
}
