//! Unbound as an upstream over TLS and HTTPS: somebody else's reading of the standards.

use std::fs;
use std::process::Command;

use rcgen::{CertificateParams, KeyPair};

use crate::dig::dig;
use crate::harness::{isolated, path, wait_until};
use crate::pmdns::{Pmdns, TAP_V4};
use crate::process::Process;

const UNBOUND: &str = r#"
server:
    interface: 127.0.0.1@8530
    interface: 127.0.0.1@8443
    tls-port: 8530
    https-port: 8443
    tls-service-key: "/run/lab/key.pem"
    tls-service-pem: "/run/lab/certificate.pem"
    username: ""
    chroot: ""
    directory: "/run/lab"
    pidfile: "/run/lab/unbound.pid"
    use-syslog: no
    do-daemonize: no
    local-zone: "test." redirect
    local-data: "test. 300 A 192.0.2.7"
"#;

/// Names below `doh.test` go over HTTPS, all others over TLS.
const UPSTREAMS: &str = r#"
[slowpath]
deadline_ms = 1500

[[upstream]]
address = "tls://127.0.0.1:8530"
name = "dns.example"
ca_file = "/run/lab/certificate.pem"

[[upstream]]
address = "https://127.0.0.1:8443/dns-query"
name = "dns.example"
ca_file = "/run/lab/certificate.pem"
group = "doh"

[[forward]]
zone = "doh.test"
group = "doh"
"#;

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn unbound_over_tls_and_https() {
    isolated("encrypted::unbound_over_tls_and_https", || {
        let key = KeyPair::generate().unwrap();
        let names = vec!["dns.example".to_owned()];
        let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        fs::write(path("key.pem"), key.serialize_pem()).unwrap();
        fs::write(path("certificate.pem"), certificate.pem()).unwrap();
        fs::write(path("unbound.conf"), UNBOUND).unwrap();
        let unbound = start();
        let pmdns = Pmdns::start_on_tap(UPSTREAMS);
        for number in 0..20 {
            for zone in ["test", "doh.test"] {
                let name = format!("n{number}.{zone}");
                assert_eq!(dig(TAP_V4, &format!("{name} A")).data(), ["192.0.2.7"], "{name}");
            }
        }
        let stats = pmdns.stats();
        for upstream in [0, 1] {
            let number = |name| stats.upstream(upstream, name);
            assert_eq!((number("encrypted"), number("replies")), (20, 20));
            assert_eq!((number("queries"), number("tcp"), number("errors")), (0, 0, 0));
            assert_eq!(number("connections"), 1, "all of them over one");
        }

        drop(unbound);
        assert_eq!(dig(TAP_V4, "away.test A").status, "SERVFAIL");
        assert_eq!(dig(TAP_V4, "away.doh.test A").status, "SERVFAIL");
        let _unbound = start();
        for name in ["back.test A", "back.doh.test A"] {
            wait_until("Unbound is asked again", || dig(TAP_V4, name).status == "NOERROR");
        }
        println!("{}", pmdns.stop().summary());
    });
}

fn start() -> Process {
    let mut command = Command::new("/usr/sbin/unbound");
    let mut unbound =
        Process::start("unbound", command.args(["-d", "-c", "/run/lab/unbound.conf"]));
    unbound.wait_for("start of service");
    unbound
}
