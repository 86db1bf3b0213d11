//! The rules of `[streams]`.

use super::rules::{Mistakes, at_most, broken, cores, in_range, listen, unlike_earlier};
use crate::limits::{
    MAX_CONNECTION_QUERIES, MAX_CONNECTIONS, MAX_HTTPS_PATH, MAX_IN_FLIGHT, MAX_LISTENERS,
    MAX_PROXIES, MAX_STREAM_BUFFER, MAX_STREAM_QUERIES, MAX_STREAM_THREADS, MAX_TIMEOUT_MS,
    MIN_STREAM_BUFFER,
};
use crate::name::wire_name;
use crate::problem::BrokenRule;
use crate::settings::{Config, Streams};

/// The name of the port in reports that stream clients come by.
const PORT_NAME: &str = "streams";

pub(super) fn check(config: &Config, found: &mut Mistakes) {
    let streams = &config.streams;
    let listed = [
        ("tcp", &streams.tcp),
        ("tls", &streams.tls),
        ("https", &streams.https),
        ("quic", &streams.quic),
    ];
    for (transport, addresses) in listed {
        let key = format!("streams.{transport}");
        found.note(at_most(&key, "addresses", addresses.len(), MAX_LISTENERS));
        for (index, address) in addresses.iter().enumerate() {
            let path = |at| format!("{key}[{at}]");
            let fix = "a port other than 0, as in \"192.0.2.53:53\"";
            found.note(listen(&path(index), Some(*address), fix));
            let same = |other: &_| other == address;
            found.note(unlike_earlier(
                addresses,
                index,
                same,
                path,
                address,
                "name each address once",
            ));
        }
    }
    if let Some(index) = config.ports.iter().position(|port| port.name == PORT_NAME)
        && streams.are_configured()
    {
        let fix = "clients over streams have a port of this name in reports, so choose another";
        let (value, other) = (format!("`{PORT_NAME}`"), PORT_NAME.to_owned());
        found.note(broken(format!("port[{index}].name"), BrokenRule::Twice { value, other, fix }));
    }
    check_certificate(streams, found);
    check_names(streams, found);
    check_limits(streams, found);
}

fn check_certificate(streams: &Streams, found: &mut Mistakes) {
    for (key, file) in
        [("streams.certificate", &streams.certificate), ("streams.key", &streams.key)]
    {
        match file {
            Some(file) if file.as_os_str().is_empty() => {
                found.note(broken(key, BrokenRule::Empty("the path of a PEM file")));
            }
            None if streams.are_encrypted() => {
                let fix = "the path of a PEM file; clients over TLS, HTTPS and QUIC need it";
                found.note(broken(key, BrokenRule::None(fix)));
            }
            _ => {}
        }
    }
}

fn check_names(streams: &Streams, found: &mut Mistakes) {
    let path = &streams.https_path;
    let is_lawful = path.starts_with('/')
        && path.len() <= MAX_HTTPS_PATH
        && path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#{}".contains(&byte));
    if !is_lawful {
        found.note(broken("streams.https_path", BrokenRule::HttpsPath(path.clone())));
    }
    if let Some(Err(error)) = streams.name.as_deref().map(wire_name) {
        found.note(broken("streams.name", BrokenRule::ServerName(error)));
    }
    let proxies = streams.proxy_protocol.len();
    found.note(at_most("streams.proxy_protocol", "prefixes", proxies, MAX_PROXIES));
}

fn check_limits(streams: &Streams, found: &mut Mistakes) {
    found.note(in_range("streams.threads", streams.threads, 1, MAX_STREAM_THREADS));
    cores("streams.cores", &streams.cores, found);
    for (key, value, max) in [
        ("max_connections", streams.max_connections, MAX_CONNECTIONS),
        ("max_connections_per_prefix", streams.max_connections_per_prefix, MAX_CONNECTIONS),
        ("max_queries", streams.max_queries, MAX_STREAM_QUERIES),
        ("max_queries_in_flight", streams.max_queries_in_flight, MAX_IN_FLIGHT),
    ] {
        found.note(in_range(&format!("streams.{key}"), value, 1, max));
    }
    let (key, queries) = ("streams.max_queries_per_connection", streams.max_queries_per_connection);
    found.note(in_range(key, queries, 1, MAX_CONNECTION_QUERIES));
    for (key, time) in
        [("idle_timeout_ms", streams.idle_timeout_ms), ("io_timeout_ms", streams.io_timeout_ms)]
    {
        found.note(in_range(&format!("streams.{key}"), time, 1, MAX_TIMEOUT_MS));
    }
    for (key, size) in [
        ("max_buffered_bytes", streams.max_buffered_bytes),
        ("max_buffered_bytes_in_all", streams.max_buffered_bytes_in_all),
    ] {
        found.note(in_range(&format!("streams.{key}"), size, MIN_STREAM_BUFFER, MAX_STREAM_BUFFER));
    }
}
