//! The PROXY protocol, version 2: a proxy in front tells who the client is.
//!
//! <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>, section 2.2. Only prefixes that the configuration
//! trusts may send it, and they have to. Nobody else's bytes are looked at for it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use pmdns_counters::count;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::net::TcpStream;

use crate::access::{is_proxy, reset};
use crate::places::ConnectionPlace;
use crate::service::Service;

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes before the addresses: signature, version and command, family and protocol, length.
const FIXED: usize = 16;
/// The most bytes of addresses and options behind them.
const MAX_REST: usize = 2048;
/// Version 2 with the commands LOCAL and PROXY.
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
/// Families with their protocol: none, TCP over IPv4, TCP over IPv6.
const UNSPECIFIED: u8 = 0x00;
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;

/// The client of a new connection, whose place moves to the client's prefix. `None`: the connection has to end. A trusted peer
/// sent no header in time or one that is malformed, which is counted, its client may not ask, or the client's prefix has no place
/// left.
pub(crate) async fn client(
    mut stream: TcpStream,
    peer: SocketAddr,
    place: ConnectionPlace,
    service: &Service,
) -> Option<(TcpStream, SocketAddr, ConnectionPlace)> {
    if !is_proxy(&service.proxies, peer) {
        return Some((stream, peer, place));
    }
    let counters = service.counters.of(place.transport());
    let client =
        match service.places.in_time(service.limits.io_timeout, read(&mut stream, peer)).await {
            Some(Ok(client)) => client,
            Some(Err(error)) => {
                tracing::debug!("from the proxy {peer}: {error}");
                count(&counters.malformed);
                return None;
            }
            None => {
                count(&counters.slow_queries);
                return None;
            }
        };
    if !service.access.admits(client) {
        count(&counters.denied);
        reset(&stream);
        return None;
    }
    place.move_to(client).then_some((stream, client, place))
}

/// Reads a header: whom it names is the client.
pub(crate) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    peer: SocketAddr,
) -> io::Result<SocketAddr> {
    let mut fixed = [0; FIXED];
    stream.read_exact(&mut fixed).await?;
    let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if !fixed.starts_with(SIGNATURE) || length > MAX_REST {
        return Err(malformed());
    }
    let mut rest = [0; MAX_REST];
    let rest = &mut rest[..length];
    stream.read_exact(rest).await?;
    match (fixed[12], fixed[13]) {
        // The proxy's own connections, such as its health checks.
        (LOCAL, _) | (PROXY, UNSPECIFIED) => Ok(peer),
        (PROXY, TCP4) => source::<4>(rest, |octets| Ipv4Addr::from(octets).into()),
        (PROXY, TCP6) => source::<16>(rest, |octets| Ipv6Addr::from(octets).into()),
        _ => Err(malformed()),
    }
}

/// The source of two addresses of `N` bytes, which two ports follow.
fn source<const N: usize>(rest: &[u8], address: fn([u8; N]) -> IpAddr) -> io::Result<SocketAddr> {
    let octets = rest.first_chunk::<N>().ok_or_else(malformed)?;
    let ports = rest.get(2 * N..2 * N + 4).ok_or_else(malformed)?;
    let port = u16::from_be_bytes([ports[0], ports[1]]);
    Ok(SocketAddr::new(address(*octets), port))
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the peer sent no PROXY header of version 2")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: &str = "10.0.0.1:4000";

    fn header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [SIGNATURE, [command, family].as_slice(), &length, rest].concat()
    }

    fn v4() -> Vec<u8> {
        header(PROXY, TCP4, &[192, 0, 2, 7, 10, 0, 0, 1, 0x12, 0x34, 0, 53])
    }

    async fn read(bytes: &[u8]) -> io::Result<(String, Vec<u8>)> {
        let mut stream = bytes;
        let client = super::read(&mut stream, PEER.parse().unwrap()).await?;
        Ok((client.to_string(), stream.to_vec()))
    }

    #[tokio::test]
    async fn the_client_is_whom_the_header_names() {
        let query = b"\0\x0cquery";
        let (client, left) = read(&[&v4(), query.as_slice()].concat()).await.unwrap();
        assert_eq!((client.as_str(), left.as_slice()), ("192.0.2.7:4660", query.as_slice()));
        let mut addresses = [0; 36];
        addresses[..16].copy_from_slice(&"2001:db8::7".parse::<Ipv6Addr>().unwrap().octets());
        addresses[33] = 9;
        let with_options = [addresses.as_slice(), b"\x04\0\x02ab"].concat();
        let (client, left) = read(&header(PROXY, TCP6, &with_options)).await.unwrap();
        assert_eq!((client.as_str(), left.len()), ("[2001:db8::7]:9", 0), "options are skipped");
    }

    #[tokio::test]
    async fn a_proxy_may_ask_for_itself() {
        for bytes in [header(LOCAL, TCP4, &[]), header(PROXY, UNSPECIFIED, b"whatever")] {
            assert_eq!(read(&bytes).await.unwrap().0, PEER);
        }
    }

    #[tokio::test]
    async fn a_header_that_is_malformed_or_missing_is_an_error() {
        let good = v4();
        for len in 0..good.len() {
            assert!(read(&good[..len]).await.is_err(), "{len}");
        }
        for (place, byte) in [(0, b'P'), (12, 0x11), (12, 0x22), (13, 0x12), (13, 0x31)] {
            let mut bad = v4();
            bad[place] = byte;
            assert!(read(&bad).await.is_err(), "{place}");
        }
        assert!(read(&header(PROXY, TCP6, &[0; 12])).await.is_err(), "addresses too short");
        assert!(read(&header(PROXY, TCP4, &[0; MAX_REST + 1])).await.is_err(), "too long");
        assert!(read(b"\0\x20a query over plain TCP, which has no header").await.is_err());
    }
}
