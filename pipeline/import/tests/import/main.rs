//! Configurations of other servers become the expected files, which load; files that are broken in any way become some that load.
//!
//! `PMDNS_ACCEPT=1` writes the expected files anew.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod access;
mod cases;
mod counterparts;
mod names;
mod paths;
mod services;
mod settings;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pmdns_config::Config;
use pmdns_import::{Disk, Files, Import, ImportError, ServerKind, import};
use proptest::prelude::*;

/// Files in memory.
struct Memory(BTreeMap<PathBuf, String>);

impl Files for Memory {
    fn read(&self, path: &Path, _limit: u64) -> io::Result<Vec<u8>> {
        let text = self.0.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(text.clone().into_bytes())
    }

    fn read_included(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        self.read(path, limit)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(self.0.keys().filter(|path| path.parent() == Some(folder)).cloned().collect())
    }
}

fn one(text: &str, format: ServerKind) -> Import {
    let files = Memory([("a.conf".into(), text.to_owned())].into());
    import(Path::new("a.conf"), Some(format), &files)
        .unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn every_example_becomes_what_is_expected_and_loads() {
    // Paths in comments are relative to it.
    std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/import/data")).unwrap();
    let mut examples: Vec<PathBuf> =
        fs::read_dir(".").unwrap().map(|entry| entry.unwrap().path()).collect();
    examples.retain(|path| path.extension().is_some_and(|end| end == "conf"));
    examples.sort();
    assert!(examples.len() >= 6, "{examples:?}");
    for example in examples {
        let path = example.strip_prefix(".").unwrap();
        let made = import(path, None, &Disk).unwrap();
        Config::from_toml(&made.toml).unwrap();
        let expected = path.with_extension("expected");
        if std::env::var_os("PMDNS_ACCEPT").is_some() {
            fs::write(&expected, &made.toml).unwrap();
        }
        let text = fs::read_to_string(&expected).unwrap();
        assert_eq!(made.toml, text, "{}: PMDNS_ACCEPT=1 accepts it", expected.display());
        for one in &made.unmapped {
            assert!(made.toml.contains(&format!("# {one}\n")), "{one} is listed in the file");
        }
    }
}

#[test]
fn nothing_is_missing_from_a_configuration_that_has_everything() {
    let unbound = "server:\n interface: 192.0.2.53\n access-control: 192.0.2.0/24 allow\n do-tcp: no\n\
                   forward-zone:\n name: .\n forward-addr: 198.51.100.1\n";
    let made = one(unbound, ServerKind::Unbound);
    assert!(made.unmapped.is_empty(), "{:?}", made.unmapped);
    let config = Config::from_toml(&made.toml).unwrap();
    assert_eq!(config.ports[0].addresses[0].address.to_string(), "192.0.2.53");
    assert_eq!(config.acl.allow[0].to_string(), "192.0.2.0/24");
    assert_eq!(config.upstreams[0].address.to_string(), "198.51.100.1:53");
}

#[test]
fn what_the_check_refuses_is_listed_with_its_line_and_the_reason() {
    let made = one("server:\n max-udp-size: 4096\n cache-min-ttl: 9\n", ServerKind::Unbound);
    let told =
        "a.conf:2: `max-udp-size: 4096`: `answers.max_udp_size` is 4096; allowed: 512 to 1680";
    assert!(made.unmapped.iter().any(|one| one == told), "{:?}", made.unmapped);
    assert_eq!(Config::from_toml(&made.toml).unwrap().cache.min_ttl, 9);
}

#[test]
fn lists_that_are_too_long_lose_their_ends_and_say_so() {
    let count = 300;
    let unbound: String = (0..count)
        .map(|n| {
            let address = format!("192.0.{}.{}", 2 + n / 200, 1 + n % 200);
            format!(" domain-insecure: n{n}.example\n interface: {address}\n private-address: {address}\n")
        })
        .collect();
    let primaries: String = (1..100).map(|n| format!("192.0.2.{n}; ")).collect();
    let excluded: String = (0..count).map(|n| format!("2001:db8:{n:x}::/48; ")).collect();
    let named = format!(
        "options {{ response-policy {{ zone r; }}; dns64 64:ff9b::/96 {{ exclude {{ {excluded} }}; }}; }};\n\
         zone r {{ type secondary; primaries {{ {primaries} }}; }};"
    );
    let proxies: String = (0..count).map(|n| format!("'10.0.0.{n}', ")).collect();
    let dnsdist = format!("setProxyProtocolACL({{ {proxies} }})\n");
    for (text, format) in [
        (format!("server:\n{unbound}"), ServerKind::Unbound),
        (named, ServerKind::Named),
        (dnsdist, ServerKind::Dnsdist),
    ] {
        let made = one(&text, format);
        Config::from_toml(&made.toml).unwrap();
        assert!(made.unmapped.iter().any(|one| one.contains("at most")), "{:?}", made.unmapped);
    }
}

#[test]
fn includes_are_followed_but_not_in_a_circle() {
    let files = Memory(
        [
            ("d/a.conf".into(), "server:\ninclude: \"x/*.conf\"\n".to_owned()),
            ("d/x/1.conf".into(), "cache-min-ttl: 9\n".to_owned()),
            ("d/x/2.conf".into(), "include: a.conf\n".to_owned()),
        ]
        .into(),
    );
    let made = import(Path::new("d/a.conf"), None, &files).unwrap();
    assert_eq!(Config::from_toml(&made.toml).unwrap().cache.min_ttl, 9);
    let told = "d/x/2.conf:1: `include: a.conf`: d/a.conf includes itself";
    assert!(made.unmapped.iter().any(|one| one == told), "{:?}", made.unmapped);
}

#[test]
fn an_acl_that_contains_itself_ends() {
    let text =
        "acl a { a; a; 192.0.2.0/24; };\noptions { allow-query { a; !198.51.100.0/24; any; }; };\n";
    one(text, ServerKind::Named);
}

#[test]
fn an_earlier_element_of_an_acl_hides_a_later_one() {
    let text = "options { allow-query { !192.0.2.1; 192.0.2.0/24; !192.0.2.2; }; };\n";
    let config = Config::from_toml(&one(text, ServerKind::Named).toml).unwrap();
    assert_eq!(
        config.acl.refuse.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["192.0.2.1/32"]
    );
    assert_eq!(
        config.acl.allow.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["192.0.2.0/24"]
    );
}

#[test]
fn variables_that_double_do_not_fill_the_memory() {
    let text = format!("x = f(1)\n{}", "x = f(x, x)\n".repeat(100));
    one(&text, ServerKind::Dnsdist);
    let text = format!("x = f(1)\n{}", "x = f(x)\n".repeat(10_000));
    one(&text, ServerKind::Dnsdist);
}

#[test]
fn files_that_nobody_knows_are_refused() {
    // Knot Resolver's configuration is Lua with calls of its own.
    let knot = "modules = { 'view' }\nview:addr('10.0.0.0/8', policy.all(policy.DENY))\n";
    let files = Memory(
        [
            ("a".into(), "hello\n".to_owned()),
            ("k".into(), knot.to_owned()),
            ("y".into(), "binds:\n".to_owned()),
        ]
        .into(),
    );
    for (path, told) in
        [("a", "--format"), ("k", "--format"), ("y", "YAML"), ("z", "cannot be read")]
    {
        let error: ImportError = import(Path::new(path), None, &files).unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn reading_a_file_takes_time_in_proportion_to_its_length() {
    // On one line, and nested: each of these took a minute or more when a part of a text was read for each word in it.
    let deep = "x { ".repeat(200_000);
    let wide = format!("options {{ {} }};", "allow-query { 10.0.0.1; }; ".repeat(40_000));
    let list = format!("options {{ allow-query {{ {} }}; }};", "{ 10.0.0.1; }; ".repeat(40_000));
    for text in [deep, wide, list] {
        one(&text, ServerKind::Named);
    }
    for text in lua_that_is_long_or_deep() {
        one(&text, ServerKind::Dnsdist);
    }
    let lines: String =
        (0..40_000).map(|n| format!(" local-zone: n{n}.example always_nxdomain\n")).collect();
    let made = one(&format!("server:\n{lines}"), ServerKind::Unbound);
    assert_eq!(Config::from_toml(&made.toml).unwrap().block.names.len(), 40_000);
}

/// Lua that is nested without end, has much on one line, or has many variables and statements that are not looked into.
fn lua_that_is_long_or_deep() -> Vec<String> {
    const DEEP: usize = 40_000;
    let around =
        |open: &str, close: &str| format!("x = {}1{}\n", open.repeat(DEEP), close.repeat(DEEP));
    let mut texts = vec![
        around("{", "}"),
        around("{a={", "}}"),
        around("f(", ")"),
        around("f{", "}"),
        around("f({", "})"),
        around("a:b(", ")"),
        around("(", ")"),
        around("function() return ", " end "),
        around("if a then b = ", " end "),
        around("[", "]"),
        around("[==[", "]==]"),
        "x = f(1)".to_owned() + &":g()".repeat(DEEP),
        "x = a".to_owned() + &".b".repeat(DEEP),
        "a = 1; ".repeat(DEEP),
        format!("{}{}", " ".repeat(1 << 20), "f() g() ".repeat(DEEP)),
    ];
    let open = ["{", "f(", "f{", "a:b(", "(", "function f() ", "if a then ", "[[", "\"", "--[["];
    texts.extend(open.iter().map(|open| open.repeat(DEEP)));
    let variables: String = (0..DEEP).map(|n| format!("a{n} = {n}\n")).collect();
    texts.push(variables + &"b = c + d\n".repeat(DEEP));
    texts
}

/// Pieces that configurations consist of, in any order.
const PIECES: [&str; 57] = [
    "server:",
    "\n",
    "interface: 192.0.2.1@853",
    "forward-zone:",
    "name: .",
    "name: a.example",
    "forward-addr: 192.0.2.9",
    "view:",
    "access-control-view: 192.0.2.0/24 a",
    "local-zone: a. static",
    "local-data: 'a. A 192.0.2.1'",
    "{",
    "}",
    ";",
    "!",
    "options",
    "forwarders",
    "192.0.2.1",
    "zone \"a\"",
    "type forward",
    "view \"v\"",
    "match-clients { 192.0.2.0/24; };",
    "response-policy { zone \"a\"; };",
    "acl a",
    "listen-on port 53 {",
    "newServer{address='192.0.2.1', pool='a'}",
    "addAction(",
    "'a.'",
    ",",
    "PoolAction('a')",
    ")",
    "SpoofAction('192.0.2.1')",
    "setACL({'192.0.2.0/24'})",
    "x = ",
    "function",
    "end",
    "\"",
    "prefetch: yes",
    "send-client-subnet: 192.0.2.9",
    "rpz:",
    "zonefile: x",
    "cache-min-ttl: 99999999",
    "192.0.2.0/24",
    "#",
    "module-config: 'dns64'",
    "dns64-prefix: 2001:db8::/33",
    "dns64 64:ff9b::/96 { clients { 192.0.2.0/24; }; mapped { !10/8; }; };",
    "dns64 x {",
    "exclude { any; };",
    "dnstap:",
    "dnstap-enable: yes",
    "dnstap-socket-path: x",
    "dnstap-log-client-query-messages: yes",
    "dnstap { all; }; dnstap-output unix x;",
    "log-queries: yes logfile: x",
    "logging { channel a { file x; }; category queries { a; }; };",
    "addAction(AllRule(), DnstapLogAction('', newFrameStreamUnixLogger('x')))",
];

proptest! {
    #[test]
    fn whatever_the_file_has_what_becomes_of_it_loads(
        pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..60),
        blank in prop::sample::select(&[" ", "\n", ""][..]),
    ) {
        let text = pieces.join(blank);
        for format in [ServerKind::Unbound, ServerKind::Dnsdist, ServerKind::Named] {
            Config::from_toml(&one(&text, format).toml).unwrap();
        }
    }
}
