//! EDNS: the OPT record, its options, and the errors that explain an rcode (RFC 6891, RFC 8914).

use std::num::NonZeroU8;

use pmdns_config::narrow::to_u16;

use super::dns::{RECORD_FIXED_LEN, Rcode, header, rtype};
use super::record::{Records, Section};
use super::{be16, field16};

/// An OPT record without options: root, type, size, flags, length.
pub const OPT_LEN: usize = 11;
/// Where its length field stands.
pub const OPT_DATA_LEN: usize = 9;
/// The DO bit in an OPT record's TTL field (RFC 3225).
pub const OPT_DO: u16 = 1 << 15;
/// OPTION-CODE and OPTION-LENGTH.
pub const OPTION_HEAD_LEN: usize = 4;

/// Options in one query, at most. Stubs and resolvers send up to three; dig, asked for all it can do, seven. All of these
/// together take a quarter of a hit to read.
pub const MAX_QUERY_OPTIONS: usize = 16;

/// The client's part of a cookie (RFC 7873 section 4.1).
pub const CLIENT_COOKIE_LEN: usize = 8;
/// A server cookie of version 1: version, reserved, time and hash (RFC 9018 section 4).
pub const SERVER_COOKIE_LEN: usize = 16;
/// A client cookie and a server cookie, as our answers have them.
pub const COOKIE_LEN: usize = CLIENT_COOKIE_LEN + SERVER_COOKIE_LEN;

/// The options this program knows.
pub mod option {
    /// Name server identifier (RFC 5001).
    pub const NSID: u16 = 3;
    /// Client subnet (RFC 7871).
    pub const SUBNET: u16 = 8;
    /// Cookie (RFC 7873).
    pub const COOKIE: u16 = 10;
    /// How long an idle connection lasts (RFC 7828).
    pub const KEEPALIVE: u16 = 11;
    /// Padding (RFC 7830).
    pub const PADDING: u16 = 12;
    /// Extended DNS error (RFC 8914).
    pub const EXTENDED_ERROR: u16 = 15;
}

/// A client's OPT record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    /// The UDP payload size the client can take.
    pub udp_size: u16,
    /// EDNS version.
    pub version: u8,
    /// The DO bit.
    pub dnssec_ok: bool,
    /// The requests of its options.
    pub requested: Requested,
}

/// The requests of a query's options, of those this program knows. Of several of one kind the first counts (RFC 7873
/// section 5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requested {
    /// Our name (RFC 5001).
    pub nsid: bool,
    /// The cookie's data.
    pub cookie: Option<OptionData>,
    /// The subnet's data.
    pub subnet: Option<OptionData>,
    /// How long an idle connection lasts (RFC 7828).
    pub keepalive: bool,
    /// A padded answer (RFC 7830).
    pub padding: bool,
}

/// Where an option's data stands in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionData {
    at: u16,
    len: u16,
}

impl OptionData {
    /// The bytes there, in the message it was found in.
    #[inline]
    pub fn of(self, message: &[u8]) -> &[u8] {
        let start = usize::from(self.at);
        message.get(start..start + usize::from(self.len)).unwrap_or_default()
    }
}

impl Requested {
    /// Reads an OPT record's data, which starts at `start` of its message. `None`: an option ends outside of it (RFC 6891
    /// section 6.1.2), or there are more than [`MAX_QUERY_OPTIONS`].
    #[inline]
    pub(super) fn read(data: &[u8], start: usize) -> Option<Self> {
        let mut requested = Self::default();
        let mut at = 0;
        for _ in 0..MAX_QUERY_OPTIONS {
            if at == data.len() {
                break;
            }
            let head = data.get(at..)?.first_chunk::<OPTION_HEAD_LEN>()?;
            let len = field16(head, 2);
            at += OPTION_HEAD_LEN;
            let place = Some(OptionData { at: to_u16(start + at), len });
            match field16(head, 0) {
                option::NSID => requested.nsid = true,
                option::COOKIE if requested.cookie.is_none() => requested.cookie = place,
                option::SUBNET if requested.subnet.is_none() => requested.subnet = place,
                option::KEEPALIVE => requested.keepalive = true,
                option::PADDING => requested.padding = true,
                _ => {}
            }
            at += usize::from(len);
        }
        (at == data.len()).then_some(requested)
    }
}

