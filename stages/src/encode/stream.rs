//! Answers to clients over streams: no headers and no checksums, room for a whole frame, and options of their own.

use pmdns_config::narrow::to_u16;
use pmdns_nics::stream::{AnswerOption, STREAM_MESSAGE, StreamHeader, Transport};

use super::Encode;
use super::headers::put_message;
use super::records::Outline;
use crate::packet::Packet;
use crate::step::Step;
use crate::wire::checksum::Sum;
use crate::wire::dns::{HEADER_LEN, question_len};
use crate::wire::edns::{OPT_LEN, OPTION_HEAD_LEN, option};
use crate::wire::layout::{Flags, Layout};
use crate::wire::{be16, put16};

/// Bytes of the keepalive option's data.
const KEEPALIVE_LEN: usize = 2;
/// The block that padded answers are multiples of (RFC 8467 section 4.1).
const BLOCK: usize = 468;
/// Records are written in whole words, which may end behind them.
const WORD: usize = 8;

/// Bytes that records may take in the answer to this query.
pub(super) fn room_for_records(packet: &Packet, options: &[u8]) -> usize {
    let layout = packet.layout;
    let opt = match layout.flags.has(Flags::EDNS) {
        true => OPT_LEN + options.len() + OPTION_HEAD_LEN + KEEPALIVE_LEN,
        false => 0,
    };
    let others = STREAM_MESSAGE + HEADER_LEN + question_len(layout.name_len) + opt + WORD;
    packet.frame.room().saturating_sub(others)
}

impl Encode {
    /// Writes everything around the records, which are in place.
    #[cold]
    #[inline(never)]
    pub(super) fn close_stream(
        &self,
        packet: &mut Packet,
        layout: Layout,
        outline: &Outline,
        options: &[u8],
    ) -> Step {
        let message = &mut packet.frame.bytes_mut()[STREAM_MESSAGE..];
        put_message(message, layout, outline, self.max_udp_size, options, Sum::default());
        if let Some(header) = StreamHeader::read(packet.frame.bytes())
            && layout.flags.has(Flags::EDNS)
        {
            let is_encrypted = header.transport() != Transport::Tcp;
            let (keepalive, pads) =
                (header.requests(AnswerOption::Keepalive), header.requests(AnswerOption::Padding));
            let mut data_len = options.len();
            // Over QUIC it is an error (RFC 9250 section 5.5.2), and HTTP has a way of its own.
            let is_own = matches!(header.transport(), Transport::Tcp | Transport::Tls);
            if keepalive && is_own {
                let time = self.idle_time.tenths().to_be_bytes();
                data_len = add_option(packet, data_len, option::KEEPALIVE, &time);
            }
            if pads && is_encrypted {
                let len = packet.frame.bytes().len() - STREAM_MESSAGE + OPTION_HEAD_LEN;
                let zeros = [0; BLOCK];
                let missing = len.next_multiple_of(BLOCK) - len;
                add_option(packet, data_len, option::PADDING, &zeros[..missing]);
            }
        }
        Step::TRANSMIT
    }
}

/// Adds an option to the OPT record at the end of the frame, which has `data_len` bytes of them. Returns how many it has then. An
/// option that does not fit is left out.
fn add_option(packet: &mut Packet, data_len: usize, code: u16, data: &[u8]) -> usize {
    let (end, added) = (packet.frame.bytes().len(), OPTION_HEAD_LEN + data.len());
    if packet.frame.resize(end + added).is_err() {
        return data_len;
    }
    let frame = packet.frame.bytes_mut();
    let length_at = end - data_len - 2;
    debug_assert_eq!(be16(frame, length_at).map(usize::from), Some(data_len));
    put16(frame, length_at, to_u16(data_len + added));
    put16(frame, end, code);
    put16(frame, end + 2, to_u16(data.len()));
    frame[end + OPTION_HEAD_LEN..].copy_from_slice(data);
    data_len + added
}
