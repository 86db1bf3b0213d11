//! A soak: pmdns serves for hours what fills all its tables, and its memory stands still. By name only: `scripts/test.sh soak`.

use std::fs;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::commands::command;
use crate::harness::{isolated, path};
use crate::messages::ask_a;
use crate::nsd;
use crate::pmdns::{Pmdns, TAP_PORT, TAP_V4, set_up_tap, upstream};

/// How long it takes without `PMDNS_SOAK_SECONDS`. The longest window of heavy hitters is full after an hour.
const SECONDS: u64 = 7200;
/// From this length on heavy hitters are counted.
const HITTERS_FROM: u64 = 7200;
/// Queries that leave together, half of them for few names.
const BURST: u16 = 16;
const PAUSE: Duration = Duration::from_millis(16);
const FEW: u64 = 3000;
const RELOAD_INTERVAL: Duration = Duration::from_secs(60);
const SAMPLE_INTERVAL: Duration = Duration::from_secs(30);
/// What memory of the second half may have more than that of the end of the first.
const SLACK_KIB: u64 = 512;

#[test]
#[ignore = "takes hours: scripts/test.sh soak runs it"]
fn memory_stands_still() {
    isolated("soak::memory_stands_still", || {
        let seconds = std::env::var("PMDNS_SOAK_SECONDS").ok();
        let seconds = seconds.map_or(SECONDS, |text| text.parse().unwrap());
        let _nsd = nsd::start();
        let pmdns = start(seconds >= HITTERS_FROM);
        let client = UdpSocket::bind("0.0.0.0:0").unwrap();
        client.connect((TAP_V4, 53)).unwrap();
        client.set_nonblocking(true).unwrap();
        let (start, mut chance) = (Instant::now(), 1u64);
        let (mut reloaded, mut sampled) = (start, start);
        let mut samples = Vec::new();
        while start.elapsed() < Duration::from_secs(seconds) {
            for id in 0..BURST {
                let name = name(&mut chance);
                // A full socket loses a query, which is no matter here.
                let _ = client.send(&ask_a(id, &name));
            }
            let mut answer = [0; 2048];
            while client.recv(&mut answer).is_ok() {}
            std::thread::sleep(PAUSE);
            if reloaded.elapsed() > RELOAD_INTERVAL {
                reloaded = Instant::now();
                command(&["reload"], 0);
            }
            if sampled.elapsed() > SAMPLE_INTERVAL {
                sampled = Instant::now();
                samples.push(resident(pmdns.id()));
                println!("{} s: {} KiB", start.elapsed().as_secs(), samples[samples.len() - 1]);
            }
        }
        let (first, second) = samples.split_at(samples.len() / 2);
        let [before, after] =
            [first, second].map(|half| half[half.len() / 2..].iter().max().copied().unwrap());
        assert!(after <= before + SLACK_KIB, "from {before} KiB to {after} KiB: {samples:?}");
        pmdns.stop();
    });
}

/// With everything that has tables: a cache that is soon full, lists, logs, snapshots.
fn start(counts_hitters: bool) -> Pmdns {
    fs::create_dir(path("log")).unwrap();
    fs::write(
        path("list"),
        (0..2000).map(|number| format!("ad{number}.test\n")).collect::<String>(),
    )
    .unwrap();
    let hitters = if counts_hitters { "[hitters]\nenabled = true\n" } else { "" };
    let pmdns = Pmdns::start(&format!(
        "{TAP_PORT}[control]\nsocket = \"/run/lab/pmdns.sock\"\n\
         [cache]\nsize = \"4MiB\"\npages = \"normal\"\nsnapshot = \"/run/lab/log/snapshot\"\nsnapshot_interval_seconds = 60\n\
         [query_log]\njson = \"/run/lab/log/queries\"\nsample = 1000\n[[blocklist]]\nfile = \"/run/lab/list\"\n{hitters}{}",
        upstream(nsd::PORT)
    ));
    set_up_tap();
    pmdns
}

/// One of few names, or one that nobody asks again.
fn name(chance: &mut u64) -> String {
    *chance = chance.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    let number = *chance >> 16;
    match number % 2 {
        0 => format!("n{}.bulk.test", number / 2 % FEW),
        _ => format!("r{number:x}.bulk.test"),
    }
}

/// Resident memory, in KiB.
fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
