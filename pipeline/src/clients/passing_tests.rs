//! What passes to the next process, and holds there.

use std::time::Instant;

use pmdns_control::{Call, CallReply, ClientChange};

use super::tests::{Lab, views};
use super::*;
use crate::runtime::PassedChanges;

/// What a process passes to the next one, and whether those of clients are in it.
fn passed(clients: &mut ClientTableThread) -> (Vec<OperatorChange>, bool) {
    let now = Instant::now();
    let changes = loop {
        match clients.pass(now) {
            Some(changes) => break changes.unwrap(),
            None => std::thread::yield_now(),
        }
    };
    let has_clients = changes.has_clients;
    let passed = PassedChanges::read(changes.sealed().unwrap(), has_clients);
    (passed.unwrap().holds.iter().cloned().collect(), has_clients)
}

#[test]
fn what_holds_passes_and_what_is_hidden_comes_back_with_a_restart() {
    let lab = Lab::new("passed", 10);
    lab.write("10.0.0.3 office\n");
    let (_, mut clients) = lab.start();
    lab.change(&clients, &[("10.0.0.1", Some("kids")), ("10.0.0.2", Some("kids"))]);
    assert_eq!(passed(&mut clients), (vec![], false), "the journal has all of it");
    let until_restart = |call: Call| {
        let (mut caller, replied) = Caller::new("a test");
        caller.until_restart = true;
        clients.answer(call.with(caller), &lab.config);
        replied.blocking_recv().unwrap()
    };
    let office = ClientChange { prefix: "10.0.0.2".into(), view: Some("office".into()) };
    for call in [
        Call::ChangeClients(vec![office]),
        Call::RemoveClient("10.0.0.1".into()),
        Call::RemoveClient("10.0.0.3".into()),
    ] {
        assert!(matches!(until_restart(call), CallReply::Done(_)));
    }
    let (changes, has_clients) = passed(&mut clients);
    assert!(has_clients && changes.len() == 2, "{changes:?}");
    let (table, mut next) = lab.start_with(Some(&changes));
    assert_eq!(views(&table), [None, Some(2), None]);
    assert_eq!(passed(&mut next), (changes, true), "they pass again");
    drop((clients, next));
    assert_eq!(views(&lab.start().0), [Some(1), Some(1), Some(2)]);
}

#[test]
fn without_a_file_all_passes() {
    let mut lab = Lab::new("memory", 10);
    lab.config.clients.journal = None;
    let (_, mut clients) = lab.start();
    lab.change(&clients, &[("10.0.0.1", Some("kids")), ("10.0.0.3", Some("office"))]);
    let (changes, has_clients) = passed(&mut clients);
    assert!(has_clients);
    drop(clients);
    assert_eq!(views(&lab.start_with(Some(&changes)).0), [Some(1), None, Some(2)]);
}

#[test]
fn nothing_changes_while_it_is_waited_for_and_then_the_files_have_to_do() {
    let lab = Lab::new("late", 10);
    let (_, mut clients) = lab.start();
    // Nobody answers.
    let (calls, _called) = crossbeam_channel::unbounded();
    let alive = clients.calls.replace(calls);
    let now = Instant::now();
    assert!(clients.pass(now).is_none());
    let refused = lab.change(&clients, &[("10.0.0.1", Some("kids"))]);
    assert!(matches!(refused, CallReply::Refused(Refusal::Busy, _)), "{refused:?}");
    let late = clients.pass(now + Duration::from_secs(1)).unwrap().unwrap();
    assert!(!late.has_clients && clients.asked_to_pass.is_none());
    clients.calls = alive;
}
