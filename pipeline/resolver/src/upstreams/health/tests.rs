//! Which upstreams are well, by what they did and by the time.

use proptest::prelude::*;

use super::*;

const START: Duration = Duration::from_secs(1000);
const INTERVAL: Duration = Duration::from_secs(30);

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn of(upstreams: usize, settings: &Settings) -> Health {
    Health::new(settings, vec![RetryTimeout::new(ms(800), ms(3000)); upstreams])
}

fn health() -> Health {
    of(2, &Settings::default())
}

/// Upstream 0 fails until it rests. No time passes.
fn resting() -> Health {
    let mut health = health();
    for _ in 0..Settings::default().failures {
        assert_eq!(health.next_probe(0), None);
        health.failed(0, START, START);
    }
    assert_eq!(health.next_probe(0), Some(START), "at once");
    assert!(!health.is_dead(0), "no probe has failed");
    health
}

fn take_probe(health: &mut Health, now: Duration) -> Option<usize> {
    let upstream = health.due_probe(now, |_| true)?;
    health.note_probe(upstream, now);
    Some(upstream)
}

#[test]
fn round_trip_times_are_smoothed_unless_the_last_one_is_long_ago() {
    let mut health = health();
    health.replied(0, ms(80), START);
    assert_eq!(health.srtt(0), ms(80));
    health.replied(0, ms(160), START);
    assert_eq!(health.srtt(0), ms(90));
    let later = START + ESTIMATE_LIFETIME * 2;
    assert_eq!((health.estimate(0, later), health.band(0, later)), (None, 0));
    health.replied(0, ms(1), later);
    assert_eq!(health.estimate(0, later), Some(ms(1)));
}

#[test]
fn of_a_hundred_replies_ninety_five_take_no_longer_than_usual() {
    let mut health = health();
    for number in 0..FEWEST_RECENT as u64 {
        assert_eq!(health.usual_rtt(0), None);
        health.replied(0, ms(number), START);
    }
    assert_eq!(health.usual_rtt(0), Some(ms(15)));
    for number in 0..1000 {
        health.replied(0, if number % 20 == 0 { ms(900) } else { ms(7) }, START);
    }
    assert_eq!(health.usual_rtt(0), Some(ms(7)), "and what was long ago is forgotten");
    assert_eq!(health.usual_rtt(1), None);
}

#[test]
fn one_question_in_a_while_finds_out_how_fast_an_upstream_is() {
    let mut health = health();
    assert!(health.take_try(0, START), "nothing is known of it");
    assert!(!health.take_try(0, START), "somebody finds out already");
    health.replied(0, ms(3), START + ms(3));
    let later = START + ms(3) + ESTIMATE_LIFETIME;
    assert!(!health.take_try(0, later));
    assert!(health.take_try(0, later + ms(1)));
    assert!(!health.take_try(0, later + ESTIMATE_LIFETIME));
    assert!(health.take_try(0, later + ESTIMATE_LIFETIME + ms(2)), "that one got lost");
}

#[test]
fn probes_come_less_and_less_often_but_never_end() {
    let mut health = resting();
    let (mut now, mut pauses) = (START, Vec::new());
    for _ in 0..20 {
        let due = health.next_probe(0).unwrap();
        pauses.push((due - now).as_secs());
        now = due;
        if now > START {
            assert_eq!(take_probe(&mut health, now - ms(1)), None);
        }
        assert_eq!(take_probe(&mut health, now), Some(0));
        assert_eq!(take_probe(&mut health, now), None, "one at a time");
        health.failed(0, now, now + ms(2000));
    }
    assert_eq!(pauses[..6], [0, 30, 60, 120, 240, 300]);
    assert_eq!(pauses[6..], [300; 14]);
}

#[test]
fn a_silent_upstream_is_probed_although_it_is_healthy_if_that_is_wanted() {
    let settings = Settings { silence_ms: 200, failures: 2, ..Settings::default() };
    let mut health = of(1, &settings);
    health.replied(0, ms(1), START);
    assert_eq!(take_probe(&mut health, START + ms(199)), None, "it has just replied");
    assert_eq!(take_probe(&mut health, START + ms(200)), Some(0));
    assert_eq!(take_probe(&mut health, START + ms(399)), None, "one at a time");
    assert_eq!(take_probe(&mut health, START + ms(400)), Some(0));
    health.failed(0, START + ms(200), START + ms(450));
    health.failed(0, START + ms(400), START + ms(650));
    assert_eq!(health.next_probe(0), Some(START + ms(650)), "now it rests");
    let mut unwatched = of(1, &Settings::default());
    unwatched.replied(0, ms(1), START);
    assert_eq!(take_probe(&mut unwatched, START * 9), None);
}

#[test]
fn replies_in_a_row_end_a_rest_and_the_second_probe_follows_at_once() {
    let mut health = resting();
    let now = START + INTERVAL;
    assert_eq!(take_probe(&mut health, now), Some(0));
    health.replied(0, ms(5), now + ms(5));
    assert_eq!(take_probe(&mut health, now + ms(5)), Some(0));
    health.failed(0, now + ms(6), now + ms(2000));
    health.replied(0, ms(5), now + ms(3000));
    assert!(health.next_probe(0).is_some(), "not in a row");
    health.replied(0, ms(5), now + ms(3001));
    assert_eq!(health.next_probe(0), None);
}

