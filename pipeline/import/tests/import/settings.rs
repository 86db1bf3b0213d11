//! Settings that an import once lost, or read otherwise than the server that they are for. The servers of this machine's packages
//! were asked what they do.

use std::collections::BTreeSet;

use pmdns_config::Config;
use pmdns_import::ServerKind;
use proptest::prelude::*;

use crate::one;

/// What has to come of a text.
pub(crate) struct Case {
    pub(crate) text: &'static str,
    /// Parts of the TOML.
    pub(crate) has: &'static [&'static str],
    pub(crate) lacks: &'static [&'static str],
    /// Parts of remarks that refuse the import; none: it is not refused.
    pub(crate) decisive: &'static [&'static str],
    /// Parts of other remarks.
    pub(crate) listed: &'static [&'static str],
}

/// Nothing is expected of it.
pub(crate) const PLAIN: Case = Case { text: "", has: &[], lacks: &[], decisive: &[], listed: &[] };

const UNBOUND: &[Case] = &[
    // The last module-config counts, so nothing is validated.
    Case {
        text: "server:\n module-config: \"validator iterator\"\n auto-trust-anchor-file: /k/root.key\n\
               server:\n module-config: iterator\n",
        lacks: &["validate"],
        ..PLAIN
    },
    Case {
        text: "server:\n unblock-lan-zones: yes\n unblock-lan-zones: no\n msg-cache-size: 64m\n msg-cache-size: 32m\n",
        has: &["size = \"32MiB\""],
        lacks: &["special_use"],
        ..PLAIN
    },
    // Names of hosts and of other networks stay built in: they are asked nobody.
    Case {
        text: "server:\n unblock-lan-zones: yes\n local-zone: home.arpa nodefault\n",
        has: &[
            "special_use = false",
            "name = \"onion\"",
            "name = \"invalid\"",
            "name = \"*.localhost\"",
            "1.0.0.127.in-addr.arpa",
        ],
        lacks: &["name = \"home.arpa\""],
        ..PLAIN
    },
    Case {
        text: "server:\n unblock-lan-zones: yes\nforward-zone:\n name: onion\n forward-addr: 192.0.2.7\n\
               forward-zone:\n name: 10.in-addr.arpa\n forward-addr: 192.0.2.8\n",
        has: &["192.0.2.8:53"],
        lacks: &["192.0.2.7"],
        listed: &["Unbound answers these names itself"],
        ..PLAIN
    },
    Case {
        text: "server:\n interface: 192.0.2.53\n interface: 2001:db8::53\n do-ip6: no\n do-udp: no\n\
               forward-zone:\n name: .\n forward-addr: 2001:db8::1\n forward-addr: 192.0.2.1\n",
        has: &["192.0.2.1:53", "192.0.2.53"],
        lacks: &["2001:db8"],
        listed: &["over UDP"],
        ..PLAIN
    },
    Case {
        text: "server:\n access-control: 10.0.0.0/8 allow_setrd\n",
        has: &["allow = [\"10.0.0.0/8\"]"],
        listed: &["without RD"],
        ..PLAIN
    },
    // Without a name and a port, TLS is at port 53.
    Case {
        text: "forward-zone:\n name: .\n forward-tls-upstream: yes\n forward-addr: 192.0.2.1\n\
               \x20forward-addr: 192.0.2.2#dns.example\n",
        has: &["tls://192.0.2.1:53\"", "tls://192.0.2.2:853\""],
        listed: &["does not check the certificate"],
        ..PLAIN
    },
    // Of two zones with one name the last counts, and a forward zone before a stub zone.
    Case {
        text: "forward-zone:\n name: f.example\n forward-addr: 192.0.2.1\n\
               forward-zone:\n name: F.example.\n forward-addr: 192.0.2.2\n\
               stub-zone:\n name: f.example\n stub-addr: 192.0.2.3\n",
        has: &["192.0.2.2:53"],
        lacks: &["192.0.2.3", "192.0.2.1:53\"\ngroup"],
        ..PLAIN
    },
    // Two zones with the same servers.
    Case {
        text: "forward-zone:\n name: a.example\n forward-addr: 192.0.2.1\n forward-addr: 192.0.2.2\n\
               forward-zone:\n name: b.example\n forward-addr: 192.0.2.2\n forward-addr: 192.0.2.1\n",
        has: &["zone = \"b.example\"\ngroup = \"a-example\""],
        ..PLAIN
    },
    // All names but some lead to one address.
    Case {
        text: "server:\n local-zone: \".\" redirect\n local-data: \". A 192.0.2.99\"\n",
        has: &["name = \"*.\""],
        ..PLAIN
    },
    Case {
        text: "server:\n response-ip: 10.0.0.0/8 deny\n response-ip-data: 10.0.0.0/8 \"A 192.0.2.1\"\n",
        decisive: &["response-ip:", "response-ip-data:"],
        ..PLAIN
    },
    Case {
        text: "rpz:\n name: rpz.example\n url: \"https://rpz.example/zone\"\n",
        decisive: &["neither a file nor a primary"],
        listed: &["url:"],
        ..PLAIN
    },
    Case {
        text: "server:\n include: \"/etc/unbound/[0-9]*.conf\"\n include: \"/etc/unbound/{a,b}.conf\"\n",
        decisive: &["[0-9]", "{a,b}"],
        ..PLAIN
    },
];

