//! Clients over streams on a whole line in one process: their port beside a port in memory, and no sockets.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use pmdns_config::Config;
use pmdns_config::narrow::{to_u8, to_u16};
use pmdns_engine::engine::EngineStreams;
use pmdns_engine::testing::{Rig, config};
use pmdns_nics::Burst;
use pmdns_nics::stream::IdleTime;
use pmdns_stages::testing::{QueryFrame, query};
use pmdns_streams::driver::{self, ThreadEnds};
use pmdns_streams::{AnswerMessage, Pending, Transport};

/// Transports are not told apart but by what their answers have.
const STREAMS: &str = "[streams]\ntcp = [\"192.0.2.53:53\"]\nmax_queries = 64\n";
/// The block that padded answers fill (RFC 8467).
const BLOCK: usize = 468;
const KEEPALIVE: u16 = 11;
const PADDING: u16 = 12;

/// A rig, and the ends of its port of clients over streams.
struct Lab {
    rig: Rig,
    ends: Vec<ThreadEnds>,
}

fn rig(config: &Config) -> Lab {
    let mut ends = Vec::new();
    let rig = Rig::with_streams(config, driver::facts(), |plan| {
        let port = driver::open(config, plan, 1, [0; 16]).expect("the streams' port");
        ends = port.threads;
        (port.queues, EngineStreams { pool: port.pool, idle_time: IdleTime::default() })
    });
    Lab { rig, ends }
}

impl Deref for Lab {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        &self.rig
    }
}

impl DerefMut for Lab {
    fn deref_mut(&mut self) -> &mut Rig {
        &mut self.rig
    }
}

fn client(text: &str) -> SocketAddr {
    format!("{text}:40000").parse().expect("an address")
}

/// The answer, if it has come.
fn poll(pending: Pending) -> Option<AnswerMessage> {
    match pin!(pending).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => None,
    }
}

/// What a client over a stream gets, if it gets anything at once.
fn ask_by(
    rig: &mut Lab,
    transport: Transport,
    from: &str,
    query: &QueryFrame,
) -> Option<AnswerMessage> {
    let pending = rig.ends[0].sender.ask(client(from), transport, &query.message());
    rig.settle();
    rig.ends[0].collector.collect();
    poll(pending)
}

fn ask(rig: &mut Lab, from: &str, query: &QueryFrame) -> Option<AnswerMessage> {
    ask_by(rig, Transport::Tcp, from, query)
}

/// What a client over UDP gets: the message in the frame.
fn ask_over_udp(rig: &mut Lab, query: &QueryFrame) -> Option<Vec<u8>> {
    let mut burst = Burst::new();
    burst.push(rig.frame(&query.frame_bytes()));
    rig.offer(0, &mut burst);
    rig.settle();
    rig.sent().first().map(|frame| frame.bytes()[42..].to_vec())
}

fn has_tc(message: &[u8]) -> bool {
    message[2] & 2 != 0
}

fn rcode(message: &[u8]) -> u8 {
    message[3] & 15
}

/// The data of an option at the end of a message, if it stands there.
fn option_at_end(message: &[u8], code: u16, len: usize) -> Option<&[u8]> {
    let start = message.len().checked_sub(4 + len)?;
    let [code, length] = [code, to_u16(len)].map(u16::to_be_bytes);
    message[start..].starts_with(&[code, length].concat()).then(|| &message[start + 4..])
}

/// Checks what holds at every stop.
fn check(rig: &Rig) {
    let counters: Vec<_> = rig.workers.iter().map(|worker| worker.counters()).collect();
    let totals = pmdns_engine::counters::totals(&counters);
    assert!(totals.balance() && totals.held == 0, "{totals:?}");
    assert_eq!(rig.pool.in_use(), 0);
    let (_, pool) = rig.slow_path[0].resolver.stream_pool.as_ref().expect("there are streams");
    assert_eq!(pool.in_use(), 0, "every frame of a stream came back");
}

#[test]
fn a_stream_client_gets_what_a_udp_client_gets_in_every_placement() {
    let one = |stages, cores| {
        format!("[[placement]]\nstages = \"{stages}\"\ncores = [{cores}]\nidle = \"spin\"\n")
    };
    let placements = [
        one("all", "1"),
        one("all", "1, 2, 3"),
        one("parse..ratelimit", "1, 2") + &one("lookup..encode", "3, 4"),
        one("parse", "1") + &one("neighbor..policy", "2, 3") + &one("encode", "4"),
    ];
    for placement in placements {
        let rules = "[block]\nnames = [\"blocked.example\"]\n\
                     [[local]]\nname = \"local.example\"\ntype = \"A\"\ndata = \"192.0.2.1\"\n";
        let mut rig = rig(&config(&format!("{placement}{STREAMS}{rules}")));
        rig.learn(&query("hit.example. A"), &[(0, 1, 60, vec![192, 0, 2, 7])]);
        for text in ["hit.example. A", "blocked.example. A", "local.example. A", "any.test. TYPE0"]
        {
            for query in [query(text), query(text).edns(1232, false)] {
                let over_udp = ask_over_udp(&mut rig, &query).expect("an answer");
                for from in ["10.77.0.1", "[fd77::1]", "[::ffff:10.77.0.1]"] {
                    let answer = ask(&mut rig, from, &query)
                        .unwrap_or_else(|| panic!("{text} from {from}: {placement}"));
                    assert_eq!(*answer, over_udp, "{text} from {from}: {placement}");
                }
            }
        }
        check(&rig);
    }
}

