//! Multicast listener discovery (RFC 3810, RFC 2710): queries are read, reports are written.
//!
//! Switches that snoop pass multicast on to listeners that they know of only. Without reports nobody's neighbour
//! solicitation would reach us.

use pmdns_config::narrow::to_u16;

use crate::wire::ip::{IPV6_LEN, PROTOCOL_ICMPV6, pseudo_header, v6};
use crate::wire::{be16, put16};

/// The header of options for each router on the way, which MLD stands behind.
pub(crate) const HOP_BY_HOP: u8 = 0;
/// Its length unit.
const UNIT: usize = 8;
/// A router alert about MLD (RFC 2711), padded to eight bytes: what stands before each report.
const ALERT: [u8; UNIT] = [PROTOCOL_ICMPV6, 0, ROUTER_ALERT, 2, 0, 0, PAD_N, 0];
const ROUTER_ALERT: u8 = 5;
const PAD_N: u8 = 1;
const PAD_1: u8 = 0;

const QUERY: u8 = 130;
const REPORT_V1: u8 = 131;
const REPORT_V2: u8 = 143;

// Offsets in queries of both versions and in reports of version 1, and their length in version 1.
const CHECKSUM: usize = 2;
const MAX_DELAY: usize = 4;
const GROUP: usize = 8;
const V1_LEN: usize = 24;
/// The shortest query of version 2 (RFC 3810 section 8.1). Lengths between the two are nobody's.
const V2_MIN_LEN: usize = 28;

// Reports of version 2.
const RECORD_COUNT: usize = 6;
const RECORDS: usize = 8;
const RECORD_LEN: usize = 20;
/// Records in one report, whatever the link (RFC 8200 section 5 lets each carry 1,280 bytes). More groups take more
/// reports (RFC 3810 section 5.2.15).
pub(super) const MAX_RECORDS: usize = (1280 - IPV6_LEN - UNIT - RECORDS) / RECORD_LEN;
/// "I listen to everybody in this group", as an answer and as news (RFC 3810 section 5.2.12).
const IS_EXCLUDE: u8 = 2;
const TO_EXCLUDE: u8 = 4;

/// From this value on a maximum response code is a floating-point number (RFC 3810 section 5.1.3).
const FLOATING: u16 = 0x8000;
/// ff02::16, where reports of version 2 go.
pub(crate) const ALL_MLD_ROUTERS: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x16];

/// The question of a querier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MldQuery {
    /// It understands reports of version 1 only.
    pub(super) is_v1: bool,
    /// The time in which reports shall come, in milliseconds.
    pub(super) max_delay_ms: u32,
    /// The group it asks for; `None`: all.
    pub(super) group: Option<[u8; 16]>,
}

impl MldQuery {
    /// Reads the query behind the IPv6 header at `l3`, whose next header is hop-by-hop options. `None`: it is no valid
    /// one (RFC 3810 sections 5.1.14 and 6.2). Queries for sources are taken as queries for their group.
    pub(super) fn read(frame: &[u8], l3: usize) -> Option<Self> {
        let (header, rest) = frame.get(l3..)?.split_at_checked(IPV6_LEN)?;
        let payload = rest.get(..usize::from(be16(header, v6::PAYLOAD_LEN)?))?;
        let message = behind_alert(payload)?;
        let len = u16::try_from(message.len()).ok()?;
        let sum = pseudo_header(&header[v6::SOURCE..], PROTOCOL_ICMPV6, len).add_bytes(message);
        let is_link_local = header[v6::SOURCE] == 0xfe && header[v6::SOURCE + 1] & 0xc0 == 0x80;
        let is_v1 = message.len() == V1_LEN;
        let is_whole = is_v1 || message.len() >= V2_MIN_LEN;
        let is_query = message.first() == Some(&QUERY) && header[v6::HOP_LIMIT] == 1;
        if !is_query || !is_link_local || !is_whole || !sum.is_right() {
            return None;
        }
        let code = be16(message, MAX_DELAY)?;
        let group: [u8; 16] = message.get(GROUP..GROUP + 16)?.try_into().ok()?;
        Some(Self {
            is_v1,
            max_delay_ms: if is_v1 { code.into() } else { max_delay_ms(code) },
            group: (group != [0; 16]).then_some(group),
        })
    }
}

