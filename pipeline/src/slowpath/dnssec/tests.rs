//! Tests of what the desk and the thread tell each other.

use pmdns_config::{Dnssec, RateLimit, wire_name};
use pmdns_stages::testing::query;
use pmdns_validator::{Job, Validator};

use super::super::plan::Transport;
use super::super::prefixes::PrefixLengths;
use super::super::query::tests::question;
use super::turns::{End, Event, Turns};
use super::*;

/// An unsigned answer of the root's NS record to itself: keys are wanted to judge it.
const REPLY: &[u8] =
    b"\0\0\x84\0\0\x01\0\x01\0\0\0\0\0\0\x02\0\x01\0\0\x02\0\x01\0\0\0\x3c\0\x01\0";

fn trust(dnssec: Dnssec) -> Option<Trust> {
    let on = Dnssec { validate: true, ..dnssec };
    Anchors::load(&on).unwrap().map(|anchors| anchors.trust().clone())
}

/// Hands over the reply to `question`; `false`: it has no place.
fn validate(validation: &mut Validation, clients: [u8; 4], question: &Question) -> bool {
    let attempt = Attempt { upstream: 0, transport: Transport::Udp, edns: true, late: false };
    let clients = PrefixLengths::of(&RateLimit::default()).prefix(clients.into());
    let Some(place) = validation.take_place(clients, question, Duration::ZERO) else {
        return false;
    };
    let validated =
        Validated { ticket: Ticket::NONE, attempt, network: None, was_shed: false, place };
    validation.validate(validated, question, REPLY.to_vec(), false);
    true
}

#[test]
fn audit_03_one_network_and_one_zone_leave_places_for_others_and_all_replies_come_back() {
    let mut validation = Validation::new(trust(Dnssec::default()));
    let thread =
        ValidationThread::start(trust(Dnssec::default()), Duration::from_millis(500)).unwrap();
    let evil: Vec<_> =
        (0..MAX_UNDER_WAY).map(|n| question(&query(&format!("x{n}.evil.example. A")))).collect();
    let mut taken = 0;
    for (n, question) in evil.iter().enumerate() {
        taken += usize::from(validate(&mut validation, [198, 51, (n % 4) as u8, 1], question));
    }
    assert!(taken <= MAX_UNDER_WAY / 3 + 1, "{taken} places for one zone");
    for n in 0..100_u8 {
        let name = format!("www.good{n}.example. A");
        assert!(validate(&mut validation, [192, 0, n, 1], &question(&query(&name))), "{n}");
    }
    // Nobody brings the keys, which are asked for once.
    let mut fetches = 0;
    while !validation.under_way.is_empty() {
        while let Some(work) = validation.next_work() {
            thread.begin(work);
        }
        match thread.reports.recv().unwrap() {
            Report::Fetch { name, qtype, .. } => {
                assert_eq!((&*name, qtype), (&[0][..], 48));
                fetches += 1;
            }
            Report::Verdict { slot, verdict, cost } => {
                assert!(matches!(verdict, Verdict::Late), "{verdict:?}");
                assert!(validation.end(slot, cost, Duration::ZERO).is_some());
            }
        }
    }
    assert_eq!(fetches, 1);
    assert!(validate(&mut validation, [198, 51, 0, 1], &evil[0]), "there is room again");
}

#[test]
fn names_without_an_anchor_need_no_place() {
    let file = std::env::temp_dir().join(format!("pmdns-{}-unconcerned", std::process::id()));
    std::fs::write(&file, "example. 60 IN DS 1 13 2 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n")
        .unwrap();
    let trust_anchor = Some(file.clone());
    let validation = Validation::new(trust(Dnssec { trust_anchor, ..Dnssec::default() }));
    std::fs::remove_file(file).unwrap();
    let verdict = |text: &str, reply: &[u8]| validation.verdict(&question(&query(text)), reply);
    assert_eq!(verdict("www.other. A", REPLY), Some(pmdns_validator::Verdict::Indeterminate));
    assert_eq!(verdict("www.example. A", REPLY), None);
    // An alias into a zone with an anchor has to be looked at.
    let mut alias = b"\0\0\x84\0\0\x01\0\x01\0\0\0\0".to_vec();
    alias.extend(wire_name("www.other").unwrap());
    alias.extend([0, 1, 0, 1]);
    alias.extend(wire_name("www.example").unwrap());
    alias.extend([0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
    assert_eq!(verdict("www.other. A", &alias), None);
}

#[test]
fn who_does_not_validate_has_no_thread() {
    let thread = ValidationThread::start(None, Duration::from_secs(1)).unwrap();
    assert!(thread.thread.is_none() && !Validation::new(None).is_on());
}

/// A job about a name of `zone`: one that needs the keys of the root, or one that ends at once.
fn job(validator: &mut Validator, ends: bool) -> Job {
    let question = pmdns_validator::Question { name: &[0], qtype: 2, qclass: 1 };
    validator.start(question, if ends { &[] } else { REPLY }, 0)
}

fn validator() -> Validator {
    let on = Dnssec { validate: true, ..Dnssec::default() };
    let anchors = Anchors::load(&on).unwrap().unwrap();
    Validator::trusting(anchors.trust().clone(), Limits::default())
}

#[test]
fn audit_03_zones_take_turns_however_many_replies_one_has() {
    let (mut validator, mut turns) = (validator(), Turns::new());
    for (slot, zone) in ["evil", "evil", "evil", "evil", "good", "good"].iter().enumerate() {
        let job = job(&mut validator, true);
        turns.add(job, (slot, zone.as_bytes().into()), (), Duration::ZERO);
    }
    let ended = std::iter::from_fn(|| turns.step(&mut validator, 0)).map(|event| match event {
        Event::Done(slot, (), End::Judged(_), _) => slot,
        event => panic!("{event:?}"),
    });
    assert_eq!(ended.collect::<Vec<_>>(), [0, 4, 1, 5, 2, 3]);
}

#[test]
fn audit_03_no_room_for_keys_ends_those_who_had_none_and_others_ask_again() {
    let (mut validator, mut turns) = (validator(), Turns::new());
    for slot in 0..3 {
        let job = job(&mut validator, false);
        turns.add(job, (slot, (*b"zone").into()), (), Duration::ZERO);
    }
    let wanted = (Box::from([0]), 48);
    let step = |turns: &mut Turns<()>, validator: &mut Validator| {
        std::iter::from_fn(|| turns.is_ready().then(|| turns.step(validator, 0)))
            .flatten()
            .map(|event| match event {
                Event::Ask(slot, asked) if asked == wanted => slot,
                event => panic!("{event:?}"),
            })
            .collect::<Vec<_>>()
    };
    for slot in 0..3 {
        assert_eq!(step(&mut turns, &mut validator), [slot], "one asks for all");
        let shed = turns.fetched(&mut validator, &wanted, Fetched::Shed);
        assert!(matches!(shed, Some(Event::Done(ended, (), End::Shed, _)) if ended == slot));
    }
    assert!(step(&mut turns, &mut validator).is_empty());
}
