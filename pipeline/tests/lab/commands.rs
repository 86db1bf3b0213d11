//! What an operator tells a running pmdns: reload, purge, dump, load; and a cache that outlives a restart.

use std::fs;
use std::net::UdpSocket;

use crate::harness::{PATIENCE, isolated, path, wait_until};
use crate::messages::{NOERROR, ask_a, rcode};
use crate::pmdns::{COMMON, Pmdns, TAP_PORT, TAP_V4, config_file, run, set_up_tap, upstream};
use crate::stub::{Stub, TRUTH};

const STUB_PORT: u16 = 5301;
/// A name that the upstream knows, and how it writes it.
const NAME: &str = "good_1.test";
const WRITTEN: &str = "good_1.test.";

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn commands_are_carried_out_while_it_serves() {
    isolated("commands::commands_are_carried_out_while_it_serves", || {
        let stub = Stub::start(STUB_PORT);
        let snapshot = path("cache.snapshot");
        let config = |local: &str| {
            let kept = COMMON.replace("[cache]", &format!("[cache]\nsnapshot = {snapshot:?}"));
            format!("{TAP_PORT}{kept}{}{local}", upstream(STUB_PORT))
        };
        let pmdns = Pmdns::start(&config(""));
        set_up_tap();
        for _ in 0..2 {
            assert_eq!(address(NAME), TRUTH);
        }
        assert_eq!(stub.asked(WRITTEN), 1, "the second answer comes from the cache");

        command(&["purge", NAME], 0);
        assert_eq!(address(NAME), TRUTH);
        assert_eq!(stub.asked(WRITTEN), 2, "what was purged is asked for again");

        let file = path("by-hand");
        command(&["dump", file.to_str().unwrap()], 0);
        command(&["purge", "test", "--suffix"], 0);
        command(&["load", file.to_str().unwrap()], 0);
        assert_eq!(address(NAME), TRUTH);
        assert_eq!(stub.asked(WRITTEN), 2, "what was loaded is not asked for");

        let said = command(&["block", &format!("{NAME} suffix")], 1);
        assert!(said.contains("has ' ' in it"), "{said}");
        let said = command(&["unblock", &format!("{NAME}\nreload")], 1);
        assert!(said.contains("'\\n'"), "{said}");
        assert_eq!(address(NAME), TRUTH, "an argument is one argument");

        let local = |data: &str| {
            format!("\n[[local]]\nname = \"{NAME}\"\ntype = \"A\"\ndata = \"{data}\"\n")
        };
        config_file(&config(&local("192.0.2.77")));
        command(&["reload"], 0);
        assert_eq!(address(NAME), [192, 0, 2, 77]);
        config_file(&config(&local("no address")));
        let said = command(&["reload"], 2);
        assert!(said.contains("no address"), "{said}");
        assert_eq!(address(NAME), [192, 0, 2, 77], "a wrong file changes nothing");
        config_file(&config(&local("192.0.2.78")));
        pmdns.signal("HUP");
        wait_until("SIGHUP reloads", || address(NAME) == [192, 0, 2, 78]);
        pmdns.stop();

        let pmdns = Pmdns::start(&config(""));
        set_up_tap();
        wait_until("the snapshot is loaded", || pmdns.stats().number("/cache/0/entries") > 0);
        assert_eq!(address(NAME), TRUTH);
        assert_eq!(stub.asked(WRITTEN), 2, "the cache outlived the restart");
        pmdns.stop();
        fs::write(&snapshot, "no snapshot").unwrap();
        let pmdns = Pmdns::start(&config(""));
        set_up_tap();
        assert_eq!(address(NAME), TRUTH);
        assert_eq!(stub.asked(WRITTEN), 3, "a damaged snapshot is an empty cache");
        pmdns.stop();
    });
}

/// Gives an order, expects this exit code, and returns what was said.
pub(crate) fn command(arguments: &[&str], code: i32) -> String {
    let output = run(&[arguments, &["--socket", "/run/lab/pmdns.sock"]].concat());
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The address that pmdns answers for `name`.
fn address(name: &str) -> [u8; 4] {
    let client = UdpSocket::bind("10.97.0.1:0").unwrap();
    client.connect((TAP_V4, 53)).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.send(&ask_a(1, name)).unwrap();
    let mut buffer = [0; 512];
    let len = client.recv(&mut buffer).unwrap();
    assert_eq!(rcode(&buffer), NOERROR);
    buffer[..len].last_chunk().copied().unwrap()
}