#[test]
fn a_long_answer_is_whole_over_a_stream() {
    let mut rig = rig(&config(STREAMS));
    let texts = |records: usize| -> Vec<_> {
        let text = |number: usize| [vec![249], vec![to_u8(number); 249]].concat();
        (0..records).map(|number| (0, 16, 60, text(number))).collect()
    };
    for (name, records) in [("middle.example. TXT", 12), ("long.example. TXT", 240)] {
        let query = query(name).edns(4096, false);
        let reply = pmdns_stages::testing::reply(&query, &texts(records));
        let key = pmdns_stages::cache::Key { name: &query.name, qtype: 16, qclass: 1, flags: 0 };
        let seed = rig.slow_path[0].resolver.cache.seed();
        let hash = key.hash(seed, seed.hash(&query.name));
        let lifetimes = rig.slow_path[0].resolver.lifetimes;
        let now = rig.gauges.clock.context(rig.gauges.clock.now()).seconds;
        let entry = pmdns_stages::cache::Entry::from_reply(&reply, key, hash, now, &lifetimes);
        rig.keep(entry.expect("an entry"));
        let over_udp = ask_over_udp(&mut rig, &query).expect("an answer");
        assert!(has_tc(&over_udp) && over_udp.len() < 100);
        let answer = ask(&mut rig, "10.77.0.1", &query).expect("an answer");
        assert!(!has_tc(&answer) && answer.len() > records * 250, "{} bytes", answer.len());
    }
    check(&rig);
}

#[test]
fn answers_have_the_options_of_their_transport() {
    let mut rig = rig(&config(STREAMS));
    rig.learn(&query("hit.example. A"), &[(0, 1, 60, vec![192, 0, 2, 7])]);
    let plain = query("hit.example. A").edns(1232, false);
    let asking = plain.clone().option(KEEPALIVE, &[]).option(PADDING, &[0; 3]);
    let mut answer =
        |transport| ask_by(&mut rig, transport, "10.77.0.1", &asking).expect("an answer").to_vec();
    let over_tcp = answer(Transport::Tcp);
    // The rig's clients are told of no time.
    assert_eq!(option_at_end(&over_tcp, KEEPALIVE, 2), Some(&[0, 0][..]));
    for (transport, has_keepalive) in
        [(Transport::Tls, true), (Transport::Https, false), (Transport::Quic, false)]
    {
        let message = answer(transport);
        assert_eq!(message.len(), BLOCK, "{transport:?}");
        let others = over_tcp.len() - if has_keepalive { 0 } else { 6 };
        let padding = option_at_end(&message, PADDING, BLOCK - others - 4);
        assert!(padding.is_some_and(|zeros| zeros.iter().all(|zero| *zero == 0)), "{transport:?}");
    }
    let unpadded = ask_by(&mut rig, Transport::Tls, "10.77.0.1", &plain).expect("an answer");
    assert!(unpadded.len() < 100, "nobody asked for padding");
    check(&rig);
}

#[test]
fn nobody_is_sent_from_a_stream_to_tcp_or_has_to_show_a_cookie() {
    let limits = "[ratelimit]\nqueries_per_second = 1\nburst = 10\nipv4_prefix = 32\nslip = 1\n\
                  [cookies]\nrequire = true\n";
    let mut rig = rig(&config(&format!("{STREAMS}{limits}")));
    rig.learn(&query("hit.example. A"), &[(0, 1, 60, vec![192, 0, 2, 7])]);
    let with_cookie = query("hit.example. A").edns(1232, false).option(10, &[7; 8]);
    let over_udp = ask_over_udp(&mut rig, &with_cookie).expect("an answer");
    assert_eq!(rcode(&over_udp), 7, "BADCOOKIE without its upper bits");
    let answers = (0..20).filter_map(|_| ask(&mut rig, "10.77.0.9", &with_cookie));
    let answers: Vec<_> = answers.collect();
    assert_eq!(answers.len(), 10, "the burst");
    assert!(answers.iter().all(|answer| rcode(answer) == 0 && !has_tc(answer)));
    check(&rig);
}

