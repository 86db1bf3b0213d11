//! Clients over TLS, HTTPS and QUIC: real ones, the same answers as over UDP, and the same rules.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::CertificateDer;

use crate::dig::{dig, dig_is_reset};
use crate::harness::{isolated, path, sh, wait_until};
use crate::nsd::{self, BULK_NAMES};
use crate::pmdns::{COMMON, Pmdns, TAP_PORT, TAP_V4, run, set_up_tap, upstream};

/// Where clients ask, on loopback.
pub(crate) const SERVER: &str = "10.98.0.53";
/// A client that is refused, and one that is not answered.
const REFUSED: &str = "10.98.0.66";
const DROPPED: &str = "10.98.0.67";
/// The name in the certificate.
pub(crate) const NAME: &str = "dns.example";

/// Writes a new certificate and its key. Returns the certificate.
pub(crate) fn write_certificate() -> CertificateDer<'static> {
    let key = KeyPair::generate().unwrap();
    let names = vec![NAME.to_owned(), SERVER.to_owned()];
    let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    fs::write(path("key.pem"), key.serialize_pem()).unwrap();
    fs::write(path("certificate.pem"), certificate.pem()).unwrap();
    certificate.into()
}

/// Streams over TLS and HTTPS at [`SERVER`].
pub(crate) fn stream_settings() -> String {
    let (certificate, key) = (path("certificate.pem"), path("key.pem"));
    format!(
        "tls = [\"{SERVER}:853\"]\nhttps = [\"{SERVER}:443\"]\ncertificate = {certificate:?}\nkey = {key:?}\n"
    )
}

/// Gives loopback the addresses of server and clients, and starts pmdns there and on a TAP port.
fn start(keys: &str, more: &str) -> Pmdns {
    for address in [SERVER, REFUSED, DROPPED] {
        sh(&format!("ip address add {address}/32 dev lo"));
    }
    write_certificate();
    let streams = format!("[streams]\nquic = [\"{SERVER}:853\"]\n{}{keys}\n", stream_settings());
    let pmdns = Pmdns::start(&format!("{TAP_PORT}{COMMON}{}{streams}{more}", upstream(nsd::PORT)));
    set_up_tap();
    pmdns
}

