//! The HTTP API as curl sees it: over TCP with tokens, the unix socket, TLS with and without clients' certificates. What
//! it says of names at run time is asked for by dig.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Instant;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::commands::command;
use crate::dig::dig;
use crate::harness::{PATIENCE, isolated, path, sh};
use crate::messages::{ask_a, rcode};
use crate::pmdns::{Pmdns, TAP_PORT, TAP_V4, run, run_to_failure, set_up_tap, upstream};
use crate::stub::Stub;

const STUB_PORT: u16 = 5301;
/// A million names are blocked by a list meanwhile, or a hundred thousand where nothing is optimized.
const LISTED: usize = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
const NXDOMAIN: u8 = 3;
pub(crate) const READER: &str = "reader-token-of-the-lab-0123456789";
pub(crate) const WRITER: &str = "writer-token-of-the-lab-0123456789";

fn config(api: &str) -> String {
    let common = "[control]\nsocket = \"/run/lab/pmdns.sock\"\nentries = \"/run/lab/entries\"\n\
        [cache]\nsize = \"32MiB\"\npages = \"normal\"\n[[blocklist]]\nfile = \"/run/lab/list\"\n";
    let tokens = "[[token]]\nname = \"r\"\nsecret_file = \"/run/lab/reader\"\n\
        [[token]]\nname = \"w\"\nrole = \"operate\"\nsecret_file = \"/run/lab/writer\"\n";
    format!("{TAP_PORT}{common}{tokens}[api]\n{api}\n{}", upstream(STUB_PORT))
}

fn write_files() {
    write_tokens();
    let list: String = (0..LISTED).map(|number| format!("good_{number}.test\n")).collect();
    fs::write(path("list"), list).unwrap();
}

