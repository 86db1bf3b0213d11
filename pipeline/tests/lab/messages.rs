//! DNS messages as bytes: queries to send, and what replies say.

/// The record type of IPv4 addresses.
pub(crate) const A: u16 = 1;

/// Response codes.
pub(crate) const NOERROR: u8 = 0;
/// The server cannot say.
pub(crate) const SERVFAIL: u8 = 2;
/// There is no such name.
pub(crate) const NXDOMAIN: u8 = 3;
/// The client may not ask.
pub(crate) const REFUSED: u8 = 5;

/// A query to build.
#[derive(Clone, Copy)]
pub(crate) struct Query<'a> {
    pub(crate) id: u16,
    pub(crate) name: &'a str,
    pub(crate) qtype: u16,
    /// The UDP size its OPT record announces; without one: `None`.
    pub(crate) udp_size: Option<u16>,
}

impl Query<'_> {
    /// The message: one question of class IN, RD=1.
    pub(crate) fn message(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        let additional = u16::from(self.udp_size.is_some());
        for field in [self.id, 0x0100, 1, 0, 0, additional] {
            bytes.extend(field.to_be_bytes());
        }
        bytes.extend(wire_name(self.name));
        bytes.extend(self.qtype.to_be_bytes());
        bytes.extend(1_u16.to_be_bytes());
        if let Some(size) = self.udp_size {
            bytes.extend([0, 0, 41]);
            bytes.extend(size.to_be_bytes());
            bytes.extend([0; 6]);
        }
        bytes
    }
}

/// A plain query for the address of `name`.
pub(crate) fn ask_a(id: u16, name: &str) -> Vec<u8> {
    Query { id, name, qtype: A, udp_size: None }.message()
}

/// A name without escapes in wire format.
pub(crate) fn wire_name(name: &str) -> Vec<u8> {
    let mut wire = Vec::with_capacity(name.len() + 2);
    for label in name.split('.').filter(|label| !label.is_empty()) {
        wire.push(u8::try_from(label.len()).unwrap());
        wire.extend(label.as_bytes());
    }
    wire.push(0);
    wire
}

/// The number at `at`.
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The id of a message.
pub(crate) fn id(message: &[u8]) -> u16 {
    be16(message, 0)
}

/// The rcode in a message's header.
pub(crate) fn rcode(message: &[u8]) -> u8 {
    message[3] & 0x0f
}

/// Whether the message says that it is truncated.
pub(crate) fn is_truncated(message: &[u8]) -> bool {
    message[2] & 0x02 != 0
}

/// The question's name in presentation form, its type, and where the question ends.
pub(crate) fn question(message: &[u8]) -> (String, u16, usize) {
    let mut name = String::new();
    let mut at = 12;
    while message[at] != 0 {
        let end = at + 1 + usize::from(message[at]);
        name.push_str(&String::from_utf8_lossy(&message[at + 1..end]));
        name.push('.');
        at = end;
    }
    (name, be16(message, at + 1), at + 5)
}

/// The message with every TTL set to zero, for comparing answers of different moments.
pub(crate) fn without_ttls(message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    let records = (6..12).step_by(2).map(|at| usize::from(be16(&message, at))).sum();
    let mut at = 12;
    for _ in 0..be16(&message, 4) {
        at = after_name(&message, at) + 4;
    }
    for _ in 0..records {
        at = after_name(&message, at);
        // The "TTL" of OPT is its flags (RFC 6891 section 6.1.3).
        if be16(&message, at) != 41 {
            message[at + 4..at + 8].fill(0);
        }
        at += 10 + usize::from(be16(&message, at + 8));
    }
    assert_eq!(at, message.len(), "the records fill the message");
    message
}

/// The first offset behind the name at `at`.
fn after_name(message: &[u8], mut at: usize) -> usize {
    loop {
        match message[at] {
            0 => return at + 1,
            0xc0.. => return at + 2,
            length => at += 1 + usize::from(length),
        }
    }
}
