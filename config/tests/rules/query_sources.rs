//! The rules of upstreams that are asked over a port: query sources, gateways, and which upstream leaves by which port.

use pmdns_config::Config;

use crate::{LAWFUL, line_of, refuses_change, refuses_text};

const SOURCES: &str = "query_sources = [\"192.0.2.60\", \"2001:db8::60\"]";
const GATEWAYS: &str = "gateways = [\"192.0.2.1\", \"fe80::1\"]";
const FIRST: &str = "address = \"203.0.113.1:53\"\nport = \"up\"";
const SECOND: &str = "address = \"[2001:db8:1::1]:53\"\nport = \"up\"";

/// The lawful text, with both upstreams asked over the first port.
fn over_a_port() -> String {
    let port = format!("name = \"up\"\n{SOURCES}\n{GATEWAYS}\n");
    let text = LAWFUL.replacen("name = \"up\"\n", &port, 1);
    let text = text.replacen("address = \"203.0.113.1:53\"", FIRST, 1);
    text.replacen("address = \"[2001:db8:1::1]:53\"", SECOND, 1)
}

#[track_caller]
fn refuses(from: &str, to: &str, key: &str, parts: &[&str]) {
    refuses_change(&over_a_port(), from, to, key, parts);
}

#[track_caller]
fn accepts(from: &str, to: &str) {
    let text = over_a_port();
    assert!(text.contains(from), "`{from}` is in the text");
    if let Err(error) = Config::from_toml(&text.replacen(from, to, 1)) {
        panic!("`{to}` is lawful, but: {error}");
    }
}

/// `count` quoted addresses from 192.0.2.`first` on, with a comma behind each.
fn addresses(first: usize, count: usize) -> String {
    (first..first + count).map(|last| format!("\"192.0.2.{last}\",")).collect()
}

#[test]
fn upstreams_are_asked_over_the_port_that_they_name() {
    let config = Config::from_toml(&over_a_port()).unwrap();
    let ports: Vec<_> = config.upstreams.iter().map(|one| config.upstream_port(one)).collect();
    assert_eq!(ports, [Some(0), Some(0)]);
    let config = Config::from_toml(LAWFUL).unwrap();
    assert_eq!(config.upstream_port(&config.upstreams[0]), None, "by the kernel's sockets");
    assert_eq!(config.ports[0].query_sources.len() + config.ports[0].gateways.len(), 0);
}

#[test]
fn a_port_that_upstreams_name_exists() {
    let key = "upstream[0].port";
    let parts =
        ["is `upp`, but there is no [[port]] of that name; did you mean `up`? allowed: up, down"];
    refuses(FIRST, &FIRST.replace("\"up\"", "\"upp\""), key, &parts);
    let parts = ["is ``, but there is no [[port]]"];
    refuses(FIRST, &FIRST.replace("\"up\"", "\"\""), key, &parts);
}

#[test]
fn a_port_has_a_query_source_of_the_upstream_s_family() {
    let parts =
        ["is `up`, but `port[0].query_sources` has no IPv6 address to ask 2001:db8:1::1 from"];
    let without = over_a_port().replace(", \"2001:db8::60\"]", "]");
    let start = format!("line {}: `upstream[1].port` ", line_of(&without, SECOND) + 1);
    refuses_text(&without, &start, &parts);
    let parts =
        ["is `down`, but `port[1].query_sources` has no IPv4 address to ask 203.0.113.1 from"];
    refuses(FIRST, &FIRST.replace("\"up\"", "\"down\""), "upstream[0].port", &parts);
}

#[test]
fn only_queries_over_udp_leave_by_a_port() {
    let text = over_a_port().replace("\"203.0.113.1:53\"", "\"tls://203.0.113.1\"");
    let line = line_of(&text, "\"tls://") + 1;
    let parts = ["asked over UDP only, as in address = \"192.0.2.53:53\"; leave it out"];
    refuses_text(&text, &format!("line {line}: `upstream[0].port` goes with "), &parts);
    let with_source = format!("{FIRST}\nsource = \"192.0.2.60\"");
    let parts = ["goes with the kernel's sockets, not with `port`; leave out one"];
    let text = over_a_port().replace(FIRST, &with_source);
    let line = line_of(&text, "source = \"192.0.2.60\"");
    refuses_text(&text, &format!("line {line}: `upstream[0].source` "), &parts);
}

#[test]
fn an_upstream_is_on_the_link_or_behind_a_gateway_of_its_family() {
    let key = "upstream[0].address";
    let parts = [
        "is 203.0.113.1, outside the networks of `port[0].addresses`, and `port[0].gateways` has no IPv4 address; write a router",
    ];
    let text = over_a_port().replace("\"192.0.2.1\", \"fe80::1\"", "\"fe80::1\"");
    let start = format!("line {}: `{key}` ", line_of(&text, FIRST));
    refuses_text(&text, &start, &parts);
    let on_link = text.replace("203.0.113.1:53", "192.0.2.1:53");
    let read = Config::from_toml(&on_link.replace("\"fe80::1\"", "\"2001:db8::1\""));
    assert!(read.is_ok(), "an upstream on the link needs no gateway: {read:?}");
    accepts("[2001:db8:1::1]:53", "[fe80::53]:53");
    for address in ["127.0.0.1", "[::ffff:203.0.113.1]"] {
        let port = FIRST.replace("203.0.113.1", address);
        refuses(FIRST, &port, key, &["no packet between networks has"]);
    }
}

