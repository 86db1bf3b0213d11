//! The rules of `[[dns64]]`, `[[redirect]]` and `[[rebinding]]`, and of what clients are told of lists.

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

#[test]
fn a_table_about_rebinding_has_addresses_and_names() {
    let with = |more: &str| format!("{LAWFUL}\n[[rebinding]]\n{more}\n");
    let config = Config::from_toml(&with("")).unwrap();
    assert_eq!(config.rebindings[0].addresses.len(), 13, "those of private networks");
    let all = "action = \"refuse\"\naddresses = [\"192.0.2.0/24\"]\nexcept = [\"lan\"]";
    assert!(Config::from_toml(&with(all)).is_ok());
    let many = format!("addresses = [{}]", "\"192.0.2.0/24\", ".repeat(257));
    for (more, key, part) in [
        ("addresses = []", "addresses`", "is empty; write prefixes"),
        (&*many, "addresses`", "has 257 prefixes; allowed: at most 256"),
        ("except = [\"*.a\"]", "except[0]`", "write `a`"),
        ("views = [\"nobody\"]", "views[0]`", "nobody"),
    ] {
        refuses_text(&with(more), "line ", &[&format!("`rebinding[0].{key}"), part]);
    }
    assert!(Config::from_toml(&with("action = \"drop\"")).is_err());
    let tables = "[[rebinding]]\n".repeat(17);
    refuses_text(&format!("{LAWFUL}\n{tables}"), "line ", &["`rebinding` has 17 tables"]);
}

#[test]
fn a_redirection_leads_to_a_server_that_clients_reach() {
    let with = |more: &str| format!("{LAWFUL}\n[[redirect]]\n{more}\n");
    let page = "addresses = [\"192.0.2.80\", \"2001:db8::80\"]\n";
    let all = "only_www = false\nnames = [\"a.example\"]\nexcept = [\"b.a.example\"]\nttl = 3600";
    assert!(Config::from_toml(&with(&format!("{page}{all}"))).is_ok());
    for (more, key, part) in [
        ("addresses = []".to_owned(), "addresses`", "is empty; write the addresses"),
        ("addresses = [\"::\"]".to_owned(), "addresses[0]`", "where clients reach no server"),
        ("addresses = [\"224.0.0.1\"]".to_owned(), "addresses[0]`", "reach no server"),
        ("addresses = [\"192.0.2.1\", \"192.0.2.1\"]".to_owned(), "addresses[1]`", "already"),
        (format!("{page}ttl = 3601"), "ttl`", "allowed: 1 to 3600"),
        (format!("{page}names = [\"a.*.example\"]"), "names[0]`", "`*` that is not in front"),
        (format!("{page}except = [\"a..example\"]"), "except[0]`", "empty label"),
        (format!("{page}file = \"\""), "file`", "write the path of a file"),
        (format!("{page}text = \"\""), "text`", "write a text for people"),
        (format!("{page}views = [\"nobody\"]"), "views[0]`", "nobody"),
    ] {
        refuses_text(&with(&more), "line ", &[&format!("`redirect[0].{key}"), part]);
    }
    let tables = format!("[[redirect]]\n{page}").repeat(9);
    refuses_text(&format!("{LAWFUL}\n{tables}"), "line ", &["`redirect` has 9 redirections"]);
}
