//! Rules are replaced while queries are answered: nothing is lost, and every answer is one that either the old
//! rules or the new ones give.

#![cfg(debug_assertions)]
#![expect(clippy::unwrap_used, reason = "in a test, unwrap is an assertion")]

use std::time::{Duration, Instant};

use pmdns::control::reload::{Reloader, Written};
use pmdns::control::socket::ControlSocket;
use pmdns_config::{Config, ConfigText, Control};
use pmdns_control::client::ApiClient;
use pmdns_control::{PendingCall, ask};
use pmdns_engine::clock::SteppedTime;
use pmdns_engine::rules::RulesPublisher;
use pmdns_engine::testing::{Rig, config};
use pmdns_engine::worker::{Turn, Worker};
use pmdns_nics::Burst;
use pmdns_stages::testing::{QueryFrame, frame_from, query};
use pmdns_stages::wire::name::Seed;

/// Longer than workers take between two looks for new rules.
const LOOK: Duration = Duration::from_millis(15);

/// Old rules and new ones: a local name, a blocked one, and each becomes the other. And of two names in the cache,
/// one is blocked at a time.
const RULES: [&str; 2] = [
    "[[local]]\nname = \"one.example\"\ntype = \"A\"\ndata = \"192.0.2.1\"\n\
     [block]\nnames = [\"two.example\", \"six.example\"]\n",
    "[[local]]\nname = \"two.example\"\ntype = \"A\"\ndata = \"192.0.2.2\"\n\
     [[local]]\nname = \"filler.example\"\ntype = \"A\"\ndata = \"192.0.2.3\"\n\
     [block]\nnames = [\"one.example\", \"ten.example\"]\n",
];

/// Fused, cut between judging and answering, cut everywhere it matters, and sharded.
const PLACEMENTS: [&str; 4] = [
    "[[placement]]\nstages = \"all\"\ncores = [1]\n",
    "[[placement]]\nstages = \"parse..policy\"\ncores = [1]\n\
     [[placement]]\nstages = \"encode\"\ncores = [2]\n",
    "[[placement]]\nstages = \"parse..acl\"\ncores = [1]\n\
     [[placement]]\nstages = \"ratelimit..lookup\"\ncores = [2, 3]\n\
     [[placement]]\nstages = \"policy\"\ncores = [4]\n\
     [[placement]]\nstages = \"encode\"\ncores = [5]\n",
    "[[placement]]\nstages = \"all\"\ncores = [1, 2]\n",
];

fn config_of(rules: usize, placement: &str) -> Config {
    config(&format!("{}{placement}", RULES[rules]))
}

/// The rcode and the last byte of an answer's address, if it has one.
fn answer(frame: &[u8]) -> (u8, Option<u8>) {
    let message = &frame[42..];
    (message[3] & 15, (message[7] > 0).then(|| message[message.len() - 1]))
}

/// What a name is answered with under these rules.
fn expected(name: &str, rules: usize) -> (u8, Option<u8>) {
    match (name, rules) {
        ("hit.example. A", _) | ("six.example. A", 1) | ("ten.example. A", 0) => (0, Some(9)),
        ("one.example. A", 0) => (0, Some(1)),
        ("two.example. A", 1) => (0, Some(2)),
        _ => (3, None),
    }
}

const NAMES: [&str; 5] =
    ["hit.example. A", "one.example. A", "two.example. A", "six.example. A", "ten.example. A"];

fn rig(placement: &str) -> Rig {
    learned(Rig::new(&config_of(0, placement)))
}

/// The same with a clock that stands still, and its time.
fn stepped_rig(placement: &str) -> (Rig, SteppedTime) {
    let (rig, time) = Rig::stepped(&config_of(0, placement));
    (learned(rig), time)
}

fn learned(mut rig: Rig) -> Rig {
    for name in ["hit.example. A", "six.example. A", "ten.example. A"] {
        rig.learn(&query(name), &[(0, 1, 86_400, vec![192, 0, 2, 9])]);
    }
    rig
}

/// Lends the rules of this config.
fn lend(rig: &mut Rig, config: &Config) {
    let fresh = rig.rules.builder().make(config).unwrap();
    rig.rules.lend(fresh);
    // The slow path does not run here.
    rig.slow_path.iter_mut().for_each(|thread| thread.inlets.rules.poll(|_| {}));
}

/// Sends one query for each name and client of a turn, to both queues.
fn offer(rig: &mut Rig, queues: usize, turn: u16) -> usize {
    let mut sent = 0;
    for queue in 0..queues {
        let mut burst = Burst::new();
        for (number, name) in (0..).zip(NAMES.iter().cycle().take(24)) {
            let id = turn << 5 | number;
            burst.push(rig.frame(&QueryFrame { id, ..query(name) }.frame_bytes()));
            sent += 1;
        }
        rig.offer(queue, &mut burst);
    }
    sent
}

