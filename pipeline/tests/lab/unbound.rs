//! Unbound as a second opinion: a caching forwarder to the same NSD, configured to alter as little as it can.

use std::fs;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use crate::harness::{path, wait_until};
use crate::messages::ask_a;
use crate::nsd;
use crate::process::Process;

/// The port it listens on, on loopback.
pub(crate) const PORT: u16 = 5302;

/// No validation, no minimisation, no order of its own. `test.` is a special-use name (RFC 6761) that it would
/// answer by itself.
const CONFIG: &str = r#"
server:
    interface: 127.0.0.1@5302
    access-control: 127.0.0.0/8 allow
    do-not-query-localhost: no
    username: ""
    chroot: ""
    directory: "/run/lab"
    pidfile: "/run/lab/unbound.pid"
    use-syslog: no
    module-config: "iterator"
    num-threads: 1
    local-zone: "test." nodefault
    minimal-responses: no
    rrset-roundrobin: no
    qname-minimisation: no
    aggressive-nsec: no
    harden-below-nxdomain: no
    edns-buffer-size: 1232
    max-udp-size: 1232
    cache-max-ttl: 86400
    cache-max-negative-ttl: 300
remote-control:
    control-enable: no
"#;

/// Starts it and waits until it answers.
pub(crate) fn start() -> Process {
    let forward =
        format!("forward-zone:\n    name: \".\"\n    forward-addr: 127.0.0.1@{}\n", nsd::PORT);
    start_with(&forward, "n0.bulk.test")
}

/// The same with more of a configuration, whose last word counts; `name` can be resolved then.
pub(crate) fn start_with(more: &str, name: &str) -> Process {
    fs::write(path("unbound.conf"), format!("{CONFIG}{more}")).unwrap();
    let mut command = Command::new("/usr/sbin/unbound");
    let unbound = Process::start("unbound", command.args(["-d", "-c", "/run/lab/unbound.conf"]));
    wait_until("Unbound answers", || answers(name));
    unbound
}

fn answers(name: &str) -> bool {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    socket.connect(("127.0.0.1", PORT)).unwrap();
    let _ = socket.send(&ask_a(1, name));
    let mut reply = [0; 512];
    matches!(socket.recv(&mut reply), Ok(length) if length > 12 && reply[3] & 0x0f == 0)
}
