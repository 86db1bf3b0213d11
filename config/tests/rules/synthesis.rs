//! The rules of `[[dns64]]`, and of what clients are told of lists.

use pmdns_config::Config;

use crate::{LAWFUL, line_of, refuses_text};

fn with(more: &str) -> String {
    format!("{LAWFUL}\n[[dns64]]\n{more}\n")
}

#[track_caller]
fn refuses(more: &str, key: &str, part: &str) {
    let text = with(more);
    let last = more.lines().last().unwrap_or_default();
    refuses_text(&text, &format!("line {}: `{key}` ", line_of(&text, last)), &[part]);
}

#[test]
fn rfc_6052_2_2_a_prefix_has_room_for_an_ipv4_address() {
    for prefix in ["64:ff9b::/96", "2001:db8::/32", "2001:db8:100::/40", "2001:db8:1:300::/56"] {
        assert!(Config::from_toml(&with(&format!("prefix = \"{prefix}\""))).is_ok(), "{prefix}");
    }
    let part = "where no IPv4 address fits in";
    for prefix in ["64:ff9b::/95", "::/0", "2001:db8::/128", "192.0.2.0/24", "64:ff9b:0:0:100::/96"]
    {
        refuses(&format!("prefix = \"{prefix}\""), "dns64[0].prefix", part);
    }
}

#[test]
fn exclusions_are_of_their_family_and_bounded() {
    let prefix = "prefix = \"64:ff9b::/96\"\n";
    let key = "dns64[0].exclude[0]";
    refuses(&format!("{prefix}exclude = [\"10.0.0.0/8\"]"), key, "write an IPv6 prefix");
    let key = "dns64[0].exclude_ipv4[0]";
    refuses(&format!("{prefix}exclude_ipv4 = [\"fe80::/10\"]"), key, "write an IPv4 prefix");
    let many = vec!["\"10.0.0.0/8\""; 257].join(", ");
    let part = "has 257 prefixes; allowed: at most 256";
    refuses(&format!("{prefix}exclude_ipv4 = [{many}]"), "dns64[0].exclude_ipv4", part);
    let seventeen = "[[dns64]]\nprefix = \"64:ff9b::/96\"\n".repeat(17);
    let parts = ["`dns64` has 17 prefixes; allowed: at most 16"];
    refuses_text(&format!("{LAWFUL}\n{seventeen}"), "line ", &parts);
    let view = format!("{prefix}views = [\"nobody\"]");
    refuses(&view, "dns64[0].views[0]", "nobody");
}

#[test]
fn a_text_for_people_is_short_and_one_line() {
    let with = |text: &str| format!("{LAWFUL}\n[[blocklist]]\nfile = \"l\"\ntext = {text}\n");
    let lawful = ["\"Sperrliste \u{e4}\"".to_owned(), format!("\"{}\"", "x".repeat(128))];
    assert!(lawful.iter().all(|text| Config::from_toml(&with(text)).is_ok()));
    for (text, part) in [
        ("\"\"".to_owned(), "is empty; write a text for people"),
        ("\"a\\nb\"".to_owned(), "has control characters"),
        (format!("\"{}\"", "\u{e4}".repeat(65)), "has 130 bytes; allowed: at most 128"),
    ] {
        refuses_text(&with(&text), "line ", &["`blocklist[", "].text` ", part]);
    }
    let canary = format!("{LAWFUL}\n[policy]\ndoh_canary = [\"nobody\"]\n");
    refuses_text(&canary, "line ", &["`policy.doh_canary[0]`", "nobody"]);
}
