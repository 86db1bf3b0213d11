//! Upstreams over TLS, HTTPS and QUIC.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hyper::StatusCode;
use pmdns_config::{HealthSettings, Pin, SubnetPolicy, Upstream};
use pmdns_engine::slowpath::UpstreamSnapshot;
use pmdns_stages::testing::{QueryFrame, query};
use pmdns_stages::wire::subnet::Subnet;

use crate::rig::{Rig, Setup, alike, ids, upstream};
use crate::server::{Kind, Manners, Server};
use crate::stub::{Asked, Stub};

/// A rig that asks these upstreams in this order.
pub(crate) fn asking(upstreams: impl Into<Vec<Upstream>>) -> Setup {
    Setup { upstreams: upstreams.into(), ..Setup::asking(&[]) }
}

/// Asks for so many names at once, and waits for the answers.
pub(crate) fn ask_many(rig: &mut Rig, count: usize) {
    for number in 0..count {
        rig.ask(&query(&format!("n{number}.example. A")));
    }
    assert!(rig.answers(count).iter().all(|answer| answer.records == 1));
}

#[test]
fn answers_come_over_every_transport() {
    for kind in Kind::ALL {
        let server = Server::good(kind);
        let mut rig = asking([server.known()]).start();
        let answer = rig.resolve(&query("www.example. A").edns(1232, false));
        assert_eq!((answer.rcode, answer.records), (0, 1), "{kind:?}");
        let counted = rig.upstream(0);
        assert_eq!((counted.encrypted, counted.replies, counted.connections), (1, 1, 1));
        assert_eq!((counted.queries, counted.tcp, counted.untrusted), (0, 0, 0));
        let asked = server.asked().remove(0);
        assert_eq!(asked.id(), 0, "RFC 8484 section 4.1, RFC 9250 section 4.2.1");
        assert_eq!(asked.message.len(), 128, "padded, RFC 8467 section 4.1");
        assert_eq!(rig.finish().inserted, 1);
    }
}

#[test]
fn many_queries_are_under_way_on_one_connection() {
    for kind in Kind::ALL {
        let manners = Manners { at_once: 50, ..Manners::good(kind) };
        // Answers nobody before all 50 have asked.
        let server = Server::start(manners, |asked| Some(asked.address()));
        let mut rig = asking([server.known()]).start();
        ask_many(&mut rig, 50);
        assert_eq!((server.connections(), server.asked().len()), (1, 50), "{kind:?}");
        rig.finish();
    }
}

#[test]
fn a_connection_is_used_again_and_questions_are_coalesced() {
    for kind in Kind::ALL {
        let server = Server::good(kind);
        let mut rig = asking([server.known()]).start();
        for number in 0..20 {
            assert_eq!(rig.resolve(&query(&format!("n{number}.example. A"))).records, 1);
        }
        for client in alike(&query("www.example. A"), 20) {
            rig.ask(&client);
        }
        assert_eq!(ids(&rig.answers(20)).len(), 20);
        assert_eq!((server.connections(), rig.upstream(0).connections), (1, 1), "{kind:?}");
        rig.finish();
    }
}

#[test]
fn a_connection_that_nobody_uses_is_closed_and_another_opened_later() {
    let servers = Kind::ALL.map(Server::good);
    let mut rigs = servers.each_ref().map(|server| asking([server.known()]).start());
    for rig in &mut rigs {
        ask_many(rig, 3);
    }
    // After ten seconds; that is all the same to this test.
    rigs[0].wait_until(|_| servers.iter().all(|one| one.seen.ended.load(Ordering::Relaxed) == 1));
    for (mut rig, server) in rigs.into_iter().zip(&servers) {
        assert_eq!(rig.resolve(&query("later.example. A")).records, 1);
        assert_eq!((server.connections(), rig.upstream(0).errors), (2, 0));
        rig.finish();
    }
}

#[test]
fn a_server_that_closes_after_each_reply_serves_all_the_same() {
    for kind in Kind::ALL {
        let manners = Manners { closes_after: 1, ..Manners::good(kind) };
        let server = Server::start(manners, |asked| Some(asked.address()));
        let mut rig = asking([server.known()]).start();
        for number in 0..5 {
            let answer = rig.resolve(&query(&format!("alone{number}.example. A")));
            assert_eq!(answer.records, 1, "{kind:?}");
        }
        ask_many(&mut rig, 20);
        // Over HTTP/2 a few more may come until both sides know that it closes.
        assert!(server.connections() >= 2, "{kind:?}");
        assert_eq!(rig.finish().servfail, 0);
    }
}

