//! The header of a query that came over a stream. The driver has written it, so nothing in it can be wrong.

use pmdns_nics::stream::{STREAM_MESSAGE, STREAM_UDP, StreamHeader};

use super::Parse;
use crate::packet::Packet;
use crate::step::{Reason, Step};
use crate::wire::checksum::Sum;
use crate::wire::dns::HEADER_LEN;
use crate::wire::layout::Flags;

impl Parse {
    /// Reads a query of a client over a stream. There are no checksums below DNS.
    #[cold]
    #[inline(never)]
    pub(super) fn read_stream(&self, packet: &mut Packet) -> Result<Step, Reason> {
        let frame = packet.frame.bytes();
        let header = StreamHeader::read(frame).ok_or(Reason::Runt)?;
        if header.is_ipv6() {
            packet.layout.flags.set(Flags::IPV6);
        }
        packet.layout.l4 = STREAM_UDP;
        let end = packet.frame.bytes().len();
        let rest =
            packet.frame.bytes().get(STREAM_MESSAGE + HEADER_LEN..).ok_or(Reason::DnsHeader)?;
        self.read_dns(packet, Sum::default().add_bytes(rest), STREAM_MESSAGE..end)
    }
}
