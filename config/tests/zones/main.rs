//! Zone files, read by us and by BIND. Zones of every type and directive are made from seeds. `named-checkzone` reads each of
//! them too, and the records are compared one by one in wire format.
//!
//! The judge is a program (Debian: bind9-utils), so the comparison is ignored unless it is asked for, as the labs do.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod judge;
mod zones;

use std::collections::BTreeSet;
use std::path::Path;

use judge::{Judge, Row};
use pmdns_config::files::zone_from;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// The zone that all files are of.
const ORIGIN: &str = "zone.example";

/// Zones of one run.
const ZONES: u32 = 120;

/// The same in wire format.
const APEX: &[u8] = b"\x04zone\x07example\0";

/// What we make of a file. Who serves it leaves out what is of another zone.
fn ours(text: &[u8]) -> Result<BTreeSet<Row>, String> {
    let records = zone_from(text, Path::new("zone"), Some(ORIGIN)).map_err(|it| it.to_string())?;
    let row = |record: pmdns_config::LocalRecord| Row {
        name: record.name.into_vec(),
        rtype: record.rtype,
        ttl: record.ttl,
        data: record.data.into_vec(),
    };
    Ok(records.into_iter().map(row).filter(|row| row.name.ends_with(APEX)).collect())
}

#[test]
#[ignore = "needs named-checkzone"]
fn bind_reads_every_zone_as_we_do() {
    let judge = Judge::new("compared");
    let config = Config { cases: ZONES, failure_persistence: None, ..Config::default() };
    let seed = std::env::var("PMDNS_SEED").ok().and_then(|seed| seed.parse::<u8>().ok());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed.unwrap_or(7); 32]);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let compared = runner.run(&zones::zone(), |text| {
        let theirs = judge.read(ORIGIN, text.as_bytes());
        let ours = ours(text.as_bytes());
        prop_assert_eq!(ours, theirs, "of the zone\n{}", text);
        Ok(())
    });
    if let Err(problem) = compared {
        panic!("{problem}");
    }
}

#[test]
#[ignore = "needs named-checkzone"]
fn bind_takes_each_type_by_itself() {
    let judge = Judge::new("types");
    let head = "$TTL 60\n@ SOA ns admin 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";
    let mut differing = Vec::new();
    for (rtype, data) in zones::EXAMPLES {
        let text = format!("{head}one {rtype} {data}\n");
        let (ours, theirs) = (ours(text.as_bytes()), judge.read(ORIGIN, text.as_bytes()));
        if theirs.is_err() || ours != theirs {
            differing.push(format!("{rtype} {data}\n  ours: {ours:?}\n  theirs: {theirs:?}\n"));
        }
    }
    for (rtype, data) in zones::WRONG {
        let text = format!("{head}one {rtype} {data}\n");
        let (ours, theirs) = (ours(text.as_bytes()), judge.read(ORIGIN, text.as_bytes()));
        if theirs.is_ok() || ours.is_ok() {
            differing.push(format!("{rtype} {data}\n  ours: {ours:?}\n  theirs: {theirs:?}\n"));
        }
    }
    assert!(differing.is_empty(), "{}", differing.concat());
}

/// Zones of a zone file's pieces; whatever they are put together to, reading ends without a panic, and a record that is
/// read is read again from its generic form.
#[test]
fn what_is_read_is_read_again_in_the_generic_form() {
    let config = Config { cases: 256, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[11; 32]);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let compared = runner.run(&zones::zone(), |text| {
        let read = ours(text.as_bytes());
        let rows = read.map_err(|problem| TestCaseError::fail(format!("{problem}\n{text}")))?;
        prop_assert!(rows.len() > 2);
        let generic: String = rows.iter().map(Row::generic).collect();
        prop_assert_eq!(ours(generic.as_bytes()), Ok(rows), "{}", generic);
        Ok(())
    });
    if let Err(problem) = compared {
        panic!("{problem}");
    }
}
