//! Rules are replaced while clients ask as fast as they are answered. No query is lost, and every answer follows either
//! the old rules or the new ones.

use std::fmt::Write as _;
use std::fs;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::commands::command;
use crate::harness::{PATIENCE, isolated_alone, path, settled, sh, wait_until};
use crate::messages::{NOERROR, REFUSED, ask_a, id, rcode};
use crate::pmdns::{COMMON, Pmdns, TAP_PORT, TAP_V4, config_file, set_up_tap, upstream};
use crate::stub::{Stub, TRUTH};

const STUB_PORT: u16 = 5301;
/// Names on each set's block list.
const LISTED: usize = 100_000;
/// Names that are asked for again and again.
const KNOWN: usize = 50;
/// A client's queries in the air: so few that no queue on the way overflows, whatever the machine does meanwhile. What is
/// missing then is pmdns's loss.
const WINDOW: usize = 32;
/// Orders to reload: every third one finds a broken file, every second one is a SIGHUP.
const RELOADS: usize = 12;
/// Answers between one order and the next, at least.
const BETWEEN: usize = 1000;
/// A client whom the second set of rules refuses.
const GUEST: &str = "10.97.0.9";
const NXDOMAIN: u8 = 3;
/// Deadlines that nothing comes near, though other programs keep the CPUs for seconds.
const PATIENT: &str = "\n[slowpath]\ndeadline_ms = 25000\n";

/// What a client is told: an address, or an rcode without one.
type Said = Result<[u8; 4], u8>;

/// What clients have been told so far.
#[derive(Debug, Default)]
struct Load {
    stop: AtomicBool,
    answers: AtomicUsize,
    /// Those that only one of the two sets gives.
    of_one_set: [AtomicUsize; 2],
}

/// Has clients stop when it is dropped, by a failing test as well.
struct Stop<'l>(&'l AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn no_query_is_lost_while_rules_are_replaced() {
    isolated_alone("reload::no_query_is_lost_while_rules_are_replaced", || {
        write_files();
        let _stub = Stub::start(STUB_PORT);
        let pmdns = Pmdns::start(&config(0, "set-0.rpz"));
        set_up_tap();
        sh(&format!("ip address add {GUEST}/24 dev pm0"));
        let at_rest = settled(|| pmdns.stats().frames_in_use());
        let load = Load::default();
        thread::scope(|clients| {
            clients.spawn(|| load.ask("10.97.0.1", &question));
            clients.spawn(|| load.ask(GUEST, &guests_question));
            let _stop = Stop(&load.stop);
            replace_rules(&pmdns, &load);
        });
        let told = load.of_one_set.each_ref().map(|answers| answers.load(Ordering::Relaxed));
        assert!(told[0] > 0 && told[1] > 0, "both sets answered: {load:?}");
        let answers = load.answers.load(Ordering::Relaxed) as u64;
        assert_eq!(settled(|| answered(&pmdns)), answers, "sent, answered, counted");
        assert_eq!(settled(|| pmdns.stats().frames_in_use()), at_rest, "the pool is whole");
        println!(
            "{RELOADS} orders to reload, {answers} queries, none lost, {told:?} by one set only"
        );
        println!("{}", pmdns.stop().summary());
    });
}

/// The answers that pmdns has given, from its rules, from the cache and from upstream.
fn answered(pmdns: &Pmdns) -> u64 {
    let stats = pmdns.stats();
    let late = stats.slow_path("answered_from_cache_late");
    stats.exits("encode", "transmit") + stats.slow_path("answered") + late
}

/// Orders one reload after the other. When each is over, every question is answered by the set that was ordered last.
fn replace_rules(pmdns: &Pmdns, load: &Load) {
    let mut in_use = 0;
    for number in 1..=RELOADS {
        let before = load.answers.load(Ordering::Relaxed);
        wait_until("clients are answered", || {
            load.answers.load(Ordering::Relaxed) >= before + BETWEEN
        });
        let is_broken = number % 3 == 0;
        if !is_broken {
            in_use = 1 - in_use;
        }
        let policy = if is_broken { "broken.rpz".into() } else { format!("set-{in_use}.rpz") };
        config_file(&config(in_use, &policy));
        let said = match number % 2 {
            0 => signal(pmdns, is_broken),
            _ => command(&["reload"], if is_broken { 2 } else { 0 }),
        };
        let place = format!("{}, line 3: ", path("broken.rpz").display());
        assert_eq!(said.contains(&place), is_broken, "order {number}: {said}");
        probe(load, in_use);
    }
}

/// Sends SIGHUP, and returns what the log says of it.
fn signal(pmdns: &Pmdns, is_broken: bool) -> String {
    let end = if is_broken { "not reloaded, the rules in use stay: " } else { " reloaded in " };
    let heard = || pmdns.log().matches(end).count();
    let before = heard();
    pmdns.signal("HUP");
    wait_until("the log says how the reload ended", || heard() > before);
    pmdns.log().lines().rev().find(|line| line.contains(end)).unwrap().to_owned()
}

