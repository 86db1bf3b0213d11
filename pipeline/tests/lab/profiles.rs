//! Client profiles: parental control for one of two subscribers, changed while both ask, kept over a restart, read from a file.

use std::fs;

use crate::commands::command;
use crate::dig::dig;
use crate::harness::{isolated, path, sh};
use crate::nsd;
use crate::pmdns::{COMMON, Pmdns, TAP_PORT, TAP_V4, TAP_V6, run_to_failure, set_up_tap, upstream};

const ZONE: &str = "$ORIGIN shop.test.\n$TTL 3600\n@ SOA ns h 1 3600 900 604800 60\n@ NS ns\nns A 127.0.0.1\n\
    www A 192.0.2.1\ncasino A 192.0.2.2\n";

/// Two subscribers: an address of IPv4 and one of IPv6 each.
const FIRST: [&str; 2] = ["10.97.0.8", "fd97:0:0:8::1"];
const SECOND: [&str; 2] = ["10.97.0.9", "fd97:0:0:9::1"];

fn config() -> String {
    let view =
        "[[view]]\nname = \"kids\"\n[[blocklist]]\nfile = \"/run/lab/adult\"\nviews = [\"kids\"]\n";
    let clients = "[clients]\nmax_entries = 1000\nfile = \"/run/lab/subscribers\"\njournal = \"/run/lab/clients\"\n";
    format!("{TAP_PORT}{COMMON}{}{view}{clients}", upstream(nsd::PORT))
}

fn start() -> Pmdns {
    let pmdns = Pmdns::start(&config());
    set_up_tap();
    for [v4, v6] in [FIRST, SECOND] {
        sh(&format!("ip address add {v4}/24 dev pm0"));
        sh(&format!("ip address add {v6}/128 dev pm0 nodad"));
    }
    pmdns
}

/// The status that a subscriber gets for a name, by both families the same.
fn ask(subscriber: [&str; 2], name: &str) -> String {
    let [v4, v6] = [(TAP_V4, subscriber[0]), (TAP_V6, subscriber[1])]
        .map(|(server, source)| dig(server, &format!("-b {source} {name}.shop.test A")).status);
    assert_eq!(v4, v6, "{name} for {subscriber:?}");
    v4
}

/// Which of the two get the name of the list: for both every other name is there.
fn passes() -> [bool; 2] {
    [FIRST, SECOND].map(|subscriber| {
        assert_eq!(ask(subscriber, "www"), "NOERROR");
        ask(subscriber, "casino") == "NOERROR"
    })
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_subscriber_has_parental_control_from_one_answer_to_the_next() {
    isolated("profiles::a_subscriber_has_parental_control_from_one_answer_to_the_next", || {
        let _nsd = nsd::serve(&[("shop.test", ZONE)]);
        fs::write(path("adult"), "casino.shop.test\n").unwrap();
        let file = |text: &str| fs::write(path("subscribers"), text).unwrap();
        file("");
        let pmdns = start();
        assert_eq!(passes(), [true, true], "and both answers are cached");
        command(&["client", "set", "10.97.0.8", "kids"], 0);
        command(&["client", "set", "fd97:0:0:8::/64", "kids"], 0);
        assert_eq!(passes(), [false, true], "though it is cached");
        let shown = command(&["client", "show", "fd97:0:0:8::1", "--json"], 0);
        assert!(
            shown.contains("\"prefix\":\"fd97:0:0:8::/64\"") && shown.contains("kids"),
            "{shown}"
        );
        let found = command(&["lookup", "casino.shop.test", "--client", "10.97.0.8"], 0);
        assert!(found.contains("kids"), "{found}");
        command(&["client", "set", "10.97.0.8", "kid"], 1);
        command(&["client", "remove", "10.97.0.7"], 1);

        // A reload reads the file; what was said at run time stands before it.
        file("10.97.0.8 default\n10.97.0.9 kids\nfd97:0:0:9::/64 kids\n");
        command(&["reload"], 0);
        assert_eq!(passes(), [false, false]);
        command(&["client", "set", "10.97.0.9", "default"], 0);
        command(&["client", "set", "fd97:0:0:9::1", "default"], 0);
        command(&["client", "remove", "10.97.0.8"], 0);
        command(&["client", "remove", "fd97:0:0:8::/64"], 0);
        assert_eq!(passes(), [true, true]);
        let listed = command(&["client", "list", "--json"], 0);
        assert!(listed.contains("\"total\":3"), "{listed}");
        file("10.97.0.8 kids\n10.97.0.9\n");
        let refused = command(&["reload"], 2);
        assert!(
            refused.contains("subscribers, line 2: `10.97.0.9` is not PREFIX VIEW"),
            "{refused}"
        );
        command(&["client", "set", "10.97.0.8", "kids"], 0);
        command(&["client", "set", "fd97:0:0:8::1", "kids"], 0);
        pmdns.stop();

        file("10.97.0.8 default\n");
        let pmdns = start();
        assert_eq!(passes(), [false, true], "as it was said before the restart");
        pmdns.stop();

        let text = fs::read_to_string(path("clients")).unwrap();
        fs::write(path("clients"), text.replacen("kids", "dogs", 1)).unwrap();
        let (code, log) = run_to_failure(&config());
        assert_eq!(code, Some(2), "{log}");
        assert!(log.contains("clients.journal: /run/lab/clients, line"), "{log}");
    });
}
