//! Every rule beyond types: the line, the key and the way out that an operator is told.

use pmdns_config::{Config, ConfigError};

/// A configuration that keeps every rule; each test breaks one by a replacement.
const LAWFUL: &str = r#"
[eal]
args = ["--no-huge"]

[[port]]
name = "up"
device = "net_tap0,iface=pm0"
addresses = ["192.0.2.53/24", "2001:db8::53/64"]

[[port]]
name = "down"
device = "net_tap1,iface=pm1"
addresses = ["198.51.100.53/24"]

[[placement]]
stages = "parse..policy"
cores = [1]

[[placement]]
stages = "lookup..encode"
cores = [2]

[frames]
batch = 32
ring = 1024

[cache]
size = "64MiB"
min_ttl = 0
max_ttl = 86400

[slowpath]
threads = 1
deadline_ms = 3000

[[upstream]]
address = "203.0.113.1:53"
timeout_ms = 800

[[upstream]]
address = "[2001:db8:1::1]:53"
timeout_ms = 800

[acl]
allow = ["192.0.2.0/24", "2001:db8::/32"]
refuse = ["198.51.100.0/24"]
drop = []

[ratelimit]
queries_per_second = 100
burst = 500

[[local]]
name = "a.example"
type = "A"
ttl = 60
data = "192.0.2.1"

[[local]]
name = "a.example"
type = "A"
ttl = 60
data = "192.0.2.2"

[block]
names = ["ads.example", "x.example"]

[control]
socket = "/run/pmdns.sock"
"#;

/// The line that `needle` stands on, from 1.
fn line_of(text: &str, needle: &str) -> usize {
    let offset = text.find(needle).unwrap_or_else(|| panic!("`{needle}` is in the text"));
    text[..offset].matches('\n').count() + 1
}

/// Replaces `from` by `to` in the lawful text and expects the error to begin with the line of `to`'s
/// first word `at` and the key, and to contain every one of `parts`.
#[track_caller]
fn refuses(from: &str, to: &str, key: &str, parts: &[&str]) {
    assert!(LAWFUL.contains(from), "`{from}` is in the lawful text");
    let text = LAWFUL.replacen(from, to, 1);
    // The key that is wrong stands where the texts first differ, or on the line after.
    let differs = LAWFUL.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
    let line = text[..differs].matches('\n').count() + 1;
    refuses_text(&text, &format!("line {line}: `{key}` "), parts);
}

#[track_caller]
fn refuses_text(text: &str, start: &str, parts: &[&str]) {
    let error = Config::from_toml(text).expect_err("the rule is broken");
    assert!(matches!(error, ConfigError::Unlawful { .. }), "{error:?}");
    let error = error.to_string();
    assert!(error.starts_with(start), "expected `{start}` first in: {error}");
    for part in parts {
        assert!(error.contains(part), "expected `{part}` in: {error}");
    }
}

#[track_caller]
fn accepts(from: &str, to: &str) {
    assert!(LAWFUL.contains(from), "`{from}` is in the lawful text");
    let text = LAWFUL.replacen(from, to, 1);
    if let Err(error) = Config::from_toml(&text) {
        panic!("`{to}` is lawful, but: {error}");
    }
}

/// Puts `line` behind the header of the first table `header` of the lawful text.
#[track_caller]
fn refuses_in(header: &str, line: &str, key: &str, parts: &[&str]) {
    let header = format!("{header}\n");
    refuses(&header, &format!("{header}{line}\n"), key, parts);
}

#[test]
fn the_lawful_text_is_lawful() {
    let config = Config::from_toml(LAWFUL).unwrap();
    assert_eq!(config.ports.len(), 2);
    assert_eq!(config.placements_or_default(9).len(), 2);
    let names = config.block.wire_names().unwrap();
    assert_eq!(*names[0], b"\x03ads\x07example\x00"[..]);
}

