//! The client subnet option: which network a query comes from, and which one its answer is for (RFC 7871).

use arrayvec::ArrayVec;
use pmdns_config::narrow::{low_u64, to_u8};

use super::be16;

/// Bytes of the option before its address: family, source prefix length, scope prefix length (section 6).
const HEAD_LEN: usize = 4;
/// Where the scope prefix length stands.
pub const SCOPE: usize = 3;
/// The longest option's data, and what is kept of any: the rest is room.
pub const SUBNET_LEN: usize = HEAD_LEN + 16;

/// Address families (section 6).
const IPV4: u16 = 1;
const IPV6: u16 = 2;

/// A network of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    family: u16,
    /// Leading bits that count.
    length: u8,
    /// The address from the top bit on; no bit is set beyond `length`.
    bits: u128,
}

impl Subnet {
    /// The network of those who do not say where they are (section 7.1.2): of length zero.
    pub const NOWHERE: Self = Self { family: IPV4, length: 0, bits: 0 };

    /// Reads an option's data: the network that is its source, and the length of its scope. `None`: it is
    /// malformed (sections 6 and 7.1.2).
    pub fn read(data: &[u8]) -> Option<(Self, u8)> {
        let (head, address) = data.split_first_chunk::<HEAD_LEN>()?;
        let [_, _, length, scope] = *head;
        let family = be16(head, 0)?;
        let longest = match family {
            IPV4 => 32,
            IPV6 => 128,
            // Of no family is who says nothing else either.
            0 => 0,
            _ => return None,
        };
        let subnet = Self { family, length, bits: bits_of(address)? };
        let is_whole = address.len() == usize::from(length).div_ceil(8);
        let is_right = length <= longest && is_whole && subnet.cut(length) == subnet;
        (is_right && scope <= longest).then_some((subnet, scope))
    }

    /// The network of nobody but the client with this address of 4 or 16 bytes.
    pub fn of_address(address: &[u8]) -> Self {
        let family = if address.len() == 4 { IPV4 } else { IPV6 };
        let bits = bits_of(address).unwrap_or(0);
        Self { family, length: to_u8(address.len() * 8), bits }
    }

    /// The network of this length around it; itself, if it is no longer.
    pub fn cut(self, length: u8) -> Self {
        let length = self.length.min(length);
        let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
        Self { length, bits: self.bits & mask, ..self }
    }

    /// The network around it that is no longer than so many bits, by family.
    pub fn limited(self, ipv4: u8, ipv6: u8) -> Self {
        match self.family {
            _ if self.length == 0 => Self::NOWHERE,
            IPV4 => self.cut(ipv4),
            _ => self.cut(ipv6),
        }
    }

    /// Leading bits that count.
    pub fn length(self) -> u8 {
        self.length
    }

    /// Whether it is one of IPv6.
    pub fn is_ipv6(self) -> bool {
        self.family == IPV6
    }

    /// Everything it consists of, in numbers.
    pub fn words(self) -> [u64; 3] {
        let head = u64::from(self.family) << 8 | u64::from(self.length);
        [head, (self.bits >> 64) as u64, low_u64(self.bits)]
    }

    /// An option's data with it as the source.
    pub fn data(self, scope: u8) -> ArrayVec<u8, SUBNET_LEN> {
        let address = self.bits.to_be_bytes();
        let mut data = ArrayVec::new();
        data.extend(self.family.to_be_bytes());
        data.extend([self.length, scope]);
        data.extend(address[..usize::from(self.length).div_ceil(8)].iter().copied());
        data
    }
}

/// The option's data in bytes that begin with it.
pub fn data_in(kept: &[u8]) -> &[u8] {
    let length = kept.get(SCOPE - 1).copied().unwrap_or(0);
    kept.get(..HEAD_LEN + usize::from(length).div_ceil(8)).unwrap_or_default()
}

/// An address of up to 16 bytes, from the top bit on.
fn bits_of(address: &[u8]) -> Option<u128> {
    let mut bytes = [0; 16];
    bytes.get_mut(..address.len())?.copy_from_slice(address);
    Some(u128::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_not_as_rfc_7871_says_is_malformed() {
        let right: [&[u8]; 8] = [
            &[0, 1, 24, 0, 192, 0, 2],
            &[0, 1, 32, 0, 192, 0, 2, 1],
            &[0, 1, 23, 24, 192, 0, 2],
            &[0, 1, 0, 0],
            &[0, 0, 0, 0],
            &[0, 2, 0, 0],
            &[0, 2, 33, 128, 0x20, 1, 0xd, 0xb8, 0x80],
            &[0, 2, 128, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
        ];
        for data in right {
            let (subnet, scope) = Subnet::read(data).unwrap();
            assert_eq!(subnet.data(scope).as_slice(), data);
            assert_eq!(data_in(&[data, &[9; 16]].concat()), data);
        }
        let wrong: [(&str, &[u8]); 10] = [
            ("nothing", &[]),
            ("no scope", &[0, 1, 0]),
            ("too few bytes", &[0, 1, 24, 0, 192, 0]),
            ("too many bytes", &[0, 1, 24, 0, 192, 0, 2, 0]),
            ("a bit beyond the prefix", &[0, 1, 23, 0, 192, 0, 3]),
            ("a prefix longer than IPv4", &[0, 1, 33, 0, 192, 0, 2, 1, 0]),
            ("a scope longer than IPv4", &[0, 1, 24, 33, 192, 0, 2]),
            ("a family nobody knows", &[0, 3, 24, 0, 192, 0, 2]),
            ("a network of no family", &[0, 0, 8, 0, 10]),
            ("longer than any address", &[&[0, 2, 136, 0][..], &[1; 17]].concat()),
        ];
        for (what, data) in wrong {
            assert_eq!(Subnet::read(data), None, "{what}");
        }
    }

    #[test]
    fn networks_are_cut_by_family_and_those_who_do_not_say_are_all_the_same() {
        let of = |data: &[u8]| Subnet::read(data).unwrap().0;
        let ipv4 = Subnet::of_address(&[192, 0, 2, 129]);
        assert_eq!(ipv4.limited(24, 56), of(&[0, 1, 24, 0, 192, 0, 2]));
        assert_eq!(ipv4.cut(25), of(&[0, 1, 25, 0, 192, 0, 2, 128]));
        let ipv6 = Subnet::of_address(&[0xff; 16]);
        assert_eq!(ipv6.limited(24, 20), of(&[0, 2, 20, 0, 0xff, 0xff, 0xf0]));
        for family in 0..3 {
            assert_eq!(of(&[0, family, 0, 0]).limited(24, 56), Subnet::NOWHERE);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_back_as_they_are_or_not_at_all(
            data in proptest::collection::vec(any::<u8>(), 0..24),
        ) {
            if let Some((subnet, scope)) = Subnet::read(&data) {
                prop_assert_eq!(subnet.data(scope).to_vec(), data);
            }
        }
    }
}
