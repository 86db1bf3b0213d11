//! What other servers have too, in a form of their own: DNS64, and logs of queries.

use std::net::SocketAddr;
use std::path::PathBuf;

use pmdns_config::{Config, DnstapReader, Prefix, RebindingAction};
use pmdns_import::{Import, ServerKind};

use crate::one;

/// What is made of a text, and its configuration.
fn loaded(text: &str, format: ServerKind) -> (Import, Config) {
    let made = one(text, format);
    let config = Config::from_toml(&made.toml).unwrap();
    (made, config)
}

/// Whether a setting is listed with this reason.
fn lists(made: &Import, setting: &str, why: &str) -> bool {
    made.unmapped.iter().any(|one| one.contains(setting) && one.contains(why))
}

fn texts(prefixes: &[Prefix]) -> Vec<String> {
    prefixes.iter().map(ToString::to_string).collect()
}

fn unix(path: &str) -> Option<DnstapReader> {
    Some(DnstapReader::Unix(PathBuf::from(path)))
}

fn tcp(address: &str) -> Option<DnstapReader> {
    Some(DnstapReader::Tcp(address.parse::<SocketAddr>().unwrap()))
}

#[test]
fn the_module_dns64_of_unbound_is_a_prefix() {
    let text = "server:\n module-config: \"dns64 iterator\"\n";
    let (made, config) = loaded(text, ServerKind::Unbound);
    assert_eq!(config.dns64[0].prefix.to_string(), "64:ff9b::/96");
    assert!(!made.toml.contains("counterpart"), "{}", made.toml);

    let more =
        "dns64-prefix: 2001:db8:64::/96\n dns64-synthall: yes\n dns64-ignore-aaaa: a.example\n";
    let (made, config) = loaded(&format!("{text} {more}"), ServerKind::Unbound);
    assert_eq!(config.dns64.len(), 1);
    assert_eq!(config.dns64[0].prefix.to_string(), "2001:db8:64::/96");
    assert_eq!(texts(&config.dns64[0].exclude), ["::/0"]);
    assert!(lists(&made, "dns64-ignore-aaaa", "not names"), "{:?}", made.unmapped);
}

#[test]
fn without_its_module_unbound_makes_no_addresses() {
    let text = "server:\n module-config: \"iterator\"\n dns64-prefix: 64:ff9b::/96\n";
    let (made, config) = loaded(text, ServerKind::Unbound);
    assert!(config.dns64.is_empty());
    assert_eq!(made.unneeded, 1);
}

#[test]
fn dns64_of_named_names_its_clients_by_a_view() {
    let text = "acl six { 2001:db8:6::/48; };\noptions {\n\
                dns64 64:ff9b::/96 { clients { six; }; mapped { !10/8; any; !192.0.2.0/24; }; };\n\
                dns64 2001:db8:64::/96 { clients { six; }; exclude { 2001:db8::/32; }; break-dnssec yes; };\n\
                dns64 2001:db8:65::/96 { clients { ::/0; }; };\n\
                dns64 2001:db8:66::/96 { };\n};\n";
    let (made, config) = loaded(text, ServerKind::Named);
    assert!(!made.toml.contains("counterpart"), "{}", made.toml);
    let [first, second, third, fourth] = &config.dns64[..] else { panic!("{:?}", config.dns64) };
    assert_eq!(texts(&first.exclude_ipv4), ["10.0.0.0/8"]);
    assert_eq!(texts(&second.exclude), ["2001:db8::/32"]);
    let views = [&first.views, &second.views, &third.views, &fourth.views];
    assert_eq!(views, [&["dns64"][..], &["dns64"], &["dns64-2"], &[]]);
    assert_eq!(config.views.len(), 2);
    assert_eq!(texts(&config.views[0].clients), ["2001:db8:6::/48"]);
    assert_eq!(texts(&config.views[1].clients), ["::/0"]);
}

