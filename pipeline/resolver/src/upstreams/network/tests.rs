//! What makes room for what, and who gets it.

use std::rc::Rc;
use std::time::Duration;

use pmdns_config::limits::MAX_QUERIES_PER_PORT;

use super::*;
use crate::questions::prefixes::tests::prefix;
use crate::questions::question::Question;
use crate::upstreams::query::Try;
use crate::upstreams::udp_batch::UdpQuery;

const START: Duration = Duration::from_secs(100);

/// A network with these upstreams, and with at most `sockets` sockets.
fn network(upstreams: usize, sockets: usize) -> Network {
    Network::new(
        vec![Medium::Sockets; upstreams],
        &NetworkLimits { sockets, port_queries: Vec::new() },
    )
}

/// A network with at most `max_sockets` sockets, and a connection.
fn connected(max_sockets: usize) -> (Network, usize) {
    let mut network = network(2, max_sockets);
    let slot = network.begin_connection(ClientPrefix::OURS, Connection::new(1, START));
    (network, slot)
}

/// Puts a query on the connection that expires at `expires`.
fn call(network: &mut Network, slot: usize, expires: Duration) {
    let attempt = Attempt { upstream: 1, transport: Transport::Tcp, edns: true, late: false };
    let call = Try { ticket: Ticket::NONE, question: Rc::new(Question::probe()), attempt };
    let patience = expires - START;
    network.connections[slot].ask(call, 0, START, (patience, patience));
    network.set_connection_timer(slot);
}

#[test]
fn connections_that_nobody_uses_make_room() {
    let (mut network, slot) = connected(1);
    assert!(!network.has_socket() && network.can_open_socket(0) && network.connections.is_empty());
    assert!(network.timers.is_empty(), "it took its timer along");
    let (mut network, slot_in_use) = connected(1);
    assert_eq!(slot, slot_in_use);
    call(&mut network, slot, START * 2);
    assert!(!network.can_open_socket(0) && !network.can_connect(), "somebody waits for a reply");
    assert_eq!((network.connection_to(1), network.connection_to(0)), (Some(slot), None));
}

#[test]
fn a_connection_is_looked_at_when_its_first_query_expires_or_when_it_has_been_idle() {
    let (mut network, slot) = connected(8);
    let idle = network.connections[slot].due();
    assert!(idle > START);
    let soon = START + Duration::from_millis(800);
    call(&mut network, slot, soon);
    call(&mut network, slot, soon * 2);
    assert_eq!(network.next_due(soon - Duration::from_millis(1)), None);
    assert_eq!(network.next_due(soon), Some(Timer::Connection(slot)));
    let connection = &mut network.connections[slot];
    assert!(connection.expire(soon).is_some() && connection.expire(soon).is_none());
    assert!(connection.is_deaf_since(START));
    network.set_connection_timer(slot);
    assert_eq!(network.next_due(soon), None);
    assert_eq!(network.next_due(soon * 2), Some(Timer::Connection(slot)));
    assert!(network.connections[slot].expire(soon * 2).is_some());
    assert_eq!(network.connections[slot].due(), idle);
}

#[test]
fn calls_to_an_upstream_without_a_connection_do_not_hold_up_those_to_another() {
    let (mut network, slot) = connected(1);
    call(&mut network, slot, START * 2);
    let [blocked, connected] = [0, 1].map(|upstream| Attempt {
        upstream,
        transport: Transport::Tcp,
        edns: true,
        late: false,
    });
    let prefix = ClientPrefix::OURS;
    network.send(prefix, Ticket::NONE, blocked);
    network.send(prefix, Ticket::NONE, connected);
    assert_eq!(network.take_tcp_query(0), None, "all sockets are in use");
    let call =
        |attempt, connection| NextTcpQuery { prefix, ticket: Ticket::NONE, attempt, connection };
    assert_eq!(network.take_tcp_query(1), Some(call(connected, Some(slot))));
    assert_eq!(network.take_tcp_query(1), None, "nobody else waits");
    network.close_connection(slot);
    assert_eq!(network.take_tcp_query(0), Some(call(blocked, None)));
}

