//! What becomes of a reload, of news of files, and of names that change at run time.

use std::time::Duration;

use pmdns_engine::testing::config;

use super::*;

/// Turns at this time until no reload is under way.
fn finish(reloader: &mut Reloader, now: Instant) {
    reloader.turn(now);
    while reloader.reload.is_reading() || reloader.reload.is_lent() {
        std::thread::yield_now();
        reloader.turn(now);
    }
}

/// Identifies the rules in use.
fn rules(reloader: &Reloader) -> String {
    format!("{:?}", reloader.publisher.builder())
}

#[test]
fn news_that_a_failed_reload_took_are_owed_and_taken_from_the_configuration_in_use_later() {
    let folder = std::env::temp_dir().join(format!("pmdns-owed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (file, list) = (folder.join("pmdns.toml"), folder.join("list"));
    std::fs::write(&file, "half of a new configurat").unwrap();
    let config = config(&format!("[[blocklist]]\nfile = {list:?}\n"));
    let (publisher, _) = RulesPublisher::new(0, 0, Seed::new([0; 16]), 1);
    let mut reloader =
        Reloader::new(&file, (&config, Written::default()), publisher, String::new());
    let mut now = Instant::now();
    // First a block list is missing for a moment, then a configuration is half written.
    for operator in [false, true] {
        let before = rules(&reloader);
        reloader.note_news();
        if operator {
            reloader.ask();
        }
        assert!(!reloader.is_idle(), "it is about to begin");
        let _ = std::fs::remove_file(&list);
        finish(&mut reloader, now);
        assert_eq!(rules(&reloader), before, "it failed");
        assert!(!reloader.is_over(), "it is tried again");
        assert!(reloader.is_idle(), "nobody waits for it");
        std::fs::write(&list, "one.example\n").unwrap();
        finish(&mut reloader, now);
        assert_eq!(rules(&reloader), before, "it is not time");
        now += Duration::from_secs(300);
        finish(&mut reloader, now);
        assert_ne!(rules(&reloader), before, "when it is time");
        assert!(reloader.is_over(), "once");
    }
    reloader.ask();
    finish(&mut reloader, now);
    assert!(reloader.is_over(), "what fails and owes nothing is not tried again");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn d08_a_restart_is_asked_for_key_by_key() {
    let keys: Vec<String> = (0..12).map(|number| format!("upstream[{number}]")).collect();
    let nobody = Successor::Nobody("no keeper".to_owned());
    assert_eq!(nobody.describe(&[]), None);
    let told = nobody.describe(&keys[..2]).unwrap();
    assert_eq!(told, "restart for upstream[0], upstream[1]: no keeper");
    let told = Successor::Next.describe(&keys).unwrap();
    assert!(told.ends_with("upstream[9] and 2 more"), "{told}");
}

#[test]
fn what_follows_depends_on_what_stands_between_both_configurations() {
    let in_use =
        config("[[view]]\nname = \"a\"\nclients = [\"192.0.2.1/32\"]\nqueries_per_second = 9\n");
    let other_socket: Obstacle = |one, other| {
        (one.control.socket != other.control.socket).then(|| "another socket".to_owned())
    };
    let to = |obstacle: Result<Obstacle, &str>, next: &Config| {
        let obstacle = obstacle.map_err(str::to_owned);
        Succession { obstacle, answers_basis: in_use.answers_basis() }.to(&in_use, next)
    };
    let told = to(Err("no keeper"), &in_use);
    assert_eq!(told, Successor::Nobody("no keeper".to_owned()));
    assert_eq!(to(Ok(other_socket), &in_use), Successor::Next);
    let mut next = in_use.clone();
    next.control.socket = "other".into();
    assert_eq!(to(Ok(other_socket), &next), Successor::Nobody("another socket".to_owned()));
    next = in_use.clone();
    next.dnssec.validate = !next.dnssec.validate;
    assert_eq!(to(Ok(other_socket), &next), Successor::NextWithLoss);
    let told = Successor::NextWithLoss.describe(&["dnssec.validate".to_owned()]).unwrap();
    assert!(told.ends_with("dnssec.validate; not all answers of the cache pass"), "{told}");
    // Its place stays in this process, and a new one has no such place.
    next = Config { views: Vec::new(), ..in_use.clone() };
    assert_eq!(to(Ok(other_socket), &next), Successor::NextWithLoss);
}

#[test]
fn what_this_process_cannot_take_over_is_left_to_the_next_one_if_there_can_be_one() {
    let folder = std::env::temp_dir().join(format!("pmdns-other-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("pmdns.toml");
    let view = |name| {
        format!(
            "[[view]]\nname = \"v{name}\"\nclients = [\"192.0.2.{name}/32\"]\nqueries_per_second = 9\n"
        )
    };
    let text = |views: std::ops::Range<u8>| {
        let port = "[[port]]\nname = \"p0\"\ndevice = \"memory\"\naddresses = [\"10.77.0.2/24\"]\n";
        let others = "[[upstream]]\naddress = \"192.0.2.53:53\"\n[control]\nsocket = \"unused\"\n";
        format!("{port}{others}{}", views.map(view).collect::<String>())
    };
    let (publisher, _) = RulesPublisher::new(0, 0, Seed::new([0; 16]), 1);
    let first = Config::from_toml(&text(0..31)).unwrap();
    let mut reloader = Reloader::new(&file, (&first, Written::default()), publisher, String::new());
    // Another view, where numbers are left for none.
    std::fs::write(&file, text(1..32)).unwrap();
    for has_successor in [false, true] {
        let before = rules(&reloader);
        let none: Obstacle = |_, _| None;
        reloader.set_successor(if has_successor { Ok(none) } else { Err(String::new()) });
        reloader.ask();
        finish(&mut reloader, Instant::now());
        assert_eq!(reloader.take_successor_request(), has_successor);
        assert_eq!(rules(&reloader), before);
        assert!(reloader.is_idle() && reloader.config().views[0].name == "v0");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
