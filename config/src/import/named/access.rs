//! Lists of clients: the first element that matches decides.

use std::collections::BTreeMap;

use super::statement::Statement;
use crate::import::meaning::{Forwarder, network};
use crate::import::source::Origin;
use crate::limits::MAX_IMPORT_NESTING;
use crate::prefix::Prefix;

/// The lists that have names.
pub(super) type Lists<'s> = BTreeMap<String, &'s Statement>;

/// Networks that an address match list was made into, each allowed or not.
pub(super) type Clients = Vec<(Prefix, bool, Origin)>;

/// Elements of one list, with those of the lists in it. A list may contain itself.
const MAX_ELEMENTS: usize = 100_000;

/// The networks of a list.
pub(super) fn clients(list: &Statement, lists: &Lists<'_>, forwarder: &mut Forwarder) -> Clients {
    let (mut clients, mut left) = (Clients::new(), MAX_ELEMENTS);
    add(list, lists, (true, 0), &mut left, &mut clients, forwarder);
    clients
}

fn add(
    list: &Statement,
    lists: &Lists<'_>,
    (allowed, depth): (bool, usize),
    left: &mut usize,
    clients: &mut Clients,
    forwarder: &mut Forwarder,
) {
    for one in list.block() {
        let origin = one.origin();
        let negated = one.word(0) == "!";
        let allowed = allowed != negated;
        let word = one.word(usize::from(negated));
        if depth >= MAX_IMPORT_NESTING || *left == 0 {
            return forwarder.draft.unmapped(&origin, "the lists in this list are too many");
        }
        *left -= 1;
        let mut all = |networks: &[&str]| {
            let networks = networks.iter().filter_map(|text| network(text));
            clients.extend(networks.map(|prefix| (prefix, allowed, origin.clone())));
        };
        match word {
            "" if one.block.is_some() => {
                add(one, lists, (allowed, depth + 1), left, clients, forwarder);
            }
            "any" => all(&["0.0.0.0/0", "::/0"]),
            "none" => {}
            "localhost" => all(&["127.0.0.0/8", "::1/128"]),
            "localnets" => {
                let why = "write the networks of this host's interfaces";
                forwarder.draft.unmapped(&origin, why);
            }
            "key" | "geoip" => {
                forwarder.draft.unmapped(&origin, "clients are told apart by address alone");
            }
            word => match (whole_network(word), lists.get(word)) {
                (Some(prefix), _) => clients.push((prefix, allowed, origin)),
                (None, Some(list)) => {
                    add(list, lists, (allowed, depth + 1), left, clients, forwarder)
                }
                (None, None) => forwarder.draft.unmapped(&origin, "there is no list of this name"),
            },
        }
    }
}

/// A network whose last octets may be left out, as in `10/8`.
fn whole_network(word: &str) -> Option<Prefix> {
    network(word).or_else(|| {
        let (address, length) = word.split_once('/')?;
        let octets: Vec<&str> = address.split('.').filter(|octet| !octet.is_empty()).collect();
        let whole = octets.into_iter().chain(["0"; 4]).take(4).collect::<Vec<_>>().join(".");
        network(&format!("{whole}/{length}"))
    })
}

/// Gives the clients this access, the others `refused`. What an earlier network covers has no effect.
pub(super) fn give(clients: Clients, refused: &'static str, forwarder: &mut Forwarder) {
    for (at, (prefix, allowed, origin)) in clients.iter().enumerate() {
        let covers = |(other, _, _): &(Prefix, bool, Origin)| {
            let ours = format!("{}/{}", prefix.network, other.length);
            other.length <= prefix.length && network(&ours) == Some(*other)
        };
        // Lists are short; of long ones the end is compared with the beginning only.
        match clients[..at].iter().take(MAX_COMPARED).any(covers) {
            true => forwarder.draft.unneeded(origin),
            false if *allowed => forwarder.access(*prefix, "allow", origin),
            false => forwarder.access(*prefix, refused, origin),
        }
    }
}

/// Elements that a later one is compared with.
const MAX_COMPARED: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_may_be_left_out() {
        assert_eq!(whole_network("10/8").map(|it| it.to_string()).as_deref(), Some("10.0.0.0/8"));
        assert_eq!(whole_network("x/8"), None);
    }
}
