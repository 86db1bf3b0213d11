//! Access list and rate limits on a whole line, over the memory driver. They are exact with any number of queues, and
//! the same for hits, misses, local and blocked names. Every refusal is counted. The clock stands still, so a client
//! gets its burst and no more.

#![cfg(debug_assertions)]

use std::collections::HashMap;

use pmdns_counters::Totals;
use pmdns_engine::testing::{Rig, config};
use pmdns_nics::Burst;
use pmdns_stages::testing::{QueryFrame, query};
use pmdns_stages::{Reason, Step};

const BURST: u64 = 10;
const LIMIT: &str = "[ratelimit]\nqueries_per_second = 1\nburst = 10\nipv4_prefix = 32\nslip = 0\n";

/// One of each: hit, miss, local, blocked.
const KINDS: [&str; 4] =
    ["hit.example. A", "miss.example. A", "local.example. A", "blocked.example. A"];

/// The line run by so many cores, each with a queue of its own.
fn rig(rules: &str, queues: usize) -> Rig {
    let cores: Vec<String> = (1..=queues).map(|core| core.to_string()).collect();
    let text = format!(
        "{rules}[[placement]]\nstages = \"all\"\ncores = [{}]\n\
         [[local]]\nname = \"local.example\"\ntype = \"A\"\ndata = \"192.0.2.1\"\n\
         [block]\nnames = [\"blocked.example\"]\n",
        cores.join(", ")
    );
    let (mut rig, _) = Rig::stepped(&config(&text));
    rig.learn(&query("hit.example. A"), &[(0, 1, 86_400, vec![192, 0, 2, 7])]);
    rig
}

/// Sends a query to the queue that RSS by address would choose.
fn send(rig: &mut Rig, queues: usize, client: u8, text: &str) {
    let source = vec![10, 77, 0, client];
    let mut burst = Burst::new();
    burst.push(rig.frame(&QueryFrame { source, ..query(text) }.frame_bytes()));
    rig.offer(usize::from(client) % queues, &mut burst);
    rig.settle();
}

/// How many answers each client got, by the last byte of its address.
fn answers(rig: &mut Rig) -> HashMap<u8, u64> {
    let mut answers = HashMap::new();
    for frame in rig.sent() {
        *answers.entry(frame.bytes()[33]).or_default() += 1;
    }
    answers
}

/// Packets that were dropped for this reason.
fn dropped(rig: &Rig, reason: Reason) -> u64 {
    let meters = rig.workers.iter().flat_map(|worker| worker.counters().meters);
    meters.map(|meter| meter.exits.of(Step::drop(reason))).sum()
}

fn totals(rig: &Rig) -> Totals {
    let counters: Vec<_> = rig.workers.iter().map(|worker| worker.counters()).collect();
    pmdns_engine::counters::totals(&counters)
}

#[test]
fn the_limit_is_exact_on_one_queue_and_on_two() {
    for queues in [1, 2] {
        let mut rig = rig(LIMIT, queues);
        for _ in 0..25 {
            (11..=18).for_each(|client| send(&mut rig, queues, client, "hit.example. A"));
        }
        let answers = answers(&mut rig);
        assert_eq!(answers.len(), 8);
        for (client, passed) in &answers {
            assert_eq!(*passed, BURST, "{queues} queues, client {client}");
        }
        let passed: u64 = answers.values().sum();
        assert_eq!(dropped(&rig, Reason::RateLimited), 8 * 25 - passed);
    }
}

/// What floods comes in one burst of frames with what does not, to the same queue.
#[test]
fn trap_22_every_query_of_another_client_is_answered_while_one_floods() {
    let (flood, other) = (11, 13);
    for queues in [1, 2] {
        let mut rig = rig(LIMIT, queues);
        for _ in 0..BURST {
            let mut burst = Burst::new();
            for client in [[flood; 15].as_slice(), &[other], &[flood; 15]].concat() {
                let query =
                    QueryFrame { source: vec![10, 77, 0, client], ..query("hit.example. A") };
                burst.push(rig.frame(&query.frame_bytes()));
            }
            rig.offer(usize::from(flood) % queues, &mut burst);
            rig.settle();
        }
        let answers = answers(&mut rig);
        assert_eq!(answers[&other], BURST, "{queues} queues: each of its queries");
        assert_eq!(answers[&flood], BURST, "{queues} queues");
        assert_eq!(dropped(&rig, Reason::RateLimited), 30 * BURST - answers[&flood]);
    }
}