#[test]
fn every_query_is_answered_by_the_old_or_the_new_rules() {
    for placement in PLACEMENTS {
        let mut rig = rig(placement);
        let queues = if placement.contains("cores = [1, 2]") { 2 } else { 1 };
        let (mut sent, mut seen, mut turn) = (0, 0, 0);
        for reload in 1..=6 {
            let (old, new) = ((reload + 1) % 2, reload % 2);
            lend(&mut rig, &config_of(new, placement));
            let mut rounds = 0;
            while rig.rules.collect() {
                sent += offer(&mut rig, queues, turn);
                turn = (turn + 1) % 2000;
                rig.workers.iter_mut().for_each(|worker| {
                    worker.turn();
                });
                seen += check(&mut rig, &[old, new]);
                rounds += 1;
                assert!(rounds < 1_000_000, "{placement}: the rules do not come back");
            }
            rig.settle();
            seen += check(&mut rig, &[old, new]);
            sent += offer(&mut rig, queues, turn);
            rig.settle();
            seen += check(&mut rig, &[new]);
        }
        assert_eq!(seen, sent, "{placement}");
        let counters: Vec<_> = rig.workers.iter().map(|worker| worker.counters()).collect();
        let totals = pmdns_engine::counters::totals(&counters);
        assert!(totals.balance() && totals.dropped == 0 && totals.slow_path == 0, "{totals:?}");
    }
}

/// Checks that each frame sent is what one of these rules has to say, and counts them.
fn check(rig: &mut Rig, rules: &[usize]) -> usize {
    let frames = rig.sent();
    for frame in &frames {
        let asked = &frame.bytes()[55..58];
        let name = NAMES.into_iter().find(|name| name.as_bytes().starts_with(asked)).unwrap();
        let lawful = rules.iter().any(|rules| answer(frame.bytes()) == expected(name, *rules));
        assert!(lawful, "{name}: {:?} under rules {rules:?}", answer(frame.bytes()));
    }
    frames.len()
}

/// Packets wait in the ring between two cores while the one that answers them gets other rules.
#[test]
fn an_answer_is_never_looked_up_in_the_wrong_table() {
    let (mut rig, time) = stepped_rig(PLACEMENTS[1]);
    let frames = |rig: &Rig, name: &str| -> Burst {
        (0..32).map(|_| rig.frame(&query(name).frame_bytes())).collect()
    };
    for name in ["one.example. A", "two.example. A", "one.example. A"] {
        let mut burst = frames(&rig, name);
        rig.offer(0, &mut burst);
        assert_eq!(rig.workers[0].turn(), Turn::Busy);
    }
    lend(&mut rig, &config_of(1, PLACEMENTS[1]));
    time.advance(LOOK);
    // It takes the first batch and then the rules.
    rig.workers[1].turn();
    rig.workers[1].turn();
    rig.workers[1].turn();
    let answers: Vec<_> = rig.sent().iter().map(|frame| answer(frame.bytes())).collect();
    assert_eq!(answers[..32], [(0, Some(1)); 32], "the old rules' answer");
    assert_eq!(answers[32..64], [(3, None); 32], "blocked then, which needs no table");
    assert_eq!(answers[64..], [(3, None); 32], "local then, blocked by now");
    // The first core still judges by the old rules.
    let mut burst = frames(&rig, "one.example. A");
    rig.offer(0, &mut burst);
    while rig.rules.collect() {
        time.advance(LOOK);
        rig.settle();
    }
    let answers: Vec<_> = rig.sent().iter().map(|frame| answer(frame.bytes())).collect();
    assert_eq!(answers, [(3, None); 32]);
}

/// A name that is local no more is a miss.
#[test]
fn what_the_new_rules_say_nothing_about_goes_upstream() {
    let (mut rig, time) = stepped_rig(PLACEMENTS[1]);
    for _ in 0..2 {
        let mut burst: Burst =
            (0..32).map(|_| rig.frame(&query("one.example. A").frame_bytes())).collect();
        rig.offer(0, &mut burst);
        rig.workers[0].turn();
    }
    lend(&mut rig, &config(PLACEMENTS[1]));
    time.advance(LOOK);
    rig.workers[1].turn();
    rig.workers[1].turn();
    assert_eq!(rig.sent().len(), 32);
    assert_eq!(rig.workers[1].counters().tally.slow_path, 32);
}

