//! Values by the client's address. Lists whose first match decides become networks of which the longest decides.

use std::collections::BTreeMap;
use std::net::IpAddr;

use pmdns_config::Prefix;

use crate::source::Origin;

/// Networks that a set of clients may be cut into.
const MAX_PIECES: usize = 4096;

/// A value, and the setting that says so. Equal are those of one value.
#[derive(Clone, Debug)]
pub(crate) struct SettingValue<T> {
    pub(crate) value: T,
    pub(crate) origin: Option<Origin>,
}

impl<T: PartialEq> PartialEq for SettingValue<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T> SettingValue<T> {
    /// A value that no setting says.
    pub(crate) fn by_default(value: T) -> Self {
        Self { value, origin: None }
    }

    pub(crate) fn by(value: T, origin: &Origin) -> Self {
        Self { value, origin: Some(origin.clone()) }
    }
}

/// A value for every client: that of the longest network that contains it.
#[derive(Clone, Debug)]
pub(crate) struct ByClient<T>(BTreeMap<Prefix, T>);

/// The networks that all others are in.
pub(crate) fn roots() -> [Prefix; 2] {
    [IpAddr::from([0_u8; 4]), IpAddr::from([0_u16; 8])].map(|address| Prefix::of(address, 0))
}

/// Whether `inner` is in `outer`, or the same.
fn covers(outer: &Prefix, inner: &Prefix) -> bool {
    outer.length <= inner.length && outer.contains(inner.network)
}

impl<T: Clone + PartialEq> ByClient<T> {
    /// The same value for all.
    pub(crate) fn all(value: T) -> Self {
        Self(roots().into_iter().map(|root| (root, value.clone())).collect())
    }

    /// The value of these clients, but for those in longer networks.
    pub(crate) fn set(&mut self, clients: Prefix, value: T) {
        self.0.insert(clients, value);
    }

    /// Of a list whose first match decides. `other`: the value of clients that nothing matches.
    pub(crate) fn first_match(list: impl IntoIterator<Item = (Prefix, T)>, other: T) -> Self {
        let mut first: BTreeMap<Prefix, (usize, T)> = BTreeMap::new();
        for (place, (clients, value)) in list.into_iter().enumerate() {
            first.entry(clients).or_insert((place, value));
        }
        let mut all = Self::all(other);
        for clients in first.keys() {
            // Clients here, but in no longer network, match this network and those around it.
            let around = (0..=clients.length).map(|length| Prefix::of(clients.network, length));
            let matching = around.filter_map(|network| first.get(&network));
            if let Some((_, value)) = matching.min_by_key(|(place, _)| *place) {
                all.0.insert(*clients, value.clone());
            }
        }
        all
    }

    /// The value of the clients in this network that are in no longer one.
    pub(crate) fn at(&self, clients: Prefix) -> Option<&T> {
        let around = (0..=clients.length).rev();
        let mut around = around.map(|length| Prefix::of(clients.network, length));
        around.find_map(|network| self.0.get(&network))
    }

    /// The value that two values make.
    pub(crate) fn join<U: Clone + PartialEq, V: Clone + PartialEq>(
        &self,
        other: &ByClient<U>,
        made: impl Fn(&T, &U) -> V,
    ) -> ByClient<V> {
        let networks = self.0.keys().chain(other.0.keys());
        let value = |network: &Prefix| Some(made(self.at(*network)?, other.at(*network)?));
        ByClient(networks.filter_map(|network| Some((*network, value(network)?))).collect()).plain()
    }

    /// Without networks whose value is that of the network around them.
    pub(crate) fn plain(self) -> Self {
        let around = |network: &Prefix| {
            let length = network.length.checked_sub(1)?;
            self.at(Prefix::of(network.network, length))
        };
        let differs = |(network, value): &(&Prefix, &T)| around(network) != Some(*value);
        let kept = self.0.iter().filter(differs).map(|(network, value)| (*network, value.clone()));
        Self(kept.collect())
    }

