//! Zones from files and by transfer: `rpz:` and `auth-zone:`.

use std::net::{IpAddr, SocketAddr};

use super::clause::{Clause, Conf, Setting};
use super::clients::{Groups, tags_of};
use super::paths::path;
use crate::meaning::{Forwarder, NONE, truth};

pub(super) fn map(conf: &Conf, groups: &Groups, forwarder: &mut Forwarder) {
    for clause in &conf.others {
        match &*clause.name {
            "rpz" => policy_zone(clause, conf, groups, forwarder),
            "auth-zone" => auth_zone(clause, conf, forwarder),
            _ => {}
        }
    }
}

/// What the settings of a policy zone say, apart from its name and file.
#[derive(Default)]
struct Policy<'c> {
    primaries: Vec<(SocketAddr, &'c Setting)>,
    views: Vec<String>,
    /// It has no clients, or no effect.
    is_left_out: bool,
}

fn policy_zone(clause: &Clause, conf: &Conf, groups: &Groups, forwarder: &mut Forwarder) {
    let origin = Some(clause.origin.clone());
    let name = clause.last("name").unwrap_or_default().to_owned();
    let policy = policy(clause, groups, forwarder);
    if policy.is_left_out {
        clause.settings.iter().for_each(|one| forwarder.draft.read(&one.origin));
        return forwarder.draft.unneeded(&clause.origin);
    }
    let file = clause.all("zonefile").next_back();
    if file.is_none() && policy.primaries.is_empty() {
        return forwarder.draft.decisive(&clause.origin, "it has neither a file nor a primary");
    }
    let kept = format!("/var/lib/pmdns/{}.rpz", forwarder.short("rpz", &name));
    let file = file.map(|file| path(file, &conf.server, forwarder));
    let zone = forwarder.draft.add("rpz", origin.clone());
    zone.set("file", file.unwrap_or(kept), origin.clone());
    match policy.primaries.is_empty() {
        true => zone.set("origin", name, origin),
        false => zone.set("zone", name, origin),
    };
    for (primary, one) in policy.primaries {
        zone.push("primaries", primary.to_string(), Some(one.origin.clone()));
    }
    zone.in_views(&policy.views, &clause.origin);
}

fn policy<'c>(clause: &'c Clause, groups: &Groups, forwarder: &mut Forwarder) -> Policy<'c> {
    let mut policy = Policy::default();
    for one in &clause.settings {
        let draft = &mut forwarder.draft;
        match &*one.key {
            "name" | "zonefile" => draft.read(&one.origin),
            "primary" | "master" => match primary(one.value()) {
                Some(address) => policy.primaries.push((address, one)),
                None => draft.decisive(&one.origin, "a primary has an address, not a name"),
            },
            "tags" => match groups.views(|group| group.has_tag(&tags_of(one, 0))) {
                Some(in_views) => {
                    policy.views = in_views;
                    draft.read(&one.origin);
                }
                None => {
                    draft.unneeded(&one.origin);
                    policy.is_left_out = true;
                }
            },
            "rpz-log" | "rpz-log-name" | "allow-notify" => draft.unneeded(&one.origin),
            "rpz-action-override" if one.value() == "disabled" => {
                draft.unneeded(&one.origin);
                policy.is_left_out = true;
            }
            "rpz-action-override" => {
                policy.is_left_out |= one.value() == "passthru";
                let why = "the rules of a zone say what becomes of a query";
                draft.unmapped(&one.origin, why);
            }
            "rpz-cname-override"
            | "rpz-signal-nxdomain-ra"
            | "url"
            | "for-downstream"
            | "for-upstream"
            | "fallback-enabled" => draft.unmapped(&one.origin, NONE),
            // It counts as unread.
            _ => {}
        }
    }
    policy
}

/// `address@port`.
fn primary(value: &str) -> Option<SocketAddr> {
    let (address, port) = value.split_once('@').unwrap_or((value, "53"));
    Some(SocketAddr::new(address.parse::<IpAddr>().ok()?, port.parse().ok()?))
}

/// A zone that is answered from a file.
fn auth_zone(clause: &Clause, conf: &Conf, forwarder: &mut Forwarder) {
    let origin = Some(clause.origin.clone());
    let name = clause.last("name").unwrap_or(".");
    for one in &clause.settings {
        match &*one.key {
            "name" | "zonefile" | "primary" | "master" | "url" => forwarder.draft.read(&one.origin),
            "for-downstream"
            | "for-upstream"
            | "fallback-enabled"
            | "allow-notify"
            | "zonemd-check"
            | "zonemd-reject-absence" => forwarder.draft.unneeded(&one.origin),
            // It counts as unread.
            _ => {}
        }
    }
    let is_copied = ["primary", "master", "url"].iter().any(|key| clause.last(key).is_some());
    let is_told = clause.last("for-downstream").and_then(truth) != Some(false);
    match clause.all("zonefile").next_back().filter(|_| !is_copied) {
        // A copy of the root is of use to those who resolve from it.
        _ if name == "." => forwarder.draft.unneeded(&clause.origin),
        Some(file) => {
            if !is_told {
                let why = "clients get its records as those of an authority, with AA";
                forwarder.draft.unmapped(&clause.origin, why);
            }
            let file = path(file, &conf.server, forwarder);
            let zone = forwarder.draft.add("zone", origin.clone());
            zone.set("file", file, origin.clone());
            zone.set("origin", name, origin);
        }
        None => {
            let why = "zones are not transferred, but for `[[rpz]]`; its names are asked upstream";
            forwarder.draft.decisive(&clause.origin, why);
        }
    }
}