#[test]
fn what_dns64_of_named_says_otherwise_is_listed() {
    let text = "options { dns64 2001:db8::/64 { clients { !192.0.2.1; any; }; mapped { 192.0.2.0/24; };\n\
                exclude { !2001:db8::/32; any; }; suffix ::1; break-dnssec no; }; };\n";
    let (made, config) = loaded(text, ServerKind::Named);
    // All but one client: 32 networks, and those of IPv6.
    assert_eq!(config.dns64[0].views, ["dns64"]);
    assert_eq!(config.views[0].clients.len(), 33);
    assert!(!config.views[0].clients.iter().any(|one| one.contains([192, 0, 2, 1].into())));
    assert_eq!(config.dns64[0].exclude_ipv4.len(), 24);
    assert_eq!(config.dns64[0].exclude.len(), 32);
    for (setting, why) in [("suffix ::1", "RFC 6052"), ("break-dnssec no", "without signatures")] {
        assert!(lists(&made, setting, why), "{setting}: {:?}", made.unmapped);
    }
}

#[test]
fn dns64_of_a_view_of_named_replaces_that_of_the_options() {
    let text = "options { dns64 64:ff9b::/96 { clients { 192.0.2.0/24; }; }; };\n\
                view \"six\" { match-clients { 2001:db8:6::/48; }; dns64 2001:db8:64::/96 { suffix ::; }; };\n";
    let (made, config) = loaded(text, ServerKind::Named);
    assert_eq!(config.dns64.len(), 1);
    assert_eq!(config.dns64[0].views, ["six"]);
    assert!(!lists(&made, "dns64 64:ff9b::/96", ""), "{:?}", made.unmapped);

    let text = format!("{text}view rest {{ match-clients {{ any; }}; }};\n");
    let (made, config) = loaded(&text, ServerKind::Named);
    assert_eq!(config.dns64.len(), 1);
    let why = "write these clients into a `[[view]]`";
    assert!(lists(&made, "dns64 64:ff9b::/96", why), "{:?}", made.unmapped);
}

#[test]
fn a_prefix_without_room_for_an_address_is_listed() {
    let text = "options { dns64 64:ff9b::/100 { }; };\n";
    let (made, config) = loaded(text, ServerKind::Named);
    assert!(config.dns64.is_empty());
    assert!(lists(&made, "dns64 64:ff9b::/100", "no IPv4 address fits"), "{:?}", made.unmapped);
}

#[test]
fn a_dnstap_reader_of_unbound_is_ours() {
    let text = "dnstap:\n dnstap-enable: yes\n dnstap-log-client-response-messages: yes\n \
                dnstap-send-identity: yes\n dnstap-identity: edge\n dnstap-sample-rate: 100\n ";
    let socket = format!("{text}dnstap-socket-path: /run/dnstap.sock\n");
    let (made, config) = loaded(&socket, ServerKind::Unbound);
    assert_eq!(config.query_log.dnstap, unix("/run/dnstap.sock"));
    assert_eq!(config.query_log.dnstap_identity.as_deref(), Some("edge"));
    assert_eq!(config.query_log.sample, 100);
    assert!(!made.unmapped.iter().any(|one| one.contains("dnstap")), "{:?}", made.unmapped);

    let address = format!("{text}dnstap-ip: 2001:db8::1@6000\n dnstap-tls: no\n");
    let (_, config) = loaded(&address, ServerKind::Unbound);
    assert_eq!(config.query_log.dnstap, tcp("[2001:db8::1]:6000"));
}

#[test]
fn a_dnstap_reader_of_unbound_that_differs_is_listed() {
    let text = "dnstap:\n dnstap-enable: yes\n dnstap-ip: 192.0.2.1@6000\n";
    let (made, config) = loaded(text, ServerKind::Unbound);
    assert_eq!(config.query_log.dnstap, None);
    assert!(lists(&made, "dnstap-ip", "answers to clients"), "{:?}", made.unmapped);

    // TLS is the default.
    let text = format!("{text} dnstap-log-client-query-messages: yes\n");
    let (made, config) = loaded(&text, ServerKind::Unbound);
    assert_eq!(config.query_log.dnstap, None);
    assert!(lists(&made, "dnstap-ip", "no TLS"), "{:?}", made.unmapped);
    assert!(made.toml.contains("# dnstap = \"192.0.2.1:6000\"  # a.conf:3\n"), "{}", made.toml);

    let off = "dnstap:\n dnstap-enable: no\n dnstap-socket-path: /run/dnstap.sock\n";
    let (made, config) = loaded(off, ServerKind::Unbound);
    assert_eq!((config.query_log.dnstap, made.unneeded), (None, 2));
}

