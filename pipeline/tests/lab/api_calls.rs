//! More of the HTTP API as curl sees it: health and drain, lookups, the query log, traces, captures, the cache, lists by URL.

use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::Value;

use crate::api::{READER, WRITER, with_token, write_tokens};
use crate::commands::command;
use crate::dig::dig;
use crate::harness::{isolated, path, sh, wait_for_value, wait_until};
use crate::pmdns::{Pmdns, TAP_PORT, TAP_V4, set_up_tap, upstream};
use crate::process::Process;
use crate::stub::Stub;

const STUB_PORT: u16 = 5301;
const LIST: &str = "/run/lab/lists/ads.txt";

pub(crate) fn config(more: &str) -> String {
    let tokens = "[[token]]\nname = \"r\"\nsecret_file = \"/run/lab/reader\"\n\
        [[token]]\nname = \"w\"\nrole = \"operate\"\nsecret_file = \"/run/lab/writer\"\n";
    let common = "[control]\nsocket = \"/run/lab/pmdns.sock\"\n[cache]\nsize = \"32MiB\"\npages = \"normal\"\n\
        [api]\nlisten = \"127.0.0.1:8053\"\nrequests_per_second = 100000\n\
        [query_log]\nsqlite = \"/run/lab/log/q.db\"\n[block]\nnames = [\"bad.test\"]\n";
    format!("{TAP_PORT}{common}{tokens}{more}\n{}", upstream(STUB_PORT))
}

/// A config in which everything that can be changed at run time is there, with an empty client table of a million places.
pub(crate) fn config_of_all() -> String {
    let more = "[[view]]\nname = \"kids\"\n[policy]\ndoh_canary = [\"kids\"]\n[hitters]\nenabled = true\n\
        [clients]\nmax_entries = 1000000\njournal = \"/run/lab/clients\"\n";
    let kept = "[control]\nlists = \"/run/lab/own\"\nentries = \"/run/lab/entries\"\n";
    config(more).replace("[control]\n", kept)
}

/// Starts on a TAP, where upstreams are a stub.
pub(crate) fn start(more: &str) -> (Stub, Pmdns) {
    start_with(&config(more))
}

/// The same with a whole config.
pub(crate) fn start_with(config: &str) -> (Stub, Pmdns) {
    write_tokens();
    fs::create_dir_all(path("own")).unwrap();
    fs::create_dir_all(path("log")).unwrap();
    sh("ip link set lo up");
    let stub = Stub::start(STUB_PORT);
    let pmdns = Pmdns::start(config);
    set_up_tap();
    (stub, pmdns)
}

fn get(path: &str) -> (u16, Value) {
    let (status, body) = with_token(READER, &[&url(path)]);
    (status, serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path}: {body}")))
}

fn post(path: &str) -> (u16, String) {
    with_token(WRITER, &["-X", "POST", &url(path)])
}

