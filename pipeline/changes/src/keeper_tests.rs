use pmdns_control::{EntryKind, EntryRequest};
use proptest::prelude::*;

use super::*;
use crate::What;
use crate::journal::text_of;
use crate::names::NameTable;
use crate::testing::{author, limit};

const HEAD: &str = CHANGES.head;

fn entry(name: &str) -> JournalLine {
    let entry = EntryRequest {
        name: name.to_owned(),
        kind: EntryKind::Block,
        scope: Default::default(),
        action: Default::default(),
        views: Vec::new(),
    };
    JournalLine::Set(Box::new(OperatorChange { what: What::Entry(entry), author: author() }))
}

fn unset(name: &str) -> JournalLine {
    JournalLine::Unset(Subject::Entry { name: name.to_owned(), view: None })
}

fn text(lines: &[JournalLine]) -> String {
    HEAD.to_owned() + &lines.iter().map(text_of).collect::<String>()
}

/// What a text says, and whether its last line is torn.
fn parse(text: &[u8]) -> Result<(Vec<OperatorChange>, bool), JournalError> {
    let (kept, is_torn) = crate::testing::parse(text)?;
    Ok((kept.iter().cloned().collect(), is_torn))
}

fn kept(lines: &[JournalLine]) -> KeptChanges {
    let mut kept = KeptChanges::default();
    lines.iter().for_each(|line| kept.take(line.clone()));
    kept
}

fn changes(lines: &[JournalLine]) -> Vec<OperatorChange> {
    kept(lines).iter().cloned().collect()
}

#[test]
fn a_file_torn_anywhere_in_its_last_line_is_what_it_was_before() {
    let all = [entry("a.example"), entry("b.example"), unset("a.example")];
    let (whole, before) = (text(&all), text(&all[..2]));
    for end in before.len()..whole.len() {
        let (read, _) = parse(&whole.as_bytes()[..end]).unwrap();
        assert_eq!(read, changes(&all[..2]), "{end}");
    }
    assert_eq!(parse(whole.as_bytes()).unwrap(), (changes(&all), false));
    for end in 0..HEAD.len() {
        assert_eq!(parse(&HEAD.as_bytes()[..end]).unwrap(), (Vec::new(), true));
    }
}

#[test]
fn a_damaged_line_is_told_with_its_number_and_what_to_do() {
    let damaged = text(&[entry("a.example"), entry("b.example")]).replace("a.example", "x.example");
    let told = parse(damaged.as_bytes()).unwrap_err().to_string();
    assert!(
        told.starts_with("control.entries: j, line 2: its checksum is another one; restore"),
        "{told}"
    );
    let told = parse(b"another file\nof somebody\n").unwrap_err().to_string();
    assert!(told.starts_with("control.entries: j, line 1: it is no file of changes"), "{told}");
}

