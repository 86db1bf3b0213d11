//! Validation of zones that BIND's tools signed and NSD serves. pmdns asks an Unbound, which validates too, by the same
//! trust anchor. Each name has the same rcode and the same AD from both.

use std::fmt::Write as _;
use std::fs;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::RecordType;
use pmdns_stages::testing::{QueryFrame, query};
use pmdns_stages::wire::dns::flag;

use crate::differential::Server;
use crate::harness::{isolated, path, sh};
use crate::pmdns::{Pmdns, TAP_V4, upstream};
use crate::process::Process;
use crate::{nsd, unbound};

/// Each zone, and how `dnssec-signzone` signs it; none: not at all. `top` is where trust begins, and is signed last.
const ZONES: [(&str, Option<&str>); 8] = [
    ("loose.nsec.top", None),
    ("loose.nsec3.top", None),
    ("nsec.top", Some("")),
    ("nsec3.top", Some("-3 - -H 0")),
    ("open.top", None),
    ("bad.top", Some("")),
    ("old.top", Some("-s 20200101000000 -e 20200201000000")),
    ("top", Some("")),
];

/// What is in each zone.
const RECORDS: &str = "$TTL 300\n@ SOA ns h 1 3600 900 604800 60\n@ NS ns\nns A 127.0.0.1\nwww A 192.0.2.1\n\
                       *.wild TXT w\n*.wild A 192.0.2.2\nalias CNAME www\nout CNAME www.open.top.\n\
                       broken CNAME www.bad.top.\nnowhere CNAME none\ndeep.er A 192.0.2.3\n";

/// What is asked for in each zone.
const QUESTIONS: [&str; 13] = [
    "www.{}. A",
    "www.{}. AAAA",
    "none.{}. A",
    "x.wild.{}. TYPE16",
    "x.wild.{}. TYPE15",
    "alias.{}. A",
    "out.{}. A",
    "broken.{}. A",
    "nowhere.{}. A",
    "er.{}. A",
    "{}. TYPE48",
    "{}. TYPE43",
    "{}. TYPE6",
];

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn what_unbound_finds_secure_is_secure_and_what_it_refuses_is_refused() {
    isolated("dnssec::what_unbound_finds_secure_is_secure_and_what_it_refuses_is_refused", || {
        let zones = signed_zones();
        let zones: Vec<_> = zones.iter().map(|(zone, text)| (*zone, &**text)).collect();
        let _nsd = nsd::serve(&zones);
        for spared in [None, Some("bad.top")] {
            let _unbound = start_unbound(spared);
            let pmdns = Pmdns::start_on_tap(&config(spared));
            let [ours, theirs] = [(TAP_V4, 53), ("127.0.0.1", unbound::PORT)]
                .map(|(address, port)| Server::new(address, port));
            let (mut failed, mut secure) = (Vec::new(), 0);
            // Twice: from upstream, then mostly from the cache.
            for question in questions().chain(questions()) {
                let answer = compare(&question, &ours, &theirs);
                secure += usize::from(answer.metadata.authentic_data);
                if answer.metadata.response_code == ResponseCode::ServFail {
                    failed.push(question);
                }
            }
            assert!(failed.iter().any(|question| question == "www.old.top. A"), "{failed:?}");
            let is_bad = failed.iter().any(|question| question == "www.bad.top. A");
            assert_eq!(is_bad, spared.is_none(), "{failed:?}");
            assert!(secure > questions().count() / 2, "{secure} answers are secure");
            let stats = pmdns.stop();
            assert!(stats.cache_hits() > 0);
            let all = 2 * questions().count();
            println!("{all} questions: {secure} secure, {} refused, as by Unbound", failed.len());
        }
    });
}

