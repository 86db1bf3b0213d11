//! The fields of record data: how each is read from text, and what bytes it may have.

use super::Problem;
use super::address::{
    are_prefixes, put_gateway, put_hardware, put_locator, put_prefixes, put_relay, put_v4, put_v6,
};
use super::bitmap::{is_bitmap, put_bitmap, put_nxt};
use super::codes::{
    ALGORITHMS, CERTIFICATES, DIGESTS, HASHES, PROTOCOLS, SCHEMES, key_flags, number_of,
};
use super::fields::{DataWords, wrong};
use super::location::{is_size, put_location};
use super::number::{decimal, put_base64, put_hash, put_hex, put_salt, seconds, stamp};
use super::obsolete::{put_a6, put_atm, put_identity, put_nsap, put_services};
use super::parameters::{are_parameters, put_parameters};
use super::text::{MAX_STRING, bytes_of, put_name, put_string};
use super::types::type_number;
use crate::narrow::{low_u8, to_u8};

/// A field of a record's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    U8,
    U16,
    U32,
    /// Seconds, perhaps with units.
    Time,
    /// A point in time.
    Stamp,
    Name,
    /// A character string.
    Text,
    /// A character string that may be absent.
    MaybeText,
    /// Character strings up to the end, at least one.
    Texts,
    /// A character string of four digits and more.
    Digits,
    /// The rest, as one text without a length.
    Value,
    /// A tag of letters and digits, with its length.
    Tag,
    V4,
    V6,
    Hex,
    Base64,
    /// Base64, `-` or nothing.
    MaybeBase64,
    Salt,
    Hash,
    /// A record type.
    Type,
    /// Record types, at least one.
    Types,
    /// Record types, if any.
    MaybeTypes,
    /// Record types up to 127, without windows.
    OldTypes,
    Algorithm,
    Digest,
    HashAlgorithm,
    Certificate,
    KeyFlags,
    Protocol,
    Scheme,
    Eui48,
    Eui64,
    Locator,
    Location,
    Prefixes,
    Parameters,
    Services,
    Nsap,
    Atm,
    A6,
    /// Of IPSECKEY, what stands before the key.
    Gateway,
    /// Of AMTRELAY, everything.
    Relay,
    /// Of HIP, everything.
    Identity,
}

impl Field {
    /// Reads the field from the words that are left.
    pub(super) fn put(
        self,
        out: &mut Vec<u8>,
        words: &mut DataWords<'_, '_>,
    ) -> Result<(), Problem> {
        match self {
            Self::U8 | Self::Algorithm | Self::Digest | Self::HashAlgorithm | Self::Protocol => {
                self.put_octet(out, words)
            }
            Self::Scheme => self.put_octet(out, words),
            Self::U16 | Self::Type | Self::Certificate | Self::KeyFlags => {
                self.put_word(out, words)
            }
            Self::U32 | Self::Time | Self::Stamp => self.put_double_word(out, words),
            Self::Text | Self::MaybeText | Self::Texts | Self::Digits | Self::Value | Self::Tag => {
                self.put_text(out, words)
            }
            Self::Name => put_name(out, words.take("a name")?, words.origin),
            Self::V4 => put_v4(out, words),
            Self::V6 => put_v6(out, words),
            Self::Hex => put_hex(out, words),
            Self::Base64 => put_base64(out, words),
            Self::MaybeBase64 => {
                let is_none = words.len() == 0 || words.take_if(|word| word.is("-")).is_some();
                if is_none { Ok(()) } else { put_base64(out, words) }
            }
            Self::Salt => put_salt(out, words),
            Self::Hash => put_hash(out, words),
            Self::Types => put_bitmap(out, words, false),
            Self::MaybeTypes => put_bitmap(out, words, true),
            Self::OldTypes => put_nxt(out, words),
            Self::Eui48 => put_hardware::<6>(out, words),
            Self::Eui64 => put_hardware::<8>(out, words),
            Self::Locator => put_locator(out, words),
            Self::Location => put_location(out, words),
            Self::Prefixes => put_prefixes(out, words),
            Self::Parameters => put_parameters(out, words),
            Self::Services => put_services(out, words),
            Self::Nsap => put_nsap(out, words),
            Self::Atm => put_atm(out, words),
            Self::A6 => put_a6(out, words),
            Self::Gateway => put_gateway(out, words),
            Self::Relay => put_relay(out, words),
            Self::Identity => put_identity(out, words),
        }
    }

