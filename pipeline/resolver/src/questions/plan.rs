//! The plan of one exchange: whom to ask next, and how, until one answers or all hope is gone. One upstream is
//! asked at a time, or several are.
//!
//! A pure state machine: it is told what each try came to and says what to do next.

use std::collections::VecDeque;
use std::time::Duration;

use pmdns_config::limits::MAX_UPSTREAMS;
use pmdns_stages::wire::edns::ExtendedError;

/// Tries for one question, in all and over all upstreams.
const MAX_TRIES: u32 = 8;
/// Pause before the upstreams are asked again, when none of them took its time to fail; twice as long
/// before each further round.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

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

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Try(Attempt),
    /// Nothing, until a query comes back that is in the air.
    Wait,
    Pause(Duration),
    GiveUp,
}

/// What a try came to, when it was no answer.
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
    /// It was not asked: too many queries to it are under way, or too many of the same client prefix.
    Busy,
}

/// The plan of one exchange.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Upstreams still worth asking; the front is next.
    queue: VecDeque<usize>,
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
    pause_is_due: bool,
    /// Whether any upstream was reached, or at least took its time.
    was_reached: bool,
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
    pub(crate) fn new(upstreams: VecDeque<usize>) -> Self {
        Self::in_parallel(upstreams, 1)
    }

    /// A plan that asks so many at a time.
    pub(crate) fn in_parallel(upstreams: VecDeque<usize>, width: usize) -> Self {
        Self {
            left_in_round: upstreams.len(),
            upstreams: upstreams.len(),
            queue: upstreams,
            again: VecDeque::new(),
            transport: Transport::Udp,
            in_air: 0,
            width,
            late: 0,
            timeouts: 0,
            hedge_after: None,
            tries: 0,
            pause: FIRST_PAUSE,
            pause_is_due: true,
            was_reached: false,
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
    pub(crate) fn hedged(upstreams: VecDeque<usize>, usual: Option<Duration>) -> Self {
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
            self.left_in_round = self.queue.len();
            if std::mem::replace(&mut self.pause_is_due, true) {
                let pause = self.pause;
                self.pause = (pause * 2).min(LONGEST_PAUSE);
                return Next::Pause(pause);
            }
        }
        let Some(upstream) = self.queue.pop_front() else { return self.rest_in_air() };
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

    /// Queries sent that have come to nothing yet.
    pub(crate) fn in_air(&self) -> usize {
        self.in_air + self.late
    }

    /// How often every upstream has let its retry timeout pass.
    pub(crate) fn round(&self) -> u32 {
        (self.timeouts / self.upstreams.max(1)) as u32
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
        self.was_reached |= !matches!(failure, TryFailure::Unreachable | TryFailure::Busy);
        self.was_shed |= failure == TryFailure::Busy;
        let count = if attempt.late { &mut self.late } else { &mut self.in_air };
        *count = count.saturating_sub(1);
        let again = Attempt { late: false, ..attempt };
        if failure == TryFailure::Late {
            self.late += 1;
            self.timeouts += 1;
        }
        match failure {
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
            TryFailure::Late | TryFailure::Silent | TryFailure::Unreachable
                if self.takes_no_tcp(attempt) =>
            {
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
            TryFailure::Unreachable | TryFailure::Busy | TryFailure::NeedsTcp => {
                self.queue.push_back(attempt.upstream)
            }
        }
    }

    /// Puts back an upstream that took its time: nobody has to pause before it is asked again.
    fn ask_later(&mut self, upstream: usize) {
        self.pause_is_due = false;
        self.queue.push_back(upstream);
    }

    /// An upstream has given its last word. If a query to it was late before, it was to be asked again.
    fn forget(&mut self, upstream: usize) {
        if let Some(at) = self.queue.iter().position(|queued| *queued == upstream) {
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
mod tests {
    use super::*;

    fn plan(upstreams: usize) -> Plan {
        Plan::new((0..upstreams).collect())
    }

    fn udp(upstream: usize) -> Attempt {
        Attempt { upstream, transport: Transport::Udp, edns: true, late: false }
    }

    /// Next must be `attempt`, and it comes to `failure`.
    fn fails(plan: &mut Plan, attempt: Attempt, failure: TryFailure) {
        assert_eq!(plan.next(), Next::Try(attempt));
        plan.learn(attempt, failure);
    }

    #[test]
    fn silent_upstreams_are_asked_in_turn_without_a_pause() {
        let mut plan = plan(2);
        for upstream in [0, 1, 0, 1, 0, 1, 0, 1] {
            fails(&mut plan, udp(upstream), TryFailure::Silent);
        }
        assert_eq!(plan.next(), Next::GiveUp, "after {MAX_TRIES} tries");
        assert_eq!(plan.why_none(), ExtendedError::NO_REACHABLE_AUTHORITY);
    }

    #[test]
    fn difference_letter_case_ends_with_a_query_in_small_letters() {
        for no_tcp in [TryFailure::Unreachable, TryFailure::Silent, TryFailure::Late] {
            let mut plan = plan(2);
            fails(&mut plan, udp(0), TryFailure::CaseMismatch);
            fails(&mut plan, Attempt { transport: Transport::Tcp, ..udp(0) }, no_tcp);
            let alone = Attempt { transport: Transport::Alone, ..udp(0) };
            fails(&mut plan, alone, TryFailure::NeedsTcp);
            fails(&mut plan, Attempt { transport: Transport::Tcp, ..udp(0) }, no_tcp);
            fails(&mut plan, udp(1), TryFailure::Refused(None));
        }
    }

    #[test]
    fn a_plan_without_udp_has_none() {
        let mut plan = plan(2).over_tcp();
        let tcp = |upstream| Attempt { transport: Transport::Tcp, ..udp(upstream) };
        fails(&mut plan, tcp(0), TryFailure::NeedsPlainDns);
        fails(&mut plan, Attempt { edns: false, ..tcp(0) }, TryFailure::Unreachable);
        fails(&mut plan, tcp(1), TryFailure::Silent);
        fails(&mut plan, tcp(0), TryFailure::Refused(None));
    }

    #[test]
    fn who_wants_another_cookie_gets_it_and_then_tcp() {
        let mut plan = plan(1);
        fails(&mut plan, udp(0), TryFailure::BadCookie);
        fails(&mut plan, Attempt { transport: Transport::Alone, ..udp(0) }, TryFailure::BadCookie);
        fails(&mut plan, Attempt { transport: Transport::Tcp, ..udp(0) }, TryFailure::BadCookie);
        assert_eq!(plan.next(), Next::GiveUp);
    }

    #[test]
    fn a_late_query_stays_valid_and_others_join_it() {
        let late = |upstream| Attempt { late: true, ..udp(upstream) };
        let mut plan = plan(2);
        let mut rounds = Vec::new();
        for upstream in [0, 1, 0, 1, 0] {
            rounds.push(plan.round());
            fails(&mut plan, udp(upstream), TryFailure::Late);
        }
        assert_eq!((plan.in_air(), rounds), (5, vec![0, 0, 1, 1, 2]));
        assert_eq!(plan.next(), Next::Try(udp(1)));
        assert_eq!(plan.next(), Next::Wait, "it has its time first");
        plan.learn(late(0), TryFailure::Silent);
        plan.learn(udp(1), TryFailure::Late);
        // Its last word, in reply to its first query: it is not asked again.
        plan.learn(late(0), TryFailure::Refused(None));
        assert_eq!(plan.next(), Next::Try(udp(1)));
        plan.learn(udp(1), TryFailure::Refused(None));
        assert_eq!(plan.next(), Next::Wait, "four late queries may still bring an answer");
        (0..3).for_each(|_| plan.learn(late(1), TryFailure::Silent));
        plan.learn(late(0), TryFailure::Silent);
        assert_eq!((plan.next(), plan.in_air()), (Next::GiveUp, 0));
    }

    #[test]
    fn a_late_reply_that_was_cut_is_asked_for_over_tcp() {
        let mut plan = plan(1);
        fails(&mut plan, udp(0), TryFailure::Late);
        assert_eq!(plan.next(), Next::Try(udp(0)));
        plan.learn(Attempt { late: true, ..udp(0) }, TryFailure::NeedsTcp);
        assert_eq!(plan.next(), Next::Try(Attempt { transport: Transport::Tcp, ..udp(0) }));
        assert_eq!((plan.next(), plan.in_air()), (Next::Wait, 2));
    }

    #[test]
    fn unreachable_upstreams_are_not_hammered() {
        let mut plan = plan(2);
        let mut pauses = Vec::new();
        for _ in 0..MAX_TRIES {
            let mut next = plan.next();
            if let Next::Pause(pause) = next {
                pauses.push(pause.as_millis());
                next = plan.next();
            }
            let Next::Try(attempt) = next else { panic!("{next:?}") };
            plan.learn(attempt, TryFailure::Unreachable);
        }
        assert_eq!(pauses, [50, 100, 200]);
        assert_eq!(plan.why_none(), ExtendedError::NETWORK_ERROR);
    }

    #[test]
    fn one_that_refuses_is_not_asked_again() {
        let mut plan = plan(3);
        fails(&mut plan, udp(0), TryFailure::Refused(None));
        fails(&mut plan, udp(1), TryFailure::Silent);
        fails(&mut plan, udp(2), TryFailure::Refused(None));
        fails(&mut plan, udp(1), TryFailure::Refused(None));
        assert_eq!(plan.next(), Next::GiveUp, "nobody is left");
    }

    #[test]
    fn what_the_first_upstream_says_is_why() {
        let [first, second] = [9, 22].map(|code| ExtendedError::read(&[0, code]));
        let mut plan = plan(4);
        fails(&mut plan, udp(0), TryFailure::Refused(None));
        fails(&mut plan, udp(1), TryFailure::Refused(first));
        fails(&mut plan, udp(2), TryFailure::Refused(second));
        fails(&mut plan, udp(3), TryFailure::NeedsPlainDns);
        assert_eq!(plan.why_none(), first.unwrap());
    }

    #[test]
    fn after_a_bogus_reply_the_next_is_asked_and_the_reason_is_kept() {
        let mut plan = plan(2);
        fails(&mut plan, udp(0), TryFailure::Bogus(ExtendedError::SIGNATURE_EXPIRED));
        fails(&mut plan, udp(1), TryFailure::Refused(None));
        assert_eq!(plan.next(), Next::GiveUp);
        assert_eq!(plan.why_none(), ExtendedError::SIGNATURE_EXPIRED);
    }

    #[test]
    fn the_same_upstream_another_way() {
        let mut plan = plan(2);
        let plain = Attempt { edns: false, ..udp(0) };
        fails(&mut plan, udp(0), TryFailure::NeedsPlainDns);
        fails(&mut plan, plain, TryFailure::NeedsTcp);
        let plain_tcp = Attempt { transport: Transport::Tcp, ..plain };
        fails(&mut plan, plain_tcp, TryFailure::NeedsTcp);
        fails(&mut plan, udp(1), TryFailure::NeedsTcp);
        let tcp = Attempt { transport: Transport::Tcp, ..udp(1) };
        fails(&mut plan, tcp, TryFailure::NeedsPlainDns);
        fails(&mut plan, Attempt { edns: false, ..tcp }, TryFailure::NeedsPlainDns);
        assert_eq!(plan.next(), Next::Pause(FIRST_PAUSE));
        assert_eq!(plan.next(), Next::Try(udp(0)), "1 gave its last word");
    }

    #[test]
    fn several_at_once_are_replaced_as_they_fail() {
        let mut plan = Plan::in_parallel((0..4).collect(), 2);
        assert_eq!([plan.next(), plan.next()], [Next::Try(udp(0)), Next::Try(udp(1))]);
        assert_eq!((plan.next(), plan.in_air()), (Next::Wait, 2));
        plan.learn(udp(1), TryFailure::Refused(None));
        assert_eq!([plan.next(), plan.next()], [Next::Try(udp(2)), Next::Wait]);
        plan.learn(udp(0), TryFailure::NeedsTcp);
        let tcp = Attempt { transport: Transport::Tcp, ..udp(0) };
        assert_eq!([plan.next(), plan.next()], [Next::Try(tcp), Next::Wait]);
        plan.learn(udp(2), TryFailure::Refused(None));
        assert_eq!([plan.next(), plan.next()], [Next::Try(udp(3)), Next::Wait]);
        plan.learn(tcp, TryFailure::Refused(None));
        assert_eq!(plan.next(), Next::Wait, "3 may know it");
        plan.learn(udp(3), TryFailure::Refused(None));
        assert_eq!(plan.next(), Next::GiveUp);
    }

    #[test]
    fn a_new_round_begins_when_all_of_the_last_have_come_to_something() {
        let mut plan = Plan::in_parallel((0..2).collect(), 2);
        assert_eq!([plan.next(), plan.next()], [Next::Try(udp(0)), Next::Try(udp(1))]);
        plan.learn(udp(0), TryFailure::Unreachable);
        assert_eq!(plan.next(), Next::Wait, "0 is not hammered while 1 is asked");
        plan.learn(udp(1), TryFailure::Unreachable);
        assert_eq!(plan.next(), Next::Pause(FIRST_PAUSE));
        assert_eq!([plan.next(), plan.next()], [Next::Try(udp(0)), Next::Try(udp(1))]);
    }

    #[test]
    fn a_second_one_is_asked_if_the_first_takes_long_and_only_then() {
        let usual = Duration::from_millis(9);
        let mut slow = Plan::hedged((0..3).collect(), Some(usual));
        assert_eq!(slow.next(), Next::Try(udp(0)));
        assert_eq!((slow.take_hedge(), slow.take_hedge()), (Some(usual), None));
        assert_eq!(slow.next(), Next::Wait);
        assert!(slow.hedge());
        assert_eq!([slow.next(), slow.next()], [Next::Try(udp(1)), Next::Wait]);
        assert!(!slow.hedge(), "once");

        let mut failing = Plan::hedged((0..3).collect(), Some(usual));
        fails(&mut failing, udp(0), TryFailure::Refused(None));
        assert_eq!(failing.next(), Next::Try(udp(1)));
        assert!(!failing.hedge(), "the second has just been asked");
        assert_eq!(failing.next(), Next::Wait);

        let mut alone = Plan::hedged([0].into(), Some(usual));
        assert_eq!(alone.next(), Next::Try(udp(0)));
        assert!(!alone.hedge(), "there is nobody else");
    }

    #[test]
    fn whatever_happens_the_tries_are_bounded() {
        let setbacks = [
            TryFailure::NeedsTcp,
            TryFailure::NeedsPlainDns,
            TryFailure::Refused(None),
            TryFailure::Silent,
            TryFailure::Unreachable,
            TryFailure::Late,
        ];
        for (width, seed) in
            (1..=3).flat_map(|width| (0..6_usize.pow(6)).map(move |seed| (width, seed)))
        {
            let mut plan = Plan::in_parallel((0..3).collect(), width);
            let (mut tries, mut choice, mut in_air) = (0, seed, VecDeque::new());
            for _ in 0..16 * MAX_TRIES {
                match plan.next() {
                    Next::Try(attempt) => {
                        tries += 1;
                        in_air.push_back(attempt);
                    }
                    Next::Wait => {
                        // Any of them may be the next to come to something.
                        in_air.rotate_left(choice % in_air.len());
                        let attempt: Attempt = in_air.pop_front().unwrap();
                        let failure = match setbacks[choice % 6] {
                            TryFailure::Late if attempt.late => TryFailure::Silent,
                            failure => failure,
                        };
                        plan.learn(attempt, failure);
                        if failure == TryFailure::Late {
                            in_air.push_back(Attempt { late: true, ..attempt });
                        }
                        choice = if choice == 0 { seed } else { choice / 6 };
                    }
                    Next::Pause(pause) => {
                        let all_late = in_air.iter().all(|attempt| attempt.late);
                        assert!(pause <= LONGEST_PAUSE && all_late);
                    }
                    Next::GiveUp => break,
                }
                assert_eq!(in_air.len(), plan.in_air());
                let fresh = in_air.iter().filter(|attempt| !attempt.late).count();
                // What a late reply asks for joins those that are under way.
                assert!(fresh <= width + (in_air.len() - fresh).max(plan.timeouts));
            }
            assert!(tries <= MAX_TRIES);
            assert_eq!(plan.next(), Next::GiveUp);
        }
    }

    #[test]
    fn without_upstreams_there_is_nothing_to_try() {
        assert_eq!(plan(0).next(), Next::GiveUp);
    }
}