#[test]
fn audit_08_one_prefix_does_not_take_every_connection() {
    let mut network = network(1, 18);
    let attempt = Attempt { upstream: 0, transport: Transport::Tcp, edns: true, late: false };
    let connect = |network: &mut Network, prefix| {
        let slot = network.begin_connection(prefix, Connection::new(0, START));
        while network.connections[slot].has_room() {
            call(network, slot, START * 2);
        }
    };
    for _ in 0..100 {
        network.send(prefix(1), Ticket::NONE, attempt);
    }
    while network.take_tcp_query(0).is_some() {
        connect(&mut network, prefix(1));
    }
    assert_eq!((network.connections.len(), network.tcp_queues[0].len()), (16, 84));
    network.send(prefix(2), Ticket::NONE, attempt);
    let taken = network.take_tcp_query(0).unwrap();
    assert_eq!(
        (taken.prefix, taken.connection),
        (prefix(2), None),
        "it has a connection of its own"
    );
}

#[test]
fn a_full_connection_is_no_line() {
    let (mut network, slot) = connected(8);
    for _ in 0..1000 {
        if network.connection_to(1).is_none() {
            break;
        }
        call(&mut network, slot, START * 2);
    }
    assert_eq!(network.connections[slot].queries.len(), 32);
    while network.connections[slot].expire(START * 2).is_some() {}
    assert_eq!(network.connection_to(1), None, "who does not answer gets no more");
}

/// The way over a port of this number to one family.
fn over_port(number: usize, is_ipv6: bool) -> Medium {
    Medium::Port { number, is_ipv6 }
}

/// A network whose first upstream is asked by sockets and whose second is asked by a port.
fn mixed(sockets: usize, port_queries: usize) -> Network {
    let limits = NetworkLimits { sockets, port_queries: vec![[port_queries, 0]] };
    Network::new(vec![Medium::Sockets, over_port(0, false)], &limits)
}

/// Lets a query of a prefix wait for each number.
fn wait_for(network: &mut Network, prefix: ClientPrefix, upstream: usize, count: usize) {
    let attempt = Attempt { upstream, transport: Transport::Udp, edns: true, late: false };
    (0..count).for_each(|_| network.send(prefix, Ticket::NONE, attempt));
}

/// Sends what may leave to this upstream, and says whose queries did.
fn send_all(network: &mut Network, upstream: usize) -> Vec<ClientPrefix> {
    network.begin_turn();
    let (mut sent, mut queries) = (Vec::new(), Vec::new());
    while network.can_open_socket(upstream)
        && let Some(prefix) = network.take_batch(upstream, MAX_QUERIES_PER_PORT, &mut queries)
    {
        let queries = queries.drain(..).map(|(ticket, attempt)| UdpQuery {
            ticket,
            question: Rc::new(Question::probe()),
            attempt,
            id: 0,
            letter_case: None,
            retry: Some(START * 2),
        });
        let queries: Vec<UdpQuery> = queries.collect();
        sent.extend(queries.iter().map(|_| prefix));
        let batch = UdpBatch::new(upstream, [START, START * 2, START * 3], queries);
        network.begin_batch(prefix, batch);
    }
    sent
}

#[test]
fn one_prefix_does_not_take_every_udp_port_of_a_port() {
    let mut network = mixed(1, 18);
    wait_for(&mut network, prefix(1), 1, 100);
    assert_eq!(send_all(&mut network, 1), [prefix(1); 16], "one query a UDP port");
    assert_eq!(network.udp_queues[1].len(), 84);
    assert!(network.is_quiet(), "none that waits may leave");
    wait_for(&mut network, prefix(2), 1, 3);
    assert_eq!(send_all(&mut network, 1), [prefix(2); 2], "a newcomer has room");
    assert!(!network.can_open_socket(1), "all UDP ports are in use");
    wait_for(&mut network, prefix(3), 1, 1);
    assert!(send_all(&mut network, 1).is_empty() && network.is_quiet());
    assert!(network.can_open_socket(0), "sockets are another matter");
}