    fn put_octet(self, out: &mut Vec<u8>, words: &mut DataWords<'_, '_>) -> Result<(), Problem> {
        let (what, registry): (_, &[_]) = match self {
            Self::Algorithm => ("a DNSSEC algorithm like 13 or ECDSAP256SHA256", ALGORITHMS),
            Self::Digest => ("a digest type like 2 or SHA-256", DIGESTS),
            Self::HashAlgorithm => ("a hash algorithm like 1", HASHES),
            Self::Protocol => ("a protocol like 3 or DNSSEC", PROTOCOLS),
            Self::Scheme => ("a scheme like 1 or NOTIFY", SCHEMES),
            _ => ("a number up to 255", &[]),
        };
        let number = words.take_as(what, |text| number_of(registry, u16::from(u8::MAX), text))?;
        out.push(low_u8(u64::from(number)));
        Ok(())
    }

    fn put_word(self, out: &mut Vec<u8>, words: &mut DataWords<'_, '_>) -> Result<(), Problem> {
        let number = match self {
            Self::Type => words.take_as("a record type like A or TYPE65280", |text| {
                type_number(text).or_else(|| decimal(text))
            }),
            Self::Certificate => words.take_as("a type of certificate like 1 or PKIX", |text| {
                number_of(CERTIFICATES, u16::MAX, text)
            }),
            Self::KeyFlags => words.take_as("flags of a key like 257", key_flags),
            _ => words.take_as("a number up to 65535", decimal),
        };
        out.extend(number?.to_be_bytes());
        Ok(())
    }

    fn put_double_word(
        self,
        out: &mut Vec<u8>,
        words: &mut DataWords<'_, '_>,
    ) -> Result<(), Problem> {
        let number = match self {
            Self::Time => words.take_as("a time in seconds or like 1h30m", seconds),
            Self::Stamp => words.take_as("a time like 20240131235959 or seconds since 1970", stamp),
            _ => words.take_as("a number up to 4294967295", decimal::<u32>),
        };
        out.extend(number?.to_be_bytes());
        Ok(())
    }

    fn put_text(self, out: &mut Vec<u8>, words: &mut DataWords<'_, '_>) -> Result<(), Problem> {
        match self {
            Self::MaybeText if words.len() == 0 => Ok(()),
            Self::Value => {
                out.extend(bytes_of(words.take("a text")?.text)?);
                Ok(())
            }
            Self::Tag => {
                let word = words.take("a tag like issue")?;
                let is_tag = word.text.iter().all(u8::is_ascii_alphanumeric);
                if !is_tag || !(1..=MAX_STRING).contains(&word.text.len()) {
                    return Err(wrong(word, "a tag of letters and digits"));
                }
                out.push(to_u8(word.text.len()));
                out.extend(word.text);
                Ok(())
            }
            Self::Digits => {
                let word = words.take("digits")?;
                if word.text.len() < 4 || !word.text.iter().all(u8::is_ascii_digit) {
                    return Err(wrong(word, "a number of four digits or more"));
                }
                put_string(out, word)
            }
            _ => {
                put_string(out, words.take("a text")?)?;
                while self == Self::Texts && words.len() > 0 {
                    put_string(out, words.take("a text")?)?;
                }
                Ok(())
            }
        }
    }