#[test]
fn a_dnstap_reader_of_named_is_ours() {
    let text = "options { directory \"/run\"; dnstap { client response; resolver query; };\n\
                dnstap-output unix \"dnstap.sock\"; dnstap-identity \"edge\"; };\n";
    let (made, config) = loaded(text, ServerKind::Named);
    assert_eq!(config.query_log.dnstap, unix("/run/dnstap.sock"));
    assert_eq!(config.query_log.dnstap_identity.as_deref(), Some("edge"));
    assert!(lists(&made, "resolver query", "answers to clients"), "{:?}", made.unmapped);

    let text = "options { dnstap { all; }; dnstap-output file \"/var/log/tap\"; };\n";
    let (made, config) = loaded(text, ServerKind::Named);
    assert_eq!(config.query_log.dnstap, None);
    assert!(lists(&made, "dnstap-output", "not a file"), "{:?}", made.unmapped);
}

#[test]
fn a_dnstap_reader_of_dnsdist_is_ours() {
    let text = "tap = newFrameStreamUnixLogger('/run/dnstap.sock')\n\
                addResponseAction(AllRule(), DnstapLogResponseAction('edge', tap))\n";
    let (made, config) = loaded(text, ServerKind::Dnsdist);
    assert_eq!(config.query_log.dnstap, unix("/run/dnstap.sock"));
    assert_eq!(config.query_log.dnstap_identity.as_deref(), Some("edge"));
    assert!(!made.unmapped.iter().any(|one| one.contains("tap")), "{:?}", made.unmapped);

    let text =
        "addAction(AllRule(), DnstapLogAction('', newFrameStreamTcpLogger('192.0.2.1:6000')))\n";
    let (made, config) = loaded(text, ServerKind::Dnsdist);
    assert_eq!(config.query_log.dnstap, tcp("192.0.2.1:6000"));
    assert!(lists(&made, "DnstapLogAction", "CLIENT_RESPONSE"), "{:?}", made.unmapped);

    let text =
        "addAction('a.example', DnstapLogAction('', newFrameStreamUnixLogger('/run/tap')))\n";
    let (made, config) = loaded(text, ServerKind::Dnsdist);
    assert_eq!(config.query_log.dnstap, None);
    assert!(lists(&made, "DnstapLogAction", "all clients"), "{:?}", made.unmapped);
    assert!(made.toml.contains("# dnstap = \"/run/tap\"  # a.conf:1\n"), "{}", made.toml);
}

#[test]
fn a_log_of_text_proposes_one_of_json_lines() {
    let unbound = "server:\n directory: /var/log\n logfile: unbound.log\n log-queries: yes\n";
    let named = "options { directory \"/var/log\"; };\nlogging {\n channel q {\n file \"unbound.log\"; };\n \
                 category queries { q; };\n};\n";
    let dnsdist = "\n\naddAction(AllRule(), LogAction('/var/log/unbound.log'))\n";
    for (text, format, line) in [
        (unbound, ServerKind::Unbound, 3),
        (named, ServerKind::Named, 4),
        (dnsdist, ServerKind::Dnsdist, 3),
    ] {
        let (made, config) = loaded(text, format);
        assert!(!config.query_log.is_on());
        let proposed =
            format!("[query_log]\n# json = \"/var/log/unbound.json\"  # a.conf:{line}\n");
        assert!(made.toml.contains(&proposed), "{}", made.toml);
        assert!(lists(&made, "", "`[query_log]` is the log"), "{:?}", made.unmapped);
        // Without the comment it is the setting.
        let config = Config::from_toml(&made.toml.replace("# json", "json")).unwrap();
        assert_eq!(config.query_log.json, Some(PathBuf::from("/var/log/unbound.json")));
    }
}

#[test]
fn a_log_without_queries_needs_nothing() {
    for (text, format) in [
        ("server:\n logfile: /var/log/unbound.log\n log-queries: no\n", ServerKind::Unbound),
        (
            "logging { category queries { null; }; };\noptions { querylog no; };\n",
            ServerKind::Named,
        ),
    ] {
        let (made, _) = loaded(text, format);
        assert!(!made.toml.contains("query_log"), "{}", made.toml);
        assert_eq!(made.unneeded, 2);
    }
}

