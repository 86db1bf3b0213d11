//! What has to be alike: an entry of a file, and a query or an answer of pmdns.

use pmdns_hierarchy::message::flag;
use pmdns_hierarchy::{Message, Name, OwnedRecord, rtype};

use super::grammar::{DNSSEC_OK, Entry, Matches};

/// Options of an OPT record.
const COOKIE: u16 = 10;
const EXTENDED_ERROR: u16 = 15;
/// The length of a cookie with a server's part in it.
const WHOLE_COOKIE: usize = 24;
/// There is no such name.
const NXDOMAIN: u16 = 3;
/// For how many seconds a denial by rules is kept.
const DENIAL_TTL: u32 = 60;

/// Whether an upstream's entry is for this query.
pub(crate) fn is_for(entry: &Entry, query: &Message, over_tcp: bool) -> bool {
    (over_tcp || !entry.matches.over_tcp)
        && difference(&entry.matches, &entry.message, query).is_none()
}

/// How a message differs from what is expected in what has to be alike; `None`: it does not.
pub(crate) fn difference(
    matches: &Matches,
    expected: &Message,
    message: &Message,
) -> Option<String> {
    let [(their_name, their_type, their_class), (name, qtype, class)] =
        [&expected.question, &message.question];
    let opcode = |message: &Message| message.flags >> 11 & 15;
    let unlike = if matches.opcode && opcode(expected) != opcode(message) {
        "opcode"
    } else if matches.qtype && (their_type, their_class) != (qtype, class) {
        "type"
    } else if matches.qname && their_name != name {
        "name"
    } else if matches.subdomain && !name.is_within(their_name) {
        "domain"
    } else if matches.flags & !message.flags != 0 {
        "flags that have to be set"
    } else if matches.dnssec_ok && !is_dnssec_ok(message) {
        "DO"
    } else if matches.extended_error.is_some_and(|code| extended_error(message) != Some(code)) {
        "extended error"
    } else if matches.server_cookie && !has_server_cookie(message) {
        "cookie"
    } else if matches.all {
        return difference_in_all(expected, message, matches.ttl);
    } else if message.flags & flag::QR != 0
        && !says_the_same(&expected.sections[0], &message.sections[0], matches.ttl)
    {
        // Files that compare less have an answer section all the same, and mean it.
        "answer section"
    } else {
        return None;
    };
    Some(format!("another {unlike}"))
}

fn difference_in_all(expected: &Message, message: &Message, with_ttl: bool) -> Option<String> {
    if expected.flags != message.flags {
        let [theirs, ours] = [expected, message].map(|one| one.flags);
        return Some(format!("flags {ours:04x} in place of {theirs:04x}"));
    }
    if expected.question != message.question {
        return Some("another question".into());
    }
    let opt = |message: &Message| message.records().find(|one| one.rtype == rtype::OPT).is_some();
    if opt(expected) != opt(message) || is_dnssec_ok(expected) != is_dnssec_ok(message) {
        return Some("another OPT record".into());
    }
    let names = ["answer", "authority", "additional"];
    for (name, (theirs, ours)) in names.iter().zip(expected.sections.iter().zip(&message.sections))
    {
        if !says_the_same(theirs, ours, with_ttl) {
            return Some(format!("{name} {ours:?} in place of {theirs:?}"));
        }
    }
    None
}

/// Whether two sections have the same records, in whatever order.
fn says_the_same(theirs: &[OwnedRecord], ours: &[OwnedRecord], with_ttl: bool) -> bool {
    let mut rest: Vec<&OwnedRecord> = ours.iter().filter(|one| one.rtype != rtype::OPT).collect();
    for record in theirs.iter().filter(|one| one.rtype != rtype::OPT) {
        let is_it =
            |one: &&OwnedRecord| record.says_the_same(one) && (!with_ttl || record.ttl == one.ttl);
        let Some(found) = rest.iter().position(is_it) else { return false };
        rest.swap_remove(found);
    }
    rest.is_empty()
}

/// What pmdns passes on of a message, as docs/adr/0029 decides: no name servers, and no addresses that nobody asked for.
pub(crate) fn relayed(mut message: Message) -> Message {
    let qtype = message.question.1;
    let is_negative = !message.sections[0].iter().any(|one| one.rtype == qtype);
    message.sections[1].retain(|one| match one.rtype {
        rtype::NS => false,
        rtype::SOA => is_negative,
        _ => one.covered() != Some(rtype::NS),
    });
    message.sections[2].retain(|one| one.rtype == rtype::OPT);
    message.flags &= !flag::AA;
    message
}

/// What clients get where a policy zone denies a name: Unbound's denial, with the SOA record that docs/dns.md promises.
pub(crate) fn with_soa_of_denial(mut message: Message) -> Message {
    if message.rcode() == NXDOMAIN && message.sections[1].is_empty() {
        let name = message.question.0.clone();
        let timers = [1, 3600, 1200, 604_800, DENIAL_TTL].map(u32::to_be_bytes).concat();
        let data = [name.wire(), Name::new("nobody.invalid").wire(), &timers].concat();
        let soa = OwnedRecord { ttl: DENIAL_TTL, ..OwnedRecord::new(&name, rtype::SOA, data) };
        message.sections[1].push(soa);
    }
    message
}

/// Whether a message has the flag DO.
pub(crate) fn is_dnssec_ok(message: &Message) -> bool {
    message.sections[2].iter().any(|one| one.rtype == rtype::OPT && one.ttl & DNSSEC_OK != 0)
}

fn extended_error(message: &Message) -> Option<u16> {
    let data = option(message, EXTENDED_ERROR)?;
    Some(u16::from_be_bytes(*data.first_chunk()?))
}

fn has_server_cookie(message: &Message) -> bool {
    option(message, COOKIE).is_some_and(|data| data.len() == WHOLE_COOKIE)
}

/// The data of an option of the OPT record.
fn option(message: &Message, code: u16) -> Option<&[u8]> {
    let opt = message.sections[2].iter().find(|one| one.rtype == rtype::OPT)?;
    let mut rest = &opt.data[..];
    while let [a, b, c, d, after @ ..] = rest {
        let (data, after) = after.split_at_checked(u16::from_be_bytes([*c, *d]).into())?;
        if u16::from_be_bytes([*a, *b]) == code {
            return Some(data);
        }
        rest = after;
    }
    None
}
