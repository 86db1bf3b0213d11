//! Views: two clients, each with upstreams, a list and local data of its own, and never the other's.

use std::fs;

use crate::dig::{Reply, dig};
use crate::harness::{isolated, path, sh};
use crate::nsd::{self, SECOND_PORT};
use crate::pmdns::{COMMON, Pmdns, TAP_PORT, TAP_V4, TAP_V6, config_file, run, upstream};

/// Addresses of a client in no view, and of one in the view `kids`.
const OTHER: [&str; 2] = ["10.97.0.1", "fd97::1"];
const KID: [&str; 2] = ["10.97.0.9", "fd97::9"];

/// The zone that both servers have, each with addresses of its own.
fn zone(address: &str) -> String {
    format!(
        "$ORIGIN shop.test.\n$TTL 3600\n@ SOA ns h 1 3600 900 604800 60\n@ NS ns\nns A 127.0.0.1\n\
         www A {address}\nads A {address}\n"
    )
}

/// The view `kids` with these clients, and what it has.
fn config(clients: &str) -> String {
    let second = upstream(SECOND_PORT) + "group = \"filtered\"\n";
    let list = path("kids.list");
    format!(
        "{TAP_PORT}{COMMON}{}{second}\n[[view]]\nname = \"kids\"\nclients = [{clients}]\ngroup = \"filtered\"\n\
         [[local]]\nname = \"printer.shop.test\"\ntype = \"A\"\ndata = \"192.0.2.77\"\nviews = [\"kids\"]\n\
         [[blocklist]]\nfile = {list:?}\nviews = [\"kids\"]\n",
        upstream(nsd::PORT)
    )
}

/// What a client with these addresses gets, over IPv4 and IPv6 the same.
fn ask(client: [&str; 2], name: &str) -> (String, Vec<String>) {
    let [over_v4, over_v6] = [(TAP_V4, client[0]), (TAP_V6, client[1])]
        .map(|(server, source)| dig(server, &format!("-b {source} {name} A")))
        .map(|reply: Reply| (reply.status.clone(), reply.data()));
    assert_eq!(over_v4, over_v6, "{name}");
    over_v4
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn two_views_never_get_each_others_answers() {
    isolated("views::two_views_never_get_each_others_answers", || {
        let _first = nsd::serve(&[("shop.test", &zone("192.0.2.1"))]);
        let _second = nsd::serve_second(&[("shop.test", &zone("192.0.2.2"))]);
        fs::write(path("kids.list"), "ads.shop.test\n").unwrap();
        let kids = "\"10.97.0.9\", \"fd97::9\"";
        let pmdns = Pmdns::start(&config(kids));
        crate::pmdns::set_up_tap();
        sh("ip address add 10.97.0.9/24 dev pm0");
        sh("ip address add fd97::9/64 dev pm0 nodad");
        let found = |address: &str| ("NOERROR".to_owned(), vec![address.to_owned()]);
        let denied = ("NXDOMAIN".to_owned(), Vec::new());
        for _ in 0..2 {
            assert_eq!(ask(OTHER, "www.shop.test"), found("192.0.2.1"));
            assert_eq!(ask(KID, "www.shop.test"), found("192.0.2.2"));
            assert_eq!(ask(OTHER, "ads.shop.test"), found("192.0.2.1"));
            assert_eq!(ask(KID, "ads.shop.test"), denied, "it is on the list of the view");
            assert_eq!(ask(OTHER, "printer.shop.test"), denied, "it is the view's own");
            assert_eq!(ask(KID, "printer.shop.test"), found("192.0.2.77"));
        }
        let stats = pmdns.stats();
        assert_eq!(stats.upstream(0, "queries"), 3, "each question once, the rest are hits");
        assert_eq!(stats.upstream(1, "queries"), 1);

        // Who is in a view can be reloaded; what the cache has of the two is kept apart as before.
        config_file(&config("\"10.97.0.8\""));
        let output = run(&["reload", "--socket", "/run/lab/pmdns.sock"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(ask(KID, "www.shop.test"), found("192.0.2.1"));
        assert_eq!(ask(KID, "ads.shop.test"), found("192.0.2.1"));
        // A view of another name is another view: nothing in the cache is of it.
        for (name, queries) in [("minors", 2), ("kids", 3)] {
            config_file(&config(kids).replace("kids\"", &format!("{name}\"")));
            let output = run(&["reload", "--socket", "/run/lab/pmdns.sock"]);
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            for _ in 0..2 {
                assert_eq!(ask(KID, "www.shop.test"), found("192.0.2.2"));
                assert_eq!(ask(OTHER, "www.shop.test"), found("192.0.2.1"));
            }
            assert_eq!(ask(KID, "ads.shop.test"), denied);
            assert_eq!(pmdns.stats().upstream(1, "queries"), queries);
        }
        let stats = pmdns.stats();
        assert_eq!(stats.upstream(0, "queries"), 3, "who is in none is answered as before");
        pmdns.stop();
    });
}
