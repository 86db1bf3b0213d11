//! DNS64 beside Unbound's: the same names over the same zones, and the same addresses.

use crate::dig::dig;
use crate::harness::isolated;
use crate::nsd;
use crate::pmdns::{COMMON, Pmdns, TAP_PORT, TAP_V4, upstream};
use crate::unbound;

/// Names with IPv4 addresses, IPv6 addresses, both or none; aliases to them, and an alias to nowhere.
const ZONE: &str = "$ORIGIN six.test.\n$TTL 3600\n@ SOA ns h 1 3600 900 604800 60\n@ NS ns\nns A 127.0.0.1\n\
    four A 8.8.4.4\nfour A 8.8.8.8\nfour TXT four\nboth A 8.8.4.4\nboth AAAA 2001:db8::4\nsix AAAA 2001:db8::6\n\
    text TXT none\na CNAME four\nb CNAME a\nc CNAME six\nd CNAME text\ne CNAME nowhere\n\
    short 5 A 9.9.9.9\n*.wild A 8.8.4.4\nmapped A 8.8.4.4\nmapped AAAA ::ffff:8.8.4.4\n";
const REVERSE: &str = "$ORIGIN 4.8.8.in-addr.arpa.\n$TTL 3600\n@ SOA ns.six.test. h 1 3600 900 604800 60\n\
    @ NS ns.six.test.\n4 PTR four.six.test.\n";

/// Status and addresses, sorted: neither server promises an order.
fn ask(server: &str, arguments: &str) -> (String, Vec<String>) {
    let reply = dig(server, arguments);
    let mut data = reply.data();
    data.sort();
    (reply.status, data)
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn the_same_addresses_are_made_as_by_unbound() {
    isolated("dns64::the_same_addresses_are_made_as_by_unbound", || {
        let _nsd = nsd::serve(&[("six.test", ZONE), ("4.8.8.in-addr.arpa", REVERSE)]);
        let forward = format!(
            "server:\n    module-config: \"dns64 iterator\"\n    dns64-prefix: 64:ff9b::/96\n\
             forward-zone:\n    name: \".\"\n    forward-addr: 127.0.0.1@{}\n",
            nsd::PORT
        );
        let _unbound = unbound::start_with(&forward, "four.six.test");
        let dns64 = "[[dns64]]\nprefix = \"64:ff9b::/96\"\n";
        let pmdns = Pmdns::start(&format!("{TAP_PORT}{COMMON}{}{dns64}", upstream(nsd::PORT)));
        crate::pmdns::set_up_tap();
        let mut made = 0;
        for _ in 0..2 {
            for name in [
                "four", "both", "six", "text", "a", "b", "c", "d", "e", "short", "x.wild",
                "nowhere", "ns",
            ] {
                for qtype in ["AAAA", "A", "TXT"] {
                    // A loopback address is not global: Unbound makes one all the same.
                    if (name, qtype) == ("ns", "AAAA") {
                        continue;
                    }
                    let arguments = format!("{name}.six.test {qtype}");
                    let ours = ask(TAP_V4, &arguments);
                    made += ours.1.iter().filter(|data| data.starts_with("64:ff9b::")).count();
                    let mut theirs = ask("127.0.0.1", &format!("-p {} {arguments}", unbound::PORT));
                    // Unbound 1.26 gives the alias of a name without addresses twice.
                    theirs.1.dedup();
                    assert_eq!(ours, theirs, "{arguments}");
                }
            }
        }
        assert!(made >= 12, "{made} addresses");
        // What Unbound passes on, which no host can use.
        assert_eq!(ask(TAP_V4, "mapped.six.test AAAA").1, ["64:ff9b::808:404"]);
        assert_eq!(ask(TAP_V4, "ns.six.test AAAA"), ("NOERROR".to_owned(), Vec::new()));
        let discovered = ask(TAP_V4, "ipv4only.arpa AAAA");
        assert_eq!(discovered.1, ["64:ff9b::c000:aa", "64:ff9b::c000:ab"], "RFC 7050");
        assert!(dig(TAP_V4, "-x 64:ff9b::808:404").data().contains(&"four.six.test.".to_owned()));
        assert_eq!(ask(TAP_V4, "+dnssec +cd four.six.test AAAA").1, [] as [String; 0]);
        pmdns.stop().assert_balanced();
    });
}