/// The files with the tokens.
pub(crate) fn write_tokens() {
    for (name, token) in [("reader", READER), ("writer", WRITER)] {
        fs::write(path(name), format!("{token}\n")).unwrap();
        fs::set_permissions(path(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// Status and body of what curl gets.
fn curl(arguments: &[&str]) -> (u16, String) {
    let output = Command::new("curl")
        .args(["-s", "-m", "20", "-w", "\n%{http_code}"])
        .args(arguments)
        .output();
    let text = String::from_utf8(output.expect("curl starts").stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), body.to_owned())
}

pub(crate) fn with_token(token: &str, arguments: &[&str]) -> (u16, String) {
    let header = format!("Authorization: Bearer {token}");
    let all = [&["-H", &header, "-H", "Content-Type: application/json"], arguments].concat();
    curl(&all)
}

fn status_of(name: &str) -> String {
    dig(TAP_V4, &format!("{name} A")).status
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn what_is_said_over_the_api_holds_at_once_and_after_a_restart() {
    isolated("api::what_is_said_over_the_api_holds_at_once_and_after_a_restart", || {
        write_files();
        sh("ip link set lo up");
        let _stub = Stub::start(STUB_PORT);
        let text = config(
            "listen = \"127.0.0.1:8053\"\nsocket = \"/run/lab/api.sock\"\nrequests_per_second = 100000",
        );
        let pmdns = Pmdns::start(&text);
        set_up_tap();
        let url = |path: &str| format!("http://127.0.0.1:8053/api/v1/{path}");
        assert_eq!(curl(&[&url("state")]).0, 401);
        let (status, state) = with_token(READER, &[&url("state")]);
        assert_eq!(status, 200, "{state}");
        assert!(state.contains("\"kept\":true"), "{state}");
        assert_eq!(with_token(READER, &["-H", "Host: rebind.example", &url("state")]).0, 421);
        let block = "{\"entries\":[{\"name\":\"bad.test\",\"kind\":\"block\",\"scope\":\"suffix\"},\
            {\"name\":\"good_7.test\",\"kind\":\"allow\"}]}";
        assert_eq!(with_token(READER, &["-d", block, &url("entries")]).0, 403);
        assert_eq!(
            (status_of("good_x.bad.test"), status_of("good_7.test")),
            ("NOERROR".into(), "NXDOMAIN".into())
        );
        let (status, done) = with_token(WRITER, &["-d", block, &url("entries")]);
        assert_eq!((status, &*done), (200, "{\"done\":\"2 names set\"}"));
        let holds = || {
            assert_eq!(status_of("good_x.bad.test"), "NXDOMAIN", "though it is in the cache");
            assert_eq!(status_of("good_7.test"), "NOERROR");
            assert_eq!(status_of("good_8.test"), "NXDOMAIN");
        };
        holds();
        command(&["local", "add", "printer.lan", "A", "192.0.2.77"], 0);
        assert_eq!(dig(TAP_V4, "printer.lan A").data(), ["192.0.2.77"]);
        // Over the unix socket its users need no token.
        let over_unix = ["--unix-socket", "/run/lab/api.sock", "http://pmdns/api/v1/local"];
        let (status, records) = curl(&over_unix);
        assert!(status == 200 && records.contains("printer.lan"), "{records}");
        for (path, status) in [
            ("stats", 200),
            ("views", 200),
            ("upstreams", 200),
            ("lists", 200),
            ("config", 200),
            ("config/diff", 200),
        ] {
            let (got, body) = with_token(READER, &[&url(path)]);
            assert_eq!(got, status, "{path}: {body}");
            assert!(!body.contains(READER) && !body.contains(WRITER), "{path}: {body}");
        }
        assert_eq!(with_token(WRITER, &["-X", "POST", &url("reload")]).0, 200);
        holds();
        for (arguments, status) in [
            (["-d", "{\"name\":\"good_x.bad.test\"}", &url("purge")], 200),
            (["-d", "{\"name\":\"a..b\"}", &url("purge")], 422),
            (["-X", "DELETE", &url("entries/nothing.example")], 404),
        ] {
            assert_eq!(with_token(WRITER, &arguments).0, status, "{arguments:?}");
        }
        measure(LISTED);
        assert!(
            pmdns.log().contains(
                "audit by=\"token w from 127.0.0.1\" call=\"block bad.test nxdomain suffix\" outcome=\"done\""
            ),
            "{}",
            pmdns.log()
        );
        pmdns.stop();
        let pmdns = Pmdns::start(&text);
        set_up_tap();
        holds();
        command(&["unblock", "bad.test"], 0);
        assert_eq!(status_of("good_x.bad.test"), "NOERROR");
        pmdns.stop();
        // A damaged file is told, and nothing is overwritten.
        let text_of_entries = fs::read_to_string(path("entries")).unwrap();
        fs::write(path("entries"), text_of_entries.replacen("good_7", "good_9", 1)).unwrap();
        let (code, told) = run_to_failure(&text);
        assert!(code == Some(2) && told.contains("its checksum is another one"), "{code:?} {told}");
    });
}

/// Prints how long it takes from a change to the first answer that shows it, while a client asks for the name again and again.
pub(crate) fn measure(listed: usize) {
    let client = UdpSocket::bind("10.97.0.1:0").unwrap();
    client.connect((TAP_V4, 53)).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 512];
    let mut is_blocked = |name: &str| {
        client.send(&ask_a(1, name)).unwrap();
        let len = client.recv(&mut buffer).unwrap();
        rcode(&buffer[..len]) == NXDOMAIN
    };
    let mut times: Vec<f64> = (0..20)
        .map(|number| {
            let name = format!("good_m{number}.test");
            assert!(!is_blocked(&name));
            let body = format!("{{\"entries\":[{{\"name\":\"{name}\",\"kind\":\"block\"}}]}}");
            let mut api = TcpStream::connect("127.0.0.1:8053").unwrap();
            let request = format!(
                "POST /api/v1/entries HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {WRITER}\r\n\
                 Content-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let start = Instant::now();
            api.write_all(request.as_bytes()).unwrap();
            while !is_blocked(&name) {}
            let time = start.elapsed().as_secs_f64() * 1e3;
            let mut answer = String::new();
            api.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            println!("holds after {time:.1} ms, confirmed after {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
            time
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!(
        "from a change to its answer, with {listed} names listed: median {:.1} ms, worst {:.1} ms",
        times[10], times[19]
    );
}

/// The commands over TLS, with a token.
fn asked_from_another_machine() {
    let ask = |words: &[&str], token: &str, ca: &str, code: i32| {
        let token = format!("/run/lab/{token}");
        let api = ["--api", "https://127.0.0.1:8053", "--token-file", &token, "--ca-file", ca];
        let output = run(&[words, &api].concat());
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    };
    let ca = "/run/lab/ca.pem";
    assert!(ask(&["stats", "--json"], "reader", ca, 0).starts_with('{'));
    assert!(ask(&["config", "--running"], "reader", ca, 0).contains("[[token]]"));
    assert!(ask(&["top", "--once"], "reader", ca, 0).contains("pmdns"));
    assert_eq!(ask(&["block", "far.test"], "writer", ca, 0), "1 name set\n");
    let dump = "/run/lab/far-dump";
    assert!(ask(&["dump", dump], "reader", ca, 0).contains("answers written"));
    assert!(ask(&["load", dump], "writer", ca, 0).contains("answers loaded"));
    let said = ask(&["block", "far.test"], "reader", ca, 5);
    assert!(said.contains("this needs the role operate"), "{said}");
    let said = ask(&["stats"], "reader", "/run/lab/client.pem", 5);
    assert!(said.contains("certificate"), "{said}");
    let said = ask(&["stats"], "reader", "/run/lab/nothing.pem", 2);
    assert!(said.contains("--ca-file /run/lab/nothing.pem"), "{said}");
    let clear = ["--api", "http://192.0.2.1:8053", "--token-file", "/run/lab/reader"];
    let output = run(&[&["stats"][..], &clear].concat());
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("in clear text"), "{output:?}");
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn over_tls_a_client_may_need_a_certificate() {
    isolated("api::over_tls_a_client_may_need_a_certificate", || {
        write_files();
        sh("ip link set lo up");
        let _stub = Stub::start(STUB_PORT);
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "authority");
        let authority =
            CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        fs::write(path("ca.pem"), authority.pem()).unwrap();
        for (name, host) in [("own", "127.0.0.1"), ("client", "client.example")] {
            let key = KeyPair::generate().unwrap();
            let certificate =
                CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&key, &authority);
            fs::write(path(&format!("{name}.pem")), certificate.unwrap().pem()).unwrap();
            fs::write(path(&format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        let tls = "listen = \"127.0.0.1:8053\"\ncertificate = \"/run/lab/own.pem\"\nkey = \"/run/lab/own.key\"\n";
        let url = "https://127.0.0.1:8053/api/v1/state";
        let own = ["--cacert", "/run/lab/ca.pem", url];
        let with_certificate =
            [&["--cert", "/run/lab/client.pem", "--key", "/run/lab/client.key"][..], &own].concat();
        let pmdns = Pmdns::start(&config(tls));
        assert_eq!(with_token(READER, &own).0, 200);
        assert_eq!(curl(&own).0, 401);
        asked_from_another_machine();
        assert_eq!(
            with_token(READER, &["http://127.0.0.1:8053/api/v1/state"]).0,
            0,
            "nothing in clear"
        );
        pmdns.stop();
        let pmdns = Pmdns::start(&config(&format!("{tls}client_ca = \"/run/lab/ca.pem\"")));
        assert_eq!(with_token(READER, &own).0, 0, "no certificate, no connection");
        assert_eq!(with_token(READER, &with_certificate).0, 200);
        assert_eq!(curl(&with_certificate).0, 401, "the token is needed too");
        pmdns.stop();
    });
}
