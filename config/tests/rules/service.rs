//! The rules of what pmdns does: slow path, upstreams, access, local and blocked names, control.

use pmdns_config::Config;

use crate::{LAWFUL, accepts, line_of, refuses, refuses_in, refuses_text};

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

/// `text` as a replacement that leaves the second upstream in the lawful text in the group `near`.
fn near(text: &str) -> String {
    let second = "address = \"[2001:db8:1::1]:53\"\n";
    LAWFUL.replace(second, &format!("{second}group = \"near\"\n")) + text
}

#[test]
fn weights_are_for_groups_that_are_asked_by_turns() {
    let text = LAWFUL.replace("timeout_ms = 800\n", "timeout_ms = 800\nweight = 2\n");
    let by = |strategy: &str| {
        format!("{text}[[group]]\nname = \"default\"\nstrategy = \"{strategy}\"\n")
    };
    assert!(Config::from_toml(&by("round_robin")).is_ok());
    let start = format!("line {}: `upstream[0].weight` is 2", line_of(&text, "weight"));
    for text in [&text, &by("fastest")] {
        refuses_text(text, &start, &["not asked by turns", "strategy = \"round_robin\""]);
    }
    assert!(Config::from_toml(&text.replace("weight = 2", "weight = 1")).is_ok());
    for bad in ["0", "101"] {
        let text = by("round_robin").replace("weight = 2", &format!("weight = {bad}"));
        let start = format!("line {}: `upstream[0].weight` is {bad}", line_of(&text, "weight"));
        refuses_text(&text, &start, &["allowed: 1 to 100"]);
    }
}

#[test]
fn groups_and_zones_go_together() {
    let forward = |zone: &str| format!("[[forward]]\nzone = \"{zone}\"\ngroup = \"near\"\n");
    assert!(Config::from_toml(&near(&forward("Corp.example"))).is_ok());
    let idle = "group = \"near\"";
    let start = format!("line {}: `upstream[1].group` is `near`", line_of(&near(""), idle));
    refuses_text(&near(""), &start, &["no name is asked of that group", "add a [[forward]]"]);
    // With a root zone nobody asks the default group.
    let start =
        format!("line {}: `upstream[0].group` is `default`", line_of(LAWFUL, "[[upstream]]"));
    refuses_text(&near(&forward(".")), &start, &["no name is asked of that group"]);
    let all_near = near(&forward("corp.example"))
        .replace("timeout_ms = 800\n\n[[upstream]]", "group = \"near\"\n\n[[upstream]]");
    let start = format!("line {}: `upstream` has no entry", line_of(LAWFUL, "[[upstream]]"));
    refuses_text(&all_near, &start, &["`default`", "zone = \".\""]);
    assert!(Config::from_toml(&all_near.replace("corp.example", ".")).is_ok());

    let twice = near(&(forward("corp.example") + &forward("CORP.example.")));
    let start = format!("line {}: `forward[1].zone` is corp.example", line_of(&twice, "CORP"));
    refuses_text(&twice, &start, &["`forward[0].zone`", "a zone has one group"]);
    let nobody = near(&forward("corp.example").replace("near", "far"));
    let start = format!("line {}: `forward[0].group` is `far`", line_of(&nobody, "\"far\""));
    refuses_text(&nobody, &start, &["no [[upstream]] belongs to that group"]);
    let no_name = near(&forward("corp..example"));
    let start = format!("line {}: `forward[0].zone` is no zone: ", line_of(&no_name, "corp.."));
    refuses_text(&no_name, &start, &["is not a domain name"]);
    for zone in ["resolver.arpa", "_dns.Resolver.ARPA."] {
        let text = near(&forward(zone));
        let start = format!("line {}: `forward[0].zone` is ", line_of(&text, zone));
        refuses_text(&text, &start, &["ever forwarded; remove this [[forward]]"]);
    }
    assert!(Config::from_toml(&near(&forward("otherresolver.arpa"))).is_ok());

    let group = |name: &str| format!("[[group]]\nname = \"{name}\"\nstrategy = \"hedged\"\n");
    assert!(Config::from_toml(&format!("{LAWFUL}{}", group("default"))).is_ok());
    let text = format!("{LAWFUL}{}", group("far"));
    let start = format!("line {}: `group[0].name` is `far`", line_of(&text, "\"far\""));
    refuses_text(&text, &start, &["no [[upstream]]"]);
    let text = format!("{LAWFUL}{0}{0}", group("default"));
    let start = format!("line {}: `group[1].name` is `default`", line_of(LAWFUL, "9153") + 5);
    refuses_text(&text, &start, &["`group[0].name`", "describe each group once"]);
    let text = format!("{LAWFUL}{}parallel = 5\n", group("default"));
    let start = format!("line {}: `group[0].parallel` is 5", line_of(&text, "parallel"));
    refuses_text(&text, &start, &["allowed: 2 to 4"]);
    refuses("timeout_ms = 800", "group = \"a b\"", "upstream[0].group", &["ASCII letters"]);
}

