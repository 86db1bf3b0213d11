//! The rules of `[[tsig]]`, `[transfer]` and of policy zones that come from a primary.

use std::collections::HashMap;

use super::rules::{Checked, Mistakes, at_most, broken, listen, unicast};
use crate::limits::{MAX_PRIMARIES, MAX_TSIG};
use crate::name::{readable, wire_name};
use crate::problem::BrokenRule;
use crate::settings::{Absent, Config, Rpz, Tsig};

pub(super) fn check(config: &Config, found: &mut Mistakes) {
    check_keys(&config.tsig, found);
    let fix = "a port other than 0, as in \"192.0.2.2:53\"";
    found.note(listen("transfer.listen", config.transfer.listen, fix));
    let mut zones = HashMap::new();
    for (index, rpz) in config.rpz.iter().enumerate() {
        let path = format!("rpz[{index}]");
        check_primaries(&path, rpz, &config.tsig, found);
        let Some(zone) = &rpz.zone else { continue };
        let zone = match wire_name(zone) {
            Ok(zone) => zone,
            Err(error) => {
                found.note(broken(format!("{path}.zone"), BrokenRule::Zone(error)));
                continue;
            }
        };
        for (key, value) in [("zone", readable(&zone)), ("file", rpz.file.display().to_string())] {
            if let Some(first) = zones.insert((key, value.clone()), index) {
                let other = format!("rpz[{first}].{key}");
                let fix = "each zone is transferred once, into a file of its own";
                found
                    .note(broken(format!("{path}.{key}"), BrokenRule::Twice { value, other, fix }));
            }
        }
    }
}

fn check_keys(keys: &[Tsig], found: &mut Mistakes) {
    found.note(at_most("tsig", "keys", keys.len(), MAX_TSIG));
    let mut names = HashMap::new();
    for (index, key) in keys.iter().enumerate() {
        let path = format!("tsig[{index}]");
        found.note(check_key_name(format!("{path}.name"), index, &key.name, &mut names));
        if let Err(problem) = key.secret() {
            let key = match key.secret_file {
                Some(_) => format!("{path}.secret_file"),
                None => format!("{path}.name"),
            };
            found.note(broken(key, problem));
        }
    }
}

/// Whether a key's name is one, and not another key's; `names` has those before it.
fn check_key_name(
    path: String,
    index: usize,
    name: &str,
    names: &mut HashMap<String, usize>,
) -> Checked {
    let name = match wire_name(name) {
        Ok(name) => readable(&name),
        Err(error) => return broken(path, BrokenRule::Key(error)),
    };
    match names.insert(name.clone(), index) {
        Some(first) => {
            let (other, fix) = (format!("tsig[{first}].name"), "a name stands for one key");
            broken(path, BrokenRule::Twice { value: name, other, fix })
        }
        None => Ok(()),
    }
}

fn check_primaries(path: &str, rpz: &Rpz, keys: &[Tsig], found: &mut Mistakes) {
    let key = format!("{path}.primaries");
    found.note(at_most(&key, "primaries", rpz.primaries.len(), MAX_PRIMARIES));
    for (index, primary) in rpz.primaries.iter().enumerate() {
        let key = format!("{key}[{index}]");
        found.note(unicast(&key, primary.ip()));
        if primary.port() == 0 {
            let fix = "a port other than 0, as in \"192.0.2.1:53\"";
            found.note(broken(key, BrokenRule::Empty(fix)));
        }
    }
    found.note(check_transferred(path, rpz, keys));
}

/// Whether the keys of a zone that is transferred stand together.
fn check_transferred(path: &str, rpz: &Rpz, keys: &[Tsig]) -> Checked {
    let fix = "write both, or neither";
    let without =
        |key: &str, other| broken(format!("{path}.{key}"), BrokenRule::Without { other, fix });
    match (&rpz.zone, rpz.primaries.is_empty()) {
        (Some(_), true) => return without("zone", "primaries"),
        (None, false) => return without("primaries", "zone"),
        _ => {}
    }
    if rpz.zone.is_some() && rpz.origin.is_some() {
        return broken(format!("{path}.origin"), BrokenRule::Both { other: "zone" });
    }
    if rpz.zone.is_none() && rpz.absent != Absent::default() {
        return without("absent", "primaries");
    }
    let Some(name) = &rpz.tsig else { return Ok(()) };
    if rpz.zone.is_none() {
        return without("tsig", "primaries");
    }
    match rpz.key(keys) {
        Some(_) => Ok(()),
        None => broken(format!("{path}.tsig"), BrokenRule::NoKey(name.clone())),
    }
}

impl Rpz {
    /// The key of `keys` that messages to and from its primaries are signed with, if it names one of them.
    pub fn key<'a>(&self, keys: &'a [Tsig]) -> Option<&'a Tsig> {
        let name = wire_name(self.tsig.as_ref()?).ok()?;
        keys.iter().find(|key| wire_name(&key.name).is_ok_and(|one| one == name))
    }
}
