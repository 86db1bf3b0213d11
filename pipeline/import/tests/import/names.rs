//! Every setting of the three servers is taken over, or listed: nothing is lost in silence.

use std::collections::BTreeSet;

use pmdns_import::{Import, ServerKind};

use crate::one;

/// What an unknown setting is listed with.
const UNREAD: &str = "import does not know it";

/// The sum of what is said about line `line`: its places in the TOML and in the lists.
fn told(made: &Import, line: usize) -> usize {
    let place = format!("a.conf:{line}");
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_digit());
    made.toml.match_indices(&place).filter(|(at, _)| ends(&made.toml[at + place.len()..])).count()
}

/// The names in a file of names.
fn names(file: &str) -> Vec<String> {
    let path = format!("{}/tests/import/data/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The settings that the importer says it does not know.
fn unknown(all: &[String], format: ServerKind, file: impl Fn(&str) -> String) -> BTreeSet<String> {
    let is_unknown = |name: &&String| {
        let made = one(&file(name), format);
        made.decisive.iter().any(|one| one.contains(UNREAD))
    };
    all.iter().filter(is_unknown).cloned().collect()
}

#[test]
fn every_setting_of_unbound_is_known() {
    let all = names("unbound.names");
    assert!(all.len() > 250);
    let clause = |name: &str| match name.split('-').next().unwrap() {
        _ if ["view-first"].contains(&name) => "view:\n name: v",
        "forward" => "forward-zone:\n name: a.example",
        "stub" => "stub-zone:\n name: a.example",
        "rpz" => "rpz:\n name: a.example",
        "dnstap" => "dnstap:\n dnstap-enable: yes",
        "redis" => "cachedb:\n backend: redis",
        "dnscrypt" => "dnscrypt:\n dnscrypt-enable: yes",
        "control" => "remote-control:\n control-enable: yes",
        _ if name.starts_with("server-") || name == "control-use-cert" => {
            "remote-control:\n control-enable: yes"
        }
        _ if [
            "primary",
            "master",
            "url",
            "allow-notify",
            "zonefile",
            "for-downstream",
            "for-upstream",
            "fallback-enabled",
            "zonemd-check",
            "zonemd-reject-absence",
        ]
        .contains(&name) =>
        {
            "auth-zone:\n name: a.example"
        }
        "tags" => "rpz:\n name: a.example",
        _ if ["python-script", "dynlib-file"].contains(&name) => "python:\n python-script: x",
        _ => "server:\n verbosity: 1",
    };
    let file = |name: &str| format!("{}\n {name}: yes\n", clause(name));
    assert_eq!(unknown(&all, ServerKind::Unbound, file), BTreeSet::new());
}

#[test]
fn every_option_of_named_is_known() {
    let all = names("named.names");
    assert!(all.len() > 400);
    let file = |line: &str, value: &str| {
        let (block, name) = line.split_once(' ').unwrap();
        let option = match name {
            "rate-limit" => "rate-limit { slip 2; }".to_owned(),
            // A zone of another view has nothing else.
            "in-view" => {
                return "view v { match-clients { any; }; zone z { in-view w; }; };\n".to_owned();
            }
            _ => format!("{name} {value}"),
        };
        match block {
            "options" => format!("options {{\n{option};\n}};\n"),
            "view" => format!("view v {{ match-clients {{ any; }};\n{option};\n}};\n"),
            "zone" => format!("zone z {{ type primary; file f;\n{option};\n}};\n"),
            "server" => format!("server 192.0.2.1 {{\n{option};\n}};\n"),
            "tls" => format!("tls t {{\n{option};\n}};\n"),
            _ => format!("http h {{\n{option};\n}};\n"),
        }
    };
    // An option takes a list or a word. What stands in a list that nothing takes is listed, which is right.
    let as_list = unknown(&all, ServerKind::Named, |line| file(line, "{ 192.0.2.1; }"));
    let rest: Vec<String> = as_list.into_iter().collect();
    assert_eq!(unknown(&rest, ServerKind::Named, |line| file(line, "1")), BTreeSet::new());
}

#[test]
fn every_call_of_dnsdist_is_known() {
    let all = names("dnsdist.names");
    assert!(all.len() > 100);
    let file = |name: &str| format!("{name}('192.0.2.1')\n");
    assert_eq!(unknown(&all, ServerKind::Dnsdist, file), BTreeSet::new());
}

#[test]
fn a_setting_of_any_other_name_is_listed_and_decisive_wherever_it_stands() {
    for (text, format) in [
        ("server:\n frobnicate: 7\n", ServerKind::Unbound),
        (
            "forward-zone:\n forward-addr: 192.0.2.9\n frobnicate: 7\n name: .\n",
            ServerKind::Unbound,
        ),
        (
            "view:\n name: v\n frobnicate: 7\nserver:\n access-control-view: 10.0.0.0/8 v\n",
            ServerKind::Unbound,
        ),
        ("rpz:\n name: r.\n zonefile: /x\n frobnicate: 7\n", ServerKind::Unbound),
        ("auth-zone:\n name: r.\n zonefile: /x\n frobnicate: 7\n", ServerKind::Unbound),
        ("options { frobnicate 7; };\n", ServerKind::Named),
        (
            "view v { match-clients { any; }; zone z { type primary; file f; frobnicate { 7; }; }; };\n",
            ServerKind::Named,
        ),
        ("server 192.0.2.1 { frobnicate 7; };\n", ServerKind::Named),
        ("options { rate-limit { frobnicate 7; }; };\n", ServerKind::Named),
        ("frobnicate(7)\n", ServerKind::Dnsdist),
        ("x = frobnicate(7)\nfrobnicate(x)\n", ServerKind::Dnsdist),
    ] {
        let made = one(text, format);
        let is_listed = made.decisive.iter().any(|one| one.contains(UNREAD));
        assert!(is_listed, "{text}: {:?}", made.unmapped);
        assert!(made.toml.contains(UNREAD), "{text}");
    }
}

#[test]
fn settings_on_one_line_are_told_apart() {
    // The second is listed although the first one on its line is taken over.
    let made = one("server: cache-min-ttl: 9 frobnicate: 7\n", ServerKind::Unbound);
    assert_eq!((made.decisive.len(), told(&made, 1)), (1, 2), "{}", made.toml);
    let made = one("options { min-cache-ttl 9; frobnicate 7; };\n", ServerKind::Named);
    assert!(made.decisive.iter().any(|one| one.contains("frobnicate 7")), "{:?}", made.decisive);
}