#[test]
fn what_is_kept_is_there_for_the_next_process_and_the_file_does_not_grow_without_end() {
    let path = std::env::temp_dir().join(format!("pmdns-journal-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    assert!(read(&path).unwrap().is_empty());
    let (tell, told) = crossbeam_channel::unbounded();
    let note = move |lines, is_kept| tell.send((lines, is_kept)).unwrap();
    let journal = ChangeJournal::start(path.clone(), KeptChanges::default(), true, note).unwrap();
    for _ in 0..40 {
        assert!(journal.keep(vec![entry("a.example"); 100]).unwrap().wait());
        assert_eq!(told.recv().unwrap(), (100, true));
    }
    let zone = limit("a.example", 5);
    let last = vec![unset("a.example"), entry("b.example"), JournalLine::Set(zone.into())];
    let receipt = journal.keep(last.clone()).unwrap();
    drop(journal);
    assert!(receipt.wait(), "what waits is written before the end");
    assert_eq!(read(&path).unwrap().iter().cloned().collect::<Vec<_>>(), changes(&last));
    let lines = std::fs::read_to_string(&path).unwrap().lines().count();
    assert!(lines < CHANGES.slack + 200, "{lines}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn what_is_left_out_stays_in_a_copy() {
    let path = std::env::temp_dir().join(format!("pmdns-left-out-{}", std::process::id()));
    std::fs::write(&path, text(&[entry("a.example")])).unwrap();
    drop(ChangeJournal::start(path.clone(), KeptChanges::default(), false, |_, _| ()).unwrap());
    assert!(read(&path).unwrap().is_empty());
    let aside = path.with_extension("left-out");
    assert_eq!(read(&aside).unwrap().len(), 1);
    // A second copy does not take the place of the first, and a file that is not there needs none.
    let start = |path: &PathBuf| {
        drop(ChangeJournal::start(path.clone(), KeptChanges::default(), false, |_, _| ()).unwrap());
    };
    start(&path);
    assert_eq!(read(&aside).unwrap().len(), 1);
    std::fs::remove_file(&path).unwrap();
    start(&path);
    let second = path.with_extension("left-out.2");
    [path, aside, second].iter().for_each(|file| std::fs::remove_file(file).unwrap());
}

#[test]
fn what_could_not_be_read_again_is_refused_before_it_holds() {
    let path = std::env::temp_dir().join(format!("pmdns-bounds-{}", std::process::id()));
    let journal =
        ChangeJournal::start(path.clone(), KeptChanges::default(), true, |_, _| ()).unwrap();
    let (refusal, _) = journal.keep(vec![entry(&"a".repeat(1 << 20))]).unwrap_err();
    assert_eq!(refusal, Refusal::Wrong);
    // Kept changes are bounded however few of them hold.
    let zone = |number| JournalLine::Set(limit(&format!("z{number}.example"), 1).into());
    for number in 0..pmdns_config::limits::MAX_ZONE_LIMITS {
        assert!(journal.keep(vec![zone(number)]).unwrap().wait());
    }
    let (refusal, why) = journal.keep(vec![zone(999)]).unwrap_err();
    assert!(refusal == Refusal::Unable && why.contains("lift limits"), "{why}");
    assert!(journal.keep(vec![zone(3)]).is_ok(), "one that is there is replaced");
    let subject = |number: u32| Subject::Limit(format!("z{number}.example"));
    assert!(journal.has(&subject(3)) && !journal.has(&subject(999)));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_journal_of_0_2_0_is_read_and_means_what_it_meant() {
    let line = |json: &str| format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()));
    let said = |name: &str, kind: &str, views: &str| {
        line(&format!(
            "{{\"entry\":{{\"name\":\"{name}\",\"kind\":\"{kind}\",\"scope\":\"exact\",\
             \"action\":\"nxdomain\"{views},\"by\":\"user 0\",\"since\":1}}}}"
        ))
    };
    let record = |data: &str| {
        line(&format!(
            "{{\"record\":{{\"name\":\"p.lan\",\"type\":\"A\",\"ttl\":60,\"data\":\"{data}\",\"by\":\"u\",\"since\":1}}}}"
        ))
    };
    let text = [
        CHANGES.old_head.to_owned(),
        said("z.example", "block", ""),
        // Then a name had one entry: this one had lifted the block.
        said("z.example", "allow", ",\"views\":[\"kids\",\"lab\"]"),
        said("gone.example", "block", ",\"views\":[\"kids\"]"),
        line("{\"remove_entry\":\"gone.example\"}"),
        said("*.wild.example", "block", ""),
        said("a.*.example", "block", ""),
        said("*", "block", ""),
        line("{\"remove_entry\":\"*\"}"),
        record("192.0.2.1"),
        line("{\"remove_records\":[\"p.lan\",null]}"),
        record("192.0.2.2"),
        // What came between.
        said("set.example", "block", "").replace("\"entry\"", "\"set\""),
        line("{\"unset\":[\"set.example\",null]}"),
    ]
    .map(|line| match line.split_once(' ') {
        // The checksum is that of the line as it stands.
        Some((_, json)) if json.starts_with('{') => {
            let json = json.trim_end();
            format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
        }
        _ => line,
    })
    .concat();
    let (read, is_torn) = parse(text.as_bytes()).unwrap();
    assert!(!is_torn);
    let mut kept = KeptChanges::default();
    read.into_iter().for_each(|change| kept.take(JournalLine::Set(change.into())));
    let (table, left_out) = NameTable::of_kept(&kept);
    assert!(left_out.is_empty());
    let told: Vec<String> = table.all_changes().map(|change| change.what.to_string()).collect();
    assert_eq!(
        told,
        [
            "name z.example allowed in view kids",
            "name z.example allowed in view lab",
            "name wild.example with names below blocked in all views",
            "local record p.lan 60 A 192.0.2.2 added",
        ]
    );
    // It is written in the new form.
    let again: Vec<_> = table.history().collect();
    assert_eq!(parse(self::text(&again).as_bytes()).unwrap().0, changes(&again));
}

#[test]
fn a_file_that_would_be_too_large_is_written_anew_with_what_it_needs() {
    let path = std::env::temp_dir().join(format!("pmdns-large-{}", std::process::id()));
    let one = [entry("a.example")];
    let kind = JournalKind { max_bytes: text(&one).len() as u64 * 2, slack: 1000, ..CHANGES };
    let mut file = JournalFile::new(kind, path.clone(), true);
    for _ in 0..10 {
        file.write(&one, 1, || one.iter().cloned()).unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() <= kind.max_bytes);
        assert_eq!(read(&path).unwrap().len(), 1);
    }
    std::fs::remove_file(path).unwrap();
}

/// Lines of both forms, as they were written.
fn written() -> Vec<(&'static str, String)> {
    let list = pmdns_control::NewList {
        name: "ads".to_owned(),
        url: "https://lists.example/ads".to_owned(),
        address: None,
        refresh_seconds: Some(60),
        views: Vec::new(),
    };
    let client = pmdns_control::ClientChange { prefix: "10.0.0.1".into(), view: None };
    let upstream = crate::UpstreamOverride::new(
        "192.0.2.1:53".parse().unwrap(),
        crate::Presence::Added("default".to_owned()),
    );
    let set = |what| JournalLine::Set(OperatorChange { what, author: author() }.into());
    let new = [
        entry("a.example"),
        unset("a.example"),
        JournalLine::Set(limit("a.example", 5).into()),
        set(What::List(list)),
        set(What::Client(client)),
        set(What::Upstream(upstream)),
    ];
    let new = new.map(|line| (HEAD, serde_json::to_string(&line).unwrap()));
    let old = [
        r#"{"entry":{"name":"*.a","kind":"block","scope":"exact","action":"null","views":["v"],"by":"u","since":1}}"#,
        r#"{"record":{"name":"p.lan","type":"A","ttl":60,"data":"192.0.2.1","by":"u","since":1}}"#,
        r#"{"remove_records":["p.lan",null]}"#,
        r#"{"unset":["a.example","v"]}"#,
    ];
    let old = old.map(|json| (CHANGES.old_head, json.to_owned()));
    new.into_iter().chain(old).collect()
}

/// A piece of a line that changes what it says.
fn piece() -> impl Strategy<Value = String> {
    const KNOWN: [&str; 12] = [
        "null",
        "-1",
        "1e99",
        "\"\"",
        "[]",
        "{}",
        ":",
        ",",
        "}",
        "\"set\"",
        "\\u0000",
        "18446744073709551616",
    ];
    prop_oneof![
        proptest::sample::select(&KNOWN[..]).prop_map(str::to_owned),
        "[ -~]{0,4}",
        "\\PC{0,3}"
    ]
}

proptest! {
    #[test]
    fn no_bytes_stop_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for head in [HEAD, CHANGES.old_head] {
            let _ = parse(&[head.as_bytes(), &bytes].concat());
        }
    }

    #[test]
    fn no_line_with_its_right_checksum_stops_the_reader(
        number in 0..written().len(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), 0usize..8, piece()), 0..4),
    ) {
        let (head, mut json) = written()[number].clone();
        for (place, length, piece) in &changes {
            let at = |from: usize| (from..=json.len()).find(|at| json.is_char_boundary(*at)).unwrap();
            let start = at(place.index(json.len() + 1));
            let end = at((start + length).min(json.len()));
            json.replace_range(start..end, piece);
        }
        let line = format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()));
        let whole = format!("{head}{line}");
        match parse(whole.as_bytes()) {
            // What is read is written and read again as the same.
            Ok((read, is_torn)) => {
                prop_assert!(!is_torn, "its checksum is right");
                let lines: Vec<_> = read.iter().map(|one| JournalLine::Set(one.clone().into())).collect();
                prop_assert_eq!(parse(text(&lines).as_bytes()).unwrap(), (read, false));
            }
            Err(JournalError::Corrupt { line, .. }) => {
                prop_assert!(line == 2 && !changes.is_empty(), "{}", json);
            }
            Err(other) => panic!("{other}"),
        }
    }
}