impl Edns {
    /// Reads what stands behind an OPT record's owner name, but for its options.
    #[inline(always)]
    pub(super) fn read(fixed: &[u8; RECORD_FIXED_LEN], requested: Requested) -> Self {
        Self {
            udp_size: field16(fixed, 2),
            version: fixed[5],
            dnssec_ok: field16(fixed, 6) & OPT_DO != 0,
            requested,
        }
    }

    /// Reads bytes that are an OPT record of version 0 without options, and nothing else. `None`: they are not.
    #[inline(always)]
    pub(super) fn read_plain(bytes: &[u8]) -> Option<Self> {
        let record: &[u8; OPT_LEN] = bytes.try_into().ok()?;
        let edns = Self::read(record.last_chunk()?, Requested::default());
        let is_opt = record[0] == 0 && field16(record, 1) == rtype::OPT;
        let has_options = field16(record, OPT_DATA_LEN) > 0;
        (is_opt && edns.version == 0 && !has_options).then_some(edns)
    }
}

/// An OPT record without options (RFC 6891 section 6.1.2).
#[inline(always)]
pub fn opt(udp_size: u16, rcode: Rcode, dnssec_ok: bool) -> [u8; OPT_LEN] {
    let [size_high, size_low] = udp_size.to_be_bytes();
    let [flags, _] = if dnssec_ok { OPT_DO } else { 0 }.to_be_bytes();
    let [type_high, type_low] = rtype::OPT.to_be_bytes();
    [0, type_high, type_low, size_high, size_low, rcode.0 >> 4, 0, flags, 0, 0, 0]
}

/// The options in an OPT record's data: code and data of each, as far as they are whole.
#[derive(Clone, Copy, Debug)]
pub struct Options<'m> {
    rest: &'m [u8],
}

impl<'m> Options<'m> {
    /// The options in `data`.
    #[inline]
    pub fn new(data: &'m [u8]) -> Self {
        Self { rest: data }
    }
}

impl<'m> Iterator for Options<'m> {
    type Item = (u16, &'m [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.rest.split_first_chunk::<OPTION_HEAD_LEN>()?;
        let (data, rest) = rest.split_at_checked(usize::from(field16(head, 2)))?;
        self.rest = rest;
        Some((field16(head, 0), data))
    }
}

/// The data of the first option of this kind in the OPT record of a response.
pub fn option_in(message: &[u8], code: u16) -> Option<&[u8]> {
    if be16(message, header::ARCOUNT) == Some(0) {
        return None;
    }
    let mut records = Records::new(message).ok()?.map_while(Result::ok);
    let opt = records.find(|one| one.rtype == rtype::OPT && one.section == Section::Additional)?;
    let mut options = Options::new(message.get(opt.data_at..opt.end)?);
    options.find(|(one, _)| *one == code).map(|(_, data)| data)
}

/// From here on numbers stand for lists of the ruleset.
const FIRST_REASON: u8 = 117;
/// How many of these there can be.
pub const MAX_REASONS: usize = 256 - FIRST_REASON as usize;

/// Why an answer is as it is: the INFO-CODE of an extended DNS error (RFC 8914 section 4).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ExtendedError(NonZeroU8);

impl ExtendedError {
    /// The answer has expired, and no fresh one could be had in time.
    pub const STALE_ANSWER: Self = Self::of(3);
    /// The answer is not the one of the name's own servers.
    pub const FORGED_ANSWER: Self = Self::of(4);
    /// Whether the answer is genuine could not be found out.
    pub const DNSSEC_INDETERMINATE: Self = Self::of(5);
    /// The answer is forged, or its signatures are broken.
    pub const DNSSEC_BOGUS: Self = Self::of(6);
    /// The answer's signature was good once.
    pub const SIGNATURE_EXPIRED: Self = Self::of(7);
    /// The answer has no signatures where there must be some.
    pub const RRSIGS_MISSING: Self = Self::of(10);
    /// The answer is a failure of a moment ago.
    pub const CACHED_ERROR: Self = Self::of(13);
    /// This server is about to stop, too busy with others like this client, or without the rules it is to keep to.
    pub const NOT_READY: Self = Self::of(14);
    /// The data for the answer makes no sense (section 4.25).
    pub const INVALID_DATA: Self = Self::of(24);
    /// The operator has blocked the name.
    pub const BLOCKED: Self = Self::of(15);
    /// Others than the operator want the name blocked.
    pub const CENSORED: Self = Self::of(16);
    /// The client wants the name blocked.
    pub const FILTERED: Self = Self::of(17);
    /// The client may not ask.
    pub const PROHIBITED: Self = Self::of(18);
    /// As [`Self::STALE_ANSWER`], and the answer is NXDOMAIN.
    pub const STALE_NXDOMAIN: Self = Self::of(19);
    /// The query does not want recursion, and the answer is not ours.
    pub const NOT_AUTHORITATIVE: Self = Self::of(20);
    /// No upstream replied with an answer.
    pub const NO_REACHABLE_AUTHORITY: Self = Self::of(22);
    /// The network did not let us ask.
    pub const NETWORK_ERROR: Self = Self::of(23);

