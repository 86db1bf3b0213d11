//! Zone files as people have them: what `named-checkzone` takes, a node serves.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::dig::dig;
use crate::harness::{isolated, path, sh};
use crate::nsd;
use crate::pmdns::{COMMON, Pmdns, TAP_PORT, TAP_V4, set_up_tap, upstream};

/// Where clients ask over TCP, on loopback.
const SERVER: &str = "10.98.0.53";

/// A zone with the habits of many: `@` in data, generated names, rare types and a TTL from the SOA record. It has sets with several
/// TTLs, a name of another zone, and more records of a name than a datagram takes.
const ZONE: &str = "\
; caf\u{e9} (\"zone\")
@ SOA ns admin 1 2h 3 4w 77
@ NS ns.corp.example.
ns A 192.0.2.53
@ A 192.0.2.1
www CNAME @
@ MX 10 @
_sip._udp SRV 1 2 5060 @
here LOC 42 21 54 N 71 06 18 W -24m 30m
api URI 10 1 \"https://corp.example/\"
net APL 1:192.0.2.0/24
h HTTPS 1 . alpn=\"f\\\\\\\\oo\\\\,bar,h2\"
$GENERATE 1-3 host-$ A 192.0.2.$
$GENERATE 10-12/2 ${0,3} TXT \"number ${0,2,x}\"
tree DNAME other.corp.example.
a.other A 192.0.2.77
in-tree CNAME a.tree
$GENERATE 0-199 many A 10.0.0.$
x.elsewhere.example. A 192.0.2.99
set 300 A 192.0.2.31
 60 A 192.0.2.32
 60 TXT one
next TXT two
set 20 A 192.0.2.31
Set A 192.0.2.33
";

/// Asks for every set of records that `named-checkzone` reads in a file, which is not long.
fn ask_for_every_set(file: &Path) {
    let read = Command::new("named-checkzone").args(["-D", "corp.example"]).arg(file).output();
    let mut sets: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for line in String::from_utf8_lossy(&read.unwrap().stdout).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [name, _, "IN", rtype, ..] = words[..] {
            let set = sets.entry((name.to_owned(), rtype.to_owned())).or_default();
            set.push(words.join(" "));
        }
    }
    assert!(sets.len() > 20, "{sets:?}");
    for ((name, rtype), mut expected) in sets {
        let mut answers = dig(SERVER, &format!("+tcp {name} {rtype}")).answers;
        answers.sort();
        expected.sort();
        assert_eq!(answers, expected, "{name} {rtype}");
    }
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn what_bind_takes_is_served() {
    isolated("zone_files::what_bind_takes_is_served", || {
        let file = path("corp.zone");
        fs::write(&file, ZONE).unwrap();
        let checked = Command::new("named-checkzone").arg("corp.example").arg(&file).output();
        assert!(checked.expect("bind9-utils is installed").status.success());
        let _nsd = nsd::start();
        sh(&format!("ip address add {SERVER}/32 dev lo"));
        let zone = format!("[[zone]]\nfile = {file:?}\norigin = \"corp.example\"\n");
        let streams = format!("[streams]\ntcp = [\"{SERVER}:53\"]\n");
        let pmdns =
            Pmdns::start(&format!("{TAP_PORT}{COMMON}{}{streams}{zone}", upstream(nsd::PORT)));
        set_up_tap();
        for (asked, answers) in [
            (
                "www A",
                &["www.corp.example. 77 IN CNAME corp.example.", "corp.example. 77 IN A 192.0.2.1"]
                    [..],
            ),
            ("@ MX", &["corp.example. 77 IN MX 10 corp.example."]),
            ("_sip._udp SRV", &["_sip._udp.corp.example. 77 IN SRV 1 2 5060 corp.example."]),
            (
                "here LOC",
                &[
                    "here.corp.example. 77 IN LOC 42 21 54.000 N 71 6 18.000 W -24.00m 30m 10000m 10m",
                ],
            ),
            ("api URI", &["api.corp.example. 77 IN URI 10 1 \"https://corp.example/\""]),
            ("net APL", &["net.corp.example. 77 IN APL 1:192.0.2.0/24"]),
            ("h HTTPS", &["h.corp.example. 77 IN HTTPS 1 . alpn=\"f\\\\\\\\oo\\\\,bar,h2\""]),
            ("host-3 A", &["host-3.corp.example. 77 IN A 192.0.2.3"]),
            ("012 TXT", &["012.corp.example. 77 IN TXT \"number\" \"0c\""]),
            (
                "a.tree A",
                &[
                    "tree.corp.example. 77 IN DNAME other.corp.example.",
                    "a.tree.corp.example. 77 IN CNAME a.other.corp.example.",
                    "a.other.corp.example. 77 IN A 192.0.2.77",
                ],
            ),
            (
                "in-tree A",
                &[
                    "in-tree.corp.example. 77 IN CNAME a.tree.corp.example.",
                    "tree.corp.example. 77 IN DNAME other.corp.example.",
                    "a.tree.corp.example. 77 IN CNAME a.other.corp.example.",
                    "a.other.corp.example. 77 IN A 192.0.2.77",
                ],
            ),
        ] {
            let name = asked.replacen("@", "corp.example.", 1);
            let name = match name == asked {
                true => asked.replacen(' ', ".corp.example. ", 1),
                false => name,
            };
            let reply = dig(TAP_V4, &name);
            assert_eq!(reply.status, "NOERROR", "{asked}");
            assert_eq!(reply.answers, answers, "{asked}");
        }
        let cut = dig(TAP_V4, "many.corp.example A");
        assert!(cut.has("tc") && cut.answers.is_empty(), "{cut:?}");
        let whole = dig(SERVER, "+tcp many.corp.example A");
        assert_eq!((whole.has("tc"), whole.answers.len()), (false, 200));
        ask_for_every_set(&file);
        assert_ne!(dig(TAP_V4, "x.elsewhere.example A").data(), ["192.0.2.99"]);
        let left_out = "1 records are left out, because their names are outside the zone";
        assert!(pmdns.log().contains(left_out), "{}", pmdns.log());
        pmdns.stop().assert_balanced();
    });
}
