//! One next hop: its state, whom to believe, and when to ask again.

use std::time::Duration;

use super::table::{HopPlan, HopState, Row};
use crate::neighbor::message::NeighborMessage;
use crate::neighbor::{Question, is_group};
use crate::wire::name::Seed;

/// How long an answer proves that a next hop is there (RFC 4861 section 10, REACHABLE_TIME).
pub(super) const FRESH: Duration = Duration::from_secs(30);
/// When it is asked again, which is early enough for it to stay proved.
pub(super) const REFRESH: Duration = Duration::from_secs(20);
/// The refreshes of many next hops are spread over so much time more.
pub(super) const REFRESH_SPREAD: Duration = Duration::from_secs(5);
/// How long it is used after its last answer.
pub(super) const USABLE: Duration = Duration::from_secs(90);
/// The shortest time between two probes of it (RFC 4861 section 10, RETRANS_TIMER).
pub(super) const RETRANSMIT: Duration = Duration::from_secs(1);
/// How long after an answer doubts wait (RFC 4861 section 10, DELAY_FIRST_PROBE_TIME). An attacker who makes
/// upstreams keep silent makes us ask no faster.
pub(super) const TRUSTED: Duration = Duration::from_secs(5);
/// The longest time between two probes of it, but for the spread, which is a quarter of it.
const MAX_RETRANSMIT: Duration = Duration::from_secs(24);
/// Doublings of the shortest time that reach beyond the longest.
const MAX_DOUBLINGS: u32 = 5;
/// Probes that it alone gets; then everybody is asked (RFC 4861 section 10, MAX_UNICAST_SOLICIT).
pub(super) const UNICAST_PROBES: u32 = 3;
/// Probes of one that was never there, until it counts as failed (MAX_MULTICAST_SOLICIT).
const FIRST_PROBES: u32 = 3;
/// How long a new MAC address stands against others that nobody asked for. The first answer to a question counts.
pub(super) const SETTLED: Duration = Duration::from_secs(1);

const _: () = assert!(
    REFRESH.as_millis() + REFRESH_SPREAD.as_millis() + 4 * RETRANSMIT.as_millis()
        < FRESH.as_millis(),
    "there is time for the probes of a refresh"
);

/// Times drawn from a seed.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    seed: Seed,
    drawn: u64,
}

impl Spread {
    pub(super) fn new(seed: Seed) -> Self {
        Self { seed, drawn: 0 }
    }

    /// A time up to `most`, in milliseconds.
    fn up_to(&mut self, most: Duration) -> Duration {
        self.drawn += 1;
        let span = u64::try_from(most.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        Duration::from_millis(self.seed.hash(&self.drawn.to_le_bytes()) % span)
    }
}

/// A change of a next hop, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopChange {
    /// It was found at this MAC address, for the first time or again.
    Found([u8; 6]),
    /// It has another MAC address.
    Moved {
        /// The one it had.
        from: [u8; 6],
        /// The one it has.
        to: [u8; 6],
    },
    /// It has not answered for so long that it is no longer used.
    Lost,
    /// It has not answered since start.
    Missing,
}

/// The last news of a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastReport {
    Nothing,
    Absent,
    At([u8; 6]),
}

/// A next hop. It is told the time.
#[derive(Clone, Debug)]
pub(super) struct Hop {
    pub(super) plan: HopPlan,
    pub(super) row: Row,
    /// When what is known becomes stale, and when it is no longer used.
    fresh_until: Duration,
    usable_until: Duration,
    /// When its MAC address was learnt.
    changed_at: Option<Duration>,
    asked_at: Option<Duration>,
    /// When it is asked next.
    next_probe: Duration,
    /// Whether a probe waits for its answer.
    is_waiting: bool,
    /// Whether everybody is to be asked, although a MAC address is known.
    asks_all: bool,
    /// Probes in a row that nobody answered.
    unanswered: u32,
    told: LastReport,
}

impl Hop {
    pub(super) fn new(plan: HopPlan) -> Self {
        Self {
            plan,
            row: Row::default(),
            fresh_until: Duration::ZERO,
            usable_until: Duration::ZERO,
            changed_at: None,
            asked_at: None,
            next_probe: Duration::ZERO,
            is_waiting: false,
            asks_all: false,
            unanswered: 0,
            told: LastReport::Nothing,
        }
    }

    /// Begins with what another process knows of its place, unless no host has such a MAC address. It is used from now on,
    /// and everybody is asked on the first turn, for it may have moved meanwhile.
    pub(super) fn begin_at(&mut self, mac: [u8; 6]) {
        if !is_host(mac) {
            return;
        }
        self.row.mac = mac;
        self.row.state = HopState::Stale;
        // The first turn bounds it, which knows the time.
        self.usable_until = Duration::MAX;
        self.asks_all = true;
    }

    /// When it is to be asked.
    pub(super) fn next_probe(&self) -> Duration {
        self.next_probe
    }

    /// When its state ends by itself.
    pub(super) fn state_ends(&self) -> Option<Duration> {
        match self.row.state {
            HopState::Reachable => Some(self.fresh_until.min(self.usable_until)),
            HopState::Stale => Some(self.usable_until),
            HopState::Incomplete | HopState::Failed => None,
        }
    }