#[test]
fn access_and_rate_limits_are_replaced_too() {
    let mut rig = rig(PLACEMENTS[0]);
    let ask = |rig: &mut Rig| {
        let mut burst = Burst::new();
        burst.push(rig.frame(&query("hit.example. A").frame_bytes()));
        rig.offer(0, &mut burst);
        rig.settle();
        rig.sent().first().map(|frame| answer(frame.bytes()))
    };
    assert_eq!(ask(&mut rig), Some((0, Some(9))));
    for (rules, expected) in [
        ("[acl]\ndefault = \"allow\"\nrefuse = [\"10.77.0.0/24\"]\n", Some((5, None))),
        ("[acl]\ndefault = \"allow\"\ndrop = [\"10.77.0.0/24\"]\n", None),
        ("", Some((0, Some(9)))),
    ] {
        lend(&mut rig, &config(rules));
        while rig.rules.collect() {
            rig.settle();
        }
        assert_eq!(ask(&mut rig), expected, "{rules}");
    }
    let limit = "[ratelimit]\nqueries_per_second = 1\nburst = 1\nslip = 0\n";
    lend(&mut rig, &config(limit));
    while rig.rules.collect() {
        rig.settle();
    }
    assert_eq!(ask(&mut rig), Some((0, Some(9))));
    assert_eq!(ask(&mut rig), None);
}

#[test]
fn who_is_in_a_view_and_what_holds_in_it_are_replaced_too() {
    let rules = |client: &str, last: u8| {
        config(&format!(
            "[[view]]\nname = \"kids\"\nclients = [\"{client}\"]\n[[local]]\nname = \"one.example\"\n\
             type = \"A\"\ndata = \"192.0.2.{last}\"\nviews = [\"kids\"]\n[[local]]\nname = \"one.example\"\n\
             type = \"A\"\ndata = \"192.0.2.9\"\nviews = [\"default\"]\n"
        ))
    };
    let mut rig = Rig::new(&rules("10.77.0.1", 1));
    for (client, last, expected) in
        [("10.77.0.1", 1, 1), ("10.77.0.2", 1, 9), ("10.77.0.0/24", 3, 3)]
    {
        lend(&mut rig, &rules(client, last));
        while rig.rules.collect() {
            rig.settle();
        }
        let mut burst = Burst::new();
        burst.push(rig.frame(&query("one.example. A").frame_bytes()));
        rig.offer(0, &mut burst);
        rig.settle();
        assert_eq!(answer(rig.sent()[0].bytes()), (0, Some(expected)), "{client}");
    }
}

