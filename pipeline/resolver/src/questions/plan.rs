//! The plan of one exchange: whom to ask next, and how, until one answers or all hope is gone. One upstream is
//! asked at a time, or several are.
//!
//! A pure state machine: it is told the result of each try and gives the next step.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use arrayvec::ArrayVec;
use pmdns_config::limits::MAX_UPSTREAMS;
use pmdns_config::narrow::{to_u8, to_u32};
use pmdns_stages::wire::edns::ExtendedError;

/// Tries for one question, in all and over all upstreams.
const MAX_TRIES: u32 = 8;
/// Pause before the upstreams are asked again, when none of them took its time to fail; twice as long
/// before each further round.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// Such pauses while this machine has no network: clients need not wait long to hear so. An upstream that is started again, or a
/// next hop that is looked for, has all the time there is.
const MAX_PAUSES_WITHOUT_NETWORK: u32 = 3;

/// How a query travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Udp,
    /// As `Udp`, but from a port of its own and in small letters.
    Alone,
    /// Over a connection that brings whole answers: TCP, or what an encrypted upstream's address says.
    Tcp,
}

/// One try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// Index of the upstream.
    pub(crate) upstream: usize,
    pub(crate) transport: Transport,
    /// Whether the query has an OPT record.
    pub(crate) edns: bool,
    /// Whether its upstream's retry timeout has passed. It is valid still, but the plan went on without it.
    pub(crate) late: bool,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Try(Attempt),
    /// Nothing, until a query comes back that is in the air.
    Wait,
    Pause(Duration),
    GiveUp,
}

/// The outcome of a try without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TryFailure {
    /// The whole answer needs TCP, or what UDP brings cannot be trusted or understood.
    NeedsTcp,
    /// As `NeedsTcp`, because the reply has other letters than its query.
    CaseMismatch,
    /// The upstream wants another server cookie, and has sent it (RFC 7873 section 5.3).
    BadCookie,
    /// The upstream does not understand EDNS (RFC 6891 section 7).
    NeedsPlainDns,
    /// It replied that it has no answer, and may have said why. To ask it again within this exchange is no use.
    Refused(Option<ExtendedError>),
    /// The same, but what it replied is forged or broken, for this reason (RFC 4033 section 5).
    Bogus(ExtendedError),
    /// The retry timeout has passed. The query stays valid, and another one may join it.
    Late,
    /// It took all the time it had.
    Silent,
    /// It could not be reached, which was clear at once.
    Unreachable,
    /// This machine has no network that leads to it.
    NoNetwork,
    /// Its upstream is not asked any more. The plan has other upstreams by now ([`Plan::replace_upstreams`]).
    Gone,
    /// It was not asked: too many queries to it or over our ports are under way, or too many of the same client prefix.
    Busy,
}

impl TryFailure {
    /// What an error of a socket says about the way to an upstream.
    pub(crate) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NetworkUnreachable | io::ErrorKind::NetworkDown => Self::NoNetwork,
            _ => Self::Unreachable,
        }
    }
}

/// Indexes of upstreams, in the order in which they are asked.
pub(crate) type Order = ArrayVec<u8, MAX_UPSTREAMS>;

/// The plan of one exchange.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Upstreams still worth asking; the front is next. One that has let its timeout pass is put back, so it may stand
    /// here once for each try.
    queue: ArrayVec<u8, { MAX_UPSTREAMS + MAX_TRIES as usize }>,
    /// How many of them are to be asked before the next pause.
    left_in_round: usize,
    /// The same upstream again, another way.
    again: VecDeque<Attempt>,
    /// How the first query to each leaves.
    transport: Transport,
    /// Queries sent that have come to nothing yet and are not late.
    in_air: usize,
    /// How many may be.
    width: usize,
    /// Queries whose retry timeout has passed, and whose replies may come still.
    late: usize,
    /// Retry timeouts that have passed.
    timeouts: usize,
    /// How many upstreams there were to begin with.
    upstreams: usize,
    /// When a second one may join the first.
    hedge_after: Option<Duration>,
    tries: u32,
    pause: Duration,
    pauses: u32,
    pause_is_due: bool,
    /// Whether any upstream was reached, or at least took its time.
    was_reached: bool,
    /// Whether any failure was other than that there is no network.
    has_network: bool,
    /// The upstreams that are asked over TCP because they do not keep letters, a bit for each.
    case_mismatch: u64,
    /// Whether any upstream was too busy to be asked.
    was_shed: bool,
    /// Why the first that said so has no answer.
    told: Option<ExtendedError>,
    /// Why the last bogus reply was.
    bogus: Option<ExtendedError>,
}