    /// Draws the consequences of the time that has passed. Says whether there were any.
    pub(super) fn settle(&mut self, now: Duration) -> bool {
        let (before, waited) = (self.row.state, self.is_waiting);
        self.usable_until = self.usable_until.min(now + USABLE);
        if self.is_waiting && now >= self.next_probe {
            self.is_waiting = false;
            self.unanswered = self.unanswered.saturating_add(1);
            self.row.counts.failures += 1;
        }
        let is_silent = self.unanswered >= UNICAST_PROBES;
        if self.row.state == HopState::Reachable && (is_silent || now >= self.fresh_until) {
            self.row.state = HopState::Stale;
        }
        if self.row.state == HopState::Stale && now >= self.usable_until {
            self.row.state = HopState::Incomplete;
            self.row.counts.outages += 1;
        }
        if self.row.state == HopState::Incomplete && self.unanswered >= FIRST_PROBES {
            self.row.state = HopState::Failed;
        }
        (before, waited) != (self.row.state, self.is_waiting)
    }

    /// How it is asked now: alone as long as it may be where it was, else everybody.
    pub(super) fn question(&self) -> Question {
        let may_be_there =
            self.row.state.is_usable() && !self.asks_all && self.unanswered < UNICAST_PROBES;
        Question {
            target: self.plan.address,
            from: self.plan.from,
            last_known: may_be_there.then_some(self.row.mac),
        }
    }

    /// It has been asked.
    pub(super) fn note_sent(&mut self, now: Duration, spread: &mut Spread) {
        self.row.counts.probes += 1;
        self.is_waiting = true;
        self.postpone(now, spread);
    }

    /// It was to be asked now. The next time is later, the more probes were in vain.
    pub(super) fn postpone(&mut self, now: Duration, spread: &mut Spread) {
        let alone = if self.row.state.is_usable() { UNICAST_PROBES } else { 0 };
        let doublings = self.unanswered.saturating_sub(alone).min(MAX_DOUBLINGS);
        let pause = (RETRANSMIT * (1 << doublings)).min(MAX_RETRANSMIT);
        self.asked_at = Some(now);
        self.next_probe = now + pause + spread.up_to(pause / 4);
    }

    /// Queries over it get no replies, or cannot leave without it: it is asked soon, but not while its answer is new.
    pub(super) fn doubt(&mut self, now: Duration) {
        self.ask_soon(self.row.confirmed_at.map_or(now, |at| now.max(at + TRUSTED)));
    }

    /// Something casts doubt on what is known: it is asked as soon as it may be, from this time on.
    pub(super) fn ask_soon(&mut self, from: Duration) {
        let earliest = self.asked_at.map_or(from, |asked| from.max(asked + RETRANSMIT));
        self.next_probe = self.next_probe.min(earliest);
    }

    /// Everybody is asked, as soon as may be.
    pub(super) fn ask_all_soon(&mut self, now: Duration) {
        self.asks_all = true;
        self.ask_soon(now);
    }

    /// Believes what it, or somebody for it, says of its place, or not (RFC 4861 section 7.2.5). `ours` is the port's own
    /// hardware address. Says whether it was believed.
    pub(super) fn receive(
        &mut self,
        message: &NeighborMessage,
        ours: [u8; 6],
        now: Duration,
        spread: &mut Spread,
    ) -> bool {
        let answers = message.solicited && self.is_waiting;
        // The kernel's end of a net_tap port has the port's own address, so an answer may have it.
        let is_host = is_host(message.mac) && (message.mac != ours || answers);
        let known = self.row.state.is_usable().then_some(self.row.mac);
        let moves = known.is_some_and(|known| known != message.mac);
        let may_move = message.override_ && (answers || !self.is_recent(now));
        if !is_host || moves && !may_move {
            self.row.counts.refused += 1;
            if is_host && !message.override_ && self.row.state == HopState::Reachable {
                self.row.state = HopState::Stale;
                self.ask_soon(now);
            }
            return false;
        }
        self.row.counts.mac_changes += u64::from(moves);
        if known != Some(message.mac) {
            self.row.mac = message.mac;
            self.changed_at = Some(now);
        }
        if answers {
            self.confirm(now, spread);
            return true;
        }
        self.row.counts.gratuitous += 1;
        if known != Some(message.mac) {
            // The holder of the address before is heard as well.
            self.row.state = HopState::Stale;
            self.usable_until = now + USABLE;
            self.ask_all_soon(now);
        } else if self.row.state == HopState::Stale {
            self.ask_soon(now);
        }
        true
    }

    /// What is to be told of it, once.
    pub(super) fn news(&mut self) -> Option<HopChange> {
        let (told, state) = (self.told, self.row.state);
        let change = match (told, state) {
            (LastReport::At(from), state) if state.is_usable() => {
                let to = self.row.mac;
                (from != to).then_some(HopChange::Moved { from, to })?
            }
            (_, state) if state.is_usable() => HopChange::Found(self.row.mac),
            (LastReport::At(_), _) => HopChange::Lost,
            (LastReport::Nothing, HopState::Failed) => HopChange::Missing,
            _ => return None,
        };
        self.told =
            if state.is_usable() { LastReport::At(self.row.mac) } else { LastReport::Absent };
        Some(change)
    }

    /// Whether its MAC address is so new that only an answer may change it.
    fn is_recent(&self, now: Duration) -> bool {
        self.changed_at.is_some_and(|at| now < at + SETTLED)
    }

    /// It has answered our question.
    fn confirm(&mut self, now: Duration, spread: &mut Spread) {
        self.row.state = HopState::Reachable;
        self.row.confirmed_at = Some(now);
        self.row.counts.answers += 1;
        self.fresh_until = now + FRESH;
        self.usable_until = now + USABLE;
        self.next_probe = now + REFRESH + spread.up_to(REFRESH_SPREAD);
        self.is_waiting = false;
        self.asks_all = false;
        self.unanswered = 0;
    }
}

/// Whether a host may have this MAC address.
fn is_host(mac: [u8; 6]) -> bool {
    !is_group(mac[0]) && mac != [0; 6]
}
