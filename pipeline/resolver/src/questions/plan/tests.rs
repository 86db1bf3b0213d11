//! Whom a plan asks next after each failure, and that its tries are bounded.

use super::*;

fn plan(upstreams: usize) -> Plan {
    Plan::new((0..upstreams as u8).collect())
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
fn a_plan_follows_other_upstreams_and_what_was_cut_costs_no_try() {
    let mut asked = plan(1);
    for _ in 0..3 * MAX_TRIES {
        let Next::Try(attempt) = asked.next() else { panic!("there is a try left") };
        asked.replace_upstreams(Plan::new([attempt.upstream as u8 ^ 1].into_iter().collect()));
        assert_eq!(asked.next(), Next::Wait, "one is under way");
        asked.learn(attempt, TryFailure::Gone);
    }
    assert_eq!((asked.in_air(), asked.next()), (0, Next::Try(udp(0))));
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

/// A send that fails at once, as without a route, is no reason to wait for seconds.
#[test]
fn without_a_network_the_plan_gives_up_soon() {
    for upstreams in 1..=2 {
        let mut plan = Plan::new((0..upstreams).collect());
        let (mut tries, mut paused) = (0, Duration::ZERO);
        loop {
            match plan.next() {
                Next::Try(attempt) => {
                    tries += 1;
                    plan.learn(attempt, TryFailure::NoNetwork);
                }
                Next::Pause(pause) => paused += pause,
                Next::Wait => panic!("there is nothing to wait for"),
                Next::GiveUp => break,
            }
        }
        assert_eq!((tries, paused), (4 * u32::from(upstreams), 7 * FIRST_PAUSE));
    }
    // A network that was there once is waited for.
    let mut plan = Plan::new([0].into_iter().collect());
    fails(&mut plan, udp(0), TryFailure::Unreachable);
    let mut paused = Duration::ZERO;
    loop {
        match plan.next() {
            Next::Try(attempt) => plan.learn(attempt, TryFailure::NoNetwork),
            Next::Pause(pause) => paused += pause,
            Next::Wait => panic!("there is nothing to wait for"),
            Next::GiveUp => break,
        }
    }
    assert!(paused > Duration::from_secs(1), "{paused:?}");
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

    let mut alone = Plan::hedged([0].into_iter().collect(), Some(usual));
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
