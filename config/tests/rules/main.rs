//! Every rule beyond types: the line, the key and the way out that an operator is told.

mod lists;
mod machine;
mod query_sources;
mod service;
mod shared;
mod streams;
mod synthesis;
mod taps;
mod views;

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
stages = "parse..ratelimit"
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
socket = "/run/pmdns/control.sock"

[metrics]
listen = "127.0.0.1:9153"
"#;

/// The line that `needle` stands on, from 1.
fn line_of(text: &str, needle: &str) -> usize {
    let offset = text.find(needle).unwrap_or_else(|| panic!("`{needle}` is in the text"));
    text[..offset].matches('\n').count() + 1
}

/// Replaces `from` by `to` in the lawful text, and expects an error. It begins with the line of the
/// change and the key, and contains all of `parts`.
#[track_caller]
fn refuses(from: &str, to: &str, key: &str, parts: &[&str]) {
    refuses_change(LAWFUL, from, to, key, parts);
}

/// The same, in the text `lawful`.
#[track_caller]
fn refuses_change(lawful: &str, from: &str, to: &str, key: &str, parts: &[&str]) {
    assert!(lawful.contains(from), "`{from}` is in the lawful text");
    let text = lawful.replacen(from, to, 1);
    let differs = lawful.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
    let line = text[..differs].matches('\n').count() + 1;
    refuses_text(&text, &format!("line {line}: `{key}` "), parts);
}

#[track_caller]
fn refuses_text(text: &str, start: &str, parts: &[&str]) {
    let error = Config::from_toml(text).expect_err("the rule is broken");
    let told = error.mistakes().iter().find(|mistake| mistake.to_string().starts_with(start));
    let told = told.unwrap_or_else(|| panic!("expected `{start}` first in: {error}"));
    assert!(matches!(told, ConfigError::Unlawful { .. }), "{told:?}");
    let error = told.to_string();
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