#[test]
fn details_of_servers_and_pointers_are_taken_over() {
    let text = "server:\n outgoing-interface: 192.0.2.9\n use-caps-for-id: no\n local-data-ptr: \"192.0.2.7 300 host.example\"\n\
                forward-zone:\n name: .\n forward-tls-upstream: yes\n forward-addr: 198.51.100.1@8853#dns.example\n\
                forward-addr: 198.51.100.2\nforward-zone:\n name: a.example\n forward-tls-upstream: yes\n \
                forward-host: dns.example@8853#other.example\nrpz:\n name: r.example\n zonefile: r.zone\n";
    let (made, config) = loaded(text, ServerKind::Unbound);
    assert_eq!(config.local[0].record.ttl, 300);
    // No resolver is known that knows the address of the third.
    let [first, second] = &config.upstreams[..] else { panic!("{:?}", config.upstreams) };
    let is_refused = |one: &String| one.contains("dns.example@8853") && one.contains("bootstrap");
    assert!(made.decisive.iter().any(is_refused), "{:?}", made.decisive);
    assert_eq!(first.address.to_string(), "tls://198.51.100.1:8853");
    assert!(made.toml.contains("name = \"dns.example\""));
    assert_eq!(first.source, Some([192, 0, 2, 9].into()));
    assert!(!first.mix_case && !second.mix_case);
    assert!(lists(&made, "198.51.100.2", "does not check the certificate"), "{:?}", made.unmapped);
    assert_eq!(config.rpz[0].file, PathBuf::from("/etc/unbound/r.zone"));
    assert!(lists(&made, "r.zone", "no `directory`"), "{:?}", made.unmapped);
}

#[test]
fn zones_whose_names_are_alike_have_groups_of_their_own() {
    let text = "forward-zone:\n name: a.example\n forward-addr: 192.0.2.1\n\
                forward-zone:\n name: a-example\n forward-addr: 192.0.2.2\n";
    let (_, config) = loaded(text, ServerKind::Unbound);
    assert_eq!(config.forwards.len(), 2);
    assert_ne!(config.forwards[0].group, config.forwards[1].group);
}

#[test]
fn a_server_of_two_zones_is_said_to_be_in_one_group() {
    let text = "forward-zone:\n name: .\n forward-addr: 192.0.2.1\n forward-addr: 192.0.2.2\n\
                forward-zone:\n name: a.example\n forward-addr: 192.0.2.2\n";
    let (made, _) = loaded(text, ServerKind::Unbound);
    assert!(made.decisive.iter().any(|one| one.contains("in one group")), "{:?}", made.unmapped);
}

#[test]
fn networks_of_clients_are_sent_with_the_module_alone() {
    let text = "send-client-subnet: 192.0.2.1\n send-client-subnet: 192.0.2.2\nforward-zone:\n name: .\n forward-addr: 192.0.2.1\n";
    let (_, config) = loaded(&format!("server:\n {text}"), ServerKind::Unbound);
    assert!(!config.upstreams[0].client_subnet);
    let with = format!("server:\n module-config: \"subnetcache iterator\"\n {text}");
    let (made, config) = loaded(&with, ServerKind::Unbound);
    assert!(config.upstreams[0].client_subnet);
    assert!(lists(&made, "send-client-subnet: 192.0.2.2", "no upstream"), "{:?}", made.unmapped);
}

#[test]
fn an_anchor_of_the_root_validates() {
    let root = "server:\n trust-anchor: \". DS 20326 8 2 E06D44B8\"\n";
    assert!(loaded(root, ServerKind::Unbound).1.dnssec.validate);
    let other = "server:\n trust-anchor: \"corp.example DS 1 8 2 E06D44B8\"\n";
    let (made, config) = loaded(other, ServerKind::Unbound);
    assert!(!config.dnssec.validate && lists(&made, "corp.example", "dnssec.trust_anchor"));
}