impl Plan {
    /// A plan that asks `upstreams` in this order, one at a time.
    pub(crate) fn new(upstreams: Order) -> Self {
        Self::in_parallel(upstreams, 1)
    }

    /// A plan that asks so many at a time.
    pub(crate) fn in_parallel(upstreams: Order, width: usize) -> Self {
        Self {
            left_in_round: upstreams.len(),
            upstreams: upstreams.len(),
            queue: upstreams.into_iter().collect(),
            again: VecDeque::new(),
            transport: Transport::Udp,
            in_air: 0,
            width,
            late: 0,
            timeouts: 0,
            hedge_after: None,
            tries: 0,
            pause: FIRST_PAUSE,
            pauses: 0,
            pause_is_due: true,
            was_reached: false,
            has_network: false,
            case_mismatch: 0,
            was_shed: false,
            told: None,
            bogus: None,
        }
    }

    /// The same without UDP.
    pub(crate) fn over_tcp(self) -> Self {
        Self { transport: Transport::Tcp, ..self }
    }

    /// Why there is no answer, once the plan has given up: what validation found, or what an upstream said.
    pub(crate) fn why_none(&self) -> ExtendedError {
        self.bogus.or(self.told).unwrap_or(match self.was_reached {
            true => ExtendedError::NO_REACHABLE_AUTHORITY,
            false => ExtendedError::NETWORK_ERROR,
        })
    }

    /// Whether an upstream might have had an answer, but was too busy to be asked.
    pub(crate) fn was_shed(&self) -> bool {
        self.was_shed
    }

    /// A plan that asks one at a time, but a second one if the first takes longer than `usual`.
    pub(crate) fn hedged(upstreams: Order, usual: Option<Duration>) -> Self {
        Self { hedge_after: usual, ..Self::new(upstreams) }
    }

    /// What to do next, until it is nothing more. After a try the caller says what it came to:
    /// [`Plan::learn`].
    pub(crate) fn next(&mut self) -> Next {
        // The same upstream another way takes the place of a query that came to something.
        if self.in_air >= self.width && self.again.is_empty() {
            return Next::Wait;
        }
        let nothing_left = self.queue.is_empty() && self.again.is_empty();
        if self.tries >= MAX_TRIES || nothing_left {
            return self.rest_in_air();
        }
        if let Some(attempt) = self.again.pop_front() {
            return self.send(attempt);
        }
        if self.left_in_round == 0 {
            if self.in_air > 0 {
                return Next::Wait;
            }
            if !self.has_network && self.pauses == MAX_PAUSES_WITHOUT_NETWORK {
                return Next::GiveUp;
            }
            self.left_in_round = self.queue.len();
            if std::mem::replace(&mut self.pause_is_due, true) {
                let pause = self.pause;
                self.pause = (pause * 2).min(LONGEST_PAUSE);
                self.pauses += 1;
                return Next::Pause(pause);
            }
        }
        let Some(upstream) = self.queue.pop_at(0).map(usize::from) else {
            return self.rest_in_air();
        };
        self.left_in_round -= 1;
        self.send(Attempt { upstream, transport: self.transport, edns: true, late: false })
    }

    /// After how long to [`Plan::hedge`]. Asked once, as soon as the first query has left.
    pub(crate) fn take_hedge(&mut self) -> Option<Duration> {
        self.hedge_after.take()
    }

    /// The first query takes longer than usual: from now on two are in the air. `false`: it has come to
    /// something already, or there is nobody else to ask.
    pub(crate) fn hedge(&mut self) -> bool {
        let is_first = self.tries == 1 && self.in_air == 1 && !self.queue.is_empty();
        self.width += usize::from(is_first);
        is_first
    }

    /// Goes on with the upstreams of another plan, because the upstreams have changed. Queries under way stay.
    pub(crate) fn replace_upstreams(&mut self, other: Self) {
        self.queue = other.queue;
        self.left_in_round = other.left_in_round;
        self.upstreams = other.upstreams;
        self.width = other.width;
        self.again.clear();
        self.case_mismatch = 0;
    }