    /// The networks with their values, each before those in it.
    pub(crate) fn networks(&self) -> impl Iterator<Item = (Prefix, &T)> {
        self.0.iter().map(|(network, value)| (*network, value))
    }

    /// The number of networks.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// All values that some client has.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.values()
    }

    /// The networks of all values but `left_out`: of the longest that contains a client, the value is the client's. No
    /// network has clients of `left_out`. `None`: there would be too many.
    pub(crate) fn without(&self, left_out: impl Fn(&T) -> bool) -> Option<Vec<(Prefix, &T)>> {
        let mut pieces = Vec::new();
        for (network, value) in self.networks().filter(|(_, value)| !left_out(value)) {
            let mut open = vec![network];
            while let Some(piece) = open.pop() {
                let is_own = piece != network && self.0.contains_key(&piece);
                let mut inside = self.0.range(piece..).take_while(|(one, _)| covers(&piece, one));
                match () {
                    // What is inside has a value of its own, and pieces of its own.
                    () if is_own => {}
                    () if !inside.any(|(_, value)| left_out(value)) => pieces.push((piece, value)),
                    () => open.extend(halves(piece).into_iter().flatten().rev()),
                }
                if pieces.len() > MAX_PIECES {
                    return None;
                }
            }
        }
        Some(pieces)
    }
}

/// Both halves of a network.
fn halves(network: Prefix) -> Option<[Prefix; 2]> {
    let length = network.length + 1;
    let upper = match network.network {
        IpAddr::V4(v4) => {
            let bit = 1_u32.checked_shl(32_u32.checked_sub(length.into())?)?;
            IpAddr::V4((u32::from(v4) | bit).into())
        }
        IpAddr::V6(v6) => {
            let bit = 1_u128.checked_shl(128_u32.checked_sub(length.into())?)?;
            IpAddr::V6((u128::from(v6) | bit).into())
        }
    };
    Some([Prefix::of(network.network, length), Prefix::of(upper, length)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn an_earlier_network_hides_a_later_one() {
        let list = [("10.1.0.0/16", 1), ("10.0.0.0/8", 2), ("10.2.0.0/16", 3), ("0.0.0.0/0", 4)];
        let list = list.map(|(text, value)| (prefix(text), value));
        let all = ByClient::first_match(list, 0).plain();
        let networks: Vec<String> =
            all.networks().map(|(network, value)| format!("{network} {value}")).collect();
        assert_eq!(networks, ["0.0.0.0/0 4", "10.0.0.0/8 2", "10.1.0.0/16 1", "::/0 0"]);
    }

    /// Networks in 16 addresses, so that they often contain each other.
    fn network() -> impl Strategy<Value = Prefix> {
        (0_u8..16, 28_u8..=32)
            .prop_map(|(last, length)| Prefix::of(IpAddr::from([192, 0, 2, last]), length))
    }

    proptest! {
        #[test]
        fn the_longest_match_is_that_of_the_first_and_a_cut_leaves_the_others_as_they_were(
            list in prop::collection::vec((network(), 0_u8..3), 0..8),
            left_out in 0_u8..3,
        ) {
            let all = ByClient::first_match(list.clone(), 0);
            let plain = all.clone().plain();
            let pieces = plain.without(|value| *value == left_out).unwrap();
            for last in 0..=255 {
                let address = IpAddr::from([192, 0, 2, last]);
                let client = Prefix::of(address, 32);
                let first = list.iter().find(|(network, _)| network.contains(address));
                let expected = first.map_or(0, |(_, value)| *value);
                prop_assert_eq!(all.at(client), Some(&expected));
                prop_assert_eq!(plain.at(client), Some(&expected));
                let piece = pieces.iter().filter(|(network, _)| network.contains(address));
                let piece = piece.max_by_key(|(network, _)| network.length);
                let expected = Some(expected).filter(|value| *value != left_out);
                prop_assert_eq!(piece.map(|(_, value)| **value), expected);
            }
        }
    }
}
