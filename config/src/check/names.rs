//! The rules of `[[local]]`, `[block]` and the tables that name files: names that are answered here.

use std::collections::HashMap;
use std::path::Path;

use super::rules::{Checked, Mistakes, at_most, broken, in_range};
use crate::files::folder_of;
use crate::limits::{
    MAX_BLOCKLISTS, MAX_LIST_NETWORKS, MAX_LIST_REFRESH_SECONDS, MAX_REASON, MAX_RPZ, MAX_TTL,
    MAX_ZONES, MIN_LIST_REFRESH_SECONDS,
};
use crate::local::{Local, LocalRecord};
use crate::name::{NameError, readable, subtree_name, wire_name, without_wildcard};
use crate::problem::BrokenRule;
use crate::settings::{BlockSettings, Blocklist, Config};
use crate::upstream::{Protocol, Server};

/// Record types by number (RFC 1035 section 3.2.2, RFC 4034).
const CNAME: u16 = 5;
const RRSIG: u16 = 46;
const NSEC: u16 = 47;

impl BlockSettings {
    /// The blocked names in wire format, lower case, in the order of the file.
    ///
    /// # Errors
    ///
    /// The first name that is none; a checked configuration has no such name.
    pub fn wire_names(&self) -> Result<Vec<Box<[u8]>>, NameError> {
        self.names.iter().map(|name| subtree_name(name)).collect()
    }

    /// The names that are never blocked, in the same form.
    ///
    /// # Errors
    ///
    /// As [`BlockSettings::wire_names`].
    pub fn wire_exceptions(&self) -> Result<Vec<Box<[u8]>>, NameError> {
        self.except.iter().map(|name| wire_name(name)).collect()
    }
}

pub(super) fn check_block(block: &BlockSettings, found: &mut Mistakes) {
    check_names(&block.names, "block.names", found);
    check_exceptions(&block.except, "block.except", found);
}

/// The rules of a list of names, each of which stands for all below it too.
pub(super) fn check_names(names: &[String], path: &str, found: &mut Mistakes) {
    for (index, name) in names.iter().enumerate() {
        if let Err(error) = subtree_name(name) {
            found.note(broken(format!("{path}[{index}]"), error.into()));
        }
    }
}

/// The rules of a list of exceptions, each of which stands for all below it too, and is no wildcard.
pub(super) fn check_exceptions(names: &[String], path: &str, found: &mut Mistakes) {
    for (index, text) in names.iter().enumerate() {
        let problem = match without_wildcard(text) {
            (name, true) => Some(BrokenRule::Wildcard(name.to_owned())),
            (_, false) => subtree_name(text).err().map(BrokenRule::from),
        };
        if let Some(problem) = problem {
            found.note(broken(format!("{path}[{index}]"), problem));
        }
    }
}

/// The rules of the tables that name files. What is in the files is checked when they are read.
pub(super) fn check_files(config: &Config, found: &mut Mistakes) {
    found.note(at_most("zone", "zone files", config.zones.len(), MAX_ZONES));
    found.note(at_most("blocklist", "block lists", config.blocklists.len(), MAX_BLOCKLISTS));
    found.note(at_most("rpz", "policy zones", config.rpz.len(), MAX_RPZ));
    for (index, zone) in config.zones.iter().enumerate() {
        found.note(check_zone(&format!("zone[{index}]"), &zone.file, zone.origin.as_deref()));
    }
    for (index, zone) in config.rpz.iter().enumerate() {
        found.note(check_zone(&format!("rpz[{index}]"), &zone.file, zone.origin.as_deref()));
        found.note(check_text(&format!("rpz[{index}].text"), zone.text.as_deref()));
    }
    for (index, list) in config.blocklists.iter().enumerate() {
        found.note(check_file(&format!("blocklist[{index}].file"), &list.file));
        found.note(check_text(&format!("blocklist[{index}].text"), list.text.as_deref()));
        found.note(check_fetched(config, index, list));
    }
}

/// The rules of a list that is fetched, and of the keys that only such a list has.
fn check_fetched(config: &Config, index: usize, list: &Blocklist) -> Checked {
    let key = |name: &str| format!("blocklist[{index}].{name}");
    let (min, max) = (MIN_LIST_REFRESH_SECONDS, MAX_LIST_REFRESH_SECONDS);
    list.refresh_seconds.map_or(Ok(()), |s| in_range(&key("refresh_seconds"), s, min, max))?;
    let Some(url) = &list.url else {
        let only_fetched =
            [("address", list.address.is_some()), ("ca_file", list.ca_file.is_some())];
        let wrong = only_fetched.into_iter().find(|(_, is_there)| *is_there);
        return wrong.map_or(Ok(()), |(name, _)| broken(key(name), BrokenRule::NeedsUrl));
    };
    let is_https = |server: &Server| matches!(server.protocol, Protocol::Https(_));
    // The host is followed by a path: there is none for lists by default.
    let has_path = url.to_string().matches('/').count() > 2;
    if !url.server().is_some_and(is_https) || !has_path {
        return broken(key("url"), BrokenRule::ListUrl);
    }
    let earlier = config.blocklists[..index].iter().position(|one| one.file == list.file);
    earlier.map_or(Ok(()), |other| {
        let (value, other) = (list.file.display().to_string(), format!("blocklist[{other}].file"));
        broken(key("file"), BrokenRule::Twice { value, other, fix: "write another file" })
    })
}

