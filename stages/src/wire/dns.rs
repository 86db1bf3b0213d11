//! The DNS message: its header and the numbers in it (RFC 1035 section 4).

/// The fixed header (RFC 1035 section 4.1.1).
pub const HEADER_LEN: usize = 12;
/// QTYPE and QCLASS behind a qname.
pub const QUESTION_FIXED_LEN: usize = 4;
/// TYPE, CLASS, TTL and RDLENGTH behind an owner name.
pub const RECORD_FIXED_LEN: usize = 10;
/// The longest message for a client without EDNS (RFC 1035 section 4.2.1).
pub const PLAIN_UDP_SIZE: u16 = 512;

/// Offsets in the header.
pub mod header {
    /// Query id.
    pub const ID: usize = 0;
    /// Flags and rcode.
    pub const FLAGS: usize = 2;
    /// Questions.
    pub const QDCOUNT: usize = 4;
    /// Answer records.
    pub const ANCOUNT: usize = 6;
    /// Authority records.
    pub const NSCOUNT: usize = 8;
    /// Additional records.
    pub const ARCOUNT: usize = 10;
}

/// Bits of the header's flags.
pub mod flag {
    /// Response.
    pub const QR: u16 = 1 << 15;
    /// Authoritative answer.
    pub const AA: u16 = 1 << 10;
    /// Truncated.
    pub const TC: u16 = 1 << 9;
    /// Recursion desired.
    pub const RD: u16 = 1 << 8;
    /// Recursion available.
    pub const RA: u16 = 1 << 7;
    /// Authentic data (RFC 4035 section 3.2.3).
    pub const AD: u16 = 1 << 5;
    /// Checking disabled (RFC 4035 section 3.2.2).
    pub const CD: u16 = 1 << 4;
    /// The four bits of the opcode.
    pub const OPCODE: u16 = 0xf << 11;
    /// The four bits of the rcode.
    pub const RCODE: u16 = 0xf;
}

/// Record and query types this program treats specially.
pub mod rtype {
    /// IPv4 address.
    pub const A: u16 = 1;
    /// Name server.
    pub const NS: u16 = 2;
    /// Alias.
    pub const CNAME: u16 = 5;
    /// Start of authority.
    pub const SOA: u16 = 6;
    /// Name of an address.
    pub const PTR: u16 = 12;
    /// Host information; says nothing but that ANY is not answered in full (RFC 8482).
    pub const HINFO: u16 = 13;
    /// Text.
    pub const TXT: u16 = 16;
    /// Signature of a whole message (RFC 2931).
    pub const SIG: u16 = 24;
    /// IPv6 address (RFC 3596).
    pub const AAAA: u16 = 28;
    /// Alias of a whole tree (RFC 6672).
    pub const DNAME: u16 = 39;
    /// EDNS (RFC 6891).
    pub const OPT: u16 = 41;
    /// Digest of a key of the zone below (RFC 4034 section 5).
    pub const DS: u16 = 43;
    /// Signature of a record set (RFC 4034 section 3).
    pub const RRSIG: u16 = 46;
    /// Denial of existence (RFC 4034 section 4).
    pub const NSEC: u16 = 47;
    /// Denial of existence by hashes (RFC 5155).
    pub const NSEC3: u16 = 50;
    /// Where a service is reached (RFC 9460).
    pub const SVCB: u16 = 64;
    /// Where a web server is reached (RFC 9460).
    pub const HTTPS: u16 = 65;
    /// The first of the types that are no data (RFC 6895 section 3.1).
    pub const FIRST_META: u16 = 128;
    /// Transaction signature (RFC 8945).
    pub const TSIG: u16 = 250;
    /// Incremental zone transfer.
    pub const IXFR: u16 = 251;
    /// Zone transfer.
    pub const AXFR: u16 = 252;
    /// Mailbox-related records, obsolete.
    pub const MAILB: u16 = 253;
    /// Mail agent records, obsolete.
    pub const MAILA: u16 = 254;
    /// Any type.
    pub const ANY: u16 = 255;
}

/// The Internet class.
pub const CLASS_IN: u16 = 1;
/// The Chaos class, in which servers are asked about themselves (RFC 4892).
pub const CLASS_CH: u16 = 3;
/// No class: nothing is of it (RFC 2136 section 2.4).
pub const CLASS_NONE: u16 = 254;

/// A response code; those above 15 need an OPT record (RFC 6891 section 6.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rcode(pub u8);

impl Rcode {
    /// No error.
    pub const NOERROR: Self = Self(0);
    /// The query is malformed.
    pub const FORMERR: Self = Self(1);
    /// The server failed.
    pub const SERVFAIL: Self = Self(2);
    /// The name does not exist.
    pub const NXDOMAIN: Self = Self(3);
    /// The server does not do this kind of query.
    pub const NOTIMP: Self = Self(4);
    /// The server will not answer this client or this question.
    pub const REFUSED: Self = Self(5);
    /// A name exists that should not; of a made one, that it would be too long (RFC 6672 section 2.2).
    pub const YXDOMAIN: Self = Self(6);
    /// The EDNS version is not supported.
    pub const BADVERS: Self = Self(16);
    /// The server cookie is not one of ours, and has to be (RFC 7873).
    pub const BADCOOKIE: Self = Self(23);

    /// Whether it says something about the name. All others mean that this server has no answer.
    #[must_use]
    pub fn is_answer(self) -> bool {
        matches!(self, Self::NOERROR | Self::NXDOMAIN | Self::YXDOMAIN)
    }
}

/// Length of a question whose name is `name_len` long; 0 without a name.
#[inline(always)]
pub fn question_len(name_len: u8) -> usize {
    match name_len {
        0 => 0,
        len => usize::from(len) + QUESTION_FIXED_LEN,
    }
}
