//! The rules of `[[local]]`, `[block]` and the tables that name files: names that are answered here.

use std::collections::HashMap;
use std::path::Path;

use super::{Checked, Mistakes, at_most, broken, in_range};
use crate::limits::{MAX_BLOCKLISTS, MAX_REASON, MAX_RPZ, MAX_TTL, MAX_ZONES};
use crate::local::{Local, LocalRecord};
use crate::name::{NameError, readable, wire_name};
use crate::problem::Problem;
use crate::settings::{Block, Config};

/// Record types by number (RFC 1035 section 3.2.2, RFC 4034).
const CNAME: u16 = 5;
const RRSIG: u16 = 46;
const NSEC: u16 = 47;

impl Block {
    /// The blocked names in wire format, lower case, in the order of the file.
    ///
    /// # Errors
    ///
    /// The first name that is none; a checked configuration has no such name.
    pub fn wire_names(&self) -> Result<Vec<Box<[u8]>>, NameError> {
        self.names.iter().map(|name| wire_name(name)).collect()
    }
}

pub(super) fn check_block(block: &Block, found: &mut Mistakes) {
    for (index, name) in block.names.iter().enumerate() {
        let key = || format!("block.names[{index}]");
        if let Some(rest) = name.strip_prefix("*.") {
            found.note(broken(key(), Problem::BlockedWildcard(rest.to_owned())));
        } else if let Err(error) = wire_name(name) {
            found.note(broken(key(), error.into()));
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
    }
}

fn check_zone(path: &str, file: &Path, origin: Option<&str>) -> Checked {
    check_file(&format!("{path}.file"), file)?;
    match origin.map(wire_name) {
        Some(Err(error)) => broken(format!("{path}.origin"), Problem::Origin(error)),
        _ => Ok(()),
    }
}

/// Whether a text can be shown to people.
fn check_text(key: &str, text: Option<&str>) -> Checked {
    match text {
        Some("") => broken(key, Problem::Empty("a text for people, or leave the key out")),
        Some(text) if text.chars().any(char::is_control) => broken(key, Problem::NotPrintable),
        Some(text) => at_most(key, "bytes", text.len(), MAX_REASON),
        None => Ok(()),
    }
}

fn check_file(key: &str, file: &Path) -> Checked {
    match file.as_os_str().is_empty() {
        true => broken(key, Problem::Empty("the path of a file")),
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
        return broken(path(second), Problem::SameRecord { other: path(first) });
    }
    // RFC 4034 section 3: the records that sign a CNAME stand beside it.
    let is_cname = |record: &LocalRecord| record.rtype == CNAME;
    let may_join = |record: &LocalRecord| matches!(record.rtype, RRSIG | NSEC);
    for (cname, other) in [(second, first), (first, second)] {
        if is_cname(&records[cname].record) && !may_join(&records[other].record) {
            let (name, other) = (readable(&record.name), path(other));
            return broken(path(cname), Problem::CnameNotAlone { name, other });
        }
    }
    if before.rtype == record.rtype && before.ttl != record.ttl {
        let (ttl, other_ttl, other) = (record.ttl, before.ttl, path(first));
        let key = format!("{}.ttl", path(second));
        return broken(key, Problem::TtlsDiffer { ttl, other, other_ttl });
    }
    Ok(())
}