/// A resolver that has lost its network answers everything with SERVFAIL, and so does one that clients ask for broken names.
#[test]
fn one_that_says_servfail_to_everything_is_dead_if_it_says_so_to_a_probe() {
    let patience = ms(Settings::default().timeout_ms);
    let fail = |health: &mut Health, now| {
        (0..SERVFAILS).for_each(|_| health.servfailed(0, ms(1), false, now));
    };
    let mut health = health();
    (1..SERVFAILS).for_each(|_| health.servfailed(0, ms(1), false, START));
    assert_eq!(take_probe(&mut health, START), None, "few may be by chance");
    health.servfailed(0, ms(1), false, START);
    assert_eq!(take_probe(&mut health, START), Some(0));
    fail(&mut health, START);
    assert_eq!(take_probe(&mut health, START), None, "one at a time");
    assert!(health.next_probe(0).is_none() && !health.is_dead(0), "clients alone do not decide");
    // The probe shows that the names were broken.
    health.replied(0, ms(1), START);
    assert_eq!(take_probe(&mut health, START + patience), None);
    fail(&mut health, START + patience);
    assert_eq!(take_probe(&mut health, START + patience), Some(0));
    health.servfailed(0, ms(1), true, START + patience);
    assert!(health.is_dead(0) && health.next_probe(0) == Some(START + patience + INTERVAL));
    fail(&mut health, START + patience);
    assert_eq!(health.next_probe(0), Some(START + patience + INTERVAL), "no probe for each reply");
    // It is back.
    let now = START + patience + INTERVAL;
    assert_eq!(take_probe(&mut health, now), Some(0));
    health.replied(0, ms(1), now);
    assert!(!health.is_dead(0));
    health.replied(0, ms(1), now);
    assert_eq!(health.next_probe(0), None);
}

#[test]
fn a_single_servfail_is_a_reply_like_others() {
    let mut health = resting();
    assert_eq!(take_probe(&mut health, START), Some(0));
    let now = START + ms(5000);
    health.servfailed(0, ms(1), false, now);
    assert_eq!(take_probe(&mut health, now), Some(0), "it may be back");
    health.servfailed(0, ms(1), true, now);
    assert_eq!(health.next_probe(0), None, "some resolvers know no root");
}

#[test]
fn queries_that_fail_while_it_rests_do_not_put_off_its_probe() {
    let mut health = resting();
    for _ in 0..1000 {
        health.failed(0, START + ms(1), START + ms(800));
    }
    assert_eq!(health.next_probe(0), Some(START));
}

#[test]
fn slow_names_do_not_put_an_upstream_that_replies_to_rest() {
    let mut health = health();
    health.replied(0, ms(1), START + ms(1));
    for _ in 0..1000 {
        health.failed(0, START, START + ms(800));
    }
    assert_eq!(health.next_probe(0), None, "it replied after these queries were sent");
    for _ in 0..Settings::default().failures {
        health.failed(0, START + ms(2), START + ms(800));
    }
    assert!(health.next_probe(0).is_some());
}

proptest! {
    /// unbound#227, unbound#282: however long it was away, the first probe after its return is
    /// followed by one more, and by nothing else.
    #[test]
    fn after_an_outage_of_any_length_it_is_well_within_one_probe(
        outage_ms in 1..30 * 86_400_000u64,
        interval_ms in 100..300_000u64,
        failures in 1..10u32,
        successes in 1..10u32,
    ) {
        let settings = Settings { failures, successes, interval_ms, ..Settings::default() };
        let mut health = of(1, &settings);
        let back = START + ms(outage_ms);
        for _ in 0..failures {
            health.failed(0, START, START);
        }
        let (mut now, mut answered) = (START, 0);
        while let Some(due) = health.next_probe(0) {
            prop_assert!(due <= now.max(back) + LONGEST_PAUSE);
            now = due;
            prop_assert_eq!(take_probe(&mut health, now), Some(0));
            if now >= back {
                answered += 1;
                health.replied(0, ms(9), now + ms(9));
            } else {
                health.failed(0, now, now + ms(2000));
            }
        }
        prop_assert_eq!(answered, successes);
        prop_assert!(now <= back + LONGEST_PAUSE + ms(10) * successes);
    }
}

#[test]
fn clients_make_an_upstream_rest_but_only_a_probe_says_that_it_is_dead() {
    let mut health = resting();
    for failure in 0..1000 {
        health.failed(0, START + ms(failure), START + ms(800 + failure));
    }
    assert!(!health.is_dead(0), "no probe has left");
    assert_eq!(take_probe(&mut health, START + ms(2000)), Some(0));
    health.failed(0, START + ms(2001), START + ms(2900));
    assert!(!health.is_dead(0), "its time has not passed");
    health.failed(0, START + ms(2000), START + ms(4000));
    assert!(health.is_dead(0));
    assert_eq!(take_probe(&mut health, START + ms(2000) + INTERVAL), Some(0));
    assert!(health.is_dead(0), "until a reply comes");
    health.replied(0, ms(1), START + ms(2001) + INTERVAL);
    assert!(!health.is_dead(0) && health.next_probe(0).is_some(), "it rests until the second");
}

#[test]
fn an_error_of_the_network_fails_a_probe_at_once() {
    let mut health = resting();
    health.unreachable(0, START, START);
    assert!(!health.is_dead(0), "that was no probe");
    assert_eq!(take_probe(&mut health, START + ms(1)), Some(0));
    health.unreachable(0, START + ms(1), START + ms(1));
    assert!(health.is_dead(0));
}