#[test]
fn arguments_of_dpdk() {
    refuses(r#"["--no-huge"]"#, r#"["--no-huge", "--in-memory"]"#, "eal.args", &["--no-shconf"]);
    refuses(r#"["--no-huge"]"#, r#"["", "-m"]"#, "eal.args[0]", &["is empty"]);
    refuses(r#"["--no-huge"]"#, r#"["\u0000"]"#, "eal.args[0]", &["zero byte"]);
    accepts(r#"["--no-huge"]"#, r#"["--in-memory"]"#);
}

#[test]
fn ports_are_there_and_not_too_many() {
    refuses_text("[frames]\n", "`port` is missing: add a [[port]] table with name,", &[]);
    let mut text = String::new();
    for n in 0..17 {
        text += &format!(
            "[[port]]\nname = \"p{n}\"\ndevice = \"net_tap{n}\"\naddresses = [\"192.0.2.{n}\"]\n"
        );
    }
    text += "[[upstream]]\naddress = \"203.0.113.1:53\"\n";
    let text = text.replace("\"192.0.2.0\"", "\"192.0.2.99\"");
    refuses_text(&text, "line 1: `port` has 17 ports; allowed: at most 16", &[]);
    let sixteen = text.replace("[[port]]\nname = \"p16\"\ndevice = \"net_tap16\"\n", "");
    let sixteen = sixteen.replace("addresses = [\"192.0.2.16\"]\n", "");
    assert!(Config::from_toml(&sixteen).is_ok());
}

#[test]
fn names_of_ports() {
    let long = "a".repeat(33);
    for name in ["", "a b", "ü", "a/b", &long] {
        let to = format!("name = \"{name}\"");
        refuses("name = \"up\"", &to, "port[0].name", &["allowed: 1 to 32 ASCII letters"]);
    }
    accepts("name = \"up\"", &format!("name = \"{}\"", "a-B_3".repeat(6)));
    refuses(
        "name = \"down\"",
        "name = \"up\"",
        "port[1].name",
        &["`port[0].name`", "its own name"],
    );
}

#[test]
fn devices_of_ports() {
    let from = "\"net_tap0,iface=pm0\"";
    refuses(from, "\" \"", "port[0].device", &["is empty", "0000:01:00.0"]);
    refuses(from, "\"a\\u0000\"", "port[0].device", &["zero byte"]);
    let key = "port[1].device";
    refuses("net_tap1,", "net_tap0,", key, &["is `net_tap0`, as is `port[0].device`", "net_tap1"]);
    let replay = LAWFUL.replace("net_tap0,iface=pm0", "replay");
    assert!(Config::from_toml(&replay.replace("net_tap1,iface=pm1", "replay")).is_ok());
}

#[test]
fn addresses_of_ports() {
    let from = "[\"198.51.100.53/24\"]";
    refuses(from, "[]", "port[1].addresses", &["is empty", "at least one address of ours"]);
    let key = "port[1].addresses[0]";
    refuses(from, "[\"2001:db8::53/48\"]", key, &["`port[0].addresses[1]`", "remove one"]);
    for address in ["0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "ff02::1"] {
        refuses(from, &format!("[\"{address}\"]"), key, &["write a unicast address"]);
    }
    let many = |n: u8| format!("{:?}", (1..=n).map(|n| format!("10.97.0.{n}")).collect::<Vec<_>>());
    refuses(from, &many(17), "port[1].addresses", &["has 17 addresses; allowed: at most 16"]);
    accepts(from, &many(16));
}

#[test]
fn numbers_of_ports() {
    for key in ["rx_descriptors", "tx_descriptors"] {
        for bad in [63, 32_769] {
            let parts = [&*format!("is {bad}; allowed: 64 to 32768")];
            refuses_in("[[port]]", &format!("{key} = {bad}"), &format!("port[0].{key}"), &parts);
        }
        accepts("[[port]]\n", &format!("[[port]]\n{key} = 64\n"));
        accepts("[[port]]\n", &format!("[[port]]\n{key} = 32768\n"));
    }
    refuses_in("[[port]]", "dns_port = 0", "port[0].dns_port", &["allowed: 1 to 65535"]);
    let parts = ["allowed: 0 to 600000"];
    refuses_in("[[port]]", "link_wait_ms = 600001", "port[0].link_wait_ms", &parts);
}

#[test]
fn placements_man_the_line() {
    let (first, second) = ("placement[0]", "placement[1]");
    let key = |at: &str, name: &str| format!("{at}.{name}");
    refuses("cores = [1]", "cores = []", &key(first, "cores"), &["at least one CPU"]);
    refuses("cores = [2]", "cores = [1]", &key(second, "cores"), &["another core"]);
    refuses("cores = [2]", "cores = [2, 2]", &key(second, "cores"), &["another core"]);
    let stages = "stages = \"lookup..encode\"";
    let parts = ["nobody mans encode", "stages = \"lookup..encode\""];
    refuses(stages, "stages = \"lookup\"", &key(second, "stages"), &parts);
    let parts = ["mans lookup;", "stages = \"lookup..encode\""];
    refuses(stages, "stages = \"encode\"", &key(second, "stages"), &parts);
    let parts = ["mans policy, which placement[0] mans already", "stages = \"lookup..encode\""];
    refuses(stages, "stages = \"policy..encode\"", &key(second, "stages"), &parts);
    let parts = ["list all of them in one placement: cores = [1, 2]"];
    refuses(stages, "stages = \"parse..policy\"", &key(second, "stages"), &parts);
    let turned = LAWFUL.replace("\"lookup..encode\"", "\"parse..policy\"");
    let turned = turned.replacen("\"parse..policy\"", "\"lookup..encode\"", 1);
    let line = line_of(&turned, "stages = \"lookup..encode\"");
    let start =
        format!("line {line}: `placement[0].stages` mans lookup..encode, but stands before");
    refuses_text(&turned, &start, &["in line order"]);
}

#[test]
fn cores_are_cpus_and_not_too_many() {
    refuses("cores = [1]", "cores = [1024]", "placement[0].cores[0]", &["allowed: 0 to 1023"]);
    let cores = |n: usize| format!("cores = {:?}", (3..3 + n).collect::<Vec<_>>());
    let many = LAWFUL.replacen("cores = [1]", &cores(64), 1);
    let start = format!("line {}: `placement` has 65 cores", line_of(&many, "[[placement]]"));
    refuses_text(&many, &start, &["at most 64"]);
    accepts("cores = [1]", &cores(63));
}

#[test]
fn frames_and_rings() {
    refuses("batch = 32", "batch = 0", "frames.batch", &["is 0; allowed: 1 to 64"]);
    refuses("batch = 32", "batch = 65", "frames.batch", &["is 65; allowed: 1 to 64"]);
    accepts("batch = 32", "batch = 64");
    refuses("ring = 1024", "ring = 1000", "frames.ring", &["powers of two, so write 1024"]);
    refuses("ring = 1024", "ring = 32", "frames.ring", &["allowed: 64 to 65536"]);
    refuses("ring = 1024", "ring = 131072", "frames.ring", &["allowed: 64 to 65536"]);
    refuses_in(
        "[frames]",
        "count = 100",
        "frames.count",
        &["allowed: 0 (computed) or 256 to 4194304"],
    );
    refuses_in("[frames]", "count = 4194305", "frames.count", &["allowed: 0 (computed) or 256"]);
    accepts("[frames]\n", "[frames]\ncount = 0\n");
    accepts("[frames]\n", "[frames]\ncount = 256\n");
}

#[test]
fn answers_fit_a_frame() {
    for bad in [511, 1681] {
        let to = format!("[answers]\nmax_udp_size = {bad}\n\n[frames]\n");
        let text = LAWFUL.replacen("[frames]\n", &to, 1);
        let start = format!("line {}: `answers.max_udp_size` ", line_of(&text, "max_udp_size"));
        refuses_text(&text, &start, &[&format!("is {bad}; allowed: 512 to 1680")]);
    }
    accepts("[frames]\n", "[answers]\nmax_udp_size = 512\n[frames]\n");
    accepts("[frames]\n", "[answers]\nmax_udp_size = 1680\n[frames]\n");
}

#[test]
fn the_cache() {
    refuses("size = \"64MiB\"", "size = \"1023KiB\"", "cache.size", &["allowed: 1MiB to 1024GiB"]);
    refuses("size = \"64MiB\"", "size = \"1025GiB\"", "cache.size", &["allowed: 1MiB to 1024GiB"]);
    accepts("size = \"64MiB\"", "size = \"1MiB\"");
    let parts = ["is 86401, more than cache.max_ttl, 86400; lower it"];
    refuses("min_ttl = 0", "min_ttl = 86401", "cache.min_ttl", &parts);
    accepts("min_ttl = 0", "min_ttl = 86400");
    let from = "max_ttl = 86400";
    refuses(from, "max_ttl = 2147483648", "cache.max_ttl", &["allowed: 0 to 2147483647"]);
    accepts(from, "max_ttl = 2147483647");
    let parts = ["allowed: 0 to 2147483647"];
    refuses_in("[cache]", "max_negative_ttl = 2147483648", "cache.max_negative_ttl", &parts);
    refuses_in("[cache]", "numa_node = 1024", "cache.numa_node", &["allowed: 0 to 1023"]);
}

#[test]
fn the_slow_path() {
    for bad in [0, 65] {
        let parts = [&*format!("is {bad}; allowed: 1 to 64")];
        refuses("threads = 1", &format!("threads = {bad}"), "slowpath.threads", &parts);
    }
    for key in ["max_pending", "max_waiting", "max_waiting_per_client"] {
        let parts = ["is 0; allowed: 1 to 16777216"];
        refuses_in("[slowpath]", &format!("{key} = 0"), &format!("slowpath.{key}"), &parts);
    }
    refuses_in("[slowpath]", "ring = 4095", "slowpath.ring", &["so write 4096"]);
    refuses_in("[slowpath]", "cores = [3, 3]", "slowpath.cores[1]", &["name each CPU once"]);
    refuses_in("[slowpath]", "cores = [5000]", "slowpath.cores[0]", &["allowed: 0 to 1023"]);
}

#[test]
fn deadlines_leave_time_for_the_first_upstream() {
    let (from, key) = ("deadline_ms = 3000", "slowpath.deadline_ms");
    refuses(from, "deadline_ms = 0", key, &["is 0; allowed: 1 to 60000"]);
    refuses(from, "deadline_ms = 60001", key, &["allowed: 1 to 60000"]);
    let parts = ["is 799, less than upstream[0].timeout_ms, 800; raise it"];
    refuses(from, "deadline_ms = 799", key, &parts);
    accepts(from, "deadline_ms = 800");
}

#[test]
fn upstreams_are_there_and_not_too_many() {
    let without = LAWFUL.replace("[[upstream]]", "[[gone]]");
    let without: String = without
        .split("\n\n")
        .filter(|table| !table.contains("[[gone]]"))
        .collect::<Vec<_>>()
        .join("\n\n");
    refuses_text(&without, "`upstream` is missing: add an [[upstream]] table", &["192.0.2.53:53"]);
    let many: String =
        (1..=63).map(|n| format!("[[upstream]]\naddress = \"10.97.0.{n}:53\"\n")).collect();
    let start = format!("line {}: `upstream` has 65 resolvers", line_of(LAWFUL, "[[upstream]]"));
    refuses_text(&format!("{LAWFUL}{many}"), &start, &["at most 64"]);
}

#[test]
fn an_upstream_is_somebody_else() {
    let (from, key) = ("\"203.0.113.1:53\"", "upstream[0].address");
    let parts = ["is `port[0].addresses[0]` of ours", "another resolver"];
    refuses(from, "\"192.0.2.53:53\"", key, &parts);
    let parts = ["is `port[0].addresses[1]` of ours"];
    refuses(from, "\"[2001:db8::53]:53\"", key, &parts);
    let parts = ["is `port[1].addresses[0]` of ours"];
    refuses(from, "\"[::ffff:198.51.100.53]:53\"", key, &parts);
    // Our address, but not the port we answer on: that is the kernel's, and somebody may listen.
    accepts(from, "\"192.0.2.53:5353\"");
    refuses(from, "\"203.0.113.1:0\"", key, &["a port other than 0"]);
    refuses(from, "\"0.0.0.0:53\"", key, &["unicast"]);
    let from = "\"[2001:db8:1::1]:53\"";
    let parts = ["as is `upstream[0].address` already; name each resolver once"];
    refuses(from, "\"203.0.113.1:53\"", "upstream[1].address", &parts);
}

#[test]
fn timeouts_and_sources_of_upstreams() {
    let (from, key) = ("timeout_ms = 800", "upstream[0].timeout_ms");
    refuses(from, "timeout_ms = 0", key, &["is 0; allowed: 1 to 60000"]);
    refuses(from, "timeout_ms = 60001", key, &["allowed: 1 to 60000"]);
    let key = "upstream[0].source";
    let parts = ["is 2001:db8::1, but the resolver is 203.0.113.1", "same family"];
    refuses_in("[[upstream]]", "source = \"2001:db8::1\"", key, &parts);
    refuses_in("[[upstream]]", "source = \"0.0.0.0\"", key, &["unicast"]);
    accepts("[[upstream]]\n", "[[upstream]]\nsource = \"192.0.2.1\"\n");
}

#[test]
fn a_prefix_has_one_verdict() {
    let from = "refuse = [\"198.51.100.0/24\"]";
    let parts = ["is 192.0.2.0/24, which `acl.allow[0]` lists with another verdict"];
    refuses(from, "refuse = [\"192.0.2.0/24\"]", "acl.refuse[0]", &parts);
    let parts = ["`acl.refuse[0]` lists", "keep one of the two"];
    refuses("drop = []", "drop = [\"198.51.100.0/24\"]", "acl.drop[0]", &parts);
    accepts(from, "refuse = [\"192.0.2.0/25\", \"192.0.2.0/25\"]");
}

#[test]
fn the_rate_limit() {
    refuses("burst = 500", "burst = 0", "ratelimit.burst", &["queries_per_second = 0"]);
    let off = LAWFUL.replace("queries_per_second = 100", "queries_per_second = 0");
    assert!(Config::from_toml(&off.replace("burst = 500", "burst = 0")).is_ok());
    let header = "[ratelimit]";
    refuses_in(header, "ipv4_prefix = 33", "ratelimit.ipv4_prefix", &["allowed: 1 to 32"]);
    refuses_in(header, "ipv4_prefix = 0", "ratelimit.ipv4_prefix", &["allowed: 1 to 32"]);
    refuses_in(header, "ipv6_prefix = 129", "ratelimit.ipv6_prefix", &["allowed: 1 to 128"]);
    refuses_in(header, "table = 1000", "ratelimit.table", &["so write 1024"]);
    refuses_in(header, "table = 8", "ratelimit.table", &["allowed: 16 to 16777216"]);
}

#[test]
fn local_records_go_together() {
    let cname = "type = \"CNAME\"\nttl = 60\ndata = \"b.example\"";
    let second = "[[local]]\nname = \"a.example\"\ntype = \"A\"\nttl = 60\ndata = \"192.0.2.2\"";
    let with = |record: &str| LAWFUL.replacen(second, record, 1);
    let line = line_of(LAWFUL, second);

    let text = with(&format!("[[local]]\nname = \"A.Example.\"\n{cname}"));
    let start =
        format!("line {line}: `local[1]` is a CNAME at a.example, where `local[0]` stands too");
    refuses_text(&text, &start, &["RFC 1034", "remove one"]);
    // The CNAME is named also when it stands first.
    let text = LAWFUL.replacen("type = \"A\"\nttl = 60\ndata = \"192.0.2.1\"", cname, 1);
    let start = format!("line {}: `local[0]` is a CNAME", line_of(&text, "[[local]]"));
    refuses_text(&text, &start, &["where `local[1]` stands too"]);
    let alone = with(&format!("[[local]]\nname = \"c.example\"\n{cname}"));
    assert!(Config::from_toml(&alone).is_ok());

    let text = with(&second.replace("192.0.2.2", "192.0.2.1"));
    let start = format!("line {line}: `local[1]` is the same record as `local[0]`; remove one");
    refuses_text(&text, &start, &[]);
    let text = with(&second.replace("ttl = 60", "ttl = 61"));
    let start = format!("line {}: `local[1].ttl` is 61, but `local[0]`", line + 3);
    refuses_text(&text, &start, &["has 60", "make them equal"]);
    let text = with(&second.replace("ttl = 60", "ttl = 2147483648"));
    let start =
        format!("line {}: `local[1].ttl` is 2147483648; allowed: 0 to 2147483647", line + 3);
    refuses_text(&text, &start, &[]);
}

#[test]
fn blocked_names_are_names() {
    let (from, key) = ("\"x.example\"", "block.names[1]");
    refuses(from, "\"x..example\"", key, &["cannot be blocked: `x..example` is not a domain name"]);
    refuses(from, "\"*.x.example\"", key, &["write `x.example`", "everything below"]);
    refuses(from, "\"\"", key, &["cannot be blocked: a name is empty"]);
}

#[test]
fn the_control_socket_has_a_path_the_kernel_takes() {
    let from = "socket = \"/run/pmdns.sock\"";
    refuses(from, "socket = \"\"", "control.socket", &["path of a unix socket"]);
    let to = format!("socket = \"/{}\"", "a".repeat(107));
    refuses(from, &to, "control.socket", &["has 108 bytes; allowed: at most 107"]);
}