#[test]
fn each_server_of_named_has_its_own_port_key_and_name() {
    let text = "tls quad9 { remote-hostname \"dns.example\"; ca-file \"/ca.pem\"; };\n\
                tls local { cert-file \"/c.pem\"; key-file \"/k.pem\"; };\n\
                http local { endpoints { \"/dns-query\"; \"/second\"; }; };\n\
                key k { algorithm hmac-sha256; secret \"c2VjcmV0c2VjcmV0c2VjcmV0\"; };\n\
                options { forwarders { 192.0.2.1 port 8853 tls quad9; 192.0.2.2; }; forward only;\n\
                response-policy { zone r.example; };\n\
                listen-on port 443 tls local http local { 192.0.2.53; }; };\n\
                zone r.example { type secondary; file \"/r\";\n\
                primaries port 5353 { 192.0.2.3 key k; 192.0.2.4 key k; 192.0.2.5; }; };\n";
    let (made, config) = loaded(text, ServerKind::Named);
    assert_eq!(config.upstreams[0].address.to_string(), "tls://192.0.2.1:8853");
    assert!(
        made.toml.contains("name = \"dns.example\"") && made.toml.contains("ca_file = \"/ca.pem\"")
    );
    assert_eq!(config.upstreams[1].address.to_string(), "192.0.2.2:53");
    let primaries: Vec<String> = config.rpz[0].primaries.iter().map(ToString::to_string).collect();
    assert_eq!(primaries, ["192.0.2.3:5353", "192.0.2.4:5353"]);
    assert!(made.decisive.iter().any(|one| one.contains("192.0.2.5")), "{:?}", made.decisive);
    assert!(lists(&made, "/second", "one `streams.https_path`"), "{:?}", made.unmapped);
}

#[test]
fn arguments_of_calls_are_taken_over_or_listed() {
    let text = "newServer('192.0.2.1', 100)\nnewServer({address='192.0.2.2', weight=2, qps=7})\n\
                newPacketCache(1000, 60, 5, 1, 30)\n\
                addDOHLocal('192.0.2.53', '/c', '/k', {'/dns-query', '/b'}, {customResponseHeaders={}})\n";
    let (made, config) = loaded(text, ServerKind::Dnsdist);
    assert_eq!((config.cache.max_ttl, config.cache.min_ttl, config.cache.stale_ttl), (60, 5, 30));
    assert!(made.toml.contains("strategy = \"fastest\""), "{}", made.toml);
    for (setting, why) in [
        ("192.0.2.1", "`100`"),
        ("qps=7", "`qps`"),
        ("weight=2", "`round_robin`"),
        ("newPacketCache", "`1`"),
        ("addDOHLocal", "one `streams.https_path`"),
        ("addDOHLocal", "`customResponseHeaders`"),
    ] {
        assert!(lists(&made, setting, why), "{setting}: {:?}", made.unmapped);
    }
}

#[test]
fn private_addresses_of_unbound_are_a_table() {
    let text = "server:\n private-address: 10.1.2.3/8\n private-address: fd00::/8\n private-address: 192.0.2.1\n \
                private-domain: corp.example\nserver:\n private-address: ::ffff:0:0/96\n private-domain: home.example\n";
    let (made, config) = loaded(text, ServerKind::Unbound);
    let [table] = &config.rebindings[..] else { panic!("{:?}", config.rebindings) };
    let addresses = ["10.0.0.0/8", "fd00::/8", "192.0.2.1/32", "::ffff:0.0.0.0/96"];
    assert_eq!(texts(&table.addresses), addresses);
    assert_eq!(table.except, ["corp.example", "home.example"]);
    assert_eq!((table.action, table.views.len()), (RebindingAction::Remove, 0));
    assert!(made.decisive.is_empty(), "{:?}", made.decisive);
    assert!(lists(&made, "private-domain: corp.example", "an alias"), "{:?}", made.unmapped);

    // Without addresses the names have no effect; what cannot be read refuses the import.
    let text = "server:\n private-domain: corp.example\n";
    let (made, config) = loaded(text, ServerKind::Unbound);
    assert_eq!((config.rebindings.len(), made.unneeded), (0, 1));
    let text = "server:\n private-address: home\n private-address: 10.0.0.0/8\n private-domain: *.corp.example\n";
    let (made, config) = loaded(text, ServerKind::Unbound);
    assert_eq!(
        (texts(&config.rebindings[0].addresses), made.decisive.len()),
        (vec!["10.0.0.0/8".to_owned()], 2)
    );
    let many: String =
        (0..300).map(|n| format!(" private-address: 192.0.{}.{}\n", n / 256, n % 256)).collect();
    let (made, config) = loaded(&format!("server:\n{many}"), ServerKind::Unbound);
    assert_eq!((config.rebindings[0].addresses.len(), made.decisive.len()), (256, 44));
}

