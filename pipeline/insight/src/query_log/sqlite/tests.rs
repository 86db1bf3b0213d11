//! Starts with a database that another program locks, or that is none.

use std::fs;

use pmdns_engine::encrypted::without_encrypted;
use pmdns_engine::rule_names::RuleNames;
use pmdns_engine::testing::config;
use pmdns_engine::upstreams::UpstreamsInUse;

use super::*;
use crate::query_log::clients::Clients;

/// A folder of its own, removed with all that is in it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pmdns-sqlite-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The sink of the database at `path`, as a start opens it.
fn opened(path: &Path) -> Database {
    let config = config(&format!("[query_log]\nsqlite = {path:?}"));
    let words = EntryMaker::new(
        Clients::new(&config.query_log).unwrap(),
        (RuleNames::default(), UpstreamsInUse::new(&config, without_encrypted)),
    );
    Database::open(&config.query_log, path, words, Arc::default()).unwrap()
}

/// Whether it is open, and how often it could not be opened.
fn state(database: &Database) -> (bool, u64) {
    let counters = &database.counters;
    let is_open = database.connection.is_some();
    assert!(is_open || counters.up.load(Ordering::Relaxed) == 0);
    (is_open, counters.failures.load(Ordering::Relaxed))
}

fn try_again(database: &mut Database) {
    database.next_look = Instant::now();
    database.tend();
}

#[test]
fn a_database_that_another_program_locks_at_the_start_is_opened_later() {
    let folder = Folder::new("locked");
    for begin in ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"] {
        let path = folder.0.join(&begin[6..]);
        let other = Connection::open(&path).unwrap();
        other.execute_batch(&format!("CREATE TABLE other (one); {begin}")).unwrap();
        let mut database = opened(&path);
        assert_eq!(state(&database), (false, 1), "{begin}");
        other.execute_batch("COMMIT").unwrap();
        try_again(&mut database);
        assert_eq!(state(&database), (true, 1), "{begin}");
    }
}

#[test]
fn a_database_that_is_complete_is_opened_while_another_program_writes() {
    let folder = Folder::new("complete");
    let path = folder.0.join("q.db");
    drop(opened(&path));
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(state(&opened(&path)), (true, 0));
}

#[test]
fn a_file_that_is_no_database_is_left_as_it_is() {
    let folder = Folder::new("none");
    let path = folder.0.join("q.db");
    let mut broken = b"SQLite format 3\0".to_vec();
    broken.resize(8192, 0x5A);
    for text in [b"what somebody wrote".to_vec(), b"x".to_vec(), broken] {
        fs::write(&path, &text).unwrap();
        let mut database = opened(&path);
        assert_eq!(state(&database), (false, 1));
        try_again(&mut database);
        assert_eq!(state(&database), (false, 2));
        assert_eq!(fs::read(&path).unwrap(), text);
    }
    fs::remove_file(&path).unwrap();
    let mut database = opened(&path);
    assert_eq!(state(&database), (true, 0), "what is moved away makes room");
    // A good database whose table is broken.
    try_again(&mut database);
    drop(database);
    let mut pages = fs::read(&path).unwrap();
    let (page, rest) = (usize::from(pages[16]) << 8, pages.len());
    pages[page.max(100)..rest].fill(0xA5);
    fs::write(&path, &pages).unwrap();
    let mut database = opened(&path);
    try_again(&mut database);
    assert!(state(&database).1 > 0, "{:?}", state(&database));
    drop(database);
    assert_eq!(fs::read(&path).unwrap(), pages);
}
