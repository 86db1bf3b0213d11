//! Knot answers by the client's network (mod-geoip), kdig says which one that is: somebody else's reading of RFC 7871
//! on both sides.

use std::fs;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use crate::harness::{isolated, path, wait_until};
use crate::messages::ask_a;
use crate::pmdns::{Pmdns, TAP_V4};
use crate::process::Process;

/// The port Knot listens on, on loopback.
const PORT: u16 = 5303;

const KNOT: &str = r#"
server:
    listen: 127.0.0.1@5303
    rundir: /run/lab
    edns-client-subnet: on
log:
  - target: stderr
    any: info
database:
    storage: /run/lab/knot
mod-geoip:
  - id: networks
    config-file: /run/lab/networks.conf
    mode: subnet
    ttl: 20
zone:
  - domain: geo.test
    file: /run/lab/geo.test.zone
    module: mod-geoip/networks
"#;

/// 10.97.0.1 is the lab's client.
const NETWORKS: &str = "
www.geo.test:
  - net: 10.97.0.0/16
    A: [ 192.0.2.97 ]
  - net: 10.98.0.0/16
    A: [ 192.0.2.98 ]
  - net: 10.99.1.0/24
    A: [ 192.0.2.99 ]
";

const ZONE: &str = "$ORIGIN geo.test.
$TTL 60
@ SOA ns h 1 3600 900 604800 60
@ NS ns
ns A 127.0.0.1
plain A 192.0.2.8
www A 192.0.2.9
";

const UPSTREAM: &str = r#"
[client_subnet]
policy = "add"

[[upstream]]
address = "127.0.0.1:5303"
client_subnet = true
"#;

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn knot_by_network() {
    isolated("subnets::knot_by_network", || {
        let _knot = start();
        let pmdns = Pmdns::start_on_tap(UPSTREAM);
        // The client's own address, unless it says otherwise.
        assert_eq!(kdig("www.geo.test"), ("192.0.2.97".into(), None));
        for (said, answer, scope) in [
            ("10.98.1.0/24", "192.0.2.98", "/16"),
            ("10.98.2.0/24", "192.0.2.98", "/16"),
            ("10.98.0.0/16", "192.0.2.98", "/16"),
            ("10.99.1.7/32", "192.0.2.99", "/24"),
            ("10.99.1.0/24", "192.0.2.99", "/24"),
            ("10.97.3.0/24", "192.0.2.97", "/16"),
            ("0.0.0.0/0", "192.0.2.9", "/0"),
        ] {
            let expected = (answer.to_owned(), Some(format!("{said}{scope}")));
            assert_eq!(kdig(&format!("+subnet={said} www.geo.test")), expected);
        }
        let stats = pmdns.stats();
        // Three networks and those who opt out, one of the networks also for those who say nothing.
        assert_eq!((stats.slow_path("leaders"), stats.slow_path("subnet_answers")), (5, 5));
        assert_eq!(stats.slow_path("answered_for_subnet"), 3);
        // What is the same everywhere is everybody's, and a hit.
        for said in ["10.98.1.0/24", "10.99.1.0/24"] {
            let expected = ("192.0.2.8".to_owned(), Some(format!("{said}/0")));
            assert_eq!(kdig(&format!("+subnet={said} plain.geo.test")), expected);
        }
        assert_eq!(pmdns.stop().slow_path("leaders"), 6);
    });
}

fn start() -> Process {
    for (file, text) in [("knot.conf", KNOT), ("networks.conf", NETWORKS), ("geo.test.zone", ZONE)]
    {
        fs::write(path(file), text).unwrap();
    }
    let mut command = Command::new("/usr/sbin/knotd");
    let knot = Process::start("knot", command.args(["-c", "/run/lab/knot.conf"]));
    wait_until("Knot answers", || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        socket.connect(("127.0.0.1", PORT)).unwrap();
        let _ = socket.send(&ask_a(1, "plain.geo.test"));
        matches!(socket.recv(&mut [0; 512]), Ok(length) if length > 12)
    });
    knot
}

/// The address in the answer to this query, and its subnet option as kdig prints it: network/source/scope.
fn kdig(arguments: &str) -> (String, Option<String>) {
    let output = Command::new("kdig")
        .args([&*format!("@{TAP_V4}"), "+retry=0", "+time=10", "-t", "A"])
        .args(arguments.split_whitespace())
        .output()
        .expect("kdig (package knot-dnsutils) starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let subnet = text.lines().find_map(|line| line.strip_prefix(";; CLIENT-SUBNET: "));
    let address = text.lines().find(|line| line.contains("\tA\t") && !line.starts_with(";;"));
    let address = address.and_then(|line| line.split_whitespace().last()).map(str::to_owned);
    let address = address.unwrap_or_else(|| panic!("kdig {arguments}: {text}"));
    (address, subnet.map(str::to_owned))
}
