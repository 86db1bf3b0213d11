//! Values that the TOML has as text: they are read by their `FromStr`.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::{
    ByteSize, DnstapReader, Host, InterfaceAddress, Pin, Prefix, Stretch, UpstreamAddress,
};

macro_rules! read_from_text {
    ($($value:ty),*) => {$(
        impl<'de> Deserialize<'de> for $value {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                String::deserialize(from)?.parse().map_err(D::Error::custom)
            }
        }
    )*};
}

read_from_text!(
    ByteSize,
    DnstapReader,
    Host,
    InterfaceAddress,
    Pin,
    Prefix,
    Stretch,
    UpstreamAddress
);
