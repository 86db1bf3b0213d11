//! The rules of `[[tsig]]`, `[transfer]` and of policy zones that come from a primary.

use std::collections::HashMap;

use super::{Verdict, at_most, broken, unicast};
use crate::limits::{MAX_PRIMARIES, MAX_TSIG};
use crate::name::{readable, wire_name};
use crate::problem::Problem;
use crate::settings::{Absent, Config, Rpz, Transfer, Tsig};

pub(super) fn check(config: &Config) -> Verdict {
    check_keys(&config.tsig)?;
    check_listen(&config.transfer)?;
    let mut zones = HashMap::new();
    for (index, rpz) in config.rpz.iter().enumerate() {
        let path = format!("rpz[{index}]");
        check_primaries(&path, rpz, &config.tsig)?;
        let Some(zone) = &rpz.zone else { continue };
        let zone = match wire_name(zone) {
            Ok(zone) => zone,
            Err(error) => return broken(format!("{path}.zone"), Problem::Zone(error)),
        };
        for (key, value) in [("zone", readable(&zone)), ("file", rpz.file.display().to_string())] {
            if let Some(first) = zones.insert((key, value.clone()), index) {
                let other = format!("rpz[{first}].{key}");
                let fix = "each zone is transferred once, into a file of its own";
                return broken(format!("{path}.{key}"), Problem::Twice { value, other, fix });
            }
        }
    }
    Ok(())
}

fn check_keys(keys: &[Tsig]) -> Verdict {
    at_most("tsig", "keys", keys.len(), MAX_TSIG)?;
    let mut names = HashMap::new();
    for (index, key) in keys.iter().enumerate() {
        let path = format!("tsig[{index}]");
        let name = match wire_name(&key.name) {
            Ok(name) => readable(&name),
            Err(error) => return broken(format!("{path}.name"), Problem::Key(error)),
        };
        if let Some(first) = names.insert(name.clone(), index) {
            let (other, fix) = (format!("tsig[{first}].name"), "a name stands for one key");
            let problem = Problem::Twice { value: name, other, fix };
            return broken(format!("{path}.name"), problem);
        }
        if let Err(problem) = key.secret() {
            let key = match key.secret_file {
                Some(_) => format!("{path}.secret_file"),
                None => format!("{path}.name"),
            };
            return broken(key, problem);
        }
    }
    Ok(())
}

fn check_listen(transfer: &Transfer) -> Verdict {
    match transfer.listen {
        Some(listen) if listen.port() == 0 => {
            let fix = "a port other than 0, as in \"192.0.2.2:53\"";
            broken("transfer.listen", Problem::Empty(fix))
        }
        Some(listen) if listen.ip().is_multicast() => {
            broken("transfer.listen", Problem::NotUnicast(listen.ip()))
        }
        _ => Ok(()),
    }
}

fn check_primaries(path: &str, rpz: &Rpz, keys: &[Tsig]) -> Verdict {
    let key = format!("{path}.primaries");
    at_most(&key, "primaries", rpz.primaries.len(), MAX_PRIMARIES)?;
    for (index, primary) in rpz.primaries.iter().enumerate() {
        let key = format!("{key}[{index}]");
        unicast(&key, primary.ip())?;
        if primary.port() == 0 {
            return broken(key, Problem::Empty("a port other than 0, as in \"192.0.2.1:53\""));
        }
    }
    let fix = "write both, or neither";
    match (&rpz.zone, rpz.primaries.is_empty()) {
        (Some(_), true) => {
            return broken(format!("{path}.zone"), Problem::Without { other: "primaries", fix });
        }
        (None, false) => return broken(key, Problem::Without { other: "zone", fix }),
        _ => {}
    }
    if rpz.zone.is_some() && rpz.origin.is_some() {
        return broken(format!("{path}.origin"), Problem::Both { other: "zone" });
    }
    if rpz.zone.is_none() && rpz.absent != Absent::default() {
        return broken(format!("{path}.absent"), Problem::Without { other: "primaries", fix });
    }
    let Some(name) = &rpz.tsig else { return Ok(()) };
    if rpz.zone.is_none() {
        return broken(format!("{path}.tsig"), Problem::Without { other: "primaries", fix });
    }
    match rpz.key(keys) {
        Some(_) => Ok(()),
        None => broken(format!("{path}.tsig"), Problem::NoKey(name.clone())),
    }
}

impl Rpz {
    /// The key of `keys` that messages to and from its primaries are signed with, if it names one of them.
    pub fn key<'a>(&self, keys: &'a [Tsig]) -> Option<&'a Tsig> {
        let name = wire_name(self.tsig.as_ref()?).ok()?;
        keys.iter().find(|key| wire_name(&key.name).is_ok_and(|one| one == name))
    }
}
