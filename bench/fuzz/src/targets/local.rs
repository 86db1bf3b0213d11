//! Fuzz target: local records as an operator writes them, up to the answers made of them.
//!
//! The input is text: lines of `NAME TYPE DATA`, up to the first that is no record; the rest of the input is ignored.

use crate::judge::{Judge, no_rules};
use pmdns_config::{Config, Local, LocalRecord};

/// Records of one input, at most.
const MAX_RECORDS: usize = 16;

/// One input.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let record = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let (name, rtype, data) = (words.next()?, words.next()?, words.next()?);
        LocalRecord::new(name, rtype, 300, data).ok()
    };
    let records: Vec<LocalRecord> = text.split('\n').map_while(record).take(MAX_RECORDS).collect();
    let local = records.iter().cloned().map(|record| Local { record, views: Vec::new() });
    if let Some(mut judge) = Judge::new(&Config { local: local.collect(), ..no_rules() }) {
        judge.ask_for(&records);
    }
}
