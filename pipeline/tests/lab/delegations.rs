//! A validating Unbound behind pmdns. It finds out from the zone above that a local or forwarded zone is not signed, and so
//! believes what is in it.

use std::fs;

use crate::dig::dig;
use crate::dnssec::sign;
use crate::harness::{isolated, path};
use crate::pmdns::{COMMON, Pmdns, TAP_PORT, TAP_V4, set_up_tap, upstream};
use crate::{nsd, unbound};

const HEAD: &str = "$TTL 300\n@ SOA ns h 1 3600 900 604800 60\n@ NS ns\nns A 127.0.0.1\n";
/// Names and the answers that the validator has to believe.
const ANSWERS: [(&str, &str, &str); 7] = [
    ("printer.home.arpa A", "NOERROR", "10.0.0.7"),
    ("gone.home.arpa A", "NXDOMAIN", ""),
    ("host.lan.top A", "NOERROR", "10.0.0.8"),
    ("gone.lan.top A", "NXDOMAIN", ""),
    ("host.deep.lan.top A", "NOERROR", "10.0.0.9"),
    ("www.corp.top A", "NOERROR", "10.0.0.10"),
    ("gone.corp.top A", "NXDOMAIN", ""),
];

fn config(validate: bool) -> String {
    let (lan, deep) = (path("lan.zone"), path("deep.zone"));
    fs::write(&lan, format!("$ORIGIN lan.top.\n{HEAD}host A 10.0.0.8\n")).unwrap();
    fs::write(&deep, format!("$ORIGIN deep.lan.top.\n{HEAD}host A 10.0.0.9\n")).unwrap();
    let corp = upstream(nsd::SECOND_PORT).replace("[[upstream]]", "[[upstream]]\ngroup = \"corp\"");
    let anchors = ["arpa", "top"]
        .map(|zone| fs::read_to_string(path(&format!("dsset-{zone}."))).unwrap())
        .concat();
    fs::write(path("anchors"), anchors).unwrap();
    let dnssec = "[dnssec]\nvalidate = true\ntrust_anchor = \"/run/lab/anchors\"\n";
    format!(
        "{TAP_PORT}{COMMON}{}{corp}[[forward]]\nzone = \"corp.top\"\ngroup = \"corp\"\n\
         [[zone]]\nfile = {lan:?}\n[[zone]]\nfile = {deep:?}\n\
         [[local]]\nname = \"printer.home.arpa\"\ntype = \"A\"\ndata = \"10.0.0.7\"\n{}",
        upstream(nsd::PORT),
        if validate { dnssec } else { "" }
    )
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_validator_behind_us_believes_what_is_local_and_what_is_forwarded() {
    let name = "delegations::a_validator_behind_us_believes_what_is_local_and_what_is_forwarded";
    isolated(name, || {
        let insecure = |zone: &str| format!("{zone} NS ns.{zone}\nns.{zone} A 127.0.0.1\n");
        let arpa = format!("$ORIGIN arpa.\n{HEAD}{}", insecure("home"));
        let delegations = insecure("lan") + &insecure("corp");
        let top = format!("$ORIGIN top.\n{HEAD}www A 192.0.2.1\n{delegations}");
        let (arpa, top) = (sign("arpa", "", &arpa), sign("top", "", &top));
        let _nsd = nsd::serve(&[("arpa", &arpa), ("top", &top)]);
        let corp = format!("$ORIGIN corp.top.\n{HEAD}www A 10.0.0.10\n");
        let _corp = nsd::serve_second(&[("corp.top", &corp)]);
        let validator = format!(
            "server:\n    module-config: \"validator iterator\"\n    local-zone: \"home.arpa.\" nodefault\n    \
             trust-anchor-file: \"/run/lab/dsset-arpa.\"\n    trust-anchor-file: \"/run/lab/dsset-top.\"\n\
             forward-zone:\n    name: \".\"\n    forward-addr: {TAP_V4}\n"
        );
        for validate in [false, true] {
            let pmdns = Pmdns::start(&config(validate));
            set_up_tap();
            let _unbound = unbound::start_with(&validator, "www.top");
            let ask =
                |question: &str| dig("127.0.0.1", &format!("-p {} {question}", unbound::PORT));
            assert!(ask("+ad www.top A").has("ad"), "it validates");
            for (question, status, data) in ANSWERS {
                let reply = ask(question);
                assert_eq!(
                    (&*reply.status, reply.data().concat().as_str()),
                    (status, data),
                    "{question}"
                );
                assert!(!reply.has("ad"), "{question} is not signed");
            }
            pmdns.stop().assert_balanced();
        }
    });
}