/// Lists of run time have a folder of their own, so none of them takes the place of another file.
pub(super) fn check_run_time(config: &Config) -> Checked {
    let networks = config.control.list_networks.len();
    at_most("control.list_networks", "prefixes", networks, MAX_LIST_NETWORKS)?;
    let Some(folder) = &config.control.lists else { return Ok(()) };
    let key = "control.lists";
    if folder.as_os_str().is_empty() {
        return broken(key, BrokenRule::Empty("the path of a folder, or leave it out"));
    }
    // Lists may be there: each has a name of its own.
    let zones = config.zones.iter().map(|zone| &zone.file);
    let named = zones
        .chain(config.rpz.iter().map(|rpz| &rpz.file))
        .chain(config.query_log.json.iter().chain(&config.query_log.sqlite))
        .chain(config.cache.snapshot.iter().chain(&config.control.entries))
        .chain(&config.control.crashes)
        .chain(config.clients.file.iter().chain(&config.clients.journal));
    let mut others = named.chain([&config.control.socket]);
    match others.find(|file| folder_of(file) == folder) {
        Some(file) => broken(key, BrokenRule::SharedFolder(file.display().to_string())),
        None => Ok(()),
    }
}

fn check_zone(path: &str, file: &Path, origin: Option<&str>) -> Checked {
    check_file(&format!("{path}.file"), file)?;
    match origin.map(wire_name) {
        Some(Err(error)) => broken(format!("{path}.origin"), BrokenRule::Origin(error)),
        _ => Ok(()),
    }
}

/// Whether a text can be shown to people.
pub(super) fn check_text(key: &str, text: Option<&str>) -> Checked {
    match text {
        Some("") => broken(key, BrokenRule::Empty("a text for people, or leave the key out")),
        Some(text) if text.chars().any(char::is_control) => broken(key, BrokenRule::NotPrintable),
        Some(text) => at_most(key, "bytes", text.len(), MAX_REASON),
        None => Ok(()),
    }
}

pub(super) fn check_file(key: &str, file: &Path) -> Checked {
    match file.as_os_str().is_empty() {
        true => broken(key, BrokenRule::Empty("the path of a file")),
        false => Ok(()),
    }
}

pub(super) fn check_local(config: &Config, found: &mut Mistakes) {
    let mut by_name: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (index, Local { record, views }) in config.local.iter().enumerate() {
        let set = config.view_set(views);
        found.note(in_range(&format!("local[{index}].ttl"), record.ttl, 0, MAX_TTL));
        let earlier = by_name.entry(&record.name).or_default();
        for &other in earlier.iter() {
            if set.meets(config.view_set(&config.local[other].views)) {
                found.note(check_pair(&config.local, other, index));
            }
        }
        earlier.push(index);
    }
}

/// Whether two records of one name and view go together; `first` stands before `second` in the file.
fn check_pair(records: &[Local], first: usize, second: usize) -> Checked {
    let (before, record) = (&records[first].record, &records[second].record);
    let path = |index: usize| format!("local[{index}]");
    if before.rtype == record.rtype && before.data == record.data {
        return broken(path(second), BrokenRule::SameRecord { other: path(first) });
    }
    // RFC 4034 section 3: the records that sign a CNAME stand beside it.
    let is_cname = |record: &LocalRecord| record.rtype == CNAME;
    let may_join = |record: &LocalRecord| matches!(record.rtype, RRSIG | NSEC);
    for (cname, other) in [(second, first), (first, second)] {
        if is_cname(&records[cname].record) && !may_join(&records[other].record) {
            let (name, other) = (readable(&record.name), path(other));
            return broken(path(cname), BrokenRule::CnameNotAlone { name, other });
        }
    }
    if before.rtype == record.rtype && before.ttl != record.ttl {
        let (ttl, other_ttl, other) = (record.ttl, before.ttl, path(first));
        let key = format!("{}.ttl", path(second));
        return broken(key, BrokenRule::TtlsDiffer { ttl, other, other_ttl });
    }
    Ok(())
}