/// An attacker who forges the source of datagrams uses up the limit of a prefix. Its clients are told to use TCP.
#[test]
fn slip_leads_to_an_answer_over_a_stream_while_a_flood_goes_on() {
    let limits = "[ratelimit]\nqueries_per_second = 1\nburst = 10\nslip = 1\n";
    let mut rig = rig(&config(&format!("{STREAMS}{limits}")));
    let query = query("hit.example. A");
    rig.learn(&query, &[(0, 1, 60, vec![192, 0, 2, 7])]);
    let mut over_udp = (0..100).filter_map(|_| ask_over_udp(&mut rig, &query));
    assert!(over_udp.any(|answer| has_tc(&answer)), "the flood is over the limit");
    for transport in [Transport::Tcp, Transport::Tls, Transport::Https, Transport::Quic] {
        let answer = ask_by(&mut rig, transport, "10.77.0.9", &query).expect("an answer");
        assert!(!has_tc(&answer) && answer[7] == 1, "{transport:?}");
    }
    check(&rig);
}

#[test]
fn a_stream_learns_at_once_that_the_line_drops_its_query() {
    let one = |stages, core| {
        format!("[[placement]]\nstages = \"{stages}\"\ncores = [{core}]\nidle = \"spin\"\n")
    };
    let list = std::env::temp_dir().join(format!("pmdns-dropped-{}", std::process::id()));
    std::fs::write(&list, "blocked.example\n").unwrap();
    let blocked = format!("[[blocklist]]\nfile = {list:?}\naction = \"drop\"\n");
    let rules = "[acl]\ndefault = \"allow\"\ndrop = [\"10.9.0.0/16\"]\n\
                 [ratelimit]\nqueries_per_second = 1\nburst = 1\nslip = 0\n";
    for placement in [one("all", 1), one("parse..policy", 1) + &one("encode", 2)] {
        let mut rig = rig(&config(&format!("{placement}{STREAMS}{rules}{blocked}")));
        let dropped = [
            ("10.9.0.1", query("hit.example. A").message()),
            ("10.77.0.1", query("blocked.example. A").message()),
            ("10.77.0.1", query("over.example. A").message()),
            ("10.78.0.1", query("malformed.example. A").message()[..11].to_vec()),
        ];
        for (number, (from, message)) in dropped.iter().enumerate() {
            let asked = rig.ends[0].sender.ask(client(from), Transport::Tcp, message);
            let mut pending = pin!(asked);
            rig.settle();
            rig.ends[0].collector.collect();
            let told = pending.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(told, Poll::Ready(None)), "{number}: {placement}");
        }
        check(&rig);
    }
    std::fs::remove_file(&list).unwrap();
}

#[test]
fn the_header_of_a_query_that_is_too_long_gets_formerr() {
    let mut rig = rig(&config(STREAMS));
    let header = &query("long.example. A").message()[..12];
    let pending = rig.ends[0].sender.ask(client("10.77.0.1"), Transport::Tcp, header);
    rig.settle();
    rig.ends[0].collector.collect();
    let answer = poll(pending).expect("an answer");
    assert_eq!((rcode(&answer), &answer[..2]), (1, &header[..2]));
    check(&rig);
}

#[test]
fn a_miss_is_answered_by_the_pool_of_streams() {
    let mut rig = rig(&config(STREAMS));
    let miss = query("miss.example. A");
    let sender = rig.ends[0].sender.clone();
    let pending = sender.ask(client("[fd77::9]"), Transport::Tcp, &miss.message());
    rig.settle();
    let taken = rig.slow_path[0].inlets.misses[0].pop().expect("a miss");
    assert!(taken.is_from_stream() && taken.port() == 1);
    assert_eq!(taken.client(), "fd77::9".parse::<std::net::Ipv6Addr>().unwrap().octets());
    drop(pending);
    check(&rig);
}

#[test]
fn attack_o_the_line_says_of_a_query_over_quic_that_it_has_the_keepalive_option() {
    let mut rig = rig(&config(STREAMS));
    rig.learn(&query("hit.example. A"), &[(0, 1, 60, vec![192, 0, 2, 7])]);
    let plain = query("hit.example. A").edns(1232, false);
    let with = plain.clone().option(PADDING, &[0; 3]).option(KEEPALIVE, &[]);
    for (query, has) in [(&plain, false), (&with, true)] {
        let answer = ask_by(&mut rig, Transport::Quic, "10.77.0.1", query).expect("an answer");
        assert_eq!(answer.has_keepalive(), has);
    }
    check(&rig);
}

#[test]
fn attack_b_a_newcomer_gets_a_place_and_late_answers_find_nobody() {
    let mut rig = rig(&config(STREAMS));
    let miss = query("miss.example. A").message();
    let sender = rig.ends[0].sender.clone();
    let ask = |from: &str| sender.ask(client(from), Transport::Tcp, &miss);
    let mut held: Vec<_> = (0..64).map(|_| ask("10.77.0.1")).collect();
    let newcomer = ask("10.78.0.1");
    let refused = poll(held.remove(0)).expect("the oldest makes place");
    assert_eq!((rcode(&refused), refused[12..].len()), (2, miss[12..].len()));
    assert!(held.into_iter().all(|pending| poll(pending).is_none()));
    drop(newcomer);
    rig.settle();
    rig.ends[0].collector.collect();
    check(&rig);
}
