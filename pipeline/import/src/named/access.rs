//! Lists of clients: the first element that matches decides (`address_match_list`).

use std::collections::BTreeMap;

use pmdns_config::Prefix;

use super::names::Names;
use super::statement::Statement;
use crate::clients::{ByClient, SettingValue, roots};
use crate::limits::MAX_NESTING;
use crate::meaning::{Forwarder, network};
use crate::source::Origin;

/// The lists that have names.
pub(super) type Lists<'s> = BTreeMap<String, &'s Statement>;

/// For each client whether the list matches it, or lets it through with an exclamation mark; `None`: neither.
pub(super) type Clients = ByClient<SettingValue<Option<bool>>>;

/// What to take for clients that are not known by their addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    /// The list does not match them: it allows something.
    NoMatch,
    /// The list matches all clients: it forbids something.
    Match,
}

impl Unknown {
    fn flipped(self) -> Self {
        match self {
            Self::NoMatch => Self::Match,
            Self::Match => Self::NoMatch,
        }
    }
}

/// A list that is being read.
struct Reader<'r, 's> {
    names: &'r Names<'s>,
    forwarder: &'r mut Forwarder,
}

/// The clients that a list matches. What cannot be told by an address is listed.
pub(super) fn clients(
    list: &Statement,
    names: &Names<'_>,
    unknown: Unknown,
    forwarder: &mut Forwarder,
) -> Clients {
    Reader { names, forwarder }.read(list, unknown, 0)
}

/// Whether a list leaves out some clients of a network that it matches: those that it denies, or that a list in it denies.
fn has_exceptions(clients: &Clients) -> bool {
    let is_root = |network: &Prefix| network.length == 0;
    clients.networks().any(|(network, said)| {
        said.value != Some(true) && !(is_root(&network) && said.value.is_none())
    })
}

/// The networks that a list without exceptions matches.
fn matched(clients: &Clients) -> impl Iterator<Item = (Prefix, &SettingValue<Option<bool>>)> {
    clients.networks().filter(|(_, said)| said.value == Some(true))
}

impl Reader<'_, '_> {
    fn read(&mut self, list: &Statement, unknown: Unknown, depth: usize) -> Clients {
        // Elements before the next list in this one; then what they, and that list, say.
        let mut plain: Vec<(Prefix, SettingValue<Option<bool>>)> = Vec::new();
        let mut before = ByClient::all(SettingValue::by_default(None));
        for one in list.block() {
            let origin = one.origin();
            self.forwarder.draft.read(&origin);
            let negated = one.word(0) == "!";
            let said = SettingValue::by(Some(!negated), &origin);
            let word = one.word(usize::from(negated));
            let named =
                self.names.lists.get(word).copied().filter(|_| whole_network(word).is_none());
            let inner = match word {
                "" => Some(one).filter(|one| one.block.is_some()),
                "any" | "none" | "localhost" | "localnets" | "key" | "geoip" => None,
                _ => named,
            };
            if depth >= MAX_NESTING || !self.names.take_elements(1) {
                self.forwarder.draft.decisive(&origin, "the lists in this list are too many");
                plain.extend(all_of(!negated, unknown, &origin));
                break;
            }
            if let Some(inner) = inner {
                let unknown = if negated { unknown.flipped() } else { unknown };
                let inner = self.read(inner, unknown, depth + 1);
                if !has_exceptions(&inner) {
                    plain.extend(matched(&inner).map(|(network, _)| (network, said.clone())));
                    continue;
                }
                self.names.take_elements(inner.len() + before.len());
                before = later(
                    &before,
                    &ByClient::first_match(plain.drain(..), SettingValue::by_default(None)),
                );
                // A match of `!` in a list in a list is no match of the outer one.
                let made = |first: &SettingValue<Option<bool>>,
                            inner: &SettingValue<Option<bool>>| {
                    match first.value {
                        None if inner.value == Some(true) => said.clone(),
                        _ => first.clone(),
                    }
                };
                before = before.join(&inner, made);
                continue;
            }
            let networks: Vec<Prefix> = match word {
                "any" => roots().to_vec(),
                // It is `!any`.
                "none" => {
                    let said = SettingValue::by(Some(negated), &origin);
                    plain.extend(roots().map(|root| (root, said.clone())));
                    continue;
                }
                "localhost" => {
                    ["127.0.0.0/8", "::1/128"].iter().filter_map(|text| network(text)).collect()
                }
                word => whole_network(word).into_iter().collect(),
            };
            if networks.is_empty() {
                self.forwarder.draft.decisive(&origin, why(word));
                plain.extend(all_of(!negated, unknown, &origin));
            }
            plain.extend(networks.into_iter().map(|network| (network, said.clone())));
        }
        later(&before, &ByClient::first_match(plain, SettingValue::by_default(None)))
    }
}

/// What an element says that matches clients we do not know: nothing, or the same for all.
fn all_of(
    matches: bool,
    unknown: Unknown,
    origin: &Origin,
) -> impl Iterator<Item = (Prefix, SettingValue<Option<bool>>)> {
    let said = SettingValue::by(Some(matches), origin);
    let is_taken = matches == (unknown == Unknown::Match);
    roots().into_iter().filter(move |_| is_taken).map(move |root| (root, said.clone()))
}

/// What the first of two lists says, and for the clients that it does not match the second.
fn later(first: &Clients, second: &Clients) -> Clients {
    first.join(second, |first, second| if first.value.is_some() { first } else { second }.clone())
}

/// Why an element cannot be taken over.
fn why(word: &str) -> &'static str {
    match word {
        "localnets" => "write the networks of this host's interfaces instead of `localnets`",
        "key" | "geoip" => "clients are told apart by address alone",
        _ => "there is no list of this name",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_may_be_left_out() {
        assert_eq!(whole_network("10/8").map(|it| it.to_string()).as_deref(), Some("10.0.0.0/8"));
        assert_eq!(whole_network("x/8"), None);
    }
}
