//! The rules of clients over streams.

use crate::{LAWFUL, refuses_change};

/// Refuses this line as a key of `[streams]`.
#[track_caller]
fn refuses(line: &str, key: &str, parts: &[&str]) {
    let lawful = format!("{LAWFUL}\n[streams]\n");
    refuses_change(&lawful, "[streams]\n", &format!("[streams]\n{line}\n"), key, parts);
}

#[test]
fn a_path_over_https_can_stand_in_a_request() {
    let long = format!("/{}", "a".repeat(128));
    for path in ["", "dns-query", "/dns-query{?dns}", "/a?b", "/a b", "/\u{e9}", &long] {
        let parts = ["write a path of at most 128 characters"];
        refuses(&format!("https_path = \"{path}\""), "streams.https_path", &parts);
    }
}

#[test]
fn our_name_is_a_domain_name() {
    let parts = ["cannot be in a certificate: `dns..example` is not"];
    refuses("name = \"dns..example\"", "streams.name", &parts);
}

#[test]
fn proxies_are_not_too_many() {
    let proxies = ["\"10.0.0.1\""; 65].join(", ");
    let parts = ["has 65 prefixes; allowed: at most 64"];
    refuses(&format!("proxy_protocol = [{proxies}]"), "streams.proxy_protocol", &parts);
}