#[test]
fn sessions_are_resumed() {
    for kind in Kind::ALL {
        let manners = Manners { closes_after: 1, ..Manners::good(kind) };
        let server = Server::start(manners, |asked| Some(asked.address()));
        let mut rig = asking([server.known()]).start();
        for number in 0..3 {
            assert_eq!(rig.resolve(&query(&format!("n{number}.example. A"))).records, 1);
        }
        assert!(server.resumed() >= 1, "{kind:?}");
        assert_eq!(rig.upstream(0).resumed, server.resumed() as u64, "{kind:?}");
        rig.finish();
    }
}

/// Asks an upstream that has no answer for anybody, and says what was counted of it when it was so.
fn counted_when(upstream: Upstream, is_so: impl Fn(&UpstreamSnapshot) -> bool) -> UpstreamSnapshot {
    let mut rig = asking([upstream]).start();
    rig.ask(&query("www.example. A"));
    rig.wait_until(|rig| is_so(&rig.upstream(0)));
    let counted = rig.upstream(0);
    let (_, answers) = rig.stop();
    assert!(answers.len() == 1 && answers[0].rcode == 2, "{answers:?}");
    counted
}

#[test]
fn a_server_is_not_used_unless_it_is_the_one_that_was_meant() {
    for kind in Kind::ALL {
        let (server, other) = (Server::good(kind), Server::good(kind));
        let other_name = Some("other.example".parse().unwrap());
        let (known, pinned) = (server.known(), server.pinned());
        let cases = [
            ("another name", Upstream { name: other_name, ..known.clone() }),
            (
                "an address it is not for",
                Upstream { name: Some("127.0.0.2".parse().unwrap()), ..known.clone() },
            ),
            ("another root", Upstream { ca_file: other.known().ca_file, ..known.clone() }),
            ("another key", Upstream { pin: vec![Pin([0; 32])], ..server.unknown() }),
            ("the right name, another key", Upstream { pin: vec![Pin([0; 32])], ..known.clone() }),
            ("the right key, another root", Upstream { ca_file: other.known().ca_file, ..pinned }),
        ];
        for (what, upstream) in cases {
            let counted =
                counted_when(upstream, |counted| counted.untrusted >= 1 && counted.errors >= 1);
            assert_eq!(counted.connections, 0, "{kind:?}: {what}");
        }
        assert_eq!(server.asked().len(), 0, "nothing was said to it");
    }
}

#[test]
fn the_system_s_roots_are_asked_if_nothing_else_is_known() {
    let server = Server::good(Kind::Tls);
    if let Err(error) = pmdns_encrypted::UpstreamRoots::load(&[server.unknown()]) {
        // So it is on a machine without trusted certificates.
        return assert!(
            error.to_string().contains("install the package ca-certificates"),
            "{error}"
        );
    }
    counted_when(server.unknown(), |counted| counted.untrusted >= 1);
}

#[test]
fn a_key_or_the_address_in_the_certificate_is_enough() {
    for kind in [Kind::Tls, Kind::Quic] {
        let server = Server::good(kind);
        let by_address = Upstream { name: None, ..server.known() };
        let both = Upstream { pin: server.pinned().pin, ..server.known() };
        let spare =
            Upstream { pin: [vec![Pin([0; 32])], both.pin.clone()].concat(), ..server.unknown() };
        for upstream in [server.pinned(), by_address, both, spare] {
            let mut rig = asking([upstream]).start();
            assert_eq!(rig.resolve(&query("www.example. A")).records, 1, "{kind:?}");
            rig.finish();
        }
    }
}

#[test]
fn roots_that_cannot_be_read_are_an_error_at_start() {
    let server = Server::good(Kind::Tls);
    let missing = Upstream { ca_file: Some("/nonexistent/ca.pem".into()), ..server.known() };
    let text = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let no_pem = Upstream { ca_file: Some(text.into()), ..server.known() };
    for (upstream, words) in [(missing, "/nonexistent/ca.pem"), (no_pem, "no certificate")] {
        let error = pmdns_encrypted::UpstreamRoots::load(&[upstream]).unwrap_err().to_string();
        assert!(error.starts_with("upstream[0].ca_file") && error.contains(words), "{error}");
    }
}

#[test]
fn alpn() {
    let manners = Manners { alpn: None, ..Manners::good(Kind::Tls) };
    let old = Server::start(manners, |asked| Some(asked.address()));
    let mut rig = asking([old.known()]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1, "TLS works without");
    rig.finish();
    let kinds = [(Kind::Https, None), (Kind::Https, Some(&b"dot"[..])), (Kind::Quic, Some(b"h3"))];
    for (kind, alpn) in kinds {
        let server =
            Server::start(Manners { alpn, ..Manners::good(kind) }, |asked| Some(asked.address()));
        counted_when(server.known(), |counted| counted.connect_failures >= 1);
        assert_eq!(server.asked().len(), 0, "{kind:?} {alpn:?}");
    }
}

