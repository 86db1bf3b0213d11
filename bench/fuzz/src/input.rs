//! The fuzzer's bytes, read from the front. Where they end, zeros follow: every input means something.

use pmdns_stages::testing::QueryFrame;
use pmdns_stages::wire::dns::flag;

/// Bytes that have not been read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'d> {
    rest: &'d [u8],
}

impl<'d> Input<'d> {
    /// All of an input.
    pub(crate) fn new(data: &'d [u8]) -> Self {
        Self { rest: data }
    }

    /// The next byte.
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    /// The next two bytes as a number.
    pub(crate) fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// The next bytes, as many as there are up to `count`.
    pub(crate) fn bytes(&mut self, count: usize) -> &'d [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Everything that is left.
    pub(crate) fn rest(&self) -> &'d [u8] {
        self.rest
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The query of some client. Three bytes choose the IP version, the number of VLANs, the flags, EDNS and the letter
    /// case.
    pub(crate) fn dress(&mut self, query: QueryFrame) -> QueryFrame {
        let (how, udp_size) = (self.byte(), self.number());
        let bit = |number: u8| how >> number & 1 == 1;
        let mut query = if bit(0) { query.over_ipv6() } else { query };
        query.vlans = vec![7; usize::from(how >> 1 & 3).min(2)];
        query.edns = bit(3).then_some((udp_size, bit(4)));
        query.flags |= if bit(5) { flag::CD } else { 0 } | if bit(6) { flag::AD } else { 0 };
        if bit(7) {
            query.name.make_ascii_uppercase();
        }
        query
    }
}
