//! Fuzz target: local records as an operator writes them, up to the answers made of them.
//!
//! The input is text: lines of `NAME TYPE DATA`, up to the first that is no record; the rest of the input is ignored.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use pmdns_config::LocalRecord;
use pmdns_fuzz::check;
use pmdns_nics::hugepage::Arena;
use pmdns_stages::cache::Cache;
use pmdns_stages::encode::Encode;
use pmdns_stages::parse::Parse;
use pmdns_stages::policy::{LocalData, Policy};
use pmdns_stages::ports::{Port, Ports};
use pmdns_stages::testing::{OUR_IPV4, OUR_MAC, Query, act_once, at, query};
use pmdns_stages::wire::be16;
use pmdns_stages::wire::dns::{flag, header};
use pmdns_stages::wire::name::Seed;
use pmdns_stages::wire::record::{Record, Records};
use pmdns_stages::{StageName, Step};

/// Records of one input, at most.
const MAX_RECORDS: usize = 16;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let record = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let (name, rtype, data) = (words.next()?, words.next()?, words.next()?);
        LocalRecord::new(name, rtype, 300, data).ok()
    };
    let records: Vec<LocalRecord> = text.split('\n').map_while(record).take(MAX_RECORDS).collect();
    let seed = Seed::new([7; 16]);
    let Ok(local) = LocalData::new(&records, &[], seed) else { return };
    answer(&records, Arc::new(local), seed);
});

/// Every record is asked for, and must be in the answer, written as it was read.
fn answer(records: &[LocalRecord], local: Arc<LocalData>, seed: Seed) {
    let ports: Ports = [Port::new(OUR_MAC, [OUR_IPV4.into()])].into();
    let (cache, _) =
        Cache::new(Arena::heap(1 << 12), 1, seed).expect("a cache that small is lawful");
    let mut parse = Parse::new(Arc::clone(&ports), seed);
    let mut policy = Policy::new(Arc::clone(&local));
    let mut encode = Encode::new(cache, local, ports, 1232);
    for record in records {
        let plain = query("a. A").edns(1232, false);
        let asked = Query { name: record.name.to_vec(), qtype: record.rtype, ..plain };
        let mut packet = act_once(&mut parse, asked.packet(), &at(0));
        if packet.step != Step::at(StageName::Acl) || packet.answer != pmdns_stages::Answer::None {
            // Parse answers for types that nobody may ask for.
            continue;
        }
        packet = act_once(&mut policy, packet, &at(0));
        assert_eq!(packet.step, Step::at(StageName::Encode), "a local name is answered for here");
        packet = act_once(&mut encode, packet, &at(0));
        assert_eq!(packet.step, Step::TRANSMIT);
        check::answers(&asked.frame_bytes(), packet.frame.bytes());
        let message = check::message(packet.frame.bytes()).expect("a whole answer");
        let truncated = be16(message, header::FLAGS).is_some_and(|flags| flags & flag::TC != 0);
        let is_it = |found: &Record| message[found.data_at..found.end] == *record.data;
        let mut records = Records::new(message).expect("one question").flatten();
        assert!(
            truncated || records.any(|found| is_it(&found)),
            "the record is there, bit for bit"
        );
    }
}