const NAMED: &[Case] = &[
    // A word is missing its semicolon, so a server would be a client.
    Case {
        text: "options { allow-query { 10/8; } forwarders { 192.0.2.1; }; };\n",
        decisive: &["no semicolon"],
        ..PLAIN
    },
    Case {
        text: "options { allow-query { 10/8; }; forwarders { 192.0.2.1 tls t; }; forward only; };\ntls t { };\n",
        has: &["tls://192.0.2.1:853"],
        listed: &["does not check the certificate"],
        ..PLAIN
    },
    Case {
        text: "options { dnssec-validation yes; };\nserver 192.0.2.1 { bogus no; };\n",
        has: &["validate = true"],
        listed: &["named validates nothing"],
        ..PLAIN
    },
    // Forwarders are asked first also for what a zone that is no forward zone leads elsewhere.
    Case {
        text: "options { forwarders { 192.0.2.1; }; forward only; };\n\
               zone a.example { type primary; file a; forwarders { 192.0.2.2; }; };\n\
               zone b.example { type primary; file b; forwarders { }; };\n",
        lacks: &["192.0.2.2"],
        decisive: &["a.example"],
        listed: &["b.example"],
        ..PLAIN
    },
    Case {
        text: "options { forwarders { 192.0.2.1; };\n\
               deny-answer-addresses { !10.1/16; 10/8; 192.168/16; } except-from { corp.example; home.example; }; };\n",
        has: &[
            "[[rebinding]]",
            "action = \"refuse\"",
            "\"192.168.0.0/16\"",
            "\"10.0.0.0/16\"",
            "\"corp.example\",",
            "\"home.example\",",
        ],
        lacks: &["10.1.0.0/16", "10.0.0.0/8"],
        listed: &["SERVFAIL"],
        ..PLAIN
    },
    Case {
        text: "options { deny-answer-addresses { 10/8; }; };\n\
               view a { match-clients { 10.1/16; }; deny-answer-addresses { 192.168/16; } except-from { corp.example; }; };\n\
               view b { match-clients { any; }; };\n",
        has: &[
            "addresses = [\"192.168.0.0/16\"]\nexcept = [\"corp.example\"]\nviews = [\"a\"]",
            "addresses = [\"10.0.0.0/8\"]\nviews = [\"default\"]",
        ],
        ..PLAIN
    },
];

