//! What becomes of a reload, of news of files, and of names that change at run time.

use pmdns_engine::testing::config;

use super::news::{FIRST_PAUSE, LONGEST_PAUSE, pause};
use super::*;

/// Turns until no reload is under way.
fn finish(reloader: &mut Reloader) {
    reloader.turn(Instant::now());
    while !matches!(reloader.stage, Stage::Idle) {
        std::thread::yield_now();
        reloader.turn(Instant::now());
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
    // First a block list is missing for a moment, then a configuration is half written.
    for operator in [false, true] {
        let before = rules(&reloader);
        reloader.note_news();
        reloader.asked = operator;
        let _ = std::fs::remove_file(&list);
        finish(&mut reloader);
        assert_eq!(rules(&reloader), before, "it failed");
        assert!(reloader.news.due.is_some(), "it is tried again");
        std::fs::write(&list, "one.example\n").unwrap();
        reloader.news.due = Some(Instant::now());
        finish(&mut reloader);
        assert_ne!(rules(&reloader), before, "when it is time");
        assert!(!reloader.news.is_owed && reloader.news.due.is_none(), "once");
    }
    reloader.ask();
    finish(&mut reloader);
    assert!(reloader.news.due.is_none(), "what fails and owes nothing is not tried again");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn d08_a_restart_is_asked_for_key_by_key() {
    let keys: Vec<String> = (0..12).map(|number| format!("upstream[{number}]")).collect();
    assert_eq!(restart_for(&[]), "");
    assert_eq!(restart_for(&keys[..2]), "; restart for upstream[0], upstream[1]");
    let told = restart_for(&keys);
    assert!(told.ends_with("upstream[9] and 2 more"), "{told}");
}

#[test]
fn a_reload_that_an_operator_asks_for_puts_nothing_off_and_settles_what_is_owed() {
    let start = Instant::now();
    let mut news = News { is_fresh: true, ..News::default() };
    news.begin(start);
    news.fail(start);
    let due = start + FIRST_PAUSE;
    assert!(!news.are_due(start) && news.are_due(due));
    news.begin(start);
    news.fail(start + FIRST_PAUSE / 2);
    assert_eq!(news.due, Some(due), "as it was");
    news.begin(start);
    news.is_fresh = true;
    news.settle();
    assert!(!news.is_owed && news.due.is_none());
    assert!(news.are_due(start), "what came meanwhile is still to be read");
}

#[test]
fn pauses_double_up_to_the_longest_and_begin_anew_after_a_success() {
    let mut now = Instant::now();
    let mut news = News { is_fresh: true, ..News::default() };
    let mut next = |news: &mut News| {
        news.begin(now);
        news.fail(now);
        let seconds = (news.due.unwrap() - now).as_secs();
        now = news.due.unwrap();
        seconds
    };
    let pauses = [(); 7].map(|()| next(&mut news));
    assert_eq!(pauses, [10, 20, 40, 80, 160, 300, 300]);
    assert_eq!(pause(u32::MAX), LONGEST_PAUSE);
    news.settle();
    news.is_fresh = true;
    assert_eq!(next(&mut news), 10);
}
