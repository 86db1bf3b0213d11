//! Floods: what hostile clients send, and an ordinary hit to compare it with.
//!
//! Most of them ask for a name of 127 labels, the dearest there is. Nothing of them is in the cache but the hit.

use pmdns_config::narrow::to_u16;
use pmdns_stages::testing::{CLIENT_MAC, OUR_IPV4, OUR_MAC, QueryFrame};
use pmdns_stages::wire::checksum::Sum;
use pmdns_stages::wire::dns::{header, rtype};
use pmdns_stages::wire::edns::{MAX_QUERY_OPTIONS, option};
use pmdns_stages::wire::ip::{PROTOCOL_ICMP, TYPE_IPV4, seal_ipv4};
use pmdns_stages::wire::{be16, put16};

use crate::traffic::{Spread, name_number, numbered_query, query_frames};

/// Something nobody should be able to spend our time with, or an ordinary query to compare it with.
pub struct Flood {
    /// The name in tables.
    pub name: &'static str,
    /// What is to be configured for it.
    pub config: &'static str,
    /// The frames of the flood, to be sent in turn.
    pub frames: Vec<Vec<u8>>,
}

/// Frames of a flood before it repeats.
const FLOOD_FRAMES: usize = 4096;
const DROP: &str = "[acl]\ndefault = \"allow\"\ndrop = [\"10.77.0.0/24\"]\n";
const REFUSE: &str = "[acl]\ndefault = \"allow\"\nrefuse = [\"10.77.0.0/24\"]\n\
    [ratelimit]\nerror_replies_per_second = 0\n";
/// Every error and every ping is answered, which costs more than to drop it.
const NO_ERROR_LIMIT: &str = "[ratelimit]\nerror_replies_per_second = 0\n";
const BLOCK: &str = "[block]\nnames = [\"example\"]\n";
const RATE_LIMIT_DROP: &str = "[ratelimit]\nqueries_per_second = 1\nburst = 1\nslip = 0\n";
const RATE_LIMIT_SLIP: &str = "[ratelimit]\nqueries_per_second = 1\nburst = 1\nslip = 1\n";
/// Labels of the names of records behind the question, at most.
const MAX_LABELS: usize = 16;
/// A cookie that has to be reckoned before it is known to be wrong: of the right version and time.
const WRONG_COOKIE: [u8; 24] =
    [1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 0, 0, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9];
/// Data of an ICMP echo request over IPv4 that fills an Ethernet frame.
const PING_LEN: usize = 1472;

/// The hit that the others are compared with comes first; its names are those of [`Kit::fill`](crate::Kit::fill).
pub fn floods(names: usize) -> Vec<Flood> {
    let draws = Spread::Uniform.draw(names, FLOOD_FRAMES);
    let hits = query_frames(&draws);
    let unknown = query_frames(&draws.iter().map(|number| names + number).collect::<Vec<_>>());
    let elsewhere = |number: &usize| {
        let destination = vec![10, 77, 0, 250];
        QueryFrame { destination, ..numbered_query(*number, names) }.frame_bytes()
    };
    let each = |change: &dyn Fn(&mut Vec<u8>)| {
        let changed = |number: usize| {
            let query =
                QueryFrame { name: name_number(number).to_vec(), ..numbered_query(number, 1) };
            let mut message = query.message();
            change(&mut message);
            query.frame_around(&message)
        };
        draws.iter().map(|number| changed(*number)).collect::<Vec<_>>()
    };
    let flood = |name, config, frames| Flood { name, config, frames };
    let below_dns = |at: usize, value: u8| {
        let mut frames = hits.clone();
        frames.iter_mut().for_each(|frame| frame[at] ^= value);
        frames
    };
    let mut floods = vec![
        flood("hit", "", hits.clone()),
        flood("runt", "", hits.iter().map(|frame| frame[..20].to_vec()).collect()),
        flood("ip_checksum", "", below_dns(24, 0x55)),
        flood("udp_checksum", "", below_dns(40, 0x55)),
        flood("not_our_address", "", draws.iter().map(elsewhere).collect()),
        flood("dns_cut_off", "", each(&|message| message.truncate(11))),
        flood("response_qr_1", "", each(&|message| message[header::FLAGS] |= 0x80)),
        flood("qdcount_0", NO_ERROR_LIMIT, each(&|message| put16(message, header::QDCOUNT, 0))),
        flood("bad_name", NO_ERROR_LIMIT, each(&|message| message[12] = 0x80)),
        flood("trailing_bytes", NO_ERROR_LIMIT, each(&|message| message.push(0))),
        flood("opcode", NO_ERROR_LIMIT, each(&|message| message[header::FLAGS] |= 0x28)),
        flood("acl_dropped", DROP, hits.clone()),
        flood("acl_refused", REFUSE, hits.clone()),
        flood("rate_limited_drop", RATE_LIMIT_DROP, hits.clone()),
        flood("rate_limited_slip", RATE_LIMIT_SLIP, hits.clone()),
        flood("blocked", BLOCK, unknown),
        flood("blocked_cached", BLOCK, hits),
    ];
    floods.extend(long_floods());
    floods.push(flood("ping", NO_ERROR_LIMIT, vec![ping(PING_LEN)]));
    floods
}

