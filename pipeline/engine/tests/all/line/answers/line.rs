//! The stages put together, and what checks everything around an answer's message.

use std::net::IpAddr;
use std::sync::Arc;

use hickory_proto::op::Message;
use hickory_proto::rr::rdata::opt::EdnsOption;
use pmdns_config::{
    AnswerSettings, BlockSettings, ClientSubnet, Config, Eviction, Local, LocalRecord,
    RateLimitSettings, Vlan,
};
use pmdns_engine::line::Stages;
use pmdns_engine::testing::{BareStages, StageNeeds};
use pmdns_nics::hugepage::Arena;
use pmdns_stages::cache::{Cache, Entry, Writer};
use pmdns_stages::cookie::Cookies;
use pmdns_stages::miss::Miss;
use pmdns_stages::ports::Port;
use pmdns_stages::testing::{
    self, OUR_IPV4, OUR_IPV6, OUR_MAC, QueryFrame, ReplyRecord, entry_of, frame_of, name_of,
};
use pmdns_stages::vlan::Vlans;
use pmdns_stages::wire::be16;
use pmdns_stages::wire::checksum::Sum;
use pmdns_stages::wire::dns::HEADER_LEN;
use pmdns_stages::wire::ip::pseudo_header;
use pmdns_stages::wire::name::Seed;
use pmdns_stages::{Answer, Batch, Packet, Step};

pub(crate) const MAX_UDP_SIZE: u16 = 1232;
/// A local name with the address 192.0.2.77.
pub(crate) const LOCAL: &str = "local.example.";
/// A blocked name.
pub(crate) const BLOCKED: &str = "blocked.example.";

/// What a line shall be like.
pub(crate) struct Setup {
    /// The port computes checksums.
    pub(crate) offload: bool,
    pub(crate) answers: AnswerSettings,
    pub(crate) cookies: Option<Cookies>,
    pub(crate) client_subnet: ClientSubnet,
    pub(crate) acl: pmdns_config::AclSettings,
    /// Lookup takes notes of hits.
    pub(crate) samples: bool,
    /// Error replies a second and client prefix; 0: no limit.
    pub(crate) errors_per_second: u32,
    pub(crate) blocklists: Vec<pmdns_config::Blocklist>,
}

pub(crate) struct Line {
    pub(crate) stages: Stages,
    cache: Arc<Cache>,
    writer: Writer,
}

/// A line as most tests need it.
pub(crate) fn line() -> Line {
    Setup::default().line()
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            offload: false,
            answers: AnswerSettings::default(),
            cookies: None,
            client_subnet: ClientSubnet::default(),
            acl: pmdns_config::AclSettings::open(),
            samples: false,
            errors_per_second: 0,
            blocklists: Vec::new(),
        }
    }
}

impl Setup {
    pub(crate) fn line(self) -> Line {
        let seed = Seed::new([9; 16]);
        let addresses = [IpAddr::from(OUR_IPV4), IpAddr::from(OUR_IPV6)];
        let vlans = Vlans::of(&[Vlan::Untagged, Vlan::Tagged(5), Vlan::Double(5, 6)]);
        let port = Port { checksum_offload: self.offload, vlans, ..Port::new(OUR_MAC, addresses) };
        let record = LocalRecord {
            name: name_of(LOCAL).into(),
            rtype: 1,
            ttl: 60,
            data: address(77).into(),
        };
        let mut config = Config {
            acl: self.acl,
            answers: self.answers,
            client_subnet: self.client_subnet,
            local: vec![Local { record, views: Vec::new() }],
            blocklists: self.blocklists,
            block: BlockSettings { names: vec![BLOCKED.into()], ..BlockSettings::default() },
            ratelimit: RateLimitSettings {
                error_replies_per_second: self.errors_per_second,
                ..RateLimitSettings::default()
            },
            ..Config::default()
        };
        config.answers.max_udp_size = MAX_UDP_SIZE;
        config.prefetch.enabled = self.samples;
        config.cache.eviction = Eviction::Fifo;
        let (arena, cookies) = (Arena::heap(1 << 17), self.cookies);
        let needs = StageNeeds { port, arena, seed, cookies, ticks_per_second: 1000 };
        let BareStages { stages, cache, writer, .. } = BareStages::new(&config, needs).unwrap();
        Line { stages, cache, writer }
    }
}

impl Line {
    /// Keeps an upstream's answer to `query`, learnt at second `now`.
    pub(crate) fn learn(&mut self, query: &QueryFrame, records: &[ReplyRecord], now: u32) {
        let entry = self.entry(query, records, now);
        self.keep(&entry);
    }

