//! Redirection of names that do not exist, with NSD as the upstream: who gets the help page, and who the truth.

use crate::commands::command;
use crate::dig::dig;
use crate::harness::{isolated, sh};
use crate::nsd;
use crate::pmdns::{COMMON, Pmdns, TAP_PORT, TAP_V4, config_file, set_up_tap, upstream};

const ZONE: &str = "$ORIGIN shop.example.\n$TTL 3600\n@ SOA ns h 1 3600 900 604800 60\n@ NS ns\nns A 127.0.0.1\n\
    www A 192.0.2.1\nwww.alias CNAME nowhere\n";
/// A subscriber, whose view changes while it asks.
const SUBSCRIBER: &str = "10.97.0.8";

/// Everybody but those in the view `truth` gets this page.
fn config(page: &str) -> String {
    let cache = COMMON.replace("[cache]", "[cache]\nnxdomain_cut = true");
    let view = "[[view]]\nname = \"truth\"\nqueries_per_second = 100000\n";
    let clients = "[clients]\nmax_entries = 1000\n";
    let redirect = format!(
        "[[redirect]]\naddresses = [\"{page}\", \"2001:db8::80\"]\nttl = 30\n\
         except = [\"spared.shop.example\"]\nviews = [\"default\"]\n"
    );
    format!("{TAP_PORT}{cache}{}{view}{clients}{redirect}", upstream(nsd::PORT))
}

/// Status and data of the answer.
fn ask(arguments: &str) -> (String, Vec<String>) {
    let reply = dig(TAP_V4, &format!("-b {SUBSCRIBER} {arguments}"));
    let data = reply.data();
    (reply.status, data)
}

fn is_redirected(arguments: &str) -> bool {
    match ask(arguments) {
        (status, data) if status == "NOERROR" && data == ["192.0.2.80"] => true,
        (status, data) if status == "NXDOMAIN" && data.is_empty() => false,
        other => panic!("{arguments}: {other:?}"),
    }
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_name_that_does_not_exist_leads_to_the_page_unless_the_view_opts_out() {
    let name = "redirect::a_name_that_does_not_exist_leads_to_the_page_unless_the_view_opts_out";
    isolated(name, || {
        let _nsd = nsd::serve(&[("shop.example", ZONE)]);
        let pmdns = Pmdns::start(&config("192.0.2.80"));
        set_up_tap();
        sh(&format!("ip address add {SUBSCRIBER}/24 dev pm0"));

        let typo = "www.typo.shop.example";
        assert!(is_redirected(&format!("{typo} A")), "a miss");
        for _ in 0..2 {
            assert!(is_redirected(&format!("{typo} A")), "a hit");
        }
        assert_eq!(dig(TAP_V4, &format!("{typo} A")).ttl(), 30, "it does not age");
        assert_eq!(ask(&format!("{typo} AAAA")).1, ["2001:db8::80"]);
        assert!(is_redirected("www.below.typo.shop.example A"), "by NXDOMAIN for a name above");
        let shown = sh(&format!("dig @{TAP_V4} -b {SUBSCRIBER} {typo} A"));
        assert!(shown.contains("EDE: 4 (Forged Answer): (the name does not exist)"), "{shown}");
        let reply = dig(TAP_V4, &format!("{typo} A"));
        assert!(!reply.has("aa") && !reply.has("ad") && reply.has("ra"), "{reply:?}");

        // The second time the answer comes from the cache.
        for truth in [
            "www.typo.shop.example MX",
            "+dnssec www.typo.shop.example A",
            "+cd www.typo.shop.example A",
            "typo.shop.example A",
            "www.spared.shop.example A",
            "www._tcp.shop.example A",
        ] {
            assert!(!is_redirected(truth) && !is_redirected(truth), "{truth}");
        }
        assert_eq!(ask("www.shop.example A").1, ["192.0.2.1"]);
        for _ in 0..2 {
            let (status, data) = ask("www.alias.shop.example A");
            assert_eq!((&*status, &*data), ("NXDOMAIN", &["nowhere.shop.example.".to_owned()][..]));
        }

        let found = command(&["lookup", typo, "--client", SUBSCRIBER], 0);
        assert!(found.contains("redirect") && found.contains("192.0.2.80"), "{found}");
        command(&["client", "set", SUBSCRIBER, "truth"], 0);
        assert!(!is_redirected(&format!("{typo} A")), "from one answer to the next");
        assert!(!is_redirected("www.other.shop.example A"), "a miss of its own");
        let found = command(&["lookup", typo, "--client", SUBSCRIBER], 0);
        assert!(found.contains("NXDOMAIN") && found.contains("in the cache"), "{found}");
        command(&["client", "remove", SUBSCRIBER], 0);
        assert!(is_redirected("www.other.shop.example A"), "what another view has asked");

        config_file(&config("192.0.2.81"));
        command(&["reload"], 0);
        assert_eq!(ask(&format!("{typo} A")).1, ["192.0.2.81"]);
        config_file(&config("127.0.0.1"));
        let said = command(&["reload"], 2);
        assert!(said.contains("`redirect[0].addresses[0]` is 127.0.0.1"), "{said}");
        assert_eq!(ask(&format!("{typo} A")).1, ["192.0.2.81"], "a wrong file changes nothing");

        let stats = pmdns.stop();
        assert_eq!(stats.number("/lists/redirect[0]/hits"), 11, "hits and misses");
        stats.assert_balanced();
    });
}
