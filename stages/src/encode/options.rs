//! The options of an answer's OPT record: the client's cookie and subnet, our name, and why the answer is as it is.
//!
//! Each is there only if the client asked for it, or can be told at all. Padding (RFC 7830) is for encrypted
//! transports, and there is none here.

use arrayvec::ArrayVec;
use pmdns_config::limits::{MAX_NSID, MAX_REASON};
use pmdns_config::narrow::to_u16;

use crate::packet::Packet;
use crate::policy::Ruleset;
use crate::wire::dns::{HEADER_LEN, PLAIN_UDP_SIZE, question_len};
use crate::wire::edns::{COOKIE_LEN, OPT_LEN, OPTION_HEAD_LEN, option};
use crate::wire::layout::Flags;
use crate::wire::subnet::{SUBNET_LEN, data_in};

/// Facts of a packet each of which puts an option into its answer.
const WITH_OPTIONS: Flags = Flags::NSID.and(Flags::COOKIE).and(Flags::SUBNET);
/// INFO-CODE of an extended error.
const EXTENDED_ERROR_LEN: usize = 2;
/// The most bytes that options take.
const MAX_OPTIONS: usize =
    4 * OPTION_HEAD_LEN + COOKIE_LEN + SUBNET_LEN + MAX_NSID + EXTENDED_ERROR_LEN + MAX_REASON;

/// The options of one answer, in wire form.
#[derive(Clone, Copy)]
pub(super) struct Options<'o> {
    /// All of them.
    pub(super) all: &'o [u8],
    /// Those that are worth more than records: all but the extended error (RFC 8914 section 3).
    pub(super) essential: &'o [u8],
}

impl Options<'_> {
    /// No options.
    pub(super) const NONE: Self = Self { all: &[], essential: &[] };

    /// Whether some may be left out.
    #[inline(always)]
    pub(super) fn has_more_than_essential(self) -> bool {
        self.all.len() > self.essential.len()
    }

    /// Whether the answer to this packet has none, as nearly all have.
    #[inline(always)]
    pub(super) fn are_none(packet: &Packet) -> bool {
        let flags = packet.layout.flags;
        !flags.has_any(WITH_OPTIONS) && (packet.extended_error.is_none() || !flags.has(Flags::EDNS))
    }
}

/// Where options are put together.
#[derive(Default)]
pub(super) struct Buffer {
    bytes: ArrayVec<u8, MAX_OPTIONS>,
}

impl Buffer {
    /// The options of the answer to this packet. `nsid` is our name, empty if we have none; `rules` have the texts of
    /// extended errors.
    pub(super) fn options_of(
        &mut self,
        packet: &Packet,
        nsid: &[u8],
        rules: &Ruleset,
    ) -> Options<'_> {
        if Options::are_none(packet) {
            return Options::NONE;
        }
        let layout = packet.layout;
        let kept = |range| packet.frame.bytes().get(range).unwrap_or_default();
        if layout.flags.has(Flags::COOKIE) {
            self.add(option::COOKIE, &[kept(layout.question_end()..layout.subnet_at())]);
        }
        if layout.flags.has(Flags::SUBNET) {
            let subnet = kept(layout.subnet_at()..layout.kept_end());
            self.add(option::SUBNET, &[data_in(subnet)]);
        }
        if layout.flags.has(Flags::NSID) && !nsid.is_empty() {
            self.add(option::NSID, &[nsid]);
        }
        let essential = self.bytes.len();
        if let Some((error, text)) = rules.extended_error(packet) {
            let before = HEADER_LEN + question_len(layout.name_len) + OPT_LEN + essential;
            let whole = before + OPTION_HEAD_LEN + EXTENDED_ERROR_LEN + text.len();
            // The text is for people, and every client can take the rest.
            let text = if whole > usize::from(PLAIN_UDP_SIZE) { "" } else { text };
            self.add(option::EXTENDED_ERROR, &[&error.code().to_be_bytes(), text.as_bytes()]);
        }
        Options { all: &self.bytes, essential: &self.bytes[..essential] }
    }

    fn add(&mut self, code: u16, data: &[&[u8]]) {
        let [code_high, code_low] = code.to_be_bytes();
        let len = data.iter().map(|part| part.len()).sum();
        let [len_high, len_low] = to_u16(len).to_be_bytes();
        let head: &[u8] = &[code_high, code_low, len_high, len_low];
        for bytes in std::iter::once(&head).chain(data) {
            let fits = self.bytes.try_extend_from_slice(bytes);
            debug_assert!(fits.is_ok(), "there is room for one option of each kind");
        }
    }
}