    /// Takes the bytes of the field from the data's rest, in wire format; `None`: they are none.
    pub(super) fn skip(self, wire: &[u8]) -> Option<&[u8]> {
        let rest = |is: bool| is.then_some(&wire[wire.len()..]);
        match self {
            Self::U8 | Self::Algorithm | Self::Digest | Self::HashAlgorithm => wire.get(1..),
            Self::Protocol | Self::Scheme => wire.get(1..),
            Self::U16 | Self::Type | Self::Certificate | Self::KeyFlags => wire.get(2..),
            Self::U32 | Self::Time | Self::Stamp | Self::V4 => wire.get(4..),
            Self::Eui48 => wire.get(6..),
            Self::Eui64 | Self::Locator => wire.get(8..),
            Self::V6 => wire.get(16..),
            Self::Name => skip_name(wire),
            Self::MaybeText if wire.is_empty() => Some(wire),
            Self::Text | Self::MaybeText | Self::Digits | Self::Salt => skip_string(wire),
            Self::Tag | Self::Hash => skip_string(wire).filter(|_| wire.first() != Some(&0)),
            Self::Texts => {
                let mut rest = skip_string(wire)?;
                while !rest.is_empty() {
                    rest = skip_string(rest)?;
                }
                Some(rest)
            }
            Self::Hex | Self::Base64 | Self::Nsap | Self::Atm => rest(!wire.is_empty()),
            Self::Value | Self::MaybeBase64 | Self::OldTypes => rest(true),
            Self::Types => rest(!wire.is_empty() && is_bitmap(wire)),
            Self::MaybeTypes => rest(is_bitmap(wire)),
            Self::Prefixes => rest(are_prefixes(wire)),
            Self::Parameters => rest(are_parameters(wire)),
            Self::Location => match wire {
                // Another version has another form (RFC 1876 section 2).
                [0, sizes @ ..] if sizes.len() == 15 => {
                    rest(sizes[..3].iter().copied().all(is_size))
                }
                [version, ..] => rest(*version != 0),
                [] => None,
            },
            Self::Services => rest(wire.len() >= 5),
            Self::A6 => skip_a6(wire),
            Self::Gateway => {
                let (kind, rest) = (*wire.get(1)?, wire.get(3..)?);
                skip_host(kind, rest)
            }
            Self::Relay => {
                let (kind, rest) = (wire.get(1)? & 0x7f, wire.get(2..)?);
                skip_host(kind, rest)
            }
            Self::Identity => {
                let (tag, key) =
                    (*wire.first()?, u16::from_be_bytes([*wire.get(2)?, *wire.get(3)?]));
                let mut rest = wire.get(4 + usize::from(tag) + usize::from(key)..)?;
                while !rest.is_empty() {
                    rest = skip_name(rest)?;
                }
                Some(rest)
            }
        }
    }
}

/// The bytes behind a character string.
fn skip_string(wire: &[u8]) -> Option<&[u8]> {
    wire.get(1 + usize::from(*wire.first()?)..)
}

/// The bytes behind a name that is not compressed.
fn skip_name(wire: &[u8]) -> Option<&[u8]> {
    const MAX_LABEL: u8 = 63;
    const MAX_NAME: usize = 255;
    let mut rest = wire;
    loop {
        let (len, after) = rest.split_first()?;
        rest = after.get(usize::from(*len)..)?;
        if *len > MAX_LABEL || wire.len() - rest.len() > MAX_NAME {
            return None;
        }
        if *len == 0 {
            return Some(rest);
        }
    }
}

fn skip_host(kind: u8, wire: &[u8]) -> Option<&[u8]> {
    match kind {
        0 => Some(wire),
        1 => wire.get(4..),
        2 => wire.get(16..),
        3 => skip_name(wire),
        // Nobody knows the form of others.
        _ => Some(&wire[wire.len()..]),
    }
}

fn skip_a6(wire: &[u8]) -> Option<&[u8]> {
    let (len, rest) = wire.split_first()?;
    let octets = usize::from(128_u8.checked_sub(*len)?).div_ceil(8);
    let rest = rest.get(octets..)?;
    if *len == 0 { Some(rest) } else { skip_name(rest) }
}