    /// Queries sent that have come to nothing yet.
    pub(crate) fn in_air(&self) -> usize {
        self.in_air + self.late
    }

    /// How often every upstream has let its retry timeout pass.
    pub(crate) fn round(&self) -> u32 {
        to_u32(self.timeouts / self.upstreams.max(1))
    }

    fn send(&mut self, attempt: Attempt) -> Next {
        self.tries += 1;
        self.in_air += 1;
        Next::Try(attempt)
    }

    fn rest_in_air(&self) -> Next {
        if self.in_air() > 0 { Next::Wait } else { Next::GiveUp }
    }

    /// Takes in what `attempt` came to.
    pub(crate) fn learn(&mut self, attempt: Attempt, failure: TryFailure) {
        use TryFailure::{Busy, Gone, Late, NoNetwork, Silent, Unreachable};

        self.was_reached |= !matches!(failure, Unreachable | NoNetwork | Busy | Gone);
        self.has_network |= !matches!(failure, NoNetwork | Gone);
        self.was_shed |= failure == TryFailure::Busy;
        let count = if attempt.late { &mut self.late } else { &mut self.in_air };
        *count = count.saturating_sub(1);
        let again = Attempt { late: false, ..attempt };
        if failure == TryFailure::Late {
            self.late += 1;
            self.timeouts += 1;
        }
        match failure {
            // The operator's change costs the question no try.
            TryFailure::Gone => self.tries = self.tries.saturating_sub(1),
            TryFailure::CaseMismatch => {
                self.case_mismatch |= bit(attempt.upstream);
                self.again.push_back(Attempt { transport: Transport::Tcp, ..again });
            }
            TryFailure::BadCookie if attempt.transport == Transport::Udp => {
                self.again.push_back(Attempt { transport: Transport::Alone, ..again });
            }
            TryFailure::NeedsTcp | TryFailure::BadCookie if attempt.transport != Transport::Tcp => {
                self.again.push_back(Attempt { transport: Transport::Tcp, ..again });
            }
            // Who neither keeps letters nor takes TCP has to be asked without that guard.
            Late | Silent | Unreachable | NoNetwork if self.takes_no_tcp(attempt) => {
                self.case_mismatch &= !bit(attempt.upstream);
                self.again.push_back(Attempt { transport: Transport::Alone, ..again });
            }
            TryFailure::NeedsPlainDns if attempt.edns => {
                self.again.push_back(Attempt { edns: false, ..again });
            }
            TryFailure::Refused(why) => {
                self.told = self.told.or(why);
                self.forget(attempt.upstream);
            }
            TryFailure::NeedsPlainDns | TryFailure::BadCookie => self.forget(attempt.upstream),
            TryFailure::Bogus(why) => {
                self.bogus = Some(why);
                self.forget(attempt.upstream);
            }
            TryFailure::Late => self.ask_later(attempt.upstream),
            // When it became late its upstream was put back.
            _ if attempt.late => {}
            TryFailure::Silent => self.ask_later(attempt.upstream),
            Unreachable | NoNetwork | Busy | TryFailure::NeedsTcp => {
                self.put_back(attempt.upstream);
            }
        }
    }

    /// Puts back an upstream that took its time: nobody has to pause before it is asked again.
    fn ask_later(&mut self, upstream: usize) {
        self.pause_is_due = false;
        self.put_back(upstream);
    }

    fn put_back(&mut self, upstream: usize) {
        let put = self.queue.try_push(to_u8(upstream));
        debug_assert!(put.is_ok(), "a try puts back one upstream");
    }

    /// An upstream has given its last word. If a query to it was late before, it was to be asked again.
    fn forget(&mut self, upstream: usize) {
        if let Some(at) = self.queue.iter().position(|queued| usize::from(*queued) == upstream) {
            self.queue.remove(at);
            self.left_in_round -= usize::from(at < self.left_in_round);
        }
    }

    /// Whether this try, which failed, was over TCP for the letters' sake.
    fn takes_no_tcp(&self, attempt: Attempt) -> bool {
        attempt.transport == Transport::Tcp && self.case_mismatch & bit(attempt.upstream) != 0
    }
}

/// The bit of an upstream in a set of them.
fn bit(upstream: usize) -> u64 {
    const { assert!(MAX_UPSTREAMS <= 64, "a set of upstreams has 64 bits") };
    1 << (upstream % 64)
}

#[cfg(test)]
mod tests;