const DNSDIST: &[Case] = &[
    // With a network among them, names do not count.
    Case {
        text: "newServer('192.0.2.1')\naddAction({'10.9.0.0/16', 'bad.example'}, DropAction())\n",
        has: &["drop = [\"10.9.0.0/16\"]"],
        lacks: &["[block]", "bad.example"],
        ..PLAIN
    },
    // Actions that no table stands for, of rules about clients, and those about whom we ask.
    Case {
        text: "newServer('192.0.2.1')\naddAction(NetmaskGroupRule('10.9.0.0/16'), ERCodeAction(DNSRCode.REFUSED))\n\
               addAction('10.8.0.0/16', QPSAction(10))\naddAction('x.example', QPSPoolAction(10, 'a'))\n\
               addAction('y.example', SetDisableECSAction())\naddAction('10.7.0.0/16', SetNoRecurseAction())\n\
               addAction('10.6.0.0/16', DelayAction(10))\naddAction('z.example', ERCodeAction(DNSRCode.REFUSED))\n",
        decisive: &[
            "ERCodeAction",
            "QPSAction",
            "QPSPoolAction",
            "SetDisableECSAction",
            "SetNoRecurseAction",
        ],
        listed: &["DelayAction", "'z.example'"],
        ..PLAIN
    },
    Case {
        text: "newServer('192.0.2.1')\naddAction(QTypeRule(DNSQType.A), LuaAction(f))\n\
               addResponseAction(AllRule(), LuaResponseAction(f))\n\
               addResponseAction(NetmaskGroupRule('10.0.0.0/8'), DropResponseAction())\n\
               addResponseAction('x.example', DropResponseAction())\n",
        decisive: &["LuaAction", "LuaResponseAction", "'10.0.0.0/8'"],
        listed: &["'x.example'"],
        ..PLAIN
    },
    // All names but these are refused.
    Case {
        text: "newServer('192.0.2.1')\naddAction(NotRule(QNameSuffixRule('corp.example')), RefusedAction())\n",
        decisive: &["NotRule"],
        ..PLAIN
    },
    Case {
        text: "newServer('192.0.2.1')\nnewServer({address='192.0.2.2', pool='a'})\nnewServer({address='192.0.2.3', pool='b'})\n\
               addAction('x.example', PoolAction('a', false))\naddAction('x.example', PoolAction('b'))\n\
               addAction(MaxQPSIPRule(5), PoolAction('a'))\n",
        has: &["192.0.2.3"],
        lacks: &["192.0.2.2"],
        decisive: &["PoolAction('a', false)", "MaxQPSIPRule(5)"],
        ..PLAIN
    },
    Case {
        text: "newServer('192.0.2.1')\naddAction(MaxQPSIPRule(5), RCodeAction(DNSRCode.REFUSED))\n",
        has: &["queries_per_second = 5", "slip = 0"],
        listed: &["are dropped"],
        ..PLAIN
    },
    // A program may have changed what it names.
    Case {
        text: "newServer('192.0.2.1')\nlocal bad = newNMG()\nfor line in io.lines('/bad') do bad:addMask(line) end\n\
               addAction(NetmaskGroupRule(bad), DropAction())\n",
        decisive: &["NetmaskGroupRule(bad)"],
        ..PLAIN
    },
    Case {
        text: "newServer('192.0.2.1')\nx = '10.0.0.0/8'\nif y then x = '0.0.0.0/0' end\nsetACL(x)\n",
        lacks: &["allow = "],
        decisive: &["setACL(x)"],
        ..PLAIN
    },
    Case {
        text: "newServer('192.0.2.1')\ngood = newNMG({'10.9.0.0/16'})\naddAction(NotRule(NetmaskGroupRule(good)), DropAction())\n",
        has: &["allow = [\"10.9.0.0/16\"]"],
        ..PLAIN
    },
    // The last setLocal is in the place of all before.
    Case {
        text: "addLocal('192.0.2.51')\nsetLocal('192.0.2.52:5353')\nsetLocal('192.0.2.53')\naddLocal('192.0.2.54')\n",
        has: &["192.0.2.53", "192.0.2.54"],
        lacks: &["192.0.2.51", "192.0.2.52", "5353"],
        ..PLAIN
    },
    Case {
        text: "newServer({address='192.0.2.1', dohPath='/dns-query'})\n",
        lacks: &["address = \"192.0.2.1:53\"  "],
        decisive: &["HTTP without TLS"],
        ..PLAIN
    },
    Case {
        text: "newServer('192.0.2.1')\naddAction('10.0.0.0/8', PoolAction('nobody'))\n",
        decisive: &["no server of its group"],
        ..PLAIN
    },
    // Pools with the same servers, one of them that of all names.
    Case {
        text: "newServer({address='192.0.2.7', pool='a'})\nnewServer({address='192.0.2.7', pool='b'})\nnewServer('192.0.2.7')\n\
               addAction('a.example', PoolAction('a'))\naddAction('b.example', PoolAction('b'))\n",
        has: &["zone = \"b.example\"\ngroup = \"a\"", "zone = \".\"\ngroup = \"a\""],
        lacks: &["192.0.2.1:53"],
        ..PLAIN
    },
];