/// The whole way: a request over the socket, files read by a thread, rules lent, the answer when all have them.
#[test]
fn a_wrong_file_keeps_the_rules_and_says_why() {
    let folder = std::env::temp_dir().join(format!("pmdns-reload-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (file, list) = (folder.join("pmdns.toml"), folder.join("list"));
    let text = format!(
        "[[port]]\nname = \"p0\"\ndevice = \"memory\"\naddresses = [\"10.77.0.2/24\"]\n\
         [[upstream]]\naddress = \"127.0.0.1:5353\"\n[control]\nsocket = \"unused\"\n\
         [acl]\nallow = [\"10.77.0.0/24\"]\n[[blocklist]]\nfile = \"{}\"\n",
        list.display()
    );
    std::fs::write(&file, &text).unwrap();
    std::fs::write(&list, "one.example\n").unwrap();
    let read = ConfigText::read(&file).unwrap();
    let (written, config) = (Written::of(&read), read.into_config().unwrap());
    let Rig { mut workers, mut slow_path, rules, pool, mut far, .. } = Rig::new(&config);
    let mut reloader = Reloader::new(&file, (&config, written), rules, String::new());
    let path = folder.join("socket");
    let control = Control { socket: path.clone(), ..Control::default() };
    let mut socket = ControlSocket::open(&control).unwrap().serve(None).unwrap();
    // Asks for a reload, turns everything until the answer is there, and gives it.
    let mut reload = |workers: &mut Vec<Worker>| {
        let path = path.clone();
        let asking = std::thread::spawn(move || ApiClient::at_socket(&path).done(ask::Reload));
        while !asking.is_finished() {
            socket.take(|call, caller| {
                let call = call.with(caller);
                let PendingCall::Reload(caller) = call else { panic!("{call:?}") };
                reloader.ask_for(caller);
            });
            reloader.turn(Instant::now());
            for thread in &mut slow_path {
                thread.inlets.rules.poll(|_| {});
            }
            for worker in workers.iter_mut() {
                worker.turn();
            }
        }
        match asking.join().unwrap() {
            Ok(done) => format!("ok {done}"),
            Err(error) => format!("error: {error}"),
        }
    };
    let mut is_blocked = |workers: &mut Vec<Worker>, name: &str| {
        let mut burst = Burst::new();
        burst.push(frame_from(&pool, &query(name).frame_bytes()));
        far.tx[0].transmit(&mut burst);
        workers[0].turn();
        far.rx[0].receive(&mut burst, 1) == 1
    };
    let (one, two) = ("one.example. A", "two.example. A");
    assert!(is_blocked(&mut workers, one) && !is_blocked(&mut workers, two));

    std::fs::write(&list, "two.example\nexample##.banner\n").unwrap();
    let answer = reload(&mut workers);
    assert!(answer.starts_with("ok ") && answer.contains(" 1 blocked names"), "{answer}");
    assert!(answer.contains("line 2: example##.banner"), "{answer}");
    assert!(!is_blocked(&mut workers, one) && is_blocked(&mut workers, two));

    std::fs::remove_file(&list).unwrap();
    let answer = reload(&mut workers);
    assert!(answer.starts_with("error: ") && answer.contains("list: cannot be read"), "{answer}");
    std::fs::write(&file, text.replace("file =", "flie =")).unwrap();
    let answer = reload(&mut workers);
    assert!(answer.contains("did you mean `file`"), "{answer}");
    assert!(!is_blocked(&mut workers, one) && is_blocked(&mut workers, two), "as before");

    std::fs::write(&list, "one.example\n").unwrap();
    std::fs::write(&file, format!("{text}[frames]\nbatch = 8\n")).unwrap();
    let answer = reload(&mut workers);
    assert!(answer.contains("; restart for frames: nobody starts"), "{answer}");
    assert!(is_blocked(&mut workers, one) && !is_blocked(&mut workers, two));

    let view = "views = [\"kids\"]\n[[view]]\nname = \"kids\"\nclients = [\"10.77.0.0/24\"]\n";
    std::fs::write(&list, "two.example\n").unwrap();
    std::fs::write(&file, format!("{text}{view}")).unwrap();
    let answer = reload(&mut workers);
    assert!(answer.starts_with("ok ") && !answer.contains("restart"), "{answer}");
    assert!(!is_blocked(&mut workers, one) && is_blocked(&mut workers, two), "in the new view");
    let elsewhere = view.replace("10.77.0.0/24", "10.78.0.0/24").replace("\"kids\"", "\"minors\"");
    std::fs::write(&file, format!("{text}{elsewhere}")).unwrap();
    assert!(reload(&mut workers).starts_with("ok "));
    assert!(!is_blocked(&mut workers, one) && !is_blocked(&mut workers, two), "it is gone");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A transfer replaces the file of a zone. The rules of that file come into use, but no other change that an operator
/// may be making to the configuration.
#[test]
fn news_of_a_file_are_taken_without_the_configuration() {
    let folder = std::env::temp_dir().join(format!("pmdns-news-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (file, zone) = (folder.join("pmdns.toml"), folder.join("zone"));
    std::fs::write(&file, "half of a new configurat").unwrap();
    let config = config(&format!(
        "[[rpz]]\nfile = {zone:?}\nzone = \"rpz\"\nprimaries = [\"192.0.2.1:53\"]\n"
    ));
    let mut rig = Rig::new(&config);
    let (rules, _) = RulesPublisher::new(0, 0, Seed::new([0; 16]), 1);
    let mut reloader = Reloader::new(
        &file,
        (&config, Written::default()),
        std::mem::replace(&mut rig.rules, rules),
        String::new(),
    );
    let rcode = |rig: &mut Rig, text: &str| {
        let mut burst = Burst::new();
        burst.push(rig.frame(&query(text).frame_bytes()));
        rig.offer(0, &mut burst);
        rig.settle();
        rig.sent().first().map(|frame| answer(frame.bytes()).0)
    };
    let (servfail, nxdomain) = (Some(2), Some(3));
    for text in ["one.example. A", "two.example. A"] {
        assert_eq!(rcode(&mut rig, text), servfail, "nothing is kept yet, and nothing passes");
    }
    std::fs::write(&zone, "rpz. 60 SOA . . 1 2 3 4 5\none.example.rpz. 60 CNAME .\n").unwrap();
    reloader.note_news();
    let start = Instant::now();
    while rcode(&mut rig, "one.example. A") != nxdomain {
        assert!(start.elapsed() < Duration::from_secs(300), "the rules come");
        assert!(!reloader.turn(Instant::now()), "the configuration is the same");
        rig.slow_path.iter_mut().for_each(|thread| thread.inlets.rules.poll(|_| {}));
    }
    assert_eq!(rcode(&mut rig, "two.example. A"), None, "a miss, which goes to the slow path");
    std::fs::remove_dir_all(&folder).unwrap();
}
