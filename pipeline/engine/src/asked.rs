//! How a client asked.

use pmdns_nics::stream::StreamHeader;
use pmdns_stages::wire::layout::Layout;

/// How a client asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientTransport {
    /// A datagram.
    Udp,
    /// RFC 7766.
    Tcp,
    /// RFC 7858.
    Tls,
    /// RFC 8484.
    Https,
    /// RFC 9250.
    Quic,
}

impl ClientTransport {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Udp, Self::Tcp, Self::Tls, Self::Https, Self::Quic];

    /// How the client of this frame did, by its place in [`Self::ALL`].
    #[inline(always)]
    pub fn index_of(layout: Layout, frame: &[u8]) -> usize {
        if !layout.is_stream() {
            return Self::Udp as usize;
        }
        StreamHeader::read(frame)
            .map_or(Self::Tcp as usize, |header| 1 + header.transport() as usize)
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        ["udp", "tcp", "tls", "https", "quic"][self as usize]
    }
}
