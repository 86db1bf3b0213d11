//! Fuzz target: zone files, up to the answers made of their records. The input is the file.

use std::path::Path;

use crate::judge::{Judge, no_rules};
use pmdns_config::files::zone_from;
use pmdns_config::{Config, Local};

/// Records that are asked for, at most.
const MAX_RECORDS: usize = 64;

/// One input.
pub(crate) fn run(data: &[u8]) {
    let Ok(records) = zone_from(data, Path::new("fuzzed"), Some("example")) else { return };
    let local = records.iter().cloned().map(|record| Local { record, views: Vec::new() });
    if let Some(mut judge) = Judge::new(&Config { local: local.collect(), ..no_rules() }) {
        judge.ask_for(&records[..records.len().min(MAX_RECORDS)]);
    }
}
