//! The Host header. A page in a browser can give its own name our address (DNS rebinding), and then ask us in the
//! browser's place. Such a request bears that name.

use std::net::IpAddr;

use axum::http::Request;
use axum::http::header::HOST;
use axum::http::uri::Authority;

/// Whether a request is meant for us: for an address, for `localhost`, or for one of our `names`.
pub(super) fn is_ours<B>(request: &Request<B>, names: &[String]) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    let header = hosts.next().and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    if hosts.next().is_some() {
        return false;
    }
    // HTTP/2 has it in the address.
    let authority = header.or_else(|| request.uri().authority().cloned());
    authority.is_some_and(|authority| {
        // No browser sends a user, and what stands before `@` is another name to its reader (RFC 9110 section 4.2.4).
        if authority.as_str().contains('@') {
            return false;
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let is_named = |name: &String| {
            name.trim_end_matches('.').eq_ignore_ascii_case(host.trim_end_matches('.'))
        };
        host.parse::<IpAddr>().is_ok()
            || host.eq_ignore_ascii_case("localhost")
            || names.iter().any(is_named)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_served() {
        let names = ["edge.example.net".to_owned()];
        let asked = |hosts: &[&str]| {
            let request =
                hosts.iter().fold(Request::builder().uri("/"), |all, host| all.header(HOST, *host));
            is_ours(&request.body(()).unwrap(), &names)
        };
        for ours in
            ["127.0.0.1:8053", "[::1]:8053", "localhost", "LOCALHOST:1", "Edge.example.net.:8053"]
        {
            assert!(asked(&[ours]), "{ours}");
        }
        for other in [
            "",
            "rebind.example",
            "edge.example.net.evil",
            "127.0.0.1.evil",
            "a b",
            "localhost@evil",
            "evil@127.0.0.1",
            "evil@localhost:8053",
        ] {
            assert!(!asked(&[other]), "{other}");
        }
        assert!(!asked(&[]) && !asked(&["127.0.0.1", "127.0.0.1"]));
    }
}