#[test]
fn deadlines_leave_time_for_the_first_of_each_group() {
    let text = near("[[forward]]\nzone = \"corp.example\"\ngroup = \"near\"\n");
    let slow =
        text.replace("group = \"near\"\ntimeout_ms = 800", "group = \"near\"\ntimeout_ms = 3001");
    let start = format!("line {}: `slowpath.deadline_ms` is 3000", line_of(&slow, "deadline_ms"));
    refuses_text(&slow, &start, &["less than upstream[1].timeout_ms, 3001"]);
}

#[test]
fn health_is_within_bounds() {
    let (from, header) = ("[acl]\n", "[health]\n");
    for (line, key, part) in [
        ("successes = 101", "health.successes", "allowed: 1 to 100"),
        ("interval_ms = 99", "health.interval_ms", "allowed: 100 to 300000"),
        ("timeout_ms = 60001", "health.timeout_ms", "allowed: 1 to 60000"),
    ] {
        let text = LAWFUL.replace(from, &format!("{header}{line}\n\n{from}"));
        let start = format!("line {}: `{key}` ", line_of(&text, line));
        refuses_text(&text, &start, &[part]);
    }
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
    let parts = ["is our own `port[0].addresses[0]` with", "another resolver"];
    refuses(from, "\"192.0.2.53:53\"", key, &parts);
    let parts = ["is our own `port[0].addresses[1]` with"];
    refuses(from, "\"[2001:db8::53]:53\"", key, &parts);
    let parts = ["is our own `port[1].addresses[0]` with"];
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
fn encrypted_upstreams() {
    let (from, key) = ("\"203.0.113.1:53\"", "upstream[0].address");
    let urls =
        ["tls://203.0.113.1", "https://203.0.113.1/dns-query", "quic://[2001:db8:1::53]:8853"];
    for url in urls {
        accepts(from, &format!("\"{url}\""));
    }
    refuses(from, "\"tls://224.0.0.1\"", key, &["unicast"]);
    // The key that is wrong is the last line of what is written instead.
    let last = |to: &str, key: &str, parts: &[&str]| {
        let text = LAWFUL.replacen(from, to, 1);
        let line = line_of(&text, to) + to.matches('\n').count();
        refuses_text(&text, &format!("line {line}: `{key}` "), parts);
    };
    let url = "\"tls://203.0.113.1\"";
    let twice = format!("{url}\n[[upstream]]\naddress = \"tls://203.0.113.1:853\"");
    last(&twice, "upstream[1].address", &["as is `upstream[0].address` already"]);
    accepts(from, &twice.replacen("tls", "quic", 1));
    let source = format!("{url}\nsource = \"2001:db8::1\"");
    last(&source, "upstream[0].source", &["same family"]);
    let pin = format!("\"sha256/{}=\",", "A".repeat(43));
    let pins = |count| format!("{url}\npin = [{}]", pin.repeat(count));
    accepts(from, &pins(16));
    last(&pins(17), "upstream[0].pin", &["has 17 pins; allowed: at most 16"]);
    let no_file = format!("{url}\nca_file = \"\"");
    last(&no_file, "upstream[0].ca_file", &["path of a PEM file"]);
    for (key, value) in
        [("name", "\"a.example\""), ("ca_file", "\"/ca.pem\""), ("pin", &format!("[{pin}]"))]
    {
        let plain = format!("{from}\n{key} = {value}");
        last(&plain, &format!("upstream[0].{key}"), &["encrypted upstreams only"]);
        accepts(from, &plain.replacen(from, url, 1));
    }
}

#[test]
fn names_of_upstreams_need_somebody_who_knows_them() {
    let from = "\"203.0.113.1:53\"";
    let by_name = LAWFUL.replace(from, "\"tls://dns.example\"");
    let start =
        format!("line {}: `upstream[0].address` is a name", line_of(&by_name, "address = \"tls"));
    refuses_text(&by_name, &start, &["bootstrap = [\"192.0.2.53:53\"] in [slowpath]"]);
    let with = |bootstrap: &str| {
        by_name.replace("[slowpath]\n", &format!("[slowpath]\nbootstrap = [{bootstrap}]\n"))
    };
    assert!(Config::from_toml(&with("\"203.0.113.1:53\", \"[2001:db8:1::1]:53\"")).is_ok());
    let line = line_of(&with(""), "bootstrap");
    for (wrong, part) in [
        ("\"203.0.113.1:0\"", "a port other than 0"),
        ("\"192.0.2.53:53\"", "with its dns_port, so misses would come back"),
        ("\"0.0.0.0:53\"", "unicast"),
    ] {
        let start = format!("line {line}: `slowpath.bootstrap[0]` is ");
        refuses_text(&with(wrong), &start, &[part]);
    }
    let many = "\"203.0.113.1:53\",".repeat(9);
    let start = format!("line {line}: `slowpath.bootstrap` has 9 resolvers");
    refuses_text(&with(&many), &start, &["at most 8"]);
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
    refuses_in(header, "ipv4_prefix = 33", "ratelimit.ipv4_prefix", &["allowed: 0 to 32"]);
    accepts("[ratelimit]\n", "[ratelimit]\nipv4_prefix = 0\nipv6_prefix = 0\n");
    refuses_in(header, "ipv6_prefix = 129", "ratelimit.ipv6_prefix", &["allowed: 0 to 128"]);
    let listed = "ipv4_port_prefixes = [\"192.0.2.0/24\"]\n";
    let ports = format!("[ratelimit]\nipv4_prefix = 32\nipv4_port_bits = 8\n{listed}");
    accepts("[ratelimit]\n", &ports);
    refuses_in(header, "ipv4_port_bits = 9", "ratelimit.ipv4_port_bits", &["allowed: 0 to 8"]);
    refuses_in(header, "ipv4_port_bits = 4", "ratelimit.ipv4_port_bits", &["ipv4_prefix = 32"]);
    let unlisted = "ipv4_port_bits = 4\nipv4_prefix = 32";
    refuses_in(header, unlisted, "ratelimit.ipv4_port_bits", &["ipv4_port_prefixes too"]);
    let of_ipv6 = "ipv4_port_prefixes = [\"2001:db8::/32\"]";
    refuses_in(header, of_ipv6, "ratelimit.ipv4_port_prefixes[0]", &["write an IPv4 prefix"]);
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
    refuses(from, "\"a.*.example\"", key, &["a `*` that is not in front", "`*.example.com`"]);
    refuses(from, "\"\"", key, &["cannot be blocked: a name is empty"]);
}

#[test]
fn files_are_named_and_not_too_many() {
    let start = "`zone[0].file` is empty; write the path of a file";
    refuses_text(&format!("{LAWFUL}[[zone]]\nfile = \"\"\n"), "line ", &[start]);
    let origin = "[[zone]]\nfile = \"z\"\norigin = \"a..b\"\n";
    let text = ["`zone[0].origin` cannot be an origin: `a..b` is not a domain name"];
    refuses_text(&format!("{LAWFUL}{origin}"), "line ", &text);
    let list = "[[blocklist]]\nfile = \"a\"\n";
    assert!(Config::from_toml(&format!("{LAWFUL}{}", list.repeat(64))).is_ok());
    let text = ["`blocklist` has 65 block lists; allowed: at most 64"];
    refuses_text(&format!("{LAWFUL}{}", list.repeat(65)), "line ", &text);
    let error = Config::from_toml(&format!("{LAWFUL}{list}format = \"host\"\n")).unwrap_err();
    assert!(error.to_string().contains("did you mean \"hosts\"?"), "{error}");
}

#[test]
fn a_transferred_zone_has_a_name_primaries_and_the_key_it_speaks_of() {
    let key = "[[tsig]]\nname = \"key\"\nsecret = \"c2l4dGVlbiBsZXR0ZXJzIQ==\"\n";
    let zone = "[[rpz]]\nfile = \"f\"\nzone = \"rpz.example\"\nprimaries = [\"192.0.2.1:53\"]\n";
    let lawful = format!("{LAWFUL}{zone}tsig = \"Key.\"\n{key}");
    assert!(Config::from_toml(&lawful).is_ok());
    let wrong = |from: &str, to: &str, said: &str| {
        assert!(lawful.contains(from), "{from}");
        refuses_text(&lawful.replacen(from, to, 1), "line ", &[said]);
    };
    wrong("zone = \"rpz.example\"\n", "", "`rpz[0].primaries` has no effect without `zone`");
    wrong("\"192.0.2.1:53\"", "", "`rpz[0].zone` has no effect without `primaries`");
    wrong("rpz.example", "rpz..example", "`rpz[0].zone` is no zone");
    wrong("192.0.2.1:53", "192.0.2.1:0", "`rpz[0].primaries[0]` is empty; write a port");
    wrong("192.0.2.1:53", "224.0.0.1:53", "`rpz[0].primaries[0]` is 224.0.0.1, which no single");
    wrong(
        "tsig = \"Key.\"",
        "tsig = \"other\"",
        "`rpz[0].tsig` is `other`, but there is no such key",
    );
    refuses_text(
        &format!("{LAWFUL}[[rpz]]\nfile = \"f\"\nabsent = \"pass\"\n"),
        "line ",
        &["`rpz[0].absent` has no effect without `primaries`"],
    );
    wrong("file =", "origin = \"a\"\nfile =", "`rpz[0].origin` and `zone`");
    wrong(key, &key.repeat(2), "`tsig[1].name` is key, as is `tsig[0].name` already");
    wrong("secret =", "secret_file = \"/nonexistent\"\n#", "`tsig[0].secret_file` is /nonexistent");
    wrong("secret =", "#", "`tsig[0].name` has no effect without `secret or secret_file`");
    let other = zone.replace("rpz.example", "other.example");
    wrong(
        "[[tsig]]",
        &format!("{other}[[tsig]]"),
        "`rpz[1].file` is f, as is `rpz[0].file` already",
    );
    let other = zone.replace("\"f\"", "\"g\"").replace("rpz.example", "RPZ.example.");
    wrong("[[tsig]]", &format!("{other}[[tsig]]"), "`rpz[1].zone` is rpz.example, as is");
    wrong(
        "[[tsig]]",
        "[transfer]\nlisten = \"224.0.0.1:53\"\n[[tsig]]",
        "`transfer.listen` is 224.0.0.1",
    );
}

#[test]
fn the_control_socket_has_a_path_the_kernel_takes() {
    let from = "socket = \"/run/pmdns/control.sock\"";
    refuses(from, "socket = \"\"", "control.socket", &["path of a unix socket"]);
    let to = format!("socket = \"/{}\"", "a".repeat(107));
    refuses(from, &to, "control.socket", &["has 108 bytes; allowed: at most 107"]);
}

#[test]
fn metrics_are_served_where_somebody_can_connect() {
    let from = "listen = \"127.0.0.1:9153\"";
    refuses(from, "listen = \"127.0.0.1:0\"", "metrics.listen", &["a port other than 0"]);
    refuses(from, "listen = \"224.0.0.1:9153\"", "metrics.listen", &["224.0.0.1", "unicast"]);
}

#[test]
fn subnets_go_to_upstreams_that_are_named_for_it() {
    let told = LAWFUL.replacen("timeout_ms = 800", "client_subnet = true", 1);
    let start = format!("line {}: `upstream[0].client_subnet` ", line_of(&told, "client_subnet"));
    refuses_text(&told, &start, &["has no effect without `client_subnet.policy`", "\"forward\""]);
    for policy in ["forward", "add"] {
        let table = format!("[client_subnet]\npolicy = \"{policy}\"\n\n");
        let to_nobody = format!("{table}{LAWFUL}");
        refuses_text(&to_nobody, "line 2: `client_subnet.policy` ", &["client_subnet = true"]);
        assert!(Config::from_toml(&format!("{table}{told}")).is_ok());
        let prefetching = format!("{table}[prefetch]\nenabled = true\n\n{told}");
        match policy {
            "forward" => assert!(Config::from_toml(&prefetching).is_ok()),
            _ => refuses_text(
                &prefetching,
                "line 2: `client_subnet.policy` ",
                &["but a prefetch has no client"],
            ),
        }
    }
}

#[test]
fn streams_have_addresses_of_their_own_and_a_certificate_where_they_need_one() {
    let refuses = |text: &str, key: &str, parts: &[&str]| {
        let error = Config::from_toml(&format!("{LAWFUL}\n[streams]\n{text}\n")).expect_err(text);
        let told = error.to_string();
        let parts = parts.iter().chain([&key]);
        parts.for_each(|part| assert!(told.contains(*part), "{part} in {told}"));
    };
    refuses("tcp = [\"192.0.2.53:0\"]", "streams.tcp[0]", &["a port other than 0"]);
    refuses("tcp = [\"[ff02::1]:53\"]", "streams.tcp[0]", &["unicast"]);
    let twice = "tcp = [\"192.0.2.53:53\", \"192.0.2.53:53\"]";
    refuses(twice, "streams.tcp[1]", &["`streams.tcp[0]`", "name each address once"]);
    let shared =
        "tcp = [\"192.0.2.53:853\"]\ntls = [\"192.0.2.53:853\"]\ncertificate = \"a\"\nkey = \"b\"";
    refuses(shared, "streams.tls[0]", &["`streams.tcp[0]`", "a port of its own"]);
    let with_metrics = "tcp = [\"0.0.0.0:9153\"]";
    refuses(with_metrics, "metrics.listen", &["`streams.tcp[0]`", "a port of its own"]);
    let with_api = "[api]\nlisten = \"127.0.0.1:9153\"";
    refuses(with_api, "api.listen", &["`metrics.listen`", "a port of its own"]);
    let bare = "quic = [\"192.0.2.53:853\"]\nkey = \"b\"";
    refuses(bare, "streams.certificate", &["is missing", "the path of a PEM file"]);
    let empty = "tls = [\"192.0.2.53:853\"]\ncertificate = \"\"\nkey = \"b\"";
    refuses(empty, "streams.certificate", &["is empty"]);
    refuses("threads = 17", "streams.threads", &["allowed: 1 to 16"]);
    refuses("max_buffered_bytes = \"1KiB\"", "streams.max_buffered_bytes", &["64KiB to 16GiB"]);
}
