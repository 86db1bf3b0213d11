//! Fuzz target: zone files, up to the answers made of their records. The input is the file.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use pmdns_config::Config;
use pmdns_config::files::zone_from;
use pmdns_fuzz::judge::{Judge, no_rules};

/// Records that are asked for, at most.
const MAX_RECORDS: usize = 64;

fuzz_target!(|data: &[u8]| {
    let Ok(local) = zone_from(data, Path::new("fuzzed"), Some("example")) else { return };
    let config = Config { local, ..no_rules() };
    if let Some(mut judge) = Judge::new(&config) {
        judge.ask_for(&config.local[..config.local.len().min(MAX_RECORDS)]);
    }
});
