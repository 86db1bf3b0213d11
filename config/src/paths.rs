//! The paths of a configuration, with what is done there.

use std::path::Path;

use crate::settings::{Config, DnstapReader};

/// What pmdns does with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathUse {
    /// It reads the file, at start and by a reload.
    Read,
    /// It writes the file, which need not exist: to its end, or anew.
    Write,
    /// It makes a socket there.
    Socket,
    /// It connects to a socket of another program.
    Connect,
    /// It makes files in the folder.
    Folder,
}

/// A path, with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPath<'c> {
    /// As in `zone[1].file`.
    pub key: String,
    /// The path.
    pub path: &'c Path,
    /// What is done there.
    pub usage: PathUse,
}

impl Config {
    /// Every path of this configuration.
    pub fn paths(&self) -> Vec<NamedPath<'_>> {
        let mut paths = self.paths_of_lists();
        paths.extend(self.paths_of_tables());
        paths
    }

    /// Those of tables that there may be several of.
    fn paths_of_lists(&self) -> Vec<NamedPath<'_>> {
        use PathUse::{Read, Write};
        let mut all = Paths::default();
        for (index, upstream) in self.upstreams.iter().enumerate() {
            all.add(|| format!("upstream[{index}].ca_file"), upstream.ca_file.as_deref(), Read);
        }
        for (index, zone) in self.zones.iter().enumerate() {
            all.add(|| format!("zone[{index}].file"), Some(&zone.file), Read);
        }
        for (index, list) in self.blocklists.iter().enumerate() {
            let usage = if list.url.is_some() { Write } else { Read };
            all.add(|| format!("blocklist[{index}].file"), Some(&list.file), usage);
            all.add(|| format!("blocklist[{index}].ca_file"), list.ca_file.as_deref(), Read);
        }
        for (index, rpz) in self.rpz.iter().enumerate() {
            let usage = if rpz.zone.is_some() { Write } else { Read };
            all.add(|| format!("rpz[{index}].file"), Some(&rpz.file), usage);
        }
        for (index, redirect) in self.redirects.iter().enumerate() {
            all.add(|| format!("redirect[{index}].file"), redirect.file.as_deref(), Read);
            let except = redirect.except_file.as_deref();
            all.add(|| format!("redirect[{index}].except_file"), except, Read);
        }
        for (index, key) in self.tsig.iter().enumerate() {
            all.add(|| format!("tsig[{index}].secret_file"), key.secret_file.as_deref(), Read);
        }
        for (index, token) in self.tokens.iter().enumerate() {
            all.add(|| format!("token[{index}].secret_file"), token.secret_file.as_deref(), Read);
        }
        all.0
    }

    fn paths_of_tables(&self) -> Vec<NamedPath<'_>> {
        use PathUse::{Connect, Folder, Read, Socket, Write};
        let (api, control, log) = (&self.api, &self.control, &self.query_log);
        let dnstap = match &log.dnstap {
            Some(DnstapReader::Unix(path)) => Some(path.as_path()),
            _ => None,
        };
        let mut all = Paths::default();
        for (key, path, usage) in [
            ("cookies.secret_file", self.cookies.secret_file.as_deref(), Read),
            ("cache.snapshot", self.cache.snapshot.as_deref(), Write),
            ("dnssec.trust_anchor", self.dnssec.trust_anchor.as_deref(), Read),
            ("clients.file", self.clients.file.as_deref(), Read),
            ("clients.journal", self.clients.journal.as_deref(), Write),
            ("streams.certificate", self.streams.certificate.as_deref(), Read),
            ("streams.key", self.streams.key.as_deref(), Read),
            ("control.socket", Some(control.socket.as_path()), Socket),
            ("control.entries", control.entries.as_deref(), Write),
            ("control.crashes", control.crashes.as_deref(), Write),
            ("control.lists", control.lists.as_deref(), Folder),
            ("api.socket", api.socket.as_deref(), Socket),
            ("api.certificate", api.certificate.as_deref(), Read),
            ("api.key", api.key.as_deref(), Read),
            ("api.client_ca", api.client_ca.as_deref(), Read),
            ("query_log.dnstap", dnstap, Connect),
            ("query_log.json", log.json.as_deref(), Write),
            ("query_log.sqlite", log.sqlite.as_deref(), Write),
            ("query_log.client_secret_file", log.client_secret_file.as_deref(), Read),
        ] {
            all.add(|| key.to_owned(), path, usage);
        }
        all.0
    }
}

#[derive(Default)]
struct Paths<'c>(Vec<NamedPath<'c>>);

impl<'c> Paths<'c> {
    fn add(&mut self, key: impl FnOnce() -> String, path: Option<&'c Path>, usage: PathUse) {
        self.0.extend(path.map(|path| NamedPath { key: key(), path, usage }));
    }
}
