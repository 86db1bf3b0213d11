//! The client table under loom: every interleaving, and every value that a relaxed load may see.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p pmdns-stages --no-default-features --release --test client_table_loom`
//!
//! The table has two buckets. Seven prefixes fill the home of an eighth, so that readers have to go on to the other bucket.
#![cfg(loom)]

use std::sync::Arc;

use loom::thread;
use pmdns_config::Prefix;
use pmdns_stages::client_table::{ClientTable, ClientTableWriter};
use pmdns_stages::wire::name::Seed;

/// Entries of a table of two buckets.
const MAX_ENTRIES: usize = 8;

fn prefix(last: u8) -> Prefix {
    Prefix { network: [10, 0, 0, last].into(), length: 32 }
}

fn find(table: &ClientTable, last: u8) -> Option<u8> {
    table.find(&[10, 0, 0, last])
}

/// A table in which eight prefixes have one home, each in the view of its own place: so the last is in the other bucket.
fn crowded() -> (Arc<ClientTable>, ClientTableWriter, Vec<u8>) {
    let (table, mut writer) = ClientTable::on_heap(MAX_ENTRIES, Seed::new([7; 16]));
    let alike: Vec<u8> =
        (0..=u8::MAX).filter(|last| table.home_of(&prefix(*last)) == 0).take(8).collect();
    for (view, last) in (0..).zip(&alike) {
        writer.set(&prefix(*last), view).expect("there is room");
    }
    (table, writer, alike)
}

#[test]
fn a_prefix_that_stays_is_found_while_others_leave_and_come() {
    loom::model(|| {
        let (table, mut writer, alike) = crowded();
        let (first, last) = (alike[0], alike[7]);
        let reader = thread::spawn(move || {
            assert_eq!(find(&table, last), Some(7));
        });
        writer.remove(&prefix(first));
        writer.set(&prefix(first), 9).expect("there is room again");
        reader.join().expect("it found it");
    });
}

#[test]
fn a_view_that_changes_is_the_old_or_the_new_one() {
    loom::model(|| {
        let (table, mut writer, alike) = crowded();
        let last = alike[7];
        let reader = thread::spawn(move || {
            let first = find(&table, last);
            assert!(matches!(first, Some(7 | 20)), "{first:?}");
            if first == Some(20) {
                assert_eq!(find(&table, last), Some(20), "it does not go back");
            }
        });
        writer.set(&prefix(last), 20).expect("it is in the table");
        reader.join().expect("it found it");
    });
}

#[test]
fn a_prefix_that_comes_is_found_after_it_was_set() {
    loom::model(|| {
        let (table, mut writer, alike) = crowded();
        let (gone, last) = (alike[3], alike[7]);
        let set = Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let is_set = Arc::clone(&set);
        let reader = thread::spawn(move || {
            if is_set.load(loom::sync::atomic::Ordering::Acquire) {
                assert_eq!(find(&table, gone), Some(3));
            } else {
                assert!(matches!(find(&table, gone), None | Some(3)));
            }
            assert_eq!(find(&table, last), Some(7));
        });
        writer.remove(&prefix(gone));
        writer.set(&prefix(gone), 3).expect("there is room again");
        set.store(true, loom::sync::atomic::Ordering::Release);
        reader.join().expect("it found it");
    });
}
