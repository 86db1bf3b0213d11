//! The plan of one exchange: whom to ask next, and how, until one answers or all hope is gone.
//!
//! A pure state machine: it is told what each try came to and says what to do next.

use std::collections::VecDeque;
use std::time::Duration;

/// Tries for one question, in all and over all upstreams.
const MAX_TRIES: u32 = 8;
/// Pause before the upstreams are asked again, when none of them took its time to fail; twice as long
/// before each further round.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// How a query travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Udp,
    Tcp,
    /// Over TLS, HTTPS or QUIC, as the upstream's address says.
    Encrypted,
}

/// One try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    /// Index of the upstream.
    pub(super) upstream: usize,
    pub(super) transport: Transport,
    /// Whether the query has an OPT record.
    pub(super) edns: bool,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Try(Attempt),
    Pause(Duration),
    GiveUp,
}

/// What a try came to, when it was no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setback {
    /// The whole answer needs TCP, or what UDP brings cannot be trusted or understood.
    NeedsTcp,
    /// The upstream does not understand EDNS (RFC 6891 section 7).
    NeedsPlainDns,
    /// It replied that it has no answer. To ask it again within this exchange is no use.
    Refused,
    /// It took all the time it had.
    Silent,
    /// It could not be reached, which was clear at once.
    Unreachable,
}

/// The plan of one exchange.
#[derive(Debug)]
pub(super) struct Plan {
    /// Upstreams still worth asking; the front is next.
    queue: VecDeque<usize>,
    /// How many of them are to be asked before the next pause.
    left_in_round: usize,
    /// The same upstream again, another way.
    again: Option<Attempt>,
    tries: u32,
    pause: Duration,
    pause_is_due: bool,
}

impl Plan {
    /// A plan that asks `upstreams` in this order.
    pub(super) fn new(upstreams: VecDeque<usize>) -> Self {
        Self {
            left_in_round: upstreams.len(),
            queue: upstreams,
            again: None,
            tries: 0,
            pause: FIRST_PAUSE,
            pause_is_due: true,
        }
    }

    /// What to do next. After a try the caller says what it came to: [`Plan::learn`].
    pub(super) fn next(&mut self) -> Next {
        if self.tries >= MAX_TRIES || (self.queue.is_empty() && self.again.is_none()) {
            return Next::GiveUp;
        }
        if let Some(attempt) = self.again.take() {
            self.tries += 1;
            return Next::Try(attempt);
        }
        if self.left_in_round == 0 {
            self.left_in_round = self.queue.len();
            if std::mem::replace(&mut self.pause_is_due, true) {
                let pause = self.pause;
                self.pause = (pause * 2).min(LONGEST_PAUSE);
                return Next::Pause(pause);
            }
        }
        let Some(upstream) = self.queue.pop_front() else { return Next::GiveUp };
        self.left_in_round -= 1;
        self.tries += 1;
        Next::Try(Attempt { upstream, transport: Transport::Udp, edns: true })
    }

    /// Takes in what `attempt` came to.
    pub(super) fn learn(&mut self, attempt: Attempt, setback: Setback) {
        match setback {
            Setback::NeedsTcp if attempt.transport == Transport::Udp => {
                self.again = Some(Attempt { transport: Transport::Tcp, ..attempt });
            }
            Setback::NeedsPlainDns if attempt.edns => {
                self.again = Some(Attempt { edns: false, ..attempt });
            }
            Setback::Refused | Setback::NeedsPlainDns => {}
            Setback::Silent => {
                self.pause_is_due = false;
                self.queue.push_back(attempt.upstream);
            }
            Setback::Unreachable | Setback::NeedsTcp => self.queue.push_back(attempt.upstream),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(upstreams: usize) -> Plan {
        Plan::new((0..upstreams).collect())
    }

    fn udp(upstream: usize) -> Attempt {
        Attempt { upstream, transport: Transport::Udp, edns: true }
    }

    /// Next must be `attempt`, and it comes to `setback`.
    fn fails(plan: &mut Plan, attempt: Attempt, setback: Setback) {
        assert_eq!(plan.next(), Next::Try(attempt));
        plan.learn(attempt, setback);
    }

    #[test]
    fn silent_upstreams_are_asked_in_turn_without_a_pause() {
        let mut plan = plan(2);
        for upstream in [0, 1, 0, 1, 0, 1, 0, 1] {
            fails(&mut plan, udp(upstream), Setback::Silent);
        }
        assert_eq!(plan.next(), Next::GiveUp, "after {MAX_TRIES} tries");
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
            plan.learn(attempt, Setback::Unreachable);
        }
        assert_eq!(pauses, [50, 100, 200]);
    }

    #[test]
    fn one_that_refuses_is_not_asked_again() {
        let mut plan = plan(3);
        fails(&mut plan, udp(0), Setback::Refused);
        fails(&mut plan, udp(1), Setback::Silent);
        fails(&mut plan, udp(2), Setback::Refused);
        fails(&mut plan, udp(1), Setback::Refused);
        assert_eq!(plan.next(), Next::GiveUp, "nobody is left");
    }

    #[test]
    fn the_same_upstream_another_way() {
        let mut plan = plan(2);
        let plain = Attempt { edns: false, ..udp(0) };
        fails(&mut plan, udp(0), Setback::NeedsPlainDns);
        fails(&mut plan, plain, Setback::NeedsTcp);
        let plain_tcp = Attempt { transport: Transport::Tcp, ..plain };
        fails(&mut plan, plain_tcp, Setback::NeedsTcp);
        fails(&mut plan, udp(1), Setback::NeedsTcp);
        let tcp = Attempt { transport: Transport::Tcp, ..udp(1) };
        fails(&mut plan, tcp, Setback::NeedsPlainDns);
        fails(&mut plan, Attempt { edns: false, ..tcp }, Setback::NeedsPlainDns);
        assert_eq!(plan.next(), Next::Pause(FIRST_PAUSE));
        assert_eq!(plan.next(), Next::Try(udp(0)), "1 gave its last word");
    }

    #[test]
    fn whatever_happens_the_tries_are_bounded() {
        let setbacks = [
            Setback::NeedsTcp,
            Setback::NeedsPlainDns,
            Setback::Refused,
            Setback::Silent,
            Setback::Unreachable,
        ];
        for seed in 0..5_usize.pow(6) {
            let (mut plan, mut tries, mut choice) = (plan(3), 0, seed);
            for _ in 0..4 * MAX_TRIES {
                match plan.next() {
                    Next::Try(attempt) => {
                        tries += 1;
                        plan.learn(attempt, setbacks[choice % 5]);
                        choice = if choice == 0 { seed } else { choice / 5 };
                    }
                    Next::Pause(pause) => assert!(pause <= LONGEST_PAUSE),
                    Next::GiveUp => break,
                }
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
