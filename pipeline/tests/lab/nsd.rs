//! NSD as the upstream: the zone of `data/`, one generated zone of many names, and whatever else a lab wants served.

use std::fmt::Write as _;
use std::fs;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use crate::harness::{data, path, wait_until};
use crate::messages::ask_a;
use crate::process::Process;

/// The port NSD listens on, on loopback.
pub(crate) const PORT: u16 = 5300;
/// The port that a second one listens on.
pub(crate) const SECOND_PORT: u16 = 5310;
/// Names `n0` to `n10999` of the generated zone `bulk.test`, each with an address record.
pub(crate) const BULK_NAMES: u32 = 11_000;
/// How long its records last, in seconds.
pub(crate) const BULK_TTL: u32 = 3600;

/// Response rate limiting off, or a lab would get 200 answers a second.
const CONFIG: &str = r#"
server:
    username: ""
    database: ""
    zonesdir: "FOLDER"
    pidfile: "FOLDER/nsd.pid"
    xfrdfile: "FOLDER/xfrd.state"
    xfrdir: "FOLDER"
    zonelistfile: "FOLDER/zone.list"
    server-count: 1
    rrl-ratelimit: 0
remote-control:
    control-enable: no
"#;

/// Starts NSD with `example.test` and `bulk.test`, and waits until it answers.
pub(crate) fn start() -> Process {
    start_with(&[])
}

/// The same with more zones: their names, and what is in them.
pub(crate) fn start_with(more: &[(&str, &str)]) -> Process {
    let example = fs::read_to_string(data("lab-example.test.zone")).unwrap();
    let bulk = bulk_zone();
    serve(&[&[("example.test", &*example), ("bulk.test", &*bulk)], more].concat())
}

/// Starts NSD with these zones only.
pub(crate) fn serve(zones: &[(&str, &str)]) -> Process {
    launch("nsd", (&["127.0.0.1"], PORT), zones)
}

/// Starts NSD with `example.test` and `bulk.test` on an address of a link.
pub(crate) fn start_at(address: &str) -> Process {
    start_at_all(&[address])
}

/// The same on several addresses.
pub(crate) fn start_at_all(addresses: &[&str]) -> Process {
    let example = fs::read_to_string(data("lab-example.test.zone")).unwrap();
    launch("nsd", (addresses, PORT), &[("example.test", &example), ("bulk.test", &bulk_zone())])
}

/// Starts a second NSD, with these zones, beside the first.
pub(crate) fn serve_second(zones: &[(&str, &str)]) -> Process {
    launch("second-nsd", (&["127.0.0.1"], SECOND_PORT), zones)
}

/// Starts one more NSD, with these zones, at an address and port of its own.
pub(crate) fn serve_at(name: &str, at: (&str, u16), zones: &[(&str, &str)]) -> Process {
    launch(name, (&[at.0], at.1), zones)
}

fn launch(name: &str, (addresses, port): (&[&str], u16), zones: &[(&str, &str)]) -> Process {
    let folder = path(name);
    fs::create_dir_all(&folder).unwrap();
    let mut config = CONFIG.replace("FOLDER", folder.to_str().unwrap());
    for address in addresses {
        writeln!(config, "server:\n    ip-address: {address}@{port}").unwrap();
    }
    for (zone, text) in zones {
        fs::write(folder.join(format!("{zone}.zone")), text).unwrap();
        writeln!(config, "zone:\n    name: \"{zone}\"\n    zonefile: \"{zone}.zone\"").unwrap();
        config += "    provide-xfr: 0.0.0.0/0 NOKEY\n    provide-xfr: ::/0 NOKEY\n";
    }
    let file = folder.join("nsd.conf");
    fs::write(&file, config).unwrap();
    let mut command = Command::new("/usr/sbin/nsd");
    let nsd = Process::start(name, command.arg("-d").arg("-c").arg(&file));
    wait_until("NSD answers", || zones.iter().all(|(zone, _)| answers((addresses[0], port), zone)));
    nsd
}

/// The last octets of the address of `n{number}.bulk.test`.
pub(crate) fn bulk_address(number: u32) -> String {
    format!("10.200.{}.{}", number / 250, number % 250 + 1)
}

/// The text of `bulk.test`.
pub(crate) fn bulk_zone() -> String {
    let mut zone = "$ORIGIN bulk.test.\n$TTL TIME\n@ SOA ns h 1 3600 900 604800 60\n@ NS ns\n\
                    ns A 127.0.0.1\n"
        .replace("TIME", &BULK_TTL.to_string());
    for number in 0..BULK_NAMES {
        writeln!(zone, "n{number} A {}", bulk_address(number)).unwrap();
    }
    zone
}

/// Whether the zone is served at this port.
fn answers((address, port): (&str, u16), zone: &str) -> bool {
    let any = if address.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    socket.connect((address, port)).unwrap();
    let _ = socket.send(&ask_a(1, zone));
    let mut reply = [0; 512];
    matches!(socket.recv(&mut reply), Ok(length) if length > 12 && reply[3] & 0x0f == 0)
}