/// Asks every kind of question while the others go on, and expects the answers of one set.
fn probe(load: &Load, set: usize) {
    for (address, question) in [("10.97.0.1", question as fn(usize) -> _), (GUEST, guests_question)]
    {
        let socket = socket(address);
        for number in 0..KINDS {
            let (name, said): (String, [Said; 2]) = question(number);
            socket.send(&ask_a(number as u16, &name)).unwrap();
            assert_eq!(receive(&socket).1, said[set], "{name} for {address} by set {set}");
            load.answers.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Load {
    /// Asks one question after the other until it is told to stop, then waits for the last answers.
    fn ask(&self, address: &str, question: &dyn Fn(usize) -> (String, [Said; 2])) {
        let socket = socket(address);
        let mut in_the_air = [const { None }; WINDOW];
        let mut numbers = 0..;
        loop {
            for (slot, waiting) in in_the_air.iter_mut().enumerate() {
                if waiting.is_none() && !self.stop.load(Ordering::Relaxed) {
                    let asked = question(numbers.next().unwrap());
                    socket.send(&ask_a(slot as u16, &asked.0)).unwrap();
                    *waiting = Some(asked);
                }
            }
            if in_the_air.iter().all(Option::is_none) {
                return;
            }
            let (slot, said) = receive(&socket);
            let (name, expected) = in_the_air[slot].take().expect("one answer to each query");
            assert!(expected.contains(&said), "{name}: {said:?}, which neither set says");
            self.answers.fetch_add(1, Ordering::Relaxed);
            if let Some(set) = expected.iter().position(|by_set| *by_set != said) {
                self.of_one_set[1 - set].fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Kinds of questions there are.
const KINDS: usize = 6;

/// A name to ask for, and what each set answers.
fn question(number: usize) -> (String, [Said; 2]) {
    let (known, true_both) = (number % KNOWN, [Ok(TRUTH); 2]);
    match number % KINDS {
        0 => (format!("good_{known}.test"), true_both),
        1 => (format!("good_new{number}.test"), true_both),
        2 => (format!("good_{known}.set-0.test"), [Err(NXDOMAIN), Ok(TRUTH)]),
        3 => (format!("good_{known}.set-1.test"), [Ok(TRUTH), Err(NXDOMAIN)]),
        4 => ("local.test".into(), [0, 1].map(local)),
        _ => ("good_policy.test".into(), [Ok(TRUTH), Ok([192, 0, 2, 99])]),
    }
}

/// The same for the client whom the second set refuses.
fn guests_question(_: usize) -> (String, [Said; 2]) {
    ("local.test".into(), [local(0), Err(REFUSED)])
}

/// The address of the local name in a set.
fn local(set: u8) -> Said {
    Ok([192, 0, 2, 70 + set])
}

/// The files that the sets name: a block list and a policy zone each, and a policy zone that is wrong in its third line.
fn write_files() {
    let zone = "$ORIGIN rpz.\n@ 60 SOA ns admin 1 2 3 4 5\n";
    fs::write(path("set-0.rpz"), zone).unwrap();
    fs::write(path("set-1.rpz"), format!("{zone}good_policy.test 60 A 192.0.2.99\n")).unwrap();
    fs::write(path("broken.rpz"), format!("{zone}good_policy.test 60 A 192.0.2.999\n")).unwrap();
    for set in 0..2 {
        let mut names = String::new();
        for number in 0..LISTED {
            writeln!(names, "good_{number}.set-{set}.test").unwrap();
        }
        fs::write(path(&format!("set-{set}.list")), names).unwrap();
    }
}

/// The config of a set, but with this policy zone.
fn config(set: usize, policy: &str) -> String {
    let (list, policy) = (path(&format!("set-{set}.list")), path(policy));
    let refused = if set == 1 { format!("{GUEST}/32") } else { "10.97.0.77/32".into() };
    let local = 70 + set;
    format!(
        "{TAP_PORT}{COMMON}{PATIENT}{}\n[[local]]\nname = \"local.test\"\ntype = \"A\"\ndata = \"192.0.2.{local}\"\n\
         [[blocklist]]\nfile = {list:?}\n[[rpz]]\nfile = {policy:?}\n[acl]\ndefault = \"allow\"\nrefuse = [\"{refused}\"]\n",
        upstream(STUB_PORT).replace("= 800", "= 5000")
    )
}

/// A client's socket.
fn socket(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    socket.connect((TAP_V4, 53)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// The next answer's id, and what it says. If there is none in all that time, a query is lost.
fn receive(socket: &UdpSocket) -> (usize, Said) {
    let mut buffer = [0; 512];
    let len = socket.recv(&mut buffer).expect("every query is answered");
    let address = buffer[..len].last_chunk().copied().unwrap();
    let said = if rcode(&buffer) == NOERROR { Ok(address) } else { Err(rcode(&buffer)) };
    (id(&buffer).into(), said)
}