    const fn of(code: u8) -> Self {
        match NonZeroU8::new(code) {
            Some(code) => Self(code),
            None => panic!("code 0 says nothing"),
        }
    }

    /// Reads an option's data: the INFO-CODE without its text. `None`: it says nothing that could be passed on; codes
    /// from [`FIRST_REASON`] on have no meaning that is registered.
    pub fn read(data: &[u8]) -> Option<Self> {
        let code = u8::try_from(be16(data, 0)?).ok().filter(|code| *code < FIRST_REASON);
        code.and_then(NonZeroU8::new).map(Self)
    }

    /// The list of this number decides. The ruleset has its code and text.
    pub fn of_rule(number: u8) -> Self {
        Self(NonZeroU8::MIN.saturating_add(FIRST_REASON - 1).saturating_add(number))
    }

    /// The number of the ruleset's list, if one decides.
    #[inline]
    pub fn rule(self) -> Option<u8> {
        self.0.get().checked_sub(FIRST_REASON)
    }

    /// Whether the operator's rules are the reason.
    pub fn is_of_rules(self) -> bool {
        self == Self::BLOCKED || self.rule().is_some()
    }

    /// Whether the reason is that validation failed: codes 1, 2 and 5 to 12, and 27 (an iteration count too high).
    pub fn is_of_dnssec(self) -> bool {
        matches!(self.code(), 1 | 2 | 5..=12 | 27)
    }

    /// The INFO-CODE.
    #[inline]
    pub fn code(self) -> u16 {
        u16::from(self.0.get())
    }
}

impl std::fmt::Debug for ExtendedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ExtendedError({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_one_after_another() {
        let data = [0, 3, 0, 0, 0, 10, 0, 2, 7, 8, 0xff, 0xff, 0, 1, 9];
        let read: Vec<_> = Options::new(&data).collect();
        assert_eq!(read, [(3, &[][..]), (10, &[7, 8]), (0xffff, &[9])]);
    }

    #[test]
    fn of_a_query_s_options_the_first_of_a_kind_counts() {
        let data = [0, 3, 0, 0, 0, 10, 0, 2, 7, 8, 0, 8, 0, 0, 0xff, 0xff, 0, 1, 9, 0, 10, 0, 1, 5];
        let requested = Requested::read(&data, 0).unwrap();
        assert!(requested.nsid);
        assert_eq!(requested.cookie.map(|place| place.of(&data)), Some(&[7, 8][..]));
        assert_eq!(requested.subnet.map(|place| place.of(&data)), Some(&[][..]));
        let later = Requested::read(&data, 100).unwrap().cookie;
        assert_eq!(later, Some(OptionData { at: 108, len: 2 }));
        assert_eq!(Requested::read(&[], 0), Some(Requested::default()));
        for cut in [1, 2, 3, 5, 9, 12, 17, 18, 23] {
            assert_eq!(Requested::read(&data[..cut], 0), None, "cut after {cut} bytes");
        }
    }

    #[test]
    fn an_opt_record_has_its_fields_where_they_belong() {
        let record = opt(0x1234, Rcode::BADVERS, true);
        assert_eq!(record, [0, 0, 41, 0x12, 0x34, 1, 0, 0x80, 0, 0, 0]);
        assert_eq!(opt(512, Rcode::REFUSED, false)[5..], [0; 6]);
        assert_eq!(be16(&record, OPT_DATA_LEN), Some(0));
    }
}