    pub(crate) fn keep(&mut self, entry: &Entry) {
        self.writer.insert(entry);
    }

    pub(crate) fn entry(&self, query: &QueryFrame, records: &[ReplyRecord], now: u32) -> Entry {
        entry_of(query, records, now, self.cache.seed())
    }

    pub(crate) fn seed(&self) -> Seed {
        self.cache.seed()
    }

    /// Takes one query down the line at second `now`.
    pub(crate) fn ask(&mut self, query: &QueryFrame, now: u32) -> Packet {
        self.walk(query.packet(), now)
    }

    /// Takes a message of a client down the line.
    pub(crate) fn send(&mut self, message: &[u8]) -> Packet {
        let frame = testing::query("a. A").frame_around(message);
        self.walk(Packet::arrived(frame_of(&frame), 0), 0)
    }

    /// The packet that the slow path makes of a miss, before it is encoded.
    pub(crate) fn rebuilt(missed: &Packet, answer: Answer) -> Packet {
        let pool = pmdns_nics::FramePool::Heap(pmdns_nics::HeapPool::new(1));
        Miss::of(missed, 0).packet(&pool, answer).unwrap()
    }

    pub(crate) fn walk(&mut self, packet: Packet, now: u32) -> Packet {
        let context = testing::at(now);
        let mut batch = Batch::new();
        batch.push(packet);
        self.stages.process_until(None, &mut batch, &context);
        batch.pop().unwrap()
    }
}

/// Checks everything around the DNS message and gives the message.
pub(crate) fn opened<'p>(packet: &'p Packet, query: &QueryFrame) -> &'p [u8] {
    assert_eq!(packet.step, Step::TRANSMIT);
    let asked = query.frame_bytes();
    let frame = packet.frame.bytes();
    let (l3, l4) = (usize::from(packet.layout.l3), usize::from(packet.layout.l4));
    assert_eq!((&frame[..6], &frame[6..12]), (&asked[6..12], &asked[..6]), "hardware addresses");
    assert_eq!(frame[12..l3], asked[12..l3], "VLAN tags and EtherType");
    let (addresses, turned) = if query.source.len() == 16 {
        assert_eq!(be16(frame, l3 + 4), Some((frame.len() - l4) as u16), "payload length");
        (&frame[l3 + 8..l3 + 40], [query.destination.as_slice(), &query.source].concat())
    } else {
        assert!(Sum::default().add_bytes(&frame[l3..l4]).is_right(), "IPv4 checksum");
        assert_eq!(be16(frame, l3 + 2), Some((frame.len() - l3) as u16), "total length");
        (&frame[l3 + 12..l3 + 20], [query.destination.as_slice(), &query.source].concat())
    };
    assert_eq!(addresses, turned, "addresses");
    assert_eq!(be16(frame, l4), Some(53));
    assert_eq!(be16(frame, l4 + 2), Some(query.source_port));
    assert_eq!(be16(frame, l4 + 4), Some((frame.len() - l4) as u16), "UDP length");
    assert_ne!(be16(frame, l4 + 6), Some(0), "there is a UDP checksum");
    let len = (frame.len() - l4) as u16;
    assert!(pseudo_header(addresses, 17, len).add_bytes(&frame[l4..]).is_right(), "UDP checksum");
    &frame[l4 + 8..]
}

/// The answer to a well-formed query.
pub(crate) fn read(packet: &Packet, query: &QueryFrame) -> Message {
    let message = opened(packet, query);
    let question = HEADER_LEN + query.name.len() + 4;
    assert_eq!(message[HEADER_LEN..question], query.message()[HEADER_LEN..question], "0x20");
    Message::from_vec(message).expect("an answer that others can read")
}

/// The answer to [`Line::send`].
pub(crate) fn read_any(packet: &Packet) -> Message {
    Message::from_vec(opened(packet, &testing::query("a. A"))).expect("others can read it")
}

/// The options of an answer's OPT record, code and data of each.
pub(crate) fn options(message: &Message) -> Vec<(u16, Vec<u8>)> {
    let edns = message.edns.as_ref().expect("the answer has an OPT record");
    let data = |option: &EdnsOption| Vec::try_from(option).unwrap();
    edns.options().as_ref().iter().map(|(code, option)| ((*code).into(), data(option))).collect()
}

pub(crate) fn address(last: u8) -> Vec<u8> {
    vec![192, 0, 2, last]
}