#[test]
fn names_of_upstreams_are_looked_up_where_unbound_does() {
    let zone = |name: &str, more: &str| format!("forward-zone:\n name: {name}\n {more}\n");
    let tls = "forward-tls-upstream: yes\n forward-host: dns.example@853#dns.example";
    let made = |zones: &[String]| loaded(&zones.concat(), ServerKind::Unbound);

    let plain = zone("example", "forward-addr: 192.0.2.7\n forward-addr: 192.0.2.8@5353");
    let (made_of_both, config) = made(&[zone(".", tls), plain.clone()]);
    assert!(made_of_both.decisive.is_empty(), "{:?}", made_of_both.decisive);
    let bootstrap: Vec<String> =
        config.slowpath.bootstrap.iter().map(ToString::to_string).collect();
    assert_eq!(bootstrap, ["192.0.2.7:53", "192.0.2.8:5353"]);
    assert_eq!(config.upstreams[0].address.to_string(), "tls://dns.example");

    // The zone itself, one behind TLS, one with a name, servers of the zone alone, or another name's.
    let stub = "stub-zone:\n name: example\n stub-addr: 192.0.2.7\n".to_owned();
    for zones in [
        vec![zone(".", tls)],
        vec![
            zone(".", tls),
            zone("example", "forward-tls-upstream: yes\n forward-addr: 192.0.2.7"),
        ],
        vec![zone(".", tls), zone("example", "forward-host: a.test\n forward-addr: 192.0.2.7")],
        vec![zone(".", tls), stub],
        vec![
            zone(".", tls),
            zone("xample", "forward-addr: 192.0.2.7"),
            zone("www.dns.example", "forward-addr: 192.0.2.8"),
        ],
    ] {
        let (made, config) = made(&zones);
        assert!(config.slowpath.bootstrap.is_empty(), "{}", made.toml);
        assert!(made.decisive.iter().any(|one| one.contains("bootstrap")), "{:?}", made.decisive);
    }

    // Names of two zones have two sets of resolvers.
    let other = zone("test", "forward-tls-upstream: yes\n forward-host: dns.other");
    let (made, config) =
        made(&[zone(".", tls), plain, other, zone("other", "forward-addr: 192.0.2.9")]);
    assert_eq!(config.slowpath.bootstrap.len(), 2);
    assert!(
        made.decisive.iter().any(|one| one.contains("dns.other") && one.contains("others")),
        "{:?}",
        made.decisive
    );
    assert!(!made.toml.contains("tls://dns.other"));
}

#[test]
fn names_that_named_does_not_tell_are_not_told_here_either() {
    let of = |line: &str| {
        let text = format!("options {{ forwarders {{ 192.0.2.1; }}; forward only; {line} }};");
        one(&text, ServerKind::Named)
    };
    for line in ["version none;", "version \"none\";", "server-id none;", "hostname none;"] {
        let made = of(line);
        assert_eq!((made.decisive.len(), made.unneeded), (0, 1), "{line}: {}", made.toml);
        assert_eq!(Config::from_toml(&made.toml).unwrap().answers.version, None, "{line}");
    }
    for name in ["mine", "hostname"] {
        let made = of(&format!("version \"{name}\";"));
        assert_eq!(Config::from_toml(&made.toml).unwrap().answers.version.as_deref(), Some(name));
    }
    let made = of("server-id hostname;");
    assert!(made.decisive.is_empty() && made.toml.contains("answers.identity"), "{}", made.toml);
    let made = of("check-names response fail;");
    assert!(made.decisive.is_empty() && made.toml.contains("are relayed"), "{}", made.toml);
}

#[test]
fn a_program_that_may_decide_refuses_the_import() {
    for (line, is_decisive) in [
        ("for _, n in ipairs({'10.0.0.0/8'}) do addACL(n) end", true),
        ("for _, n in ipairs(blocked) do addDomainBlock(n) end", true),
        ("function blockFilter(dq) return true end", true),
        ("setServerPolicyLua('mine', function(servers, dq) return servers[1] end)", true),
        ("function maintenance() count = 1 end", false),
    ] {
        let made = one(&format!("newServer('192.0.2.1')\n{line}\n"), ServerKind::Dnsdist);
        assert_eq!(!made.decisive.is_empty(), is_decisive, "{line}");
    }
}
