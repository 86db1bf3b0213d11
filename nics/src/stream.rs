//! The header of a frame that did not come over a wire: a DNS message of a client over a stream.
//!
//! It has 40 bytes. The client's address stands where the header of its IP version has it, so that the stages find it there. The
//! bytes before are free, and say which query this is. The last eight are a UDP header with the client's port and the length.
//!
//! ```text
//!  0 thread | 1 transport and requests | 2..4 place | 4..8 generation | 8.. client's address | 32 UDP header | 40 message
//! ```

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use crate::frame::{Frame, TooLong};

/// Where the UDP header starts. Behind Ethernet and IP it never starts as early, so a frame is known by it.
pub const STREAM_UDP: u8 = 32;
/// Where the message starts.
pub const STREAM_MESSAGE: usize = STREAM_UDP as usize + 8;
/// Bytes that such a frame can hold.
pub const STREAM_ROOM: u16 = u16::MAX;

/// Where the header has the thread that serves the client.
const THREAD: usize = 0;
/// Where it has the transport, and what the client requested of the answer.
const KIND: usize = 1;
const PLACE: usize = 2;
const GENERATION: usize = 4;
/// Where IP headers have the source address.
const IPV4_SOURCE: usize = 12;
const IPV6_SOURCE: usize = 8;
/// Where a UDP header has its source port, and its length.
const UDP_SOURCE: usize = STREAM_UDP as usize;
const UDP_LEN: usize = STREAM_UDP as usize + 4;
/// The part of the kind that is the transport.
const TRANSPORT: u8 = 0x0f;

/// How a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// RFC 7766.
    Tcp,
    /// RFC 7858.
    Tls,
    /// RFC 8484.
    Https,
    /// RFC 9250.
    Quic,
}

impl Transport {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::Tls, Self::Https, Self::Quic];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        ["tcp", "tls", "https", "quic"][self as usize]
    }
}

/// The request of a query's OPT record about its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerOption {
    /// How long an idle connection lasts (RFC 7828).
    Keepalive = 0x10,
    /// An answer padded to a block (RFC 7830).
    Padding = 0x20,
}

/// Which query of a stream client a frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamToken {
    /// The thread that serves the client.
    pub thread: u8,
    /// The query's place in that thread's table.
    pub place: u16,
    /// How often that place was used before.
    pub generation: u32,
}

/// Makes `frame` the query of a client. An error: the message is too long for a frame.
pub fn write_stream_query(
    frame: &mut Frame,
    token: StreamToken,
    transport: Transport,
    client: SocketAddr,
    message: &[u8],
) -> Result<(), TooLong> {
    frame.resize(STREAM_MESSAGE + message.len())?;
    let udp_len = u16::try_from(message.len() + 8).map_err(|_| TooLong)?;
    let bytes = frame.bytes_mut();
    bytes[..STREAM_MESSAGE].fill(0);
    bytes[THREAD] = token.thread;
    bytes[KIND] = transport as u8;
    bytes[PLACE..GENERATION].copy_from_slice(&token.place.to_be_bytes());
    bytes[GENERATION..IPV6_SOURCE].copy_from_slice(&token.generation.to_be_bytes());
    match client.ip() {
        IpAddr::V4(v4) => bytes[IPV4_SOURCE..][..4].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => bytes[IPV6_SOURCE..][..16].copy_from_slice(&v6.octets()),
    }
    // Parse asks for the family: the free bits of the kind say it.
    bytes[KIND] |= u8::from(client.is_ipv6()) * IPV6;
    bytes[UDP_SOURCE..][..2].copy_from_slice(&client.port().to_be_bytes());
    bytes[UDP_LEN..][..2].copy_from_slice(&udp_len.to_be_bytes());
    bytes[STREAM_MESSAGE..].copy_from_slice(message);
    Ok(())
}

/// The bit of the kind that says that the client's address is of IPv6.
const IPV6: u8 = 0x80;

/// The header of a stream client's frame, of which the bytes are those of the frame.
#[derive(Clone, Copy, Debug)]
pub struct StreamHeader<'f>(&'f [u8; STREAM_MESSAGE]);

