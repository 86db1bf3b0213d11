//! DPDK's telemetry: its socket answers `dpdk-telemetry.py` while pmdns runs without privileges.

use serde_json::Value;

use crate::dig::dig;
use crate::harness::{isolated, sh};
use crate::nsd;
use crate::pmdns::{COMMON, Pmdns, TAP_PORT, TAP_V4, set_up_tap, upstream};

/// What DPDK answers to a command.
fn ask(command: &str) -> Value {
    // Before the answers it prints lines for people.
    let text = sh(&format!("echo '{command}' | dpdk-telemetry.py -f lab"));
    let mut answers =
        text.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    answers.next().unwrap_or_else(|| panic!("no answer to {command}: {text}"))
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn dpdk_telemetry_is_reachable() {
    isolated("telemetry::dpdk_telemetry_is_reachable", || {
        let _nsd = nsd::start();
        let port = TAP_PORT.replace("\"--no-shconf\"", "\"--file-prefix=lab\"");
        let pmdns = Pmdns::start(&format!("{port}{COMMON}{}", upstream(nsd::PORT)));
        set_up_tap();
        dig(TAP_V4, "n1.bulk.test A");
        assert_eq!(ask("/ethdev/list")["/ethdev/list"], serde_json::json!([0]));
        let stats = ask("/ethdev/stats,0");
        assert!(stats["/ethdev/stats"]["ipackets"].as_u64() > Some(0), "{stats}");
        let info = ask("/ethdev/info,0");
        assert!(info.to_string().contains("net_tap0"), "{info}");
        pmdns.stop();
    });
}