/// The bytes behind hop-by-hop options, if they have a router alert and ICMPv6 follows.
fn behind_alert(payload: &[u8]) -> Option<&[u8]> {
    let [next, units] = *payload.first_chunk()?;
    let (options, message) = payload.split_at_checked((usize::from(units) + 1) * UNIT)?;
    let mut options = &options[2..];
    let mut alerts = false;
    // Each pass takes at least a byte.
    while let Some(kind) = options.first() {
        let len = match *kind {
            PAD_1 => 1,
            _ => 2 + usize::from(*options.get(1)?),
        };
        alerts |= *kind == ROUTER_ALERT;
        options = options.get(len..)?;
    }
    (alerts && next == PROTOCOL_ICMPV6).then_some(message)
}

fn max_delay_ms(code: u16) -> u32 {
    match code {
        FLOATING.. => u32::from(code & 0xfff | 0x1000) << ((code >> 12 & 7) + 3),
        plain => plain.into(),
    }
}

/// The message of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MldReport<'g> {
    /// We listen to these groups, [`MAX_RECORDS`] at most; `is_news`: from now on.
    V2 { groups: &'g [[u8; 16]], is_news: bool },
    /// We listen to this group.
    V1 { group: [u8; 16] },
}

impl MldReport<'_> {
    /// The group it goes to.
    pub(super) fn destination(&self) -> [u8; 16] {
        match *self {
            Self::V2 { .. } => ALL_MLD_ROUTERS,
            Self::V1 { group } => group,
        }
    }

    /// Length of the IPv6 packet.
    pub(super) fn len(&self) -> usize {
        let message = match self {
            Self::V2 { groups, .. } => RECORDS + groups.len() * RECORD_LEN,
            Self::V1 { .. } => V1_LEN,
        };
        IPV6_LEN + UNIT + message
    }

    /// Writes the IPv6 packet over `packet`, which is of that length and zero. Routers take reports from link-local
    /// addresses only (RFC 3810 section 5.2.13).
    pub(super) fn write(&self, packet: &mut [u8], source: [u8; 16]) {
        let (header, payload) = packet.split_at_mut(IPV6_LEN);
        let (options, message) = payload.split_at_mut(UNIT);
        header[0] = 0x60;
        put16(header, v6::PAYLOAD_LEN, to_u16(UNIT + message.len()));
        header[v6::NEXT_HEADER] = HOP_BY_HOP;
        header[v6::HOP_LIMIT] = 1;
        header[v6::SOURCE..v6::DESTINATION].copy_from_slice(&source);
        header[v6::DESTINATION..].copy_from_slice(&self.destination());
        options.copy_from_slice(&ALERT);
        match *self {
            Self::V2 { groups, is_news } => {
                message[0] = REPORT_V2;
                put16(message, RECORD_COUNT, to_u16(groups.len()));
                let records = message[RECORDS..].chunks_exact_mut(RECORD_LEN);
                for (record, group) in records.zip(groups) {
                    record[0] = if is_news { TO_EXCLUDE } else { IS_EXCLUDE };
                    record[RECORD_LEN - group.len()..].copy_from_slice(group);
                }
            }
            Self::V1 { group } => {
                message[0] = REPORT_V1;
                message[GROUP..].copy_from_slice(&group);
            }
        }
        let pseudo = pseudo_header(&header[v6::SOURCE..], PROTOCOL_ICMPV6, to_u16(message.len()));
        let sum = pseudo.add_bytes(message).checksum();
        put16(message, CHECKSUM, sum);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::neighbor::tests::hex;

    /// fe80::5 asks what anybody listens to, in version 2, within 10 s.
    pub(in crate::neighbor) const GENERAL: &str = "333300000001 0200000000c5 86dd \
        60000000 0024 00 01 fe800000000000000000000000000005 ff020000000000000000000000000001 \
        3a00 0502 0000 0100 8200 0000 2710 0000 00000000000000000000000000000000 027d0000";

    /// The query with its IPv6 packet changed, and its checksum made right.
    pub(in crate::neighbor) fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut frame = hex(GENERAL);
        let mut packet = frame.split_off(14);
        change(&mut packet);
        let len = packet.len() - IPV6_LEN;
        put16(&mut packet, v6::PAYLOAD_LEN, len as u16);
        let at = IPV6_LEN + UNIT;
        put16(&mut packet, at + CHECKSUM, 0);
        let message = packet[at..].to_vec();
        let pseudo =
            pseudo_header(&packet[v6::SOURCE..IPV6_LEN], PROTOCOL_ICMPV6, message.len() as u16);
        put16(&mut packet, at + CHECKSUM, pseudo.add_bytes(&message).checksum());
        [frame, packet].concat()
    }

    const MESSAGE: usize = IPV6_LEN + UNIT;

    #[test]
    fn queries_of_both_versions_are_read() {
        let read = |frame: &[u8]| MldQuery::read(frame, 14);
        let general = MldQuery { is_v1: false, max_delay_ms: 10_000, group: None };
        assert_eq!(read(&changed(|_| ())), Some(general));
        let v1 = changed(|packet| packet.truncate(MESSAGE + V1_LEN));
        assert_eq!(read(&v1), Some(MldQuery { is_v1: true, ..general }));
        let group = [7; 16];
        let specific = changed(|packet| packet[MESSAGE + GROUP..][..16].copy_from_slice(&group));
        assert_eq!(read(&specific), Some(MldQuery { group: Some(group), ..general }));
        let slow = changed(|packet| put16(packet, MESSAGE + MAX_DELAY, 0x8001));
        assert_eq!(read(&slow).map(|query| query.max_delay_ms), Some(0x1001 << 3));
        let padded = [changed(|_| ()), vec![0xaa; 9]].concat();
        assert_eq!(read(&padded), Some(general), "Ethernet pads");
    }

    #[test]
    fn invalid_queries_are_not_read() {
        type Change = fn(&mut Vec<u8>);
        let changes: [(&str, Change); 7] = [
            ("the hop limit is 1", |packet| packet[v6::HOP_LIMIT] = 2),
            ("the source is link-local", |packet| packet[v6::SOURCE] = 0xfd),
            ("there is a router alert", |packet| packet[IPV6_LEN + 2] = 0x1e),
            ("the options are whole", |packet| packet[IPV6_LEN + 7] = 1),
            ("ICMPv6 follows", |packet| packet[IPV6_LEN] = 17),
            ("no length is between the versions", |packet| packet.truncate(MESSAGE + 26)),
            ("it is a query", |packet| packet[MESSAGE] = REPORT_V2),
        ];
        for (rule, change) in changes {
            assert_eq!(MldQuery::read(&changed(change), 14), None, "{rule}");
        }
        let whole = changed(|_| ());
        for len in 0..whole.len() {
            assert_eq!(MldQuery::read(&whole[..len], 14), None, "{len} bytes");
        }
        let mut wrong_sum = whole;
        wrong_sum[14 + MESSAGE + CHECKSUM] ^= 1;
        assert_eq!(MldQuery::read(&wrong_sum, 14), None);
    }

    #[test]
    fn bound_b2_reports_look_as_rfc_3810_wants_them() {
        let source = [0xfe; 16];
        let groups = [[1; 16], [2; 16]];
        let write = |report: MldReport<'_>| {
            let mut packet = vec![0; report.len()];
            report.write(&mut packet, source);
            let (header, payload) = packet.split_at(IPV6_LEN);
            assert_eq!(usize::from(be16(header, v6::PAYLOAD_LEN).unwrap()), payload.len());
            assert_eq!((header[v6::NEXT_HEADER], header[v6::HOP_LIMIT]), (0, 1));
            assert_eq!(header[v6::SOURCE..v6::DESTINATION], source);
            assert_eq!(header[v6::DESTINATION..], report.destination());
            let message = behind_alert(payload).expect("a router alert").to_vec();
            let sum = pseudo_header(&header[v6::SOURCE..], PROTOCOL_ICMPV6, message.len() as u16);
            assert!(sum.add_bytes(&message).is_right());
            message
        };
        let news = write(MldReport::V2 { groups: &groups, is_news: true });
        assert_eq!((news[0], &news[4..8], news.len()), (143, &[0, 0, 0, 2][..], 48));
        assert_eq!(news[8..12], [TO_EXCLUDE, 0, 0, 0]);
        assert_eq!((&news[12..28], &news[32..48]), (&groups[0][..], &groups[1][..]));
        let answer = write(MldReport::V2 { groups: &groups[..1], is_news: false });
        assert_eq!((answer[8], answer.len()), (IS_EXCLUDE, 28));
        let old = write(MldReport::V1 { group: groups[1] });
        assert_eq!((old[0], old.len(), &old[8..]), (131, 24, &groups[1][..]));
    }
}