impl<'f> StreamHeader<'f> {
    /// Reads it. `None`: the frame is too short to have one.
    pub fn read(frame: &'f [u8]) -> Option<Self> {
        frame.first_chunk().map(Self)
    }

    /// Which query it belongs to.
    pub fn token(self) -> StreamToken {
        let Self(&[thread, _, p0, p1, g0, g1, g2, g3, ..]) = self;
        let (place, generation) =
            (u16::from_be_bytes([p0, p1]), u32::from_be_bytes([g0, g1, g2, g3]));
        StreamToken { thread, place, generation }
    }

    /// How the client asks.
    pub fn transport(self) -> Transport {
        let number = usize::from(self.0[KIND] & TRANSPORT);
        Transport::ALL.get(number).copied().unwrap_or(Transport::Tcp)
    }

    /// Whether the client's address is of IPv6.
    pub fn is_ipv6(self) -> bool {
        self.0[KIND] & IPV6 != 0
    }

    /// Whether the query requests this of its answer.
    pub fn requests(self, what: AnswerOption) -> bool {
        self.0[KIND] & what as u8 != 0
    }
}

/// Notes in a stream client's frame that the query requests this of its answer.
pub fn note_request(frame: &mut [u8], what: AnswerOption) {
    if let Some(kind) = frame.get_mut(KIND) {
        *kind |= what as u8;
    }
}

/// How long an idle connection lasts at present. Cloning it gives another handle to the same time.
#[derive(Clone, Debug, Default)]
pub struct IdleTime(Arc<AtomicU16>);

impl IdleTime {
    /// Says that it is `time` from now on.
    pub fn set(&self, time: Duration) {
        let tenths = u16::try_from(time.as_millis() / 100).unwrap_or(u16::MAX);
        self.0.store(tenths, Ordering::Relaxed);
    }

    /// The time in tenths of a second, as clients are told (RFC 7828 section 3.1).
    pub fn tenths(&self) -> u16 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HeapPool;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let pool = HeapPool::with_room(1, STREAM_ROOM);
        for (client, source) in [("192.0.2.7", IPV4_SOURCE), ("2001:db8::7", IPV6_SOURCE)] {
            for transport in Transport::ALL {
                let client = SocketAddr::new(client.parse().unwrap(), 40_000);
                let mut frame = pool.take().unwrap();
                let token = StreamToken { thread: 3, place: 0xfffe, generation: 0xdead_beef };
                write_stream_query(&mut frame, token, transport, client, b"message").unwrap();
                note_request(frame.bytes_mut(), AnswerOption::Padding);
                let header = StreamHeader::read(frame.bytes()).unwrap();
                assert_eq!((header.token(), header.transport()), (token, transport));
                assert_eq!(header.is_ipv6(), client.is_ipv6());
                assert!(
                    header.requests(AnswerOption::Padding)
                        && !header.requests(AnswerOption::Keepalive)
                );
                assert_eq!(&frame.bytes()[STREAM_MESSAGE..], b"message");
                assert_eq!(frame.bytes()[UDP_SOURCE..][..2], 40_000_u16.to_be_bytes());
                match client.ip() {
                    IpAddr::V4(v4) => assert_eq!(frame.bytes()[source..][..4], v4.octets()),
                    IpAddr::V6(v6) => assert_eq!(frame.bytes()[source..][..16], v6.octets()),
                }
            }
        }
    }

    #[test]
    fn a_message_that_is_too_long_is_refused() {
        let pool = HeapPool::with_room(1, STREAM_ROOM);
        let mut frame = pool.take().unwrap();
        let token = StreamToken { thread: 0, place: 0, generation: 0 };
        let client = SocketAddr::from(([192, 0, 2, 1], 40_000));
        let most = usize::from(STREAM_ROOM) - STREAM_MESSAGE;
        let mut write =
            |len| write_stream_query(&mut frame, token, Transport::Tcp, client, &vec![0; len]);
        assert_eq!([write(most), write(most + 1)], [Ok(()), Err(TooLong)]);
    }
}
