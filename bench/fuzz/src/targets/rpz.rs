//! Fuzz target: response policy zones, up to what becomes of queries and of upstreams' answers. The input is the zone's file.
//!
//! Names to ask for are taken from the file itself, so that rules are met.

use crate::judge::{Judge, Judged, file, no_rules};
use pmdns_config::wire_name;
use pmdns_config::{Config, Rpz};
use pmdns_stages::testing::{QueryFrame, ReplyRecord, query};

/// Names that are asked for, at most.
const MAX_NAMES: usize = 16;

/// One input.
pub(crate) fn run(data: &[u8]) {
    let rpz = Rpz { file: file(data), origin: Some("rpz.example".to_owned()), ..Rpz::default() };
    let Some(mut judge) = Judge::new(&Config { rpz: vec![rpz], ..no_rules() }) else { return };
    let text = String::from_utf8_lossy(data);
    let owners = text.lines().filter_map(|line| line.split_whitespace().next());
    let names = owners.filter_map(|owner| wire_name(&owner.replacen('*', "x", 1)).ok());
    let addresses: [ReplyRecord; 2] = [(0, 1, 60, vec![192, 0, 2, 1]), (0, 28, 60, vec![0x20; 16])];
    for name in names.take(MAX_NAMES) {
        for record in &addresses {
            let asked = QueryFrame { name: name.to_vec(), qtype: record.1, ..query("a. A") };
            if let Judged::Passed(packet) = judge.ask(&asked) {
                judge.respond(&asked, &packet, std::slice::from_ref(record));
            }
        }
    }
}
