use pmdns_control::answers::NameEntry;
use pmdns_control::{EntryKind, EntryRequest};
use proptest::prelude::*;

use super::*;

fn entry(name: &str) -> Change {
    let entry = EntryRequest {
        name: name.to_owned(),
        kind: EntryKind::Block,
        scope: Default::default(),
        action: Default::default(),
        views: Vec::new(),
    };
    Change::Set(NameEntry { entry, by: "user 0".into(), since: 1 })
}

fn unset(name: &str) -> Change {
    Change::Unset(name.to_owned(), None)
}

fn text(changes: &[Change]) -> String {
    KIND.head.to_owned() + &changes.iter().map(line_of).collect::<String>()
}

/// What a text says, and whether its last line is torn.
fn parse(text: &[u8], path: &Path) -> Result<(Table, bool), JournalError> {
    let mut table = Table::default();
    let make = |change: Change| table.make(&change).map_err(|(_, why)| why);
    let is_torn = KIND.parse(text, path, make)?;
    Ok((table, is_torn))
}

fn table(changes: &[Change]) -> Table {
    let mut table = Table::default();
    changes.iter().for_each(|change| table.make(change).unwrap());
    table
}

#[test]
fn a_file_torn_anywhere_in_its_last_line_is_what_it_was_before() {
    let changes = [entry("a.example"), entry("b.example"), unset("a.example")];
    let (whole, before) = (text(&changes), text(&changes[..2]));
    for end in before.len()..whole.len() {
        let (read, _) = parse(&whole.as_bytes()[..end], Path::new("j")).unwrap();
        assert_eq!(read, table(&changes[..2]), "{end}");
    }
    assert_eq!(parse(whole.as_bytes(), Path::new("j")).unwrap(), (table(&changes), false));
    for end in 0..KIND.head.len() {
        assert_eq!(
            parse(&KIND.head.as_bytes()[..end], Path::new("j")).unwrap(),
            (Table::default(), true)
        );
    }
}

#[test]
fn a_damaged_line_is_told_with_its_number_and_what_to_do() {
    let damaged = text(&[entry("a.example"), entry("b.example")]).replace("a.example", "x.example");
    let told = parse(damaged.as_bytes(), Path::new("j")).unwrap_err().to_string();
    assert!(
        told.starts_with("control.entries: j, line 2: its checksum is another one; restore"),
        "{told}"
    );
    let told = parse(b"another file\nof somebody\n", Path::new("j")).unwrap_err().to_string();
    assert!(told.starts_with("control.entries: j, line 1: it is no file of entries"), "{told}");
}

#[test]
fn what_is_kept_is_there_for_the_next_process_and_the_file_does_not_grow_without_end() {
    let path = std::env::temp_dir().join(format!("pmdns-journal-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    assert_eq!(read(&path).unwrap(), Table::default());
    let (done, confirmed) = crossbeam_channel::unbounded();
    let mut journal =
        Journal::start(&path, &Table::default(), move || done.send(()).unwrap()).unwrap();
    for round in 0..40 {
        let changes = vec![entry("a.example"); 100];
        let number = journal.keep(changes).unwrap();
        while journal.is_kept(number) != Ok(true) {
            confirmed.recv().unwrap();
        }
        assert_eq!(number, round + 1);
    }
    let number = journal.keep(vec![unset("a.example"), entry("b.example")]).unwrap();
    drop(journal);
    assert_eq!(number, 41);
    assert_eq!(read(&path).unwrap(), table(&[entry("b.example")]));
    let lines = std::fs::read_to_string(&path).unwrap().lines().count();
    assert!(lines < SLACK + 200, "{lines}");
    std::fs::remove_file(&path).unwrap();
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
    let text = [
        KIND.head.to_owned(),
        said("z.example", "block", ""),
        // Then a name had one entry: this one had lifted the block.
        said("z.example", "allow", ",\"views\":[\"kids\",\"lab\"]"),
        said("gone.example", "block", ",\"views\":[\"kids\"]"),
        line("{\"remove_entry\":\"gone.example\"}"),
        said("*.wild.example", "block", ""),
        said("a.*.example", "block", ""),
        said("*", "block", ""),
        line("{\"remove_entry\":\"*\"}"),
    ]
    .concat();
    let (table, is_torn) = parse(text.as_bytes(), Path::new("j")).unwrap();
    assert!(!is_torn);
    let page = table.entries(&pmdns_control::Page::default()).unwrap();
    let told: Vec<String> = page.entries.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "z.example allowed in view kids by user 0",
            "z.example allowed in view lab by user 0",
            "wild.example with names below blocked in all views by user 0",
        ]
    );
    // It is written in the new form.
    let again: String = table.history().map(|change| line_of(&change)).collect();
    assert_eq!(parse((KIND.head.to_owned() + &again).as_bytes(), Path::new("j")).unwrap().0, table);
}

proptest! {
    #[test]
    fn no_bytes_stop_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let text = [KIND.head.as_bytes(), &bytes].concat();
        let _ = parse(&text, Path::new("j"));
    }
}