/// Queries for names of 127 labels.
fn long_floods() -> Vec<Flood> {
    let transfer = |query| QueryFrame { qtype: rtype::AXFR, ..query };
    let no_recursion = |query| QueryFrame { flags: 0, ..query };
    // What is dear at once: IPv6, two tags, a cookie that is wrong, and the name of a key.
    let dear = |query| with_options(over_two_tags(query), &WRONG_COOKIE);
    let most_options = |query| with_options(transfer(query), &WRONG_COOKIE[..8]);
    let pointers = vec![record_of(&[0xc0, 12]); 100];
    let two_records = [record_of(&labels(MAX_LABELS)), record_of(&labels(1))];
    let key = &two_records[..1];
    let padded = |index| {
        let query = long_query(index);
        let mut message = query.message();
        message.resize(PING_LEN, 0);
        query.frame_around(&message)
    };
    let flood = |name, frames| Flood { name, config: NO_ERROR_LIMIT, frames };
    vec![
        flood("labels_127", long(|query| query, &[])),
        flood("records_100", long(|query| query, &pointers)),
        flood("records_2", long(|query| query, &two_records)),
        flood("options_16", long(most_options, &[])),
        flood("options_300", long(too_many_options, &[])),
        flood("dear_refused", long(|query| dear(transfer(query)), key)),
        flood("dear_no_recursion", long(|query| dear(no_recursion(query)), key)),
        flood("padded_1472", (0..FLOOD_FRAMES).map(padded).collect()),
        Flood { name: "options_16_limited", config: "", frames: long(most_options, &[]) },
        Flood { name: "dropped_records_100", config: DROP, frames: long(|query| query, &pointers) },
    ]
}

/// Query number `index` for a name of 127 labels.
fn long_query(index: usize) -> QueryFrame {
    QueryFrame { name: labels(127), ..numbered_query(index, 1) }
}

/// Frames of such queries that are changed and have these records behind them.
fn long(change: impl Fn(QueryFrame) -> QueryFrame, records: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let frame = |index: usize| {
        let query = change(long_query(index));
        let mut message = query.message();
        let count = be16(&message, header::ARCOUNT).unwrap_or(0) + to_u16(records.len());
        put16(&mut message, header::ARCOUNT, count);
        message.extend(records.concat());
        query.frame_around(&message)
    };
    (0..FLOOD_FRAMES).map(frame).collect()
}

/// A name of so many labels of one letter.
fn labels(count: usize) -> Vec<u8> {
    [vec![[1, b'A']; count].concat(), vec![0]].concat()
}

/// A record of type A without data that belongs to `owner`.
fn record_of(owner: &[u8]) -> Vec<u8> {
    [owner, &[0, 1, 0, 1, 0, 0, 0, 0, 0, 0]].concat()
}

/// The query with as many options as are read: a cookie, and our name asked for.
fn with_options(query: QueryFrame, cookie: &[u8]) -> QueryFrame {
    let query = query.edns(1232, false).option(option::COOKIE, cookie);
    (1..MAX_QUERY_OPTIONS).fold(query, |query, _| query.option(option::NSID, b""))
}

fn too_many_options(query: QueryFrame) -> QueryFrame {
    let query = query.edns(1232, false);
    (0..300).fold(query, |query, _| query.option(option::NSID, b""))
}

/// The query over IPv6, in the VLAN of the bench's config that has two tags.
fn over_two_tags(query: QueryFrame) -> QueryFrame {
    QueryFrame { vlans: vec![7, 7], ..query.over_ipv6() }
}

/// An echo request with so many bytes of data.
fn ping(len: usize) -> Vec<u8> {
    let mut header = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, PROTOCOL_ICMP, 0, 0].to_vec();
    header.extend([10, 77, 0, 1]);
    header.extend(OUR_IPV4);
    let mut message = [[8, 0, 0, 0, 0, 0, 0, 0].to_vec(), vec![0xa5; len]].concat();
    let sum = Sum::default().add_bytes(&message).checksum();
    put16(&mut message, 2, sum);
    put16(&mut header, 2, to_u16(20 + message.len()));
    seal_ipv4(&mut header);
    [&OUR_MAC[..], &CLIENT_MAC, &TYPE_IPV4.to_be_bytes(), &header, &message].concat()
}
