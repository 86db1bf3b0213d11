//! How clients discover our encrypted transports (RFC 9462): SVCB records, encoded as RFC 9460 section 2.2 says.

use std::net::{IpAddr, SocketAddr};

use crate::local::LocalRecord;
use crate::name::wire_name;
use crate::narrow::{to_u8, to_u16};
use crate::settings::Streams;

/// The name that clients ask for (RFC 9462 section 4).
const OWNER: &str = "_dns.resolver.arpa";
const SVCB: u16 = 64;
/// Seconds.
const TTL: u32 = 300;

/// Keys of parameters (RFC 9460 section 14.3.2, RFC 9461 section 5).
const ALPN: u16 = 1;
const PORT: u16 = 3;
const IPV4_HINT: u16 = 4;
const IPV6_HINT: u16 = 6;
const DOH_PATH: u16 = 7;

/// One way to reach a service.
struct Binding<'s> {
    priority: u16,
    target: &'s [u8],
    alpn: &'s [&'s str],
    port: u16,
    addresses: Vec<IpAddr>,
    doh_path: Option<String>,
}

impl Streams {
    /// The records of `_dns.resolver.arpa`: one for each encrypted transport and port. None without `streams.name`.
    pub fn discovery(&self) -> Vec<LocalRecord> {
        let Some(target) = self.name.as_deref().and_then(|name| wire_name(name).ok()) else {
            return Vec::new();
        };
        let path = || Some(format!("{}{{?dns}}", self.https_path));
        let transports =
            [(&self.tls, "dot", None), (&self.https, "h2", path()), (&self.quic, "doq", None)];
        let mut records = Vec::new();
        for (listed, alpn, doh_path) in transports {
            let mut ports: Vec<u16> = listed.iter().map(SocketAddr::port).collect();
            ports.sort_unstable();
            ports.dedup();
            for port in ports {
                let at_port = listed.iter().filter(|address| address.port() == port);
                let binding = Binding {
                    priority: to_u16(records.len() + 1),
                    target: &target,
                    alpn: &[alpn],
                    port,
                    addresses: at_port.map(SocketAddr::ip).collect(),
                    doh_path: doh_path.clone(),
                };
                let name = wire_name(OWNER).expect("it is a name");
                let data = binding.encode().into();
                records.push(LocalRecord { name, rtype: SVCB, ttl: TTL, data });
            }
        }
        records
    }
}

impl Binding<'_> {
    /// The record's data, its parameters in the order of their keys.
    fn encode(&self) -> Vec<u8> {
        let mut data = [&self.priority.to_be_bytes(), self.target].concat();
        let ids = self.alpn.iter().flat_map(|id| [&[to_u8(id.len())], id.as_bytes()].concat());
        put(&mut data, ALPN, &ids.collect::<Vec<_>>());
        put(&mut data, PORT, &self.port.to_be_bytes());
        // An address that stands for all of ours leads a client nowhere.
        let known = || self.addresses.iter().filter(|address| !address.is_unspecified());
        let v4 = known().filter_map(|address| match address {
            IpAddr::V4(v4) => Some(v4.octets()),
            IpAddr::V6(_) => None,
        });
        put(&mut data, IPV4_HINT, v4.collect::<Vec<_>>().as_flattened());
        let v6 = known().filter_map(|address| match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(v6) => Some(v6.octets()),
        });
        put(&mut data, IPV6_HINT, v6.collect::<Vec<_>>().as_flattened());
        put(&mut data, DOH_PATH, self.doh_path.as_deref().unwrap_or_default().as_bytes());
        data
    }
}

/// Adds a parameter, unless its value is empty.
fn put(data: &mut Vec<u8>, key: u16, value: &[u8]) {
    if !value.is_empty() {
        data.extend(key.to_be_bytes());
        data.extend(to_u16(value.len()).to_be_bytes());
        data.extend(value);
    }
}

#[cfg(test)]
mod tests {
    use domain::base::ParsedName;
    use domain::base::iana::Rtype;
    use domain::base::rdata::ParseAnyRecordData as _;
    use domain::dep::octseq::Parser;
    use domain::rdata::AllRecordData;

    use super::*;

    const TARGET: &[u8] = b"\x03foo\x07example\x03com\0";

    fn encoded(alpn: &[&str], port: u16, addresses: &[&str]) -> Vec<u8> {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Binding { priority: 16, target: TARGET, alpn, port, addresses, doh_path: None }.encode()
    }

    /// Without what the binding always has: priority, target, port.
    fn parameters(alpn: &[&str], addresses: &[&str]) -> Vec<u8> {
        let all = encoded(alpn, 53, addresses);
        let port = b"\0\x03\0\x02\0\x35";
        let rest = all.strip_prefix([b"\0\x10".as_slice(), TARGET].concat().as_slice()).unwrap();
        let at = rest.windows(port.len()).position(|window| window == port).unwrap();
        [&rest[..at], &rest[at + port.len()..]].concat()
    }

    #[test]
    fn vectors_of_rfc_9460_appendix_d() {
        // Figure 4: port=53.
        let expected = [b"\0\x10".as_slice(), TARGET, b"\0\x03\0\x02\0\x35"].concat();
        assert_eq!(encoded(&[], 53, &[]), expected);
        // Figure 7: ipv6hint="2001:db8::1,2001:db8::53:1".
        let hint = b"\0\x06\0\x20\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\
            \x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\x53\0\x01";
        assert_eq!(parameters(&[], &["2001:db8::1", "2001:db8::53:1"]), hint);
        // Figure 9, without `mandatory`: alpn=h2,h3-19 ipv4hint=192.0.2.1.
        let both = b"\0\x01\0\x09\x02h2\x05h3-19\0\x04\0\x04\xc0\0\x02\x01";
        assert_eq!(parameters(&["h2", "h3-19"], &["192.0.2.1"]), both);
    }

    fn texts(streams: &Streams) -> Vec<String> {
        let text = |record: LocalRecord| {
            assert_eq!(*record.name, *b"\x04_dns\x08resolver\x04arpa\0");
            let mut parser = Parser::from_ref(&*record.data);
            let rtype = Rtype::from_int(record.rtype);
            let data: AllRecordData<_, ParsedName<_>> =
                AllRecordData::parse_any_rdata(rtype, &mut parser).unwrap();
            data.to_string()
        };
        streams.discovery().into_iter().map(text).collect()
    }

    #[test]
    fn each_transport_and_port_has_a_record_that_others_can_read() {
        let list = |all: &[&str]| all.iter().map(|one| one.parse().unwrap()).collect();
        let mut streams = Streams {
            tls: list(&["192.0.2.53:853", "[2001:db8::53]:853", "192.0.2.54:8853"]),
            https: list(&["0.0.0.0:443", "[::]:443"]),
            quic: list(&["192.0.2.53:853"]),
            name: Some("dns.example".to_owned()),
            ..Streams::default()
        };
        let expected = [
            "1 dns.example. alpn=dot port=853 ipv4hint=192.0.2.53 ipv6hint=2001:db8::53",
            "2 dns.example. alpn=dot port=8853 ipv4hint=192.0.2.54",
            "3 dns.example. alpn=h2 port=443 dohpath=/dns-query{?dns}",
            "4 dns.example. alpn=doq port=853 ipv4hint=192.0.2.53",
        ];
        assert_eq!(texts(&streams), expected);
        streams.name = None;
        assert!(texts(&streams).is_empty(), "without a name nobody can check the certificate");
    }
}