/// Some bypass caches knew their limits on one of two paths only.
#[test]
fn trap_21_access_and_limits_hold_whatever_answers() {
    for kind in KINDS {
        let mut refusing = rig(
            "[acl]\ndefault = \"allow\"\nrefuse = [\"10.77.0.5\"]\ndrop = [\"10.77.0.6\"]\n",
            1,
        );
        for client in [5, 6] {
            send(&mut refusing, 1, client, kind);
        }
        assert_eq!(answers(&mut refusing), HashMap::from([(5, 1)]), "{kind}");
        assert_eq!(totals(&refusing).slow_path, 0, "{kind}: nobody else is asked");

        let mut limited = rig(LIMIT, 1);
        for _ in 0..30 {
            send(&mut limited, 1, 9, kind);
        }
        let passed = answers(&mut limited).values().sum::<u64>() + totals(&limited).slow_path;
        assert_eq!(passed, BURST, "{kind}");
    }
}

#[test]
fn trap_22_a_flood_of_new_names_uses_up_its_own_misses_only() {
    let limit =
        "[ratelimit]\nmiss_queries_per_second = 1\nmiss_burst = 10\nipv4_prefix = 32\nslip = 0\n";
    for queues in [1, 2] {
        let mut rig = rig(limit, queues);
        for number in 0..500 {
            send(&mut rig, queues, 11, &format!("random{number}.example. A"));
            send(&mut rig, queues, 11, "hit.example. A");
        }
        for client in 12..=19 {
            send(&mut rig, queues, client, "other.example. A");
        }
        let missed = totals(&rig).slow_path - 8;
        assert_eq!(missed, BURST, "of the flood's misses");
        assert_eq!(dropped(&rig, Reason::MissRateLimited), 500 - missed);
        assert_eq!(answers(&mut rig), HashMap::from([(11, 500)]), "its hits are no concern");
    }
}

#[test]
fn over_the_limit_on_misses_every_slip_th_is_told_to_use_tcp() {
    let limit = "[ratelimit]\nmiss_queries_per_second = 1\nmiss_burst = 1\nslip = 2\n";
    let mut rig = rig(limit, 1);
    for number in 0..5 {
        send(&mut rig, 1, 1, &format!("random{number}.example. A"));
    }
    let sent = rig.sent();
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|frame| frame.bytes()[44] & 2 != 0), "TC=1");
}

#[test]
fn a_dry_run_only_counts() {
    let limit = "[ratelimit]\nqueries_per_second = 1\nburst = 1\ndry_run = true\n\
                 miss_queries_per_second = 1\nmiss_burst = 1\n";
    let mut rig = rig(limit, 1);
    for number in 0..50 {
        send(&mut rig, 1, 1, &format!("random{number}.example. A"));
    }
    assert_eq!(totals(&rig).slow_path, 50);
    let spared = rig.workers[0].counters().tally.dry_run_passed;
    assert_eq!(spared, 98, "all but what is within each limit");
}

#[test]
fn trap_18_what_is_refused_is_counted() {
    let rules = "[acl]\ndefault = \"allow\"\ndrop = [\"10.77.0.6\"]\n[ratelimit]\nqueries_per_second = 1\nburst = 10\n\
                 ipv4_prefix = 32\nslip = 0\nmiss_queries_per_second = 1\nmiss_burst = 2\n";
    let mut rig = rig(rules, 1);
    let mut sent = 0;
    for client in [5, 6, 7] {
        for number in 0..30 {
            send(&mut rig, 1, client, &format!("random{number}.example. A"));
            send(&mut rig, 1, client, KINDS[number % KINDS.len()]);
            sent += 2;
        }
    }
    let totals = totals(&rig);
    assert!(totals.balance(), "{totals:?}");
    let refused: u64 = [Reason::AclDrop, Reason::RateLimited, Reason::MissRateLimited]
        .map(|reason| dropped(&rig, reason))
        .iter()
        .sum();
    assert!(dropped(&rig, Reason::AclDrop) == 60 && dropped(&rig, Reason::RateLimited) > 60);
    assert_eq!(refused + answers(&mut rig).values().sum::<u64>() + totals.slow_path, sent);
}
