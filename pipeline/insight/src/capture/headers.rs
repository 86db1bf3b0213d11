//! The headers of any frame: who sent it to whom, and the DNS message in it. Nothing of it has been checked.

use std::net::IpAddr;

use pmdns_nics::stream::{STREAM_MESSAGE, StreamHeader};
use pmdns_stages::wire::dns::HEADER_LEN;
use pmdns_stages::wire::ip::{
    ETHERNET_LEN, ETHERTYPE, IPV4_MIN_LEN, IPV6_LEN, MAX_VLAN_TAGS, PROTOCOL_UDP, TYPE_IPV4,
    TYPE_IPV6, TYPE_QINQ, TYPE_VLAN, UDP_LEN, VLAN_LEN, v4, v6,
};
use pmdns_stages::wire::name;

/// The fields of a frame's headers, as far as it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    pub(crate) source: IpAddr,
    /// Frames of clients over streams have none.
    pub(crate) destination: Option<IpAddr>,
    /// Where the payload of UDP starts.
    message: Option<usize>,
}

impl Headers {
    /// Reads an Ethernet frame. `None`: it is not IP, or cut off.
    pub(crate) fn read(frame: &[u8]) -> Option<Self> {
        let (mut ethertype, mut at) = (half(frame, ETHERTYPE)?, ETHERNET_LEN);
        for _ in 0..MAX_VLAN_TAGS {
            if matches!(ethertype, TYPE_VLAN | TYPE_QINQ) {
                ethertype = half(frame, at + VLAN_LEN - 2)?;
                at += VLAN_LEN;
            }
        }
        let header = frame.get(at..)?;
        let (source, destination, protocol, len) = match ethertype {
            TYPE_IPV4 => {
                let len = usize::from(header.first()? & 0xf) * 4;
                let address = |at| header.get(at..)?.first_chunk::<4>().map(|it| IpAddr::from(*it));
                let protocol = *header.get(v4::PROTOCOL)?;
                (address(v4::SOURCE)?, address(v4::DESTINATION)?, protocol, len.max(IPV4_MIN_LEN))
            }
            TYPE_IPV6 => {
                let address =
                    |at| header.get(at..)?.first_chunk::<16>().map(|it| IpAddr::from(*it));
                let protocol = *header.get(v6::NEXT_HEADER)?;
                (address(v6::SOURCE)?, address(v6::DESTINATION)?, protocol, IPV6_LEN)
            }
            _ => return None,
        };
        let message = (protocol == PROTOCOL_UDP).then_some(at + len + UDP_LEN);
        Some(Self { source, destination: Some(destination), message })
    }

    /// Reads the frame of a client over a stream.
    pub(crate) fn of_stream(frame: &[u8]) -> Option<Self> {
        let header = StreamHeader::read(frame)?;
        let source = match header.is_ipv6() {
            true => IpAddr::from(*frame.get(v6::SOURCE..)?.first_chunk::<16>()?),
            false => IpAddr::from(*frame.get(v4::SOURCE..)?.first_chunk::<4>()?),
        };
        Some(Self { source, destination: None, message: Some(STREAM_MESSAGE) })
    }

    /// Where its DNS message starts, if it can have one.
    pub(crate) fn message(&self) -> Option<usize> {
        self.message
    }

    /// The qname and the qtype, if the message begins with a question.
    pub(crate) fn question<'f>(&self, frame: &'f [u8]) -> Option<(&'f [u8], u16)> {
        let at = self.message? + HEADER_LEN;
        let rest = frame.get(at..)?;
        let qname = rest.get(..name::length(rest)?)?;
        Some((qname, half(rest, qname.len())?))
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use pmdns_stages::testing::query;

    use super::*;

    #[test]
    fn frames_are_read_as_far_as_they_go() {
        for query in [query("a.example. AAAA"), query("a.example. AAAA").over_ipv6()] {
            let frame = query.frame_bytes();
            let headers = Headers::read(&frame).unwrap();
            assert_eq!(headers.source.is_ipv4(), headers.destination.unwrap().is_ipv4());
            assert_eq!(headers.question(&frame), Some((&b"\x01a\x07example\0"[..], 28)));
            for len in 0..frame.len() {
                let cut = &frame[..len];
                let question = Headers::read(cut).and_then(|headers| headers.question(cut));
                assert!(
                    question.is_none() || len + 2 >= frame.len(),
                    "{len}: no question, no panic"
                );
            }
        }
        assert_eq!(Headers::read(&[0xff; 64]), None);
    }
}
