//! The web console in headless Chromium, driven by Playwright's library: `pipeline/tests/console/` has the steps.
//!
//! `scripts/test.sh console` runs it, and installs what it needs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::api_calls::{serve_files, write_certificates};
use crate::dig::dig;
use crate::harness::{data, isolated, path, sh, wait_until};
use crate::nsd;
use crate::pmdns::{BINARY, Pmdns, TAP_PORT, TAP_V4, TAP_V6, set_up_tap, upstream};

/// The Python that has Playwright's library (`scripts/install.sh --browser`).
const PYTHON: &str = "/opt/pmdns-browser/bin/python";
const STEPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/console/steps.py");
const BOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/console/book.py");
const READER: &str = "reader-token-of-the-lab-0123456789";
const WRITER: &str = "writer-token-of-the-lab-0123456789";
const CONFIG: &str = r#"
[control]
socket = "/run/lab/pmdns.sock"
entries = "/run/lab/entries"
lists = "/run/lab/own"
list_networks = ["127.0.0.0/8"]

[cache]
size = "32MiB"
pages = "normal"

[[blocklist]]
file = "/run/lab/ads.txt"

[api]
listen = "127.0.0.1:8053"

[[token]]
name = "reader"
secret_file = "/run/lab/reader"

[[token]]
name = "operator"
role = "operate"
secret_file = "/run/lab/writer"

[query_log]
sqlite = "/run/lab/log/queries.db"
ipv6_prefix = 56

[clients]
max_entries = 1000
file = "/run/lab/subscribers"

[[view]]
name = "kids"

[[blocklist]]
file = "/run/lab/games.txt"
views = ["kids"]

[[group]]
name = "default"
strategy = "round_robin"

[hitters]
enabled = true
"#;

fn write_files() {
    for (name, token) in [("reader", READER), ("writer", WRITER)] {
        fs::write(path(name), format!("{token}\n")).unwrap();
        fs::set_permissions(path(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    for folder in ["log", "own", "www"] {
        fs::create_dir(path(folder)).unwrap();
    }
    fs::write(path("games.txt"), "games.test\n").unwrap();
    fs::write(path("subscribers"), "fd97::1 kids\n").unwrap();
    let ads: String = (0..500).map(|number| format!("ad{number}.bulk.test\n")).collect();
    fs::write(path("ads.txt"), ads).unwrap();
    let queries = (0..400_000_u64).map(|number| match number % 20 {
        0 => format!("ad{}.bulk.test A\n", number % 97),
        1 => format!("none{number}.bulk.test A\n"),
        _ => format!("n{}.bulk.test A\n", number * number % 3001),
    });
    fs::write(path("queries"), queries.collect::<String>()).unwrap();
    let flood: String = (0..200_000).map(|number| format!("x{number}.example.test A\n")).collect();
    fs::write(path("flood"), flood).unwrap();
}

/// The pages that `scripts/test.sh book` made; its step `console` makes them first.
#[test]
#[ignore = "needs root, the built book, chromium and playwright: scripts/test.sh console runs it"]
fn no_table_of_the_book_is_cut_off() {
    isolated("console::no_table_of_the_book_is_cut_off", || {
        // target/PROFILE/pmdns
        let target = Path::new(BINARY).ancestors().nth(2).expect("the folder of builds");
        let status = Command::new(PYTHON)
            .args([Path::new(BOOK), &target.join("book")])
            .env("HOME", path("."))
            .env("TMPDIR", path("."))
            .status();
        let status = status
            .unwrap_or_else(|error| panic!("{PYTHON}: {error}; run scripts/install.sh --browser"));
        assert!(status.success(), "the pages ended with {status}");
    });
}

#[test]
#[ignore = "needs root, DPDK, network namespaces, chromium and playwright: scripts/test.sh console runs it"]
fn an_operator_sees_and_changes_an_instance_in_chromium() {
    isolated("console::an_operator_sees_and_changes_an_instance_in_chromium", || {
        write_files();
        write_certificates("lists.test");
        // The namespace has mounts of its own, so only this system trusts the authority.
        sh("mount --bind /run/lab/ca.pem /etc/ssl/certs/ca-certificates.crt");
        sh("ip link set lo up");
        let _server = serve_files(("127.0.0.1", 8443));
        let _nsd = nsd::start();
        let example = fs::read_to_string(data("lab-example.test.zone")).unwrap();
        let bulk = nsd::bulk_zone();
        let _second = nsd::serve_second(&[("example.test", &example), ("bulk.test", &bulk)]);
        let upstreams = upstream(nsd::PORT) + &upstream(nsd::SECOND_PORT);
        let pmdns = Pmdns::start(&format!("{TAP_PORT}{CONFIG}{upstreams}"));
        set_up_tap();
        // Chromium gives up what it loads when an address appears or becomes usable.
        wait_until("all addresses are in use", || sh("ip address show tentative").is_empty());
        let status = Command::new(PYTHON)
            .arg(STEPS)
            .env("PMDNS_URL", "http://127.0.0.1:8053")
            .env("PMDNS_SERVER", TAP_V4)
            .env("PMDNS_SERVER_V6", TAP_V6)
            .env("PMDNS_WWW", path("www"))
            .env("PMDNS_ID", pmdns.id().to_string())
            .env("PMDNS_READER", READER)
            .env("PMDNS_WRITER", WRITER)
            .env("PMDNS_QUERIES", path("queries"))
            .env("PMDNS_FLOOD", path("flood"))
            .env("PMDNS_BINARY", BINARY)
            .env("PMDNS_SOCKET", path("pmdns.sock"))
            .env("HOME", path("."))
            .env("TMPDIR", path("."))
            .status();
        let status = status
            .unwrap_or_else(|error| panic!("{PYTHON}: {error}; run scripts/install.sh --browser"));
        assert!(status.success(), "the steps ended with {status}\n{}", pmdns.log());
        assert_eq!(dig(TAP_V4, "n1.bulk.test A").status, "NOERROR", "it serves after all that");
        assert!(pmdns.log().contains("by=\"token operator from 127.0.0.1\" call=\"block"));
        assert!(pmdns.log().contains("by=\"token operator from 127.0.0.1\" call=\"upstream"));
        pmdns.stop();
    });
}
