//! Frames that are no proper queries, and what a server may say to each.
//!
//! Silence is always a right answer. Where something may be said, it is an error code (RFC 1035 section 4.1.1)
//! under the query's own id; data never is.

use pmdns_stages::wire::dns::{HEADER_LEN, header};
use pmdns_stages::wire::put16;

/// What is wrong with a frame below the DNS message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Damage {
    /// Nothing.
    None,
    /// The UDP length points beyond the frame.
    UdpLength,
    /// The UDP checksum is wrong.
    UdpChecksum,
    /// The IPv4 total length points beyond the frame.
    IpLength,
    /// The IPv4 header checksum is wrong.
    IpChecksum,
}

impl Damage {
    /// Whether the frame must not be answered at all.
    pub fn forbids_answer(self) -> bool {
        self != Self::None
    }
}

/// A malformed query.
#[derive(Clone, Debug)]
pub struct Malformed {
    /// What is wrong, for the documentation and for test failures.
    pub what: &'static str,
    /// The UDP payload; the id, where there is room for one, is written later.
    pub payload: Vec<u8>,
    /// What else is wrong.
    pub damage: Damage,
}

/// Each malformed frame that is sent, made from a proper query for `name` (wire format).
pub fn all(name: &[u8]) -> Vec<Malformed> {
    let query = query(name);
    let with = |at: usize, value: u16| {
        let mut changed = query.clone();
        put16(&mut changed, at, value);
        changed
    };
    let longer = |bytes: &[u8]| [&query, bytes].concat();
    let name_of = |bytes: &[u8]| [&query[..HEADER_LEN], bytes, &[0, 1, 0, 1]].concat();
    let opt = [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0];
    let mut two_opts = longer(&[opt, opt].concat());
    put16(&mut two_opts, header::ARCOUNT, 2);
    let long_label = [&[64][..], &[b'a'; 64], &[0]].concat();
    let long_name = [[1, b'a'].repeat(130), vec![0]].concat();
    let messages = [
        ("an empty datagram", Vec::new()),
        ("half a header", query[..5].to_vec()),
        ("a header alone that promises a question", query[..HEADER_LEN].to_vec()),
        ("a question cut off in its name", query[..HEADER_LEN + 3].to_vec()),
        ("a question without its class", query[..query.len() - 2].to_vec()),
        ("no question", with(header::QDCOUNT, 0)),
        ("two questions promised", with(header::QDCOUNT, 2)),
        ("answers promised", with(header::ANCOUNT, 0xffff)),
        ("two OPT records", two_opts),
        ("a label of 64 bytes", name_of(&long_label)),
        ("a name of 261 bytes", name_of(&long_name)),
        ("a compressed qname that points at itself", name_of(&[0xc0, 12])),
        ("a response", with(header::FLAGS, 0x8180)),
        ("opcode 5", with(header::FLAGS, 5 << 11)),
    ];
    let damages = [
        ("a UDP length beyond the frame", Damage::UdpLength),
        ("a wrong UDP checksum", Damage::UdpChecksum),
        ("an IP length beyond the frame", Damage::IpLength),
        ("a wrong IP checksum", Damage::IpChecksum),
    ];
    let messages = messages.into_iter().map(|(what, payload)| Malformed {
        what,
        payload,
        damage: Damage::None,
    });
    let damaged = damages.into_iter().map(|(what, damage)| Malformed {
        what,
        payload: query.clone(),
        damage,
    });
    messages.chain(damaged).collect()
}

/// A proper query for the address of `name`.
fn query(name: &[u8]) -> Vec<u8> {
    let mut query = vec![0; HEADER_LEN];
    put16(&mut query, header::FLAGS, 0x0100);
    put16(&mut query, header::QDCOUNT, 1);
    query.extend_from_slice(name);
    query.extend_from_slice(&[0, 1, 0, 1]);
    query
}

#[cfg(test)]
mod tests {
    use pmdns_stages::wire::query::ParsedQuery;

    use super::*;

    #[test]
    fn none_of_them_is_a_proper_query() {
        let name = b"\x03www\x07example\0";
        let proper = ParsedQuery::read(&query(name));
        assert_eq!((proper.error, proper.name_len), (None, 13));
        for Malformed { what, payload, damage } in all(name) {
            let is_response = payload.get(2).is_some_and(|flags| flags & 0x80 != 0);
            let readable =
                payload.len() >= HEADER_LEN && ParsedQuery::read(&payload).error.is_none();
            assert!(!readable || is_response || damage.forbids_answer(), "{what}");
        }
    }
}
