//! Paths of files, which are relative to `directory`. With `chroot` they may be inside of that folder.

use std::path::Path;

use super::clause::{Clause, Conf, Setting};
use crate::meaning::Forwarder;

/// The settings with paths that are taken over.
const KEYS: [&str; 11] = [
    "tls-service-pem",
    "ssl-service-pem",
    "tls-service-key",
    "ssl-service-key",
    "tls-cert-bundle",
    "ssl-cert-bundle",
    "auto-trust-anchor-file",
    "trust-anchor-file",
    "dnstap-socket-path",
    "logfile",
    "zonefile",
];
/// The folder of relative paths, unless `directory` says another one.
const USUAL_FOLDER: &str = "/etc/unbound";

/// The folder that `directory` names.
fn folder(server: &Clause) -> Option<&str> {
    server.last("directory").filter(|folder| !folder.is_empty())
}

/// The whole path that a value is.
pub(super) fn whole(value: &str, server: &Clause) -> String {
    Path::new(folder(server).unwrap_or(USUAL_FOLDER)).join(value).display().to_string()
}

/// The whole path that a setting names.
pub(super) fn path(one: &Setting, server: &Clause, forwarder: &mut Forwarder) -> String {
    note_folder(one, server, forwarder);
    whole(one.value(), server)
}

/// Lists a setting with a relative path if nothing says where it is.
pub(super) fn note_folder(one: &Setting, server: &Clause, forwarder: &mut Forwarder) {
    if folder(server).is_none() && !one.value().is_empty() && Path::new(one.value()).is_relative() {
        let why = format!("there is no `directory`, so it is taken to be in {USUAL_FOLDER}");
        forwarder.draft.unmapped(&one.origin, why);
    }
}

/// `chroot`. It matters to paths alone.
pub(super) fn chroot(conf: &Conf, forwarder: &mut Forwarder) {
    let clauses = conf.others.iter().chain([&conf.server]);
    let mut settings = clauses.flat_map(|clause| &clause.settings);
    let has_paths = settings.any(|one| KEYS.contains(&&*one.key) && !one.value().is_empty());
    let last = conf.server.all("chroot").next_back().map(|one| one.origin.place);
    for one in conf.server.all("chroot") {
        let counts = Some(one.origin.place) == last && !one.value().is_empty();
        match counts && has_paths {
            true => {
                let why = "paths are taken over as they are written; those inside of this folder need its name before them";
                forwarder.draft.unmapped(&one.origin, why);
            }
            false => forwarder.draft.unneeded(&one.origin),
        }
    }
}