#[test]
fn a_udp_port_that_is_free_again_goes_to_who_has_fewest() {
    let mut network = mixed(1, 18);
    wait_for(&mut network, prefix(1), 1, 100);
    send_all(&mut network, 1);
    wait_for(&mut network, prefix(2), 1, 100);
    assert_eq!(send_all(&mut network, 1), [prefix(2); 2]);
    for slot in 0..6 {
        network.close_batch(slot);
        assert_eq!(send_all(&mut network, 1), [prefix(2)], "{slot}");
    }
}

#[test]
fn a_port_without_room_keeps_no_query_from_a_socket_and_the_other_way_round() {
    for (full, free) in [(1, 0), (0, 1)] {
        let mut network = mixed(1, 1);
        wait_for(&mut network, prefix(1), full, 2);
        assert_eq!(send_all(&mut network, full).len().min(1), 1);
        wait_for(&mut network, prefix(1), full, 1);
        assert!(!network.can_open_socket(full) && network.can_open_socket(free));
        wait_for(&mut network, prefix(2), free, 1);
        assert!(!network.is_quiet());
        assert_eq!(send_all(&mut network, free), [prefix(2)]);
        assert!(network.is_quiet());
    }
}

#[test]
fn each_port_and_family_has_room_and_shares_of_its_own() {
    let ways = [over_port(0, false), over_port(0, true), over_port(1, false), over_port(1, true)];
    let limits = NetworkLimits { sockets: 1, port_queries: vec![[18, 36], [9, 0]] };
    let mut network = Network::new(ways.into(), &limits);
    for (upstream, most, share) in [(0, 18, 16), (1, 36, 32), (2, 9, 8), (3, 0, 0)] {
        wait_for(&mut network, prefix(1), upstream, 100);
        assert_eq!(send_all(&mut network, upstream).len(), share, "{upstream}: one prefix");
        wait_for(&mut network, prefix(2), upstream, 100);
        assert_eq!(send_all(&mut network, upstream).len(), most - share, "{upstream}: a newcomer");
        assert!(!network.can_open_socket(upstream));
    }
    assert_eq!(network.batches.len(), 18 + 36 + 9);
    network.close_batch(0);
    let has_room = [0, 1, 2, 3].map(|upstream| network.can_open_socket(upstream));
    assert_eq!(has_room, [true, false, false, false], "and gets back only what was its own");
}

#[test]
fn two_upstreams_over_one_port_and_family_share_its_room() {
    let limits = NetworkLimits { sockets: 1, port_queries: vec![[18, 0]] };
    let mut network = Network::new(vec![over_port(0, false); 2], &limits);
    for upstream in 0..2 {
        wait_for(&mut network, prefix(1), upstream, 100);
    }
    assert_eq!(send_all(&mut network, 0), [prefix(1); 16]);
    assert!(send_all(&mut network, 1).is_empty(), "its share is used up");
}

#[test]
fn late_queries_give_their_udp_ports_to_others_and_no_socket_does() {
    let mut network = mixed(1, 2);
    wait_for(&mut network, prefix(1), 0, 1);
    send_all(&mut network, 0);
    wait_for(&mut network, prefix(1), 1, 1);
    send_all(&mut network, 1);
    for slot in 0..2 {
        network.batches[slot].take_late(START * 2);
        network.note_late(slot);
    }
    assert_eq!((network.take_late(1), network.take_late(1)), (Some(1), None));
    assert_eq!((network.take_late(0), network.take_late(0)), (Some(0), None));
}
