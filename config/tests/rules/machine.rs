//! The rules of what pmdns runs on: EAL, ports, placements, frames, answers, cache.

use pmdns_config::Config;

use crate::{LAWFUL, accepts, line_of, refuses, refuses_in, refuses_text};

#[test]
fn arguments_of_dpdk() {
    refuses(r#"["--no-huge"]"#, r#"["--no-huge", "--in-memory"]"#, "eal.args", &["--no-shconf"]);
    refuses(r#"["--no-huge"]"#, r#"["", "-m"]"#, "eal.args[0]", &["is empty"]);
    refuses(r#"["--no-huge"]"#, r#"["\u0000"]"#, "eal.args[0]", &["zero byte"]);
    for (args, key, part) in [
        (r#"["--no-huge", "--nosuch"]"#, "eal.args[1]", "no such option"),
        (r#"["-q"]"#, "eal.args[0]", "no such option"),
        (r#"["--help"]"#, "eal.args[0]", "DPDK's manual"),
        (r#"["--proc-type=xx"]"#, "eal.args[0]", "`auto` or `primary`"),
        (r#"["--mbuf-pool-ops-name=xx"]"#, "eal.args[0]", "a kind of frame pool"),
        (r#"["--iova-mode=xx"]"#, "eal.args[0]", "`pa` or `va`"),
        (r#"["--file-prefix", "/a/b"]"#, "eal.args[0]", "a name without `/`"),
        (r#"["--no-huge", "-m", "much"]"#, "eal.args[1]", "a number of MiB"),
    ] {
        refuses(r#"["--no-huge"]"#, args, key, &[part]);
    }
    for (args, remedy) in [
        (r#"["--no-huge", "--socket-mem=64"]"#, "without hugepages write -m"),
        (r#"["-m", "64", "--socket-mem", "64"]"#, "leave one of them out"),
        (r#"["--no-huge", "--match-allocations"]"#, "leave --match-allocations out"),
    ] {
        refuses(r#"["--no-huge"]"#, args, "eal.args", &["which DPDK refuses together", remedy]);
    }
    let several = &["several arguments in one text; write each"];
    refuses(r#"["--no-huge"]"#, r#"["--no-huge -m 256"]"#, "eal.args[0]", several);
    for secondary in [r#"["--proc-type=secondary"]"#, r#"["--proc-type", "secondary"]"#] {
        let part = "serves nothing by itself; leave --proc-type out";
        refuses(r#"["--no-huge"]"#, secondary, "eal.args[0]", &[part]);
    }
    for lawful in [r#"["--in-memory"]"#, r#"["--proc-type", "auto"]"#, r#"["--vdev=a,b=c d"]"#] {
        accepts(r#"["--no-huge"]"#, lawful);
    }
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
    refuses(from, "\"net_tapp0\"", "port[0].device", &["takes for net_tap;", "as in net_tap0"]);
    refuses(from, "\"net_tap0,mac=zz\"", "port[0].device", &["mac=zz", "02:00:00:00:00:01"]);
    let part = "names the interface `sixteen-letters!`, and the kernel takes 15 bytes at most";
    refuses(from, "\"net_tap0,iface=sixteen-letters!\"", "port[0].device", &[part]);
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
    let ours = ["127.0.0.53", "::1", "::ffff:127.0.0.1"];
    for address in ["0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "ff02::1"].iter().chain(&ours)
    {
        refuses(from, &format!("[\"{address}\"]"), key, &["write a unicast address"]);
    }
    let address = |n: u16| format!("10.97.{}.{}", n >> 8, n & 0xff);
    let many = |n: u16| format!("{:?}", (1..=n).map(address).collect::<Vec<_>>());
    refuses(from, &many(1025), "port[1].addresses", &["has 1025 addresses; allowed: at most 1024"]);
    accepts(from, &many(1024));
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
    let parts = ["no placement runs policy..encode", "stages = \"lookup..encode\""];
    refuses(stages, "stages = \"lookup\"", &key(second, "stages"), &parts);
    let parts = ["runs lookup..policy;", "stages = \"lookup..encode\""];
    refuses(stages, "stages = \"encode\"", &key(second, "stages"), &parts);
    let parts = ["runs ratelimit, which placement[0] runs already", "stages = \"lookup..encode\""];
    refuses(stages, "stages = \"ratelimit..encode\"", &key(second, "stages"), &parts);
    let parts = ["list all of them in one placement: cores = [1, 2]"];
    refuses(stages, "stages = \"parse..ratelimit\"", &key(second, "stages"), &parts);
    let turned = LAWFUL.replace("\"lookup..encode\"", "\"parse..ratelimit\"");
    let turned = turned.replacen("\"parse..ratelimit\"", "\"lookup..encode\"", 1);
    let line = line_of(&turned, "stages = \"lookup..encode\"");
    let start =
        format!("line {line}: `placement[0].stages` runs lookup..encode, but stands before");
    refuses_text(&turned, &start, &["in line order"]);
}

#[test]
fn cores_that_resolve_run_the_line_and_replace_the_slow_path_s_threads() {
    let parts = ["runs parse..ratelimit only", "write stages = \"all\", or remove `resolver`"];
    refuses("cores = [1]\n", "cores = [1]\nresolver = true\n", "placement[0].resolver", &parts);
    let first = LAWFUL.find("[[placement]]").unwrap();
    let rest = LAWFUL.find("[frames]").unwrap();
    let placement = "[[placement]]\ncores = [1, 2]\nresolver = true\n\n";
    let text = format!("{}{placement}{}", &LAWFUL[..first], &LAWFUL[rest..]);
    let parts = ["the cores of placement[0] resolve misses", "remove this key, or `resolver`"];
    let line = line_of(&text, "threads = 1");
    refuses_text(&text, &format!("line {line}: `slowpath.threads` "), &parts);
    let text = text.replace("threads = 1", "cores = [1]");
    refuses_text(&text, &format!("line {line}: `slowpath.cores` "), &parts);
    let config = Config::from_toml(&text.replace("cores = [1]\n", "")).unwrap();
    assert_eq!(config.slow_path_shards(), 2);
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
fn texts_about_this_server_have_a_length() {
    for (key, max) in [("nsid", 128), ("identity", 255), ("version", 255)] {
        let answers = |length: usize| {
            let text = "x".repeat(length);
            format!("[answers]\n{key} = \"{text}\"\n[frames]\n")
        };
        for bad in [0, max + 1] {
            let text = LAWFUL.replacen("[frames]\n", &answers(bad), 1);
            let line = line_of(&text, &format!("{key} = "));
            let problem = format!("has {bad} bytes; allowed: 1 to {max}");
            refuses_text(&text, &format!("line {line}: `answers.{key}` "), &[&problem]);
        }
        accepts("[frames]\n", &answers(1));
        accepts("[frames]\n", &answers(max));
    }
}

#[test]
fn cookies() {
    const SECRET: &str = "\"e5e973e5a6b2a43f48e7dc849e37bfcf\"";
    let refuses_cookies = |keys: &str, key: &str, parts: &[&str]| {
        let text = LAWFUL.replacen("[frames]\n", &format!("[cookies]\n{keys}\n[frames]\n"), 1);
        let line = line_of(&text, &format!("\n{key} = ")) + 1;
        refuses_text(&text, &format!("line {line}: `cookies.{key}` "), parts);
    };
    let both = format!("secret = {SECRET}\nsecret_file = \"/nonexistent\"");
    refuses_cookies(
        &both,
        "secret",
        &["and `cookies.secret_file` have the same meaning", "keep one"],
    );
    let alone = format!("accepted_secret = {SECRET}");
    refuses_cookies(&alone, "accepted_secret", &["has no effect without `secret`"]);
    let off = "enabled = false\nrequire = true";
    refuses_cookies(off, "require", &["has no effect without `enabled = true`"]);
    let missing = "secret_file = \"/nonexistent/cookies\"";
    refuses_cookies(missing, "secret_file", &["is /nonexistent/cookies: ", "No such file"]);
    let lawful = format!("[cookies]\nsecret = {SECRET}\naccepted_secret = {SECRET}\n[frames]\n");
    accepts("[frames]\n", &lawful);
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
fn vlans_of_ports() {
    let with = |vlans: &str| format!("vlans = {vlans}");
    let (key, entry) = ("port[0].vlans", "port[0].vlans[0]");
    refuses_in("[[port]]", &with("[]"), key, &["is empty; write at least one"]);
    for id in ["0", "4095", "[1, 4095]", "[0, 1]"] {
        refuses_in("[[port]]", &with(&format!("[{id}]")), entry, &["allowed: 1 to 4094"]);
    }
    refuses_in(
        "[[port]]",
        &with("[7, 7]"),
        "port[0].vlans[1]",
        &["is 7, as is `port[0].vlans[0]`"],
    );
    let many = |n: u16| with(&format!("{:?}", (1..=n).collect::<Vec<_>>()));
    refuses_in("[[port]]", &many(65), key, &["has 65 VLANs; allowed: at most 64"]);
    for wrong in ["[\"tagged\"]", "[-1]", "[70000]", "[[1]]", "[[1, 2, 3]]", "[1.5]"] {
        let text = LAWFUL.replacen("[[port]]\n", &format!("[[port]]\n{}\n", with(wrong)), 1);
        let error = Config::from_toml(&text).expect_err(wrong).to_string();
        assert!(error.contains("untagged"), "{error}");
    }
    for vlans in ["[\"untagged\"]", "[1, 4094, \"untagged\", [1, 1], [100, 7]]"] {
        accepts("[[port]]\n", &format!("[[port]]\n{}\n", with(vlans)));
    }
    accepts("[[port]]\n", &format!("[[port]]\n{}\n", many(64)));
}

#[test]
fn bound_medium_one_pci_device_is_one_port_however_it_is_written() {
    let text = LAWFUL
        .replace("net_tap0,iface=pm0", "01:00.A")
        .replace("net_tap1,iface=pm1", "0000:01:00.a");
    assert!(
        Config::from_toml(&text).is_ok(),
        "a function is 0 to 7, so these are no PCI addresses"
    );
    let text = LAWFUL
        .replace("net_tap0,iface=pm0", "0A:00.0")
        .replace("net_tap1,iface=pm1", "0000:0a:00.0");
    let error = Config::from_toml(&text).expect_err("one device").to_string();
    assert!(error.contains("is `0000:0a:00.0`, as is `port[0].device`"), "{error}");
}
