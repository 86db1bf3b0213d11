//! The fuzz targets: one program, which does the target whose name it was started by.
//!
//! A target turns bytes into what somebody outside could send or write, hands it to pmdns, and checks what comes
//! out. Whatever panics, hangs, or breaks a check is a finding. `scripts/fuzz.sh` runs all of them;
//! `seeds/TARGET/` is where each starts from, and where the input of a finding stays when it has been dealt with.
#![no_main]

mod asking;
mod check;
mod exchange;
mod forwarder;
mod input;
mod judge;

/// A file for each target.
mod targets {
    pub(crate) mod api;
    pub(crate) mod import;
    pub(crate) mod line;
    pub(crate) mod list;
    pub(crate) mod local;
    pub(crate) mod query_source;
    pub(crate) mod reply;
    pub(crate) mod round_trip;
    pub(crate) mod rpz;
    pub(crate) mod stream;
    pub(crate) mod upstream;
    pub(crate) mod validator;
    pub(crate) mod zone;
}

use std::path::Path;
use std::sync::OnceLock;

use targets::*;

/// The targets by name.
const TARGETS: [(&str, fn(&[u8])); 13] = [
    ("api", api::run),
    ("import", import::run),
    ("line", line::run),
    ("list", list::run),
    ("local", local::run),
    ("query_source", query_source::run),
    ("reply", reply::run),
    ("round_trip", round_trip::run),
    ("rpz", rpz::run),
    ("stream", stream::run),
    ("upstream", upstream::run),
    ("validator", validator::run),
    ("zone", zone::run),
];

/// What this process does with its inputs.
static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

/// The target of the program's name. Linking all of them once takes a fraction of the time that a program for each takes.
fn target() -> fn(&[u8]) {
    let program = std::env::args().next().unwrap_or_default();
    let name = Path::new(&program).file_stem().and_then(|name| name.to_str());
    let target = TARGETS.iter().find(|(target, _)| name == Some(target));
    target
        .unwrap_or_else(|| {
            panic!("{program} has the name of no target: scripts/fuzz.sh starts them")
        })
        .1
}

libfuzzer_sys::fuzz_target!(init: { TARGET.get_or_init(target); }, |data: &[u8]| TARGET.get_or_init(target)(data));