#[test]
fn nobody_answers_at_a_query_source() {
    let key = "upstream[0].address";
    let parts = ["is our own `port[0].query_sources[0]`, where nothing answers"];
    refuses(FIRST, &FIRST.replace("203.0.113.1", "192.0.2.60"), key, &parts);
    let by_socket = "address = \"[::ffff:192.0.2.60]:5353\"";
    refuses(FIRST, by_socket, key, &parts);
    refuses(FIRST, "address = \"tls://192.0.2.60\"", key, &parts);
}

#[test]
fn a_query_source_is_used_for_nothing_else() {
    let (first, second) = ("port[0].query_sources[0]", "port[0].query_sources[1]");
    let parts = ["is 192.0.2.53, as is `port[0].addresses[0]` already", "nothing else"];
    refuses("\"192.0.2.60\"", "\"192.0.2.53\"", first, &parts);
    let parts = ["is 198.51.100.53, as is `port[1].addresses[0]` already"];
    refuses("\"192.0.2.60\"", "\"198.51.100.53\"", first, &parts);
    let parts = ["is 192.0.2.60, as is `port[0].query_sources[0]` already"];
    refuses("\"2001:db8::60\"", "\"192.0.2.60\"", second, &parts);
    let down = "name = \"down\"\n";
    let twice = format!("{down}query_sources = [\"192.0.2.60\"]\n");
    let text = over_a_port().replace(down, &twice);
    let line = line_of(&text, &twice) + 1;
    refuses_text(&text, &format!("line {line}: `port[1].query_sources[0]` "), &parts);
}

#[test]
fn replies_find_the_way_to_a_query_source() {
    let key = "port[0].query_sources[0]";
    for address in ["0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "ff02::1"] {
        let to = format!("\"{address}\"");
        refuses("\"192.0.2.60\"", &to, key, &["write a unicast address"]);
    }
    for address in ["127.0.0.2", "169.254.0.1", "::1", "fe80::60", "::ffff:192.0.2.60"] {
        let to = format!("\"{address}\"");
        refuses("\"192.0.2.60\"", &to, key, &["no packet between networks has"]);
    }
    // Outside the port's networks it takes a router that knows the way.
    accepts("\"192.0.2.60\"", "\"198.51.100.60\"");
    let text = over_a_port().replace(GATEWAYS, "gateways = [\"fe80::1\"]");
    let text = text.replace("\"192.0.2.60\"", "\"198.51.100.60\"");
    let start = format!("line {}: `{key}` is 198.51.100.60, outside", line_of(&text, SOURCES_KEY));
    refuses_text(&text, &start, &["`port[0].gateways` has no IPv4 address"]);
}

const SOURCES_KEY: &str = "query_sources = ";

#[test]
fn a_gateway_is_another_machine_on_the_link() {
    let key = "port[0].gateways[0]";
    let with = |address: &str| format!("\"{address}\"");
    let from = "\"192.0.2.1\"";
    for address in ["0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "ff02::2"] {
        refuses(from, &with(address), key, &["write a unicast address"]);
    }
    for address in ["127.0.0.1", "::1", "::ffff:192.0.2.1"] {
        refuses(from, &with(address), key, &["no packet between networks has"]);
    }
    let parts =
        ["is 192.0.2.53, as is `port[0].addresses[0]` already; a gateway is another machine"];
    refuses(from, &with("192.0.2.53"), key, &parts);
    let parts = ["is 198.51.100.53, as is `port[1].addresses[0]` already"];
    refuses(from, &with("198.51.100.53"), key, &parts);
    let parts = ["is 192.0.2.60, as is `port[0].query_sources[0]` already"];
    refuses(from, &with("192.0.2.60"), key, &parts);
    for far in ["198.51.100.1", "2001:db8:0:1::1"] {
        let parts = ["outside the networks of `port[0].addresses`; write a router on the link"];
        refuses(from, &with(far), key, &parts);
    }
    let parts = ["is 192.0.2.1, as is `port[0].gateways[0]` already; remove one"];
    refuses("\"fe80::1\"", from, "port[0].gateways[1]", &parts);
    accepts("\"fe80::1\"", "\"2001:db8::1\", \"192.0.2.2\"");
}

#[test]
fn query_sources_and_gateways_are_not_too_many() {
    let sources = |count| format!("query_sources = [\"2001:db8::60\", {}]", addresses(100, count));
    let parts = ["has 17 query sources; allowed: at most 16"];
    refuses(SOURCES, &sources(16), "port[0].query_sources", &parts);
    accepts(SOURCES, &sources(15));
    let gateways = |count| format!("gateways = [\"fe80::1\", {}]", addresses(1, count));
    let parts = ["has 9 gateways; allowed: at most 8"];
    refuses(GATEWAYS, &gateways(8), "port[0].gateways", &parts);
    accepts(GATEWAYS, &gateways(7));
    let port = |n: usize| {
        let sources: String = (1..=16).map(|last| format!("\"10.97.{n}.{last}\",")).collect();
        format!(
            "[[port]]\nname = \"p{n}\"\ndevice = \"net_tap{n}\"\naddresses = [\"10.97.{n}.53/24\"]\n\
             query_sources = [{sources}]\n"
        )
    };
    let upstream = "[[upstream]]\naddress = \"203.0.113.1:53\"\n";
    let four: String = (0..4).map(port).collect();
    assert!(Config::from_toml(&format!("{four}{upstream}")).is_ok());
    let text = format!("{four}{}{upstream}", port(4));
    let parts = ["has 80 query sources in all ports; allowed: at most 64"];
    refuses_text(&text, "line 1: `port` ", &parts);
}
