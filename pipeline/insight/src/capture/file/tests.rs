//! A capture on a rig: what is in its file, and what ends it.

use std::io::{Read as _, Seek as _};

use pmdns_control::trace::PacketSearch;
use pmdns_engine::testing::{Rig, config};
use pmdns_nics::Burst;
use pmdns_nics::pcap::Capture;
use pmdns_stages::testing::query;

use super::*;
use crate::capture::filter::MAX_TIME;

/// A file without a name.
fn nameless(name: &str) -> (std::path::PathBuf, File) {
    let path = std::env::temp_dir().join(format!("pmdns-capture-{}-{name}", std::process::id()));
    let file = File::options().create(true).truncate(true).write(true).read(true).open(&path);
    (path, file.unwrap())
}

/// What these words search for.
fn search(words: &str) -> PacketSearch {
    let (mut search, mut words) = (PacketSearch::default(), words.split_whitespace());
    while let Some(word) = words.next() {
        let mut value = || words.next().map(str::to_owned);
        match word {
            "answers" => search.answers = true,
            "client" => search.client = value(),
            "count" => search.count = value().and_then(|value| value.parse().ok()),
            "name" => search.name = value(),
            "reason" => search.reason = value(),
            "stage" => search.stage = value(),
            _ => panic!("{word}"),
        }
    }
    search
}

fn capture(words: &str) -> (Vec<Vec<u8>>, String) {
    let mut rig = Rig::new(&config("[block]\nnames = [\"blocked.example\"]\n"));
    rig.learn(&query("hit.example. A"), &[(0, 1, 86_400, vec![192, 0, 2, 1])]);
    let selection = Selection::try_from(search(words)).unwrap();
    let ports = ["p0".to_owned()];
    let filter = selection.filter(&ports, 1).unwrap();
    let lender = rig.observers.clone();
    let mut session = std::thread::scope(|scope| {
        let session = scope.spawn(|| Session::start(&lender, &filter).unwrap());
        while !session.is_finished() {
            rig.settle();
        }
        session.join().unwrap()
    });
    let names = ["hit.example. A", "miss.example. AAAA", "x.blocked.example. A"];
    let frames = names.iter().map(|name| rig.frame(&query(name).frame_bytes()));
    let mut frames: Burst = frames.chain([rig.frame(&[0xff; 20])]).collect();
    rig.offer(0, &mut frames);
    rig.settle();
    let (path, file) = nameless(&words.replace([' ', '/'], "-"));
    let mut copy = file.try_clone().unwrap();
    let sink = BufWriter::new(file);
    let writer = NgWriter::new(sink, "pmdns", [("p0", LinkType::Ethernet)]).unwrap();
    let calendar = Calendar::new(rig.gauges.clock);
    let mut file = CaptureFile { writer, filter, calendar, packets: 0 };
    let count = selection.count.unwrap_or(u64::MAX);
    file.fill(&mut session, count, MAX_TIME, || true).unwrap();
    file.writer.flush().unwrap();
    let read = Capture::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut text = Vec::new();
    copy.rewind().unwrap();
    copy.read_to_end(&mut text).unwrap();
    let records = read.records().map(|record| record.bytes.to_vec()).collect();
    (records, String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn each_packet_is_captured_once_as_it_came() {
    let (packets, text) = capture("");
    let queries = ["hit.example. A", "miss.example. AAAA", "x.blocked.example. A"];
    let mut expected: Vec<Vec<u8>> = queries.map(|name| query(name).frame_bytes()).into();
    expected.push(vec![0xff; 20]);
    for packet in &expected {
        assert_eq!(packets.iter().filter(|seen| *seen == packet).count(), 1);
    }
    assert_eq!(packets.len(), expected.len());
    for comment in [
        "stage lookup, exit encode",
        "stage policy, exit slow_path",
        "stage parse, exit exception.ethertype",
    ] {
        assert!(text.contains(comment), "{comment}");
    }
}

#[test]
fn filters_choose_and_answers_come_on_request() {
    for (words, count) in [
        ("reason slow_path", 1),
        ("stage parse", 4),
        ("stage parse count 2", 2),
        ("stage parse name example", 3),
        ("name BLOCKED.example", 1),
        ("stage lookup reason encode", 1),
        ("stage lookup", 3),
        ("answers name hit.example", 2),
        ("answers", 6),
        ("client 10.77.0.0/24", 3),
        ("client 10.78.0.0/24 answers", 0),
        ("stage encode reason transmit", 2),
    ] {
        assert_eq!(capture(words).0.len(), count, "{words}");
    }
}
