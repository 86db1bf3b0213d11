//! Tests of what the resolver and the thread tell each other.

use pmdns_config::wire_name;
use pmdns_stages::testing::query;
use pmdns_stages::wire::dns::rtype;
use pmdns_validator::{TrustAnchor, ValidationJob, Validator};

use super::turns::{Event, JobEnd, Turns};
use super::*;
use crate::questions::plan::Transport;
use crate::questions::prefixes::tests::lengths;
use crate::upstreams::query::tests::question;

/// An unsigned answer of the root's NS record to itself: keys are wanted to judge it.
const REPLY: &[u8] =
    b"\0\0\x84\0\0\x01\0\x01\0\0\0\0\0\0\x02\0\x01\0\0\x02\0\x01\0\0\0\x3c\0\x01\0";

/// Trust in a key of this zone.
fn trust(zone: &str) -> TrustAnchors {
    let ds = [&[0, 1, 13, 2][..], &[7; 32]].concat();
    TrustAnchors::new(&[TrustAnchor::new(&wire_name(zone).unwrap(), rtype::DS, &ds).unwrap()], &[])
}

/// Hands over the reply to `question`; `false`: it has no place.
fn validate(validation: &mut Validation, clients: [u8; 4], question: &Question) -> bool {
    let attempt = Attempt { upstream: 0, transport: Transport::Udp, edns: true, late: false };
    let candidate = Candidate { ticket: Ticket::NONE, attempt, network: None };
    let clients = lengths().prefix(clients.into(), 53);
    let Some(place) = validation.take_place(clients, question, Duration::ZERO) else {
        return false;
    };
    let validated = Validated { candidate, was_shed: false, place };
    validation.validate(validated, question, REPLY.to_vec(), false);
    true
}

#[test]
fn audit_03_one_network_and_one_zone_leave_places_for_others_and_all_replies_come_back() {
    let mut validation = Validation::new(Some(trust(".")));
    let mut worker = ReplyValidator::new(trust("."), Duration::from_millis(500));
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
    while let Some(work) = validation.next_work() {
        assert!(worker.take(work, Duration::ZERO).is_none());
    }
    let mut fetches = 0;
    while let Some(report) = worker.is_ready().then(|| worker.step(0)) {
        if let Some(report) = report {
            let ValidationReport::Fetch { name, qtype, .. } = report else { panic!("{report:?}") };
            assert_eq!((&*name, qtype), (&[0][..], 48));
            fetches += 1;
        }
    }
    assert!(worker.expire(Duration::from_millis(499)).is_none());
    while let Some(report) = worker.expire(Duration::from_millis(500)) {
        let ValidationReport::Verdict { slot, verdict, cost } = report else {
            panic!("{report:?}")
        };
        assert!(matches!(verdict, ReplyVerdict::Late), "{verdict:?}");
        assert!(validation.end(slot, cost, Duration::ZERO).is_some());
    }
    assert!(validation.under_way.is_empty(), "all replies have come back");
    assert_eq!(fetches, 1);
    assert!(validate(&mut validation, [198, 51, 0, 1], &evil[0]), "there is room again");
}

#[test]
fn names_without_an_anchor_need_no_place() {
    let validation = Validation::new(Some(trust("example")));
    let verdict = |text: &str, reply: &[u8]| validation.verdict(&question(&query(text)), reply);
    assert_eq!(
        verdict("www.other. A", REPLY),
        Some(pmdns_validator::SecurityStatus::Indeterminate)
    );
    assert_eq!(verdict("www.example. A", REPLY), None);
    // An alias into a zone with an anchor has to be looked at.
    let mut alias = b"\0\0\x84\0\0\x01\0\x01\0\0\0\0".to_vec();
    alias.extend(wire_name("www.other").unwrap());
    alias.extend([0, 1, 0, 1]);
    alias.extend(wire_name("www.example").unwrap());
    alias.extend([0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
    assert_eq!(verdict("www.other. A", &alias), None);
}

/// A job about a name of `zone`: one that needs the keys of the root, or one that ends at once.
fn job(validator: &mut Validator, ends: bool) -> ValidationJob {
    let question = pmdns_validator::Question { name: &[0], qtype: 2, qclass: 1 };
    validator.start(question, if ends { &[] } else { REPLY }, 0)
}

fn validator() -> Validator {
    Validator::trusting(trust("."), ValidatorLimits::default())
}

#[test]
fn audit_03_zones_take_turns_however_many_replies_one_has() {
    let (mut validator, mut turns) = (validator(), Turns::new());
    for (slot, zone) in ["evil", "evil", "evil", "evil", "good", "good"].iter().enumerate() {
        let job = job(&mut validator, true);
        turns.add(job, (slot, zone.as_bytes().into()), (), Duration::ZERO);
    }
    let ended = std::iter::from_fn(|| turns.step(&mut validator, 0)).map(|event| match event {
        Event::Done(slot, (), JobEnd::Judged(_), _) => slot,
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
        assert!(matches!(shed, Some(Event::Done(ended, (), JobEnd::Shed, _)) if ended == slot));
    }
    assert!(step(&mut turns, &mut validator).is_empty());
}