/// The answers that kdig got, which checked the certificate.
fn kdig(arguments: &str) -> Vec<String> {
    let authority = path("certificate.pem");
    let trust = format!("+tls-ca={} +tls-hostname={NAME}", authority.display());
    let printed = sh(&format!("kdig @{SERVER} {trust} +noall +answer +timeout=5 {arguments}"));
    printed
        .lines()
        .map(|line| line.split_whitespace().last().unwrap_or_default().to_owned())
        .collect()
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn clients_of_others_get_the_same_answers() {
    isolated("secure_streams::clients_of_others_get_the_same_answers", || {
        let _nsd = nsd::start();
        let pmdns = start(&format!("name = \"{NAME}\""), "");
        for number in 0..3 {
            let name = format!("n{number}.bulk.test A");
            let address = [nsd::bulk_address(number)];
            assert_eq!(dig(TAP_V4, &name).data(), address);
            for transport in ["+tls", "+https", "+https-get"] {
                assert_eq!(dig(SERVER, &format!("{transport} {name}")).data(), address);
            }
            for transport in ["+tls", "+https", "+https-get", "+quic"] {
                assert_eq!(kdig(&format!("{transport} {name}")), address, "{transport}");
            }
        }
        // curl looks up the name of a page there, and fetches it from the address.
        for version in ["--http1.1", "--http2"] {
            let body = path("answer");
            let status = sh(&format!(
                "curl --silent --cacert {} {version} --resolve {NAME}:443:{SERVER} --output {} \
                 --write-out '%{{http_code}} %{{http_version}} %{{content_type}}' \
                 'https://{NAME}/dns-query?dns={}'",
                path("certificate.pem").display(),
                body.display(),
                // n1.bulk.test, type A.
                "AAABAAABAAAAAAAAAm4xBGJ1bGsEdGVzdAAAAQAB"
            ));
            let spoken = if version == "--http2" { "2" } else { "1.1" };
            assert_eq!(status.trim(), format!("200 {spoken} application/dns-message"));
            let address: std::net::Ipv4Addr = nsd::bulk_address(1).parse().unwrap();
            let answer = fs::read(body).unwrap();
            assert!(answer.ends_with(&address.octets()), "{answer:?}");
        }
        // curl as a client of DNS over HTTPS finds the address, at which nobody listens.
        let fetched = Command::new("curl")
            .args([
                "--verbose",
                "--silent",
                "--doh-insecure",
                "--connect-timeout",
                "2",
                "--doh-url",
            ])
            .args([&format!("https://{SERVER}/dns-query"), "http://n1.bulk.test:9/"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&fetched.stderr).into_owned();
        assert!(said.contains(&nsd::bulk_address(1)), "{said}");
        let found = dig(SERVER, "+tls _dns.resolver.arpa TYPE64");
        assert_eq!(found.answers.len(), 3, "{found:?}");
        let stats = pmdns.stop();
        for transport in 1..4 {
            let number = |name: &str| stats.number(&format!("/streams/{transport}/{name}"));
            assert_eq!(number("queries"), number("answers"), "transport {transport}");
            assert!(number("queries") >= 3 && number("open") == 0);
        }
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn load_of_reused_connections_is_answered() {
    isolated("secure_streams::load_of_reused_connections_is_answered", || {
        let _nsd = nsd::start();
        let pmdns = start("", "");
        let mut names = String::new();
        for number in 0..BULK_NAMES {
            writeln!(names, "n{number}.bulk.test A").unwrap();
        }
        fs::write(path("names"), names).unwrap();
        let file = path("names");
        // Over HTTPS dnsperf loses an answer where two come in one record of TLS (its issue 240), so it asks one at a time there.
        for (mode, connections, under_way) in [("dot", 8, 100), ("doh", 1, 1)] {
            let report = sh(&format!(
                "dnsperf -m {mode} -O doh-uri=https://{SERVER}/dns-query -s {SERVER} -d {} \
                 -l 2 -c {connections} -q {under_way} -Q 2000 -t 5",
                file.display()
            ));
            assert!(report.contains("Queries lost:         0"), "{mode}: {report}");
            assert!(report.contains("(100.00%)"), "{mode}: {report}");
        }
        // n1.bulk.test, type A.
        let query = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x02n1\x04bulk\x04test\0\0\x01\0\x01";
        fs::write(path("query"), query).unwrap();
        let report = sh(&format!(
            "h2load -n 5000 -c 8 -m 32 -d {} -H 'content-type: application/dns-message' https://{SERVER}/dns-query",
            path("query").display()
        ));
        assert!(report.contains("status codes: 5000 2xx"), "{report}");
        let stats = pmdns.stop();
        for transport in 1..3 {
            let number = |name: &str| stats.number(&format!("/streams/{transport}/{name}"));
            assert_eq!(number("queries"), number("answers"));
            assert!(number("accepted") <= 20, "connections are reused");
        }
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn cve_2026_24029_the_access_list_holds_over_encrypted_transports() {
    isolated(
        "secure_streams::cve_2026_24029_the_access_list_holds_over_encrypted_transports",
        || {
            let _nsd = nsd::start();
            let pmdns = start(
                "",
                &format!(
                    "[acl]\nallow = [\"10.0.0.0/8\"]\nrefuse = [\"{REFUSED}/32\"]\ndrop = [\"{DROPPED}/32\"]\n"
                ),
            );
            for transport in ["+tls", "+https", "+https-get"] {
                let ask = |client: &str| format!("{transport} -b {client} n1.bulk.test A");
                assert_eq!(dig(SERVER, &ask(SERVER)).data(), [nsd::bulk_address(1)]);
                // Who may not ask may not connect.
                for denied in [REFUSED, DROPPED] {
                    assert!(dig_is_reset(SERVER, &ask(denied)), "{transport}");
                }
            }
            let quic = format!("kdig @{SERVER} +quic +time=1 +retry=0 -b {REFUSED} n1.bulk.test A");
            let denied = sh(&format!("{quic} 2>&1 || true"));
            assert!(!denied.contains("status:"), "{denied}");
            pmdns.stop();
        },
    );
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_changed_certificate_is_used_and_a_bad_one_is_not() {
    isolated("secure_streams::a_changed_certificate_is_used_and_a_bad_one_is_not", || {
        let _nsd = nsd::start();
        let pmdns = start("", "");
        let address = [nsd::bulk_address(1)];
        for transport in ["+tls", "+quic"] {
            assert_eq!(kdig(&format!("{transport} n1.bulk.test A")), address);
        }
        write_certificate();
        wait_until("the log says it", || pmdns.log().contains("get the changed certificate"));
        for transport in ["+tls", "+quic"] {
            assert_eq!(kdig(&format!("{transport} n1.bulk.test A")), address, "the new one");
        }
        fs::write(path("key.pem"), "no key").unwrap();
        wait_until("the log says why", || {
            pmdns.log().contains("the certificate in use stays: streams.key: cannot read")
        });
        assert_eq!(kdig("+tls n1.bulk.test A"), address);
        let config = path("pmdns.toml");
        let checked = run(&["check", "-c", &config.display().to_string()]);
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(said.contains("`streams.key` cannot read a private key"), "{said}");
        pmdns.stop();
    });
}
