//! A policy zone from Knot DNS: rules come and go with its versions, and outlive it.

use std::fs;
use std::net::UdpSocket;
use std::process::Command;

use crate::dig::dig;
use crate::harness::{PATIENCE, isolated, sh, wait_until};
use crate::messages::{NOERROR, NXDOMAIN, ask_a, rcode};
use crate::nsd;
use crate::pmdns::{Pmdns, TAP_V4, upstream};
use crate::process::Process;

/// Knot's half. It notifies, and sends differences from its journal.
const KNOT: &str = r#"
server:
    listen: 127.0.0.1@5310
    rundir: /run/lab/knot
database:
    storage: /run/lab/knot
key:
  - id: transfer-key
    algorithm: hmac-sha256
    secret: c2l4dGVlbiBsZXR0ZXJzIQ==
remote:
  - id: pmdns
    address: 127.0.0.1@5399
    key: transfer-key
acl:
  - id: transfers
    key: transfer-key
    action: transfer
zone:
  - domain: rpz.example
    storage: /run/lab/knot
    file: rpz.example.zone
    notify: pmdns
    acl: transfers
    zonefile-sync: -1
    zonefile-load: difference
    journal-content: all
"#;

/// The first version. Timers are long: what comes in time comes by notification.
const ZONE: &str = "\
$ORIGIN rpz.example.
$TTL 60
@ SOA ns admin 1 86400 86400 864000 60
@ NS ns
n1.bulk.test CNAME .
";

/// pmdns's half.
pub(crate) const TRANSFER: &str = r#"
[[rpz]]
zone = "rpz.example"
file = "/run/lab/kept.rpz"
primaries = ["127.0.0.1:5310"]
tsig = "transfer-key"

[[tsig]]
name = "transfer-key"
secret = "c2l4dGVlbiBsZXR0ZXJzIQ=="

[transfer]
listen = "127.0.0.1:5399"
"#;

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn rules_follow_the_primary_and_outlive_it() {
    isolated("transfer::rules_follow_the_primary_and_outlive_it", || {
        let _nsd = nsd::start();
        let knot = start_knot();
        let config = format!("{}{TRANSFER}", upstream(nsd::PORT));
        let pmdns = Pmdns::start_on_tap(&config);
        wait_until("the first version comes", || answer("n1.bulk.test") == NXDOMAIN);
        assert_eq!(answer("n2.bulk.test"), NOERROR);
        for _ in 0..3 {
            change("zone-set rpz.example n2.bulk.test 60 CNAME .");
            wait_until("a rule comes", || is_blocked("n2.bulk.test"));
            change("zone-unset rpz.example n2.bulk.test");
            wait_until("a rule goes", || !is_blocked("n2.bulk.test"));
        }
        change("zone-set rpz.example *.bulk.test 60 A 192.0.2.99");
        wait_until("a rule has records", || dig(TAP_V4, "n2.bulk.test").data() == ["192.0.2.99"]);
        let stats = pmdns.stats();
        let zone = |name: &str| stats.number(&format!("/policy_zones/0/{name}"));
        assert_eq!((zone("serial"), zone("records"), zone("whole")), (8, 4, 1));
        assert!(zone("notified") > 0 && zone("incremental") > 0, "{stats:?}");
        assert_eq!((zone("failures"), zone("disbelieved")), (0, 0), "{stats:?}");
        pmdns.stop();

        drop(knot);
        let pmdns = Pmdns::start_on_tap(&config);
        assert_eq!(answer("n1.bulk.test"), NXDOMAIN, "what is kept holds from the start");
        assert_eq!(dig(TAP_V4, "n2.bulk.test").data(), ["192.0.2.99"]);
        pmdns.stop();
    });
}

/// Starts Knot and waits until it serves the zone.
pub(crate) fn start_knot() -> Process {
    fs::create_dir("/run/lab/knot").unwrap();
    fs::write("/run/lab/knot/rpz.example.zone", ZONE).unwrap();
    fs::write("/run/lab/knot.conf", KNOT).unwrap();
    let knot = Process::start("knotd", Command::new("knotd").args(["-c", "/run/lab/knot.conf"]));
    wait_until("Knot serves the zone", || {
        let ask = Command::new("dig")
            .args("@127.0.0.1 -p 5310 +short +time=1 rpz.example SOA".split(' '))
            .output();
        String::from_utf8_lossy(&ask.unwrap().stdout).contains("admin.rpz.example.")
    });
    knot
}

/// Makes a version with this change.
pub(crate) fn change(command: &str) {
    for command in ["zone-begin rpz.example", command, "zone-commit rpz.example"] {
        sh(&format!("set -f; knotc -c /run/lab/knot.conf {command}"));
    }
}

/// Whether a name is blocked; one that no rule is about is answered all the while.
fn is_blocked(name: &str) -> bool {
    assert_eq!(answer("n3.bulk.test"), NOERROR, "queries are answered whatever comes");
    answer(name) == NXDOMAIN
}

/// The rcode that pmdns answers.
pub(crate) fn answer(name: &str) -> u8 {
    let client = UdpSocket::bind("10.97.0.1:0").unwrap();
    client.connect((TAP_V4, 53)).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.send(&ask_a(1, name)).unwrap();
    let mut buffer = [0; 512];
    client.recv(&mut buffer).unwrap();
    rcode(&buffer)
}