#[test]
fn a_server_that_never_speaks_costs_no_more_than_its_time() {
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let alive = Stub::replying(|asked| asked.address());
    let (tcp_address, udp_address) = (tcp.local_addr().unwrap(), udp.local_addr().unwrap());
    for text in [
        format!("tls://{tcp_address}"),
        format!("https://{tcp_address}"),
        format!("quic://{udp_address}"),
    ] {
        let pin = vec![Pin([0; 32])];
        let dead = Upstream { pin, ..upstream(text.parse().unwrap()) };
        let mut rig = asking([dead.clone()]).hasty(300, 50).start();
        assert_eq!(rig.resolve(&query("www.example. A")).rcode, 2, "{text}");
        rig.finish();
        let mut rig = asking([dead, upstream(alive.address.into())]).hasty(20_000, 50).start();
        assert_eq!(rig.resolve(&query("www.example. A")).records, 1, "{text}");
        assert_eq!((rig.upstream(0).timeouts, rig.upstream(1).replies), (1, 1), "{text}");
        rig.finish();
    }
}

#[test]
fn where_nobody_listens_the_next_one_is_asked() {
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let alive = Stub::replying(|asked| asked.address());
    let pin = vec![Pin([0; 32])];
    let dead = Upstream { pin, ..upstream(format!("tls://{closed}").parse().unwrap()) };
    let mut rig = asking([dead, upstream(alive.address.into())]).start();
    ask_many(&mut rig, 20);
    let counted = rig.upstream(0);
    assert!(counted.errors >= 1 && counted.connect_failures >= 1);
    assert!(counted.connect_failures < 20, "it is not called for every query");
    assert_eq!(rig.finish().servfail, 0);
}

#[test]
fn after_an_outage_a_connection_is_opened_again() {
    for kind in Kind::ALL {
        let asked_before = Arc::new(AtomicUsize::new(0));
        // Says nothing to the first two, whose connection looks well all the while.
        let script = {
            let asked_before = Arc::clone(&asked_before);
            move |asked: &Asked| {
                (asked_before.fetch_add(1, Ordering::Relaxed) >= 2).then(|| asked.address())
            }
        };
        let server = Server::start(Manners::good(kind), script);
        let mut rig = asking([server.known()]).hasty(2_000, 100).start();
        rig.wait_until(|rig| rig.resolve(&query("www.example. A")).records == 1);
        assert!(rig.upstream(0).timeouts >= 2, "{kind:?}");
        assert!(server.connections() >= 2, "{kind:?}: a silent connection is not used again");
        rig.finish();
    }
}

#[test]
fn a_probe_finds_out_that_an_upstream_is_back() {
    for kind in Kind::ALL {
        let up = Arc::new(AtomicBool::new(false));
        let is_up = Arc::clone(&up);
        let server = Server::start(Manners::good(kind), move |asked| {
            is_up.load(Ordering::Relaxed).then(|| asked.address())
        });
        let alive = Stub::replying(|asked| asked.address());
        let mut setup = asking([server.known(), upstream(alive.address.into())]).hasty(20_000, 50);
        setup.health =
            HealthSettings { interval_ms: 100, timeout_ms: 100, ..HealthSettings::default() };
        let mut rig = setup.start();
        let mut number = 0;
        rig.wait_until(|rig| {
            number += 1;
            rig.resolve(&query(&format!("n{number}.example. A")));
            rig.upstream(0).state == 1
        });
        up.store(true, Ordering::Relaxed);
        // Nobody asks meanwhile.
        rig.wait_until(|rig| rig.upstream(0).state == 0);
        assert!(rig.upstream(0).probes >= 2, "{kind:?}");
        rig.finish();
    }
}

#[test]
fn replies_to_other_questions_are_not_believed() {
    for kind in Kind::ALL {
        let liar = Server::start(Manners::good(kind), |asked| {
            let mut reply = asked.addresses(7, 300);
            reply[13] ^= 1;
            Some(reply)
        });
        let alive = Stub::replying(|asked| asked.address());
        let mut rig = asking([liar.known(), upstream(alive.address.into())]).start();
        assert_eq!(rig.resolve(&query("www.example. A")).records, 1, "{kind:?}");
        assert_eq!((rig.upstream(0).mismatched, rig.upstream(0).replies), (1, 0), "{kind:?}");
        assert_eq!(rig.finish().inserted, 1);
    }
}

#[test]
fn failures_lead_to_the_next_upstream() {
    for kind in Kind::ALL {
        let failing = Server::start(Manners::good(kind), |asked| Some(asked.rcode(2)));
        let truncating = Server::start(Manners::good(kind), |asked| Some(asked.truncated()));
        let empty = Server::start(Manners::good(kind), |_| Some(Vec::new()));
        let alive = Stub::replying(|asked| asked.address());
        for server in [failing, truncating, empty] {
            let mut rig = asking([server.known(), upstream(alive.address.into())]).start();
            assert_eq!(rig.resolve(&query("www.example. A")).records, 1, "{kind:?}");
            rig.finish();
        }
    }
}