fn url(path: &str) -> String {
    format!("http://127.0.0.1:8053/api/v1/{path}")
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_node_is_drained_and_explained_over_the_api() {
    isolated("api_calls::a_node_is_drained_and_explained_over_the_api", || {
        let (_stub, pmdns) = start("");
        wait_until("the node is fit", || get("health").0 == 200);
        assert_eq!(post("drain").0, 200);
        let (status, health) = get("health");
        assert_eq!((status, health["state"].as_str()), (503, Some("drained")), "{health}");
        command(&["health"], 9);
        assert_eq!(post("resume").0, 200);
        assert_eq!(get("health").0, 200);

        dig(TAP_V4, "good_x.test A");
        dig(TAP_V4, "www.bad.test A");
        let (status, lookup) = get("lookup?name=www.bad.test");
        assert_eq!((status, lookup["decided_by"].as_str()), (200, Some("block_list")), "{lookup}");
        let (_, lookup) = get("lookup?name=good_x.test&type=A&client=10.97.0.1");
        assert_eq!(lookup["decided_by"], "cache", "{lookup}");
        assert!(command(&["lookup", "good_x.test"], 0).contains("it is in the cache"));
        for wrong in
            ["lookup", "lookup?name=a..b", "lookup?name=a&type=AXFR", "lookup?name=a&client=x"]
        {
            assert_eq!(get(wrong).0, 422, "{wrong}");
        }

        let entries = |path: &str| get(path).1["entries"].as_array().unwrap().len();
        wait_until("the log has both", || entries("log?name=test") == 2);
        let (_, blocked) = get("log?blocked=true&since=1h&client=10.97.0.1&limit=5");
        let names: Vec<_> =
            blocked["entries"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
        assert_eq!(names, ["www.bad.test"]);
        assert_eq!((&blocked["ipv4_prefix"], &blocked["ipv6_prefix"]), (&32.into(), &128.into()));
        for wrong in ["log?limit=0", "log?since=x", "log?limit=10001"] {
            assert_eq!(get(wrong).0, 422, "{wrong}");
        }

        let (_, cache) = get("cache?name=test&type=A");
        let answer = &cache["answers"][0];
        assert_eq!(
            (answer["name"].as_str(), answer["rcode"].as_str()),
            (Some("good_x.test"), Some("NOERROR")),
            "{cache}"
        );
        assert_eq!(get("cache?name=other").1["answers"], Value::Array(Vec::new()));
        assert!(command(&["cache", "good_x.test"], 0).contains("good_x.test"));

        let file = path("dumped").display().to_string();
        assert_eq!(with_token(READER, &["-o", &file, &url("cache/dump")]).0, 200);
        command(&["purge", "good_x.test"], 0);
        assert!(command(&["load", &file], 0).contains("1 answers loaded, 0 left out"));
        assert_eq!(get("cache?name=good_x.test").1["answers"][0]["name"], "good_x.test");
        let asks = "audit by=\"token r from 127.0.0.1\" call=\"dump\"";
        assert!(pmdns.log().contains(asks), "{}", pmdns.log());

        let traced = std::thread::spawn(|| get("trace?count=1&name=good_x.test&seconds=60"));
        while !traced.is_finished() {
            dig(TAP_V4, "good_x.test A");
        }
        let (status, trace) = traced.join().unwrap();
        assert_eq!((status, trace["packets"].as_array().map(Vec::len)), (200, Some(1)), "{trace}");
        let file = path("api.pcapng").display().to_string();
        // Packets of ARP come too, at times.
        let wanted = url("capture?count=2&answers=true&name=good_x.test&seconds=60");
        let capture = std::thread::spawn(move || with_token(READER, &["-o", &file, &wanted]).0);
        while !capture.is_finished() {
            dig(TAP_V4, "good_x.test A");
        }
        assert_eq!(capture.join().unwrap(), 200);
        let shown = sh(&format!("tshark -r {} -Y dns 2>/dev/null", path("api.pcapng").display()));
        assert_eq!(shown.lines().count(), 2, "{shown}");
        for wrong in
            ["trace?count=1001", "trace?seconds=301", "capture?stage=none", "capture?seconds=0"]
        {
            assert_eq!(get(wrong).0, 422, "{wrong}");
        }
        let (_, nothing) = get("trace?name=nobody.test&seconds=1");
        assert_eq!(nothing["packets"], Value::Array(Vec::new()));
        assert!(
            pmdns.log().contains("by=\"token r from 127.0.0.1\" call=\"capture"),
            "{}",
            pmdns.log()
        );
        pmdns.stop();
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_list_is_fetched_confirmed_and_refused() {
    isolated("api_calls::a_list_is_fetched_confirmed_and_refused", || {
        write_certificates("lists.test");
        fs::create_dir(path("lists")).unwrap();
        fs::create_dir(path("www")).unwrap();
        // The server's dates have seconds: each version is a minute newer than the one before.
        let versions = std::cell::Cell::new(0);
        let serve = |text: &str| {
            versions.set(versions.get() + 60);
            let mut file = fs::File::create(path("www/ads.txt")).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            let date = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + versions.get());
            file.set_modified(date).unwrap();
        };
        let names = |count: usize| -> String {
            (0..count).map(|number| format!("ad{number}.test\n")).collect()
        };
        serve(&names(1000));
        sh("ip link set lo up");
        let server = serve_files(("127.0.0.1", 8443));
        let list = format!(
            "[[blocklist]]\nfile = \"{LIST}\"\nurl = \"https://lists.test:8443/ads.txt\"\naddress = \"127.0.0.1\"\n\
             ca_file = \"/run/lab/ca.pem\"\nrefresh_seconds = 86400\n"
        );
        let (_stub, pmdns) = start(&list);
        let status = |name: &str| dig(TAP_V4, &format!("{name} A")).status;
        let is_blocked = |name| wait_for_value(name, "NXDOMAIN".to_owned(), || status(name));
        is_blocked("ad999.test");
        let count = |name: &str| pmdns.stats().number(&format!("/fetched_lists/0/{name}"));
        assert_eq!((count("names"), count("fetched")), (1000, 1));
        assert_eq!(get("lists").1["lists"][0]["url"], "https://lists.test:8443/ads.txt");

        let (code, done) = post("lists/ads.txt/refresh");
        assert!(code == 200 && done.contains("nothing new"), "{code} {done}");
        assert_eq!(count("unchanged"), 1);
        serve(&names(1001));
        assert!(command(&["refresh", "ads.txt"], 0).contains("1001 names"));
        is_blocked("ad1000.test");

        for bad in ["", "<html>not here</html>\n", "ad0.test\n"] {
            serve(bad);
            let (code, why) = post("lists/ads.txt/refresh");
            assert!(code == 409 && why.contains("is not refreshed"), "{bad}: {code} {why}");
            assert_eq!(status("ad1000.test"), "NXDOMAIN", "the list in use stays");
        }
        assert_eq!((count("refused"), count("failing"), count("names")), (3, 3, 1001));
        assert_eq!(post("lists/other/refresh").0, 404);
        pmdns.stop();
        drop(server);

        let pmdns = Pmdns::start(&config(&list));
        set_up_tap();
        assert_eq!(status("ad1000.test"), "NXDOMAIN", "a start needs no network");
        assert_eq!(post("lists/ads.txt/refresh").0, 409, "nobody serves it");
        pmdns.stop();
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_list_is_added_and_removed_while_it_runs() {
    isolated("api_calls::a_list_is_added_and_removed_while_it_runs", || {
        const URL: &str = "https://lists.test:8443/ads.txt";
        write_certificates("lists.test");
        // The namespace has mounts of its own, so only this system trusts the authority.
        sh("mount --bind /run/lab/ca.pem /etc/ssl/certs/ca-certificates.crt");
        for folder in ["own", "www", "log"] {
            fs::create_dir(path(folder)).unwrap();
        }
        fs::write(path("own/ads"), "old.test\n").unwrap();
        fs::write(path("www/ads.txt"), "ad0.test\nad1.test\n").unwrap();
        write_tokens();
        sh("ip link set lo up");
        let _stub = Stub::start(STUB_PORT);
        let _server = serve_files(("127.0.0.1", 8443));
        let text = config("").replace(
            "[control]\n",
            "[control]\nlists = \"/run/lab/own\"\nlist_networks = [\"127.0.0.0/8\"]\n",
        );
        let pmdns = Pmdns::start(&text);
        set_up_tap();
        let status = |name: &str| dig(TAP_V4, &format!("{name} A")).status;
        let add = ["list", "add", "ads", "--url", URL, "--address", "127.0.0.1"];
        let said = command(&add, 0);
        assert!(said.contains("list ads is added") && said.contains("2 names fetched"), "{said}");
        let probe = ["list", "add", "probe", "--url", "https://lists.test:53/x", "--address"];
        let said = command(&[&probe[..], &["10.97.0.53"]].concat(), 1);
        assert!(said.contains("10.97.0.53 is not public"), "{said}");
        let said = command(&[&probe[..], &["127.0.0.1"]].concat(), 1);
        assert!(said.contains("no server with a certificate that is trusted"), "{said}");
        let shown = command(&["list", "show"], 0);
        assert!(shown.contains("NOT FETCHED 1 times: no server"), "{shown}");
        command(&["list", "remove", "probe"], 0);
        wait_until("the list is there", || status("ad1.test") == "NXDOMAIN");
        assert_ne!(status("old.test"), "NXDOMAIN", "it begins empty");
        assert!(command(&["refresh", "ads"], 0).contains("nothing new"));
        assert!(command(&add, 1).contains("already"));

        command(&["reload"], 0);
        assert_eq!(status("ad0.test"), "NXDOMAIN", "a reload keeps it");
        let line = format!("list ads added from {URL} (user 0, ");
        for said in [command(&["config", "--running"], 0), command(&["config", "--diff"], 0)] {
            assert!(said.contains(&line), "{said}");
        }
        let listed = &get("lists").1["lists"][0];
        assert_eq!((&listed["url"], &listed["added"]), (&URL.into(), &true.into()));
        let new = |views: &str| format!(r#"{{"name":"more","url":"{URL}","views":[{views}]}}"#);
        let post = |json: &str| with_token(WRITER, &["-d", json, &url("lists")]);
        assert_eq!(post(&new("\"nobody\"")).0, 409, "there is no such view");
        assert_eq!(post(&new("").replace("more", "../more")).0, 422);
        let delete = |token| with_token(token, &["-X", "DELETE", &url("lists/ads")]).0;
        assert_eq!((delete(READER), delete(WRITER), delete(WRITER)), (403, 200, 404));
        assert_ne!(status("ad0.test"), "NXDOMAIN");
        assert!(!path("own/ads").exists() && get("lists").1["lists"][0].is_null());
        assert!(pmdns.log().contains("list ads is removed, by token w"), "{}", pmdns.log());
        pmdns.stop();
    });
}

/// An authority, and a certificate of a host, for the server of files.
pub(crate) fn write_certificates(host: &str) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "authority");
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    fs::write(path("ca.pem"), authority.pem()).unwrap();
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec![host.to_owned()]).unwrap();
    fs::write(path("own.pem"), own.signed_by(&key, &authority).unwrap().pem()).unwrap();
    fs::write(path("own.key"), key.serialize_pem()).unwrap();
}

/// A server of files that knows If-Modified-Since, and says when it listens.
pub(crate) fn serve_files(listen: (&str, u16)) -> Process {
    const SERVER: &str = "import http.server, os, ssl\n\
        os.chdir('/run/lab/www')\n\
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n\
        context.load_cert_chain('/run/lab/own.pem', '/run/lab/own.key')\n\
        server = http.server.ThreadingHTTPServer(LISTEN, http.server.SimpleHTTPRequestHandler)\n\
        server.socket = context.wrap_socket(server.socket, server_side=True)\n\
        open('/run/lab/listens', 'w').close()\n\
        server.serve_forever()\n";
    fs::write(path("server.py"), SERVER.replace("LISTEN", &format!("{listen:?}"))).unwrap();
    let mut command = Command::new("python3");
    command.arg(path("server.py"));
    let server = Process::start("python3", &mut command);
    wait_until("the server listens", || path("listens").exists());
    server
}
