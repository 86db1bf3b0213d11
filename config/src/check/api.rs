//! The rules of `[api]` and `[[token]]`.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;

use super::rules::{Mistakes, at_most, broken, in_range, listen, plain_name};
use crate::limits::{MAX_API_HOSTS, MAX_API_RATE, MAX_SOCKET_PATH, MAX_TOKENS};
use crate::name::wire_name;
use crate::problem::BrokenRule;
use crate::settings::{Api, Config};

pub(super) fn check(config: &Config, found: &mut Mistakes) {
    let api = &config.api;
    found.note(listen("api.listen", api.listen, "a port other than 0, as in \"127.0.0.1:8053\""));
    if api.listen.is_some_and(|address| !address.ip().to_canonical().is_loopback())
        && api.certificate.is_none()
    {
        found.note(broken("api.listen", BrokenRule::PlainApi));
    }
    if api.listen.is_some() && config.tokens.is_empty() {
        let fix = "a [[token]], without which nobody can ask over TCP; or set `api.socket` instead";
        found.note(broken("token", BrokenRule::None(fix)));
    }
    if let Some(socket) = &api.socket {
        let length = socket.as_os_str().as_bytes().len();
        if length == 0 {
            found.note(broken("api.socket", BrokenRule::Empty("the path of a unix socket")));
        }
        found.note(at_most("api.socket", "bytes", length, MAX_SOCKET_PATH));
        if *socket == config.control.socket {
            let (value, other) = (socket.display().to_string(), "control.socket".to_owned());
            let problem = BrokenRule::Twice { value, other, fix: "each needs a path of its own" };
            found.note(broken("api.socket", problem));
        }
    }
    check_files(api, found);
    found.note(at_most("api.hosts", "names", api.hosts.len(), MAX_API_HOSTS));
    for (index, host) in api.hosts.iter().enumerate() {
        if let Err(error) = wire_name(host) {
            found.note(broken(format!("api.hosts[{index}]"), BrokenRule::ServerName(error)));
        }
    }
    found.note(in_range("api.requests_per_second", api.requests_per_second, 1, MAX_API_RATE));
    check_tokens(config, found);
}

fn check_files(api: &Api, found: &mut Mistakes) {
    let files =
        [("certificate", &api.certificate), ("key", &api.key), ("client_ca", &api.client_ca)];
    for (key, file) in files {
        if file.as_ref().is_some_and(|file| file.as_os_str().is_empty()) {
            found.note(broken(format!("api.{key}"), BrokenRule::Empty("the path of a PEM file")));
        }
    }
    let needs = |key, other, fix| broken(key, BrokenRule::Without { other, fix });
    let fix = "TLS needs both: set the files of one pair";
    match (&api.certificate, &api.key) {
        (Some(_), None) => found.note(needs("api.certificate", "key", fix)),
        (None, Some(_)) => found.note(needs("api.key", "certificate", fix)),
        (None, None) if api.client_ca.is_some() => {
            let fix = "clients show certificates over TLS only: set our own certificate and key";
            found.note(needs("api.client_ca", "certificate", fix));
        }
        _ => {}
    }
}

fn check_tokens(config: &Config, found: &mut Mistakes) {
    found.note(at_most("token", "tokens", config.tokens.len(), MAX_TOKENS));
    let mut names = HashMap::new();
    for (index, token) in config.tokens.iter().enumerate() {
        let path = format!("token[{index}]");
        found.note(plain_name(&format!("{path}.name"), &token.name));
        if let Some(first) = names.insert(&token.name, index) {
            let (value, other) = (format!("`{}`", token.name), format!("token[{first}].name"));
            let problem =
                BrokenRule::Twice { value, other, fix: "the log names tokens, so choose another" };
            found.note(broken(format!("{path}.name"), problem));
        }
        if let Err(problem) = token.secret() {
            let key = match (&token.secret_file, &token.sha256) {
                (_, Some(_)) => "sha256",
                (Some(_), None) => "secret_file",
                (None, None) => "name",
            };
            found.note(broken(format!("{path}.{key}"), problem));
        }
    }
}