fn questions() -> impl Iterator<Item = String> {
    let of_zone =
        |(zone, _): (&'static str, _)| QUESTIONS.map(|question| question.replace("{}", zone));
    // Nobody serves what is above the trust anchor, where its DS records would be.
    ZONES.into_iter().flat_map(of_zone).filter(|question| question != "top. TYPE43")
}

/// Asks both, in every way; returns our answer to somebody who wants to know whether it is secure.
fn compare(question: &str, ours: &Server, theirs: &Server) -> Message {
    let plain = query(question).edns(1232, false);
    let curious = QueryFrame { flags: plain.flags | flag::AD, ..plain.clone() };
    let whole = plain.clone().edns(1232, true);
    let unchecked = QueryFrame { flags: whole.flags | flag::CD, ..whole.clone() };
    for (id, query) in [&plain, &curious, &whole].into_iter().enumerate() {
        let query = QueryFrame { id: id as u16, ..query.clone() };
        let (ours, theirs) = (ours.ask(&query), theirs.ask(&query));
        assert_eq!(facts(&ours), facts(&theirs), "{question}\n{ours}\n{theirs}");
    }
    let (data, others) = (ours.ask(&unchecked), theirs.ask(&unchecked));
    assert_eq!(data.metadata.response_code, others.metadata.response_code, "{question} with CD");
    assert_ne!(data.metadata.response_code, ResponseCode::ServFail, "{question} with CD");
    assert!(!data.metadata.authentic_data, "{question} with CD");
    ours.ask(&curious)
}

/// What is the same from both: rcode, AD, and the types of answer and authority.
fn facts(message: &Message) -> (ResponseCode, bool, [Vec<RecordType>; 2]) {
    let types = [&message.answers, &message.authorities].map(|records| {
        let mut types: Vec<_> = records.iter().map(|record| record.record_type()).collect();
        types.sort();
        types
    });
    (message.metadata.response_code, message.metadata.authentic_data, types)
}

/// Signs what is to be signed, each with one key, and spoils what shall be bogus.
fn signed_zones() -> Vec<(&'static str, String)> {
    let mut zones = Vec::new();
    for (zone, how) in ZONES {
        let mut text = format!("$ORIGIN {zone}.\n{RECORDS}");
        for (child, _) in ZONES {
            if child.split_once('.').is_some_and(|(_, parent)| parent == zone) {
                writeln!(text, "{child}. NS ns.{child}.\nns.{child}. A 127.0.0.1").unwrap();
            }
        }
        if let Some(how) = how {
            text = sign(zone, how, &text);
        }
        if zone == "bad.top" {
            text = text.replace("192.0.2.1", "192.0.2.66");
        }
        zones.push((zone, text));
    }
    zones
}

/// A zone signed with one key. Its trust anchor is in the file `dsset-ZONE.`.
pub(crate) fn sign(zone: &str, how: &str, text: &str) -> String {
    fs::write(path("unsigned"), text).unwrap();
    sh(&format!(
        "cd /run/lab && dnssec-keygen -q -a ECDSAP256SHA256 -f KSK {zone} && \
         dnssec-signzone -q -S -z -g -P -O full {how} -o {zone} -f signed unsigned"
    ));
    fs::read_to_string(path("signed")).unwrap()
}

/// An Unbound that resolves from NSD, and validates.
fn start_unbound(spared: Option<&str>) -> Process {
    let mut config = "server:\n    module-config: \"validator iterator\"\n    \
                      trust-anchor-file: \"/run/lab/dsset-top.\"\n"
        .to_owned();
    if let Some(zone) = spared {
        writeln!(config, "    domain-insecure: \"{zone}\"").unwrap();
    }
    for (zone, _) in ZONES {
        let address = format!("127.0.0.1@{}", nsd::PORT);
        writeln!(config, "stub-zone:\n    name: \"{zone}\"\n    stub-addr: {address}").unwrap();
    }
    unbound::start_with(&config, "www.nsec.top")
}

fn config(spared: Option<&str>) -> String {
    let spared = spared.map(|zone| format!("{zone:?}")).unwrap_or_default();
    format!(
        "{}\n[dnssec]\nvalidate = true\ntrust_anchor = \"/run/lab/dsset-top.\"\n\
         negative_trust_anchors = [{spared}]\n",
        upstream(unbound::PORT)
    )
}
