//! A browser of others as a client over HTTPS: headless Chromium, whose policy lets it ask pmdns alone.
//!
//! Only by name, because Chromium is large: `scripts/test.sh browser`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use crate::harness::{isolated, path, sh};
use crate::nsd;
use crate::pmdns::{COMMON, Pmdns, TAP_PORT, set_up_tap, upstream};

/// Where pmdns serves, and where the page is.
const SERVER: &str = "10.98.0.53";
const PAGE: &str = "10.98.0.80";
/// What the page shows.
const TEXT: &str = "this page was found by pmdns";
/// How long Chromium has for a page, in seconds.
const PATIENCE: u32 = 60;

/// Writes the certificate of an authority, and one of ours that it has signed, with its key.
fn write_certificates() {
    let (authority_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let root = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let ours = CertificateParams::new(vec![SERVER.to_owned()]).unwrap();
    let ours = ours.signed_by(&key, &issuer).unwrap();
    fs::write(path("authority.pem"), root.pem()).unwrap();
    fs::write(path("certificate.pem"), ours.pem()).unwrap();
    fs::write(path("key.pem"), key.serialize_pem()).unwrap();
}

/// Gives the browser a home that trusts the authority, and the policy to ask pmdns only. Nobody answers the system's resolver.
fn set_up_browser() {
    let database = path("home/.pki/nssdb");
    fs::create_dir_all(&database).unwrap();
    let database = format!("sql:{}", database.display());
    sh(&format!("certutil -d {database} -N --empty-password"));
    let authority = path("authority.pem");
    sh(&format!("certutil -d {database} -A -n lab -t C,, -i {}", authority.display()));
    sh("mount -t tmpfs lab /etc/chromium");
    fs::create_dir_all("/etc/chromium/policies/managed").unwrap();
    let policy = format!(
        "{{\"DnsOverHttpsMode\": \"secure\", \"DnsOverHttpsTemplates\": \"https://{SERVER}/dns-query\"}}"
    );
    fs::write("/etc/chromium/policies/managed/lab.json", policy).unwrap();
    fs::write(path("resolv.conf"), "nameserver 127.0.0.9\n").unwrap();
    sh(&format!("mount --bind {} /etc/resolv.conf", path("resolv.conf").display()));
}

/// Serves the page to every client, for ever.
fn serve_page() {
    let listener = TcpListener::bind((PAGE, 80)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            // What the browser asks for does not matter, nor that it may have gone.
            let _ = stream.read(&mut [0; 4096]);
            let body = format!("<html><body><p>{TEXT}</p></body></html>");
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close";
            let _ = write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        }
    });
}

/// The document that the browser shows for a page.
fn browse(url: &str) -> String {
    let output = Command::new("timeout")
        .args([&PATIENCE.to_string(), "chromium", "--headless", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-dev-shm-usage", "--disable-background-networking", "--dump-dom"])
        .arg(format!("--user-data-dir={}", path("profile").display()))
        .arg(url)
        .env("HOME", path("home"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "chromium: {}\n{said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "needs root, DPDK, network namespaces and chromium: scripts/test.sh browser runs it"]
fn chromium_finds_a_page_by_our_https_alone() {
    isolated("browser::chromium_finds_a_page_by_our_https_alone", || {
        let zone = format!(
            "$ORIGIN page.test.\n$TTL 60\n@ SOA ns h 1 3600 900 604800 60\n@ NS ns\nns A 127.0.0.1\n\
             www A {PAGE}\nother A {PAGE}\n"
        );
        let _nsd = nsd::start_with(&[("page.test", &zone)]);
        // Without another interface than loopback a browser says that it is offline.
        sh("ip link add lab0 type veth peer name lab1");
        for address in [SERVER, PAGE] {
            sh(&format!("ip address add {address}/24 dev lab0"));
        }
        sh("ip link set lab0 up && ip link set lab1 up");
        sh("ip route add default dev lab0");
        write_certificates();
        let (certificate, key) = (path("certificate.pem"), path("key.pem"));
        let pmdns = Pmdns::start(&format!(
            "{TAP_PORT}{COMMON}{}[streams]\nhttps = [\"{SERVER}:443\"]\ncertificate = {certificate:?}\nkey = {key:?}\n",
            upstream(nsd::PORT)
        ));
        set_up_tap();
        set_up_browser();
        serve_page();
        let shown = browse("http://www.page.test/");
        assert!(shown.contains(TEXT), "{shown}\n{}", pmdns.log());
        let stats = pmdns.stop();
        let over_https = |name: &str| stats.number(&format!("/streams/2/{name}"));
        assert!(over_https("accepted") > 0 && over_https("answers") > 0);
        assert_eq!(over_https("queries"), over_https("answers"));
        // Without pmdns there is no other way to an address.
        let shown = browse("http://other.page.test/");
        assert!(!shown.contains(TEXT), "{shown}");
    });
}
