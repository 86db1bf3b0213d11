//! A query as an upstream of a test sees it, and replies to it.

use std::net::SocketAddr;

use pmdns_config::narrow::to_u16;
use pmdns_nics::Frame;
use pmdns_stages::wire::dns::{HEADER_LEN, QUESTION_FIXED_LEN, flag, header};
use pmdns_stages::wire::edns::{option, option_in};
use pmdns_stages::wire::subnet::SCOPE;
use pmdns_stages::wire::{be16, ip, name, put16};

/// A query as it reached the stub.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) message: Vec<u8>,
    pub(crate) from: SocketAddr,
    pub(crate) over_tcp: bool,
}

impl Asked {
    pub(crate) fn id(&self) -> u16 {
        be16(&self.message, header::ID).unwrap()
    }

    pub(crate) fn has_edns(&self) -> bool {
        be16(&self.message, header::ARCOUNT) == Some(1)
    }

    /// The data of the query's subnet option.
    pub(crate) fn subnet(&self) -> Option<Vec<u8>> {
        option_in(&self.message, option::SUBNET).map(<[u8]>::to_vec)
    }

    /// The data of the query's cookie option.
    pub(crate) fn cookie(&self) -> Option<Vec<u8>> {
        option_in(&self.message, option::COOKIE).map(<[u8]>::to_vec)
    }

    /// `reply` with the query's cookie and this server cookie.
    pub(crate) fn with_cookie(&self, reply: Vec<u8>, server: [u8; 8]) -> Vec<u8> {
        let Some(data) = self.cookie() else { return reply };
        self.with_option(reply, option::COOKIE, &[&data[..8], &server].concat())
    }

    /// `reply` with an OPT record that has this option.
    pub(crate) fn with_option(&self, mut reply: Vec<u8>, code: u16, data: &[u8]) -> Vec<u8> {
        put16(&mut reply, header::ARCOUNT, 1);
        let len = to_u16(data.len());
        reply.extend([0, 0, 41, 4, 208, 0, 0, 0, 0]);
        reply.extend([len + 4, code, len].map(u16::to_be_bytes).concat());
        reply.extend(data);
        reply
    }

    /// `reply` for so long a prefix of the network that the query is for, if it is for one.
    pub(crate) fn with_scope(&self, reply: Vec<u8>, scope: u8) -> Vec<u8> {
        let Some(mut data) = self.subnet() else { return reply };
        data[SCOPE] = scope;
        self.with_option(reply, option::SUBNET, &data)
    }

    /// A response with this rcode and nothing but the question.
    pub(crate) fn rcode(&self, rcode: u8) -> Vec<u8> {
        let name_len = name::length(&self.message[HEADER_LEN..]).unwrap();
        let mut reply = self.message[..HEADER_LEN + name_len + QUESTION_FIXED_LEN].to_vec();
        put16(&mut reply, header::FLAGS, flag::QR | flag::RD | flag::RA | u16::from(rcode));
        put16(&mut reply, header::ARCOUNT, 0);
        reply
    }

    /// A response with `count` records of this TTL and of the type asked for, each with other data.
    pub(crate) fn addresses(&self, count: u16, ttl: u32) -> Vec<u8> {
        let mut reply = self.rcode(0);
        let qtype = be16(&reply, reply.len() - QUESTION_FIXED_LEN).unwrap();
        put16(&mut reply, header::ANCOUNT, count);
        for number in 0..count {
            reply.extend([0xc0, 12]);
            reply.extend(qtype.to_be_bytes());
            reply.extend([0, 1]);
            reply.extend(ttl.to_be_bytes());
            reply.extend(data_of(qtype, number));
        }
        reply
    }

    /// A response with one A record.
    pub(crate) fn address(&self) -> Vec<u8> {
        self.addresses(1, 300)
    }

    /// An NXDOMAIN whose SOA allows to keep it for this many seconds.
    pub(crate) fn nxdomain(&self, ttl: u32) -> Vec<u8> {
        let mut reply = self.rcode(3);
        put16(&mut reply, header::NSCOUNT, 1);
        reply.extend([0, 0, 6, 0, 1]);
        reply.extend(ttl.to_be_bytes());
        reply.extend([0, 22, 0, 0]);
        reply.extend([1, 2, 3, 4].map(u32::to_be_bytes).concat());
        reply.extend(ttl.to_be_bytes());
        reply
    }

    /// An answer without records, whose SOA allows to keep it for this many seconds.
    pub(crate) fn nodata(&self, ttl: u32) -> Vec<u8> {
        let mut reply = self.nxdomain(ttl);
        reply[3] &= 0xf0;
        reply
    }

    /// A response that says TC=1.
    pub(crate) fn truncated(&self) -> Vec<u8> {
        let mut reply = self.rcode(0);
        reply[2] |= 2;
        reply
    }
}

/// Data of a record of this type with its length: an address, or as much as an address.
fn data_of(qtype: u16, number: u16) -> Vec<u8> {
    let [high, low] = number.to_be_bytes();
    match qtype {
        28 => [&[0, 16, 32, 1, 13, 184][..], &[0; 10], &[high, low]].concat(),
        2 | 5 | 12 | 39 => vec![0, 4, 2, b'a' + high, b'a' + low % 26, 0],
        16 => vec![0, 4, 3, 192, high, low],
        _ => vec![0, 4, 192, 0, high, low],
    }
}

/// The DNS message in a frame.
pub(super) fn message(frame: &Frame) -> &[u8] {
    let ipv6 = be16(frame.bytes(), ip::ETHERTYPE) == Some(ip::TYPE_IPV6);
    let ip_len = if ipv6 { ip::IPV6_LEN } else { ip::IPV4_MIN_LEN };
    &frame.bytes()[ip::ETHERNET_LEN + ip_len + ip::UDP_LEN..]
}