pub(crate) fn hold(cases: &[Case], format: ServerKind) {
    for Case { text, has, lacks, decisive, listed } in cases {
        let made = one(text, format);
        Config::from_toml(&made.toml).unwrap();
        let tables = made.toml.split("\n# Not taken over").next().unwrap();
        let tables = tables.split("\n# pmdns needs nothing").next().unwrap();
        for part in *has {
            assert!(tables.contains(part), "{text}\nlacks {part}:\n{}", made.toml);
        }
        for part in *lacks {
            assert!(!tables.contains(part), "{text}\nhas {part}:\n{}", made.toml);
        }
        let is_told = |told: &[String], part: &&&str| told.iter().any(|one| one.contains(**part));
        let untold = decisive.iter().find(|part| !is_told(&made.decisive, part));
        assert_eq!(untold, None, "{text}\n{:?}", made.decisive);
        assert_eq!(decisive.is_empty(), made.decisive.is_empty(), "{text}\n{:?}", made.decisive);
        let untold = listed.iter().find(|part| !is_told(&made.unmapped, part));
        assert_eq!(untold, None, "{text}\n{:?}", made.unmapped);
    }
}

#[test]
fn settings_of_unbound_are_read_as_unbound_reads_them() {
    hold(UNBOUND, ServerKind::Unbound);
}

#[test]
fn settings_of_dnsdist_are_read_as_dnsdist_reads_them() {
    hold(DNSDIST, ServerKind::Dnsdist);
}

#[test]
fn settings_of_named_are_read_as_named_reads_them() {
    hold(NAMED, ServerKind::Named);
}

/// A zone whose names are asked elsewhere.
#[derive(Clone, Debug)]
struct Asked {
    name: &'static str,
    kind: &'static str,
    policy: &'static str,
    /// Its own forwarders; an empty list is one without servers.
    forwarders: Option<Vec<u8>>,
}

fn asked() -> impl Strategy<Value = Asked> {
    let select = prop::sample::select;
    (
        select(
            &["a.example", "1.168.192.in-addr.arpa", "10.in-addr.arpa", "home.arpa", "onion"][..],
        ),
        select(&["forward", "static-stub"][..]),
        select(&["", "forward first;", "forward only;"][..]),
        prop::option::of(prop::collection::vec(10_u8..20, 0..3)),
    )
        .prop_map(|(name, kind, policy, forwarders)| Asked { name, kind, policy, forwarders })
}

/// What options say of whom to ask.
const POLICIES: [&str; 4] =
    ["", "forward only;", "empty-zones-enable no;", "disable-empty-zone \"10.in-addr.arpa\";"];

fn list(servers: &[u8]) -> String {
    servers.iter().map(|server| format!("192.0.2.{server}; ")).collect()
}

proptest! {
    #[test]
    fn whom_named_asks_is_whom_we_ask(
        zone in asked(),
        all in prop::option::of(prop::collection::vec(1_u8..5, 0..3)),
        policy in prop::sample::select(&POLICIES[..]),
    ) {
        let Asked { name, kind, policy: own_policy, forwarders } = &zone;
        let of_all = all.as_ref().map_or(String::new(), |all| format!("forwarders {{ {} }};", list(all)));
        let own = forwarders.as_ref().map_or(String::new(), |own| format!("forwarders {{ {} }};", list(own)));
        let servers = if *kind == "forward" { "" } else { "server-addresses { 192.0.2.77; };" };
        let text = format!(
            "options {{ {policy} {of_all} allow-query {{ any; }}; }};\n\
             zone \"{name}\" {{ type {kind}; {own_policy} {own} {servers} }};\n"
        );
        let made = one(&text, ServerKind::Named);
        let config = Config::from_toml(&made.toml).unwrap();
        let forward = config.forwards.iter().find(|one| one.zone == *name);
        let group = forward.map(|one| &one.group);
        let of_group = config.upstreams.iter().filter(|one| Some(&one.group) == group);
        let found: BTreeSet<String> = of_group.map(|one| one.address.to_string()).collect();

        let all = all.unwrap_or_default();
        let has_forwarders = forwarders.as_ref().is_some_and(|own| !own.is_empty());
        let is_empty_zone = name.ends_with(".arpa")
            && (policy != "forward only;" || all.is_empty())
            && policy != "empty-zones-enable no;"
            && !(policy.starts_with("disable") && *name == "10.in-addr.arpa");
        let expected = match *kind {
            "forward" if is_empty_zone && *own_policy != "forward only;" => Vec::new(),
            _ if has_forwarders => forwarders.clone().unwrap_or_default(),
            "forward" => Vec::new(),
            _ if forwarders.is_none() && !all.is_empty() => Vec::new(),
            _ => vec![77],
        };
        let expected = expected.iter().map(|server| format!("192.0.2.{server}:53")).collect();
        let is_default = group.is_some_and(|group| group == "default");
        prop_assert!(is_default || found == expected, "{text}{}", made.toml);
    }
}