#[test]
fn http_has_its_own_ways_to_say_no() {
    for status in [StatusCode::BAD_REQUEST, StatusCode::TOO_MANY_REQUESTS, StatusCode::FOUND] {
        let manners = Manners { status, ..Manners::good(Kind::Https) };
        let server = Server::start(manners, |asked| Some(asked.address()));
        let alive = Stub::replying(|asked| asked.address());
        let mut rig = asking([server.known(), upstream(alive.address.into())]).start();
        assert_eq!(rig.resolve(&query("www.example. A")).records, 1, "{status}");
        assert_eq!((rig.upstream(0).errors, rig.upstream(1).replies), (1, 1), "{status}");
        rig.finish();
    }
}

#[test]
fn http_says_how_old_a_response_is_and_what_it_is_in_its_own_words() {
    let manners = Manners {
        status: StatusCode::NON_AUTHORITATIVE_INFORMATION,
        headers: &[("content-type", "Application/DNS-Message; charset=utf-8"), ("age", "250")],
        ..Manners::good(Kind::Https)
    };
    let server = Server::start(manners, |asked| Some(asked.addresses(1, 600)));
    let mut rig = asking([server.known()]).start();
    let answer = rig.resolve(&query("www.example. A"));
    assert_eq!((answer.records, answer.ttl), (1, 350), "RFC 8484 section 5.1");
    rig.finish();
}

#[test]
fn a_stream_that_is_reset_costs_its_query_alone() {
    let resets = |query: &[u8]| query[13..].starts_with(b"reset");
    let manners = Manners { resets, ..Manners::good(Kind::Https) };
    let server = Server::start(manners, |asked| Some(asked.address()));
    let alive = Stub::replying(|asked| asked.address());
    let mut rig = asking([server.known(), upstream(alive.address.into())]).start();
    for name in ["reset1.example. A", "www1.example. A", "reset2.example. A", "www2.example. A"] {
        assert_eq!(rig.resolve(&query(name)).records, 1, "{name}");
    }
    assert_eq!((rig.upstream(0).replies, rig.upstream(1).replies), (2, 2));
    assert_eq!((server.connections(), rig.upstream(0).errors), (1, 2), "the connection stands");
    rig.finish();
}

#[test]
fn a_server_without_edns_is_asked_without_it() {
    let server = Server::start(Manners::good(Kind::Tls), |asked| {
        Some(if asked.has_edns() { asked.rcode(1) } else { asked.address() })
    });
    let mut rig = asking([server.known()]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
    assert_eq!(server.asked().len(), 2);
    rig.finish();
}

#[test]
fn a_question_that_is_shed_pauses_before_it_is_asked_again() {
    /// As many as may be under way to one upstream.
    const UNDER_WAY: usize = 2048;
    let gate = Arc::new(Mutex::new(()));
    let script = {
        let gate = Arc::clone(&gate);
        move |asked: &Asked| {
            drop(gate.lock());
            Some(asked.address())
        }
    };
    let server = Server::start(Manners::good(Kind::Tls), script);
    let mut setup = asking([server.known()]).hasty(60_000, 60_000);
    setup.settings.max_waiting_per_client = 2 * UNDER_WAY;
    setup.frames = 2 * UNDER_WAY;
    setup.answers = 2 * UNDER_WAY;
    let closed = gate.lock();
    let mut rig = setup.start();
    for number in 0..=UNDER_WAY {
        rig.ask(&query(&format!("n{number}.example. A")));
    }
    rig.wait_until(|rig| rig.upstream(0).shed >= 1);
    drop(closed);
    let answers = rig.answers(UNDER_WAY + 1);
    assert!(answers.iter().all(|answer| answer.records == 1), "by then there was room");
    rig.finish();
}

#[test]
fn over_tls_the_option_goes_before_the_padding() {
    let server = Server::start(Manners::good(Kind::Tls), |asked| {
        assert_eq!(asked.message.len() % 128, 0, "padded");
        Some(asked.with_scope(asked.address(), 16))
    });
    let mut setup = Setup::asking(&[]);
    setup.client_subnet.policy = SubnetPolicy::Add;
    setup.upstreams = vec![Upstream { client_subnet: true, ..server.pinned() }];
    let mut rig = setup.start();
    let source = vec![10, 1, 0, 1];
    let asked = QueryFrame { source, ..query("www.example. A").edns(1232, false) };
    assert_eq!(rig.resolve(&asked).records, 1);
    let network = Subnet::of_address(&[10, 1, 0, 1]).cut(24).data(0);
    assert_eq!(server.asked()[0].subnet(), Some(network.to_vec()));
    rig.finish();
}
