//! Connections over loopback, with a thread in place of the line.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use super::{HEADER, MAX_QUERY};
use crate::access::AccessList;
use crate::testing::{Handler, Rig};

/// A query with this id, of which nothing but the length matters here.
fn query(id: u16) -> Vec<u8> {
    let mut message = vec![0; 29];
    message[..2].copy_from_slice(&id.to_be_bytes());
    message
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).unwrap();
    [&length.to_be_bytes()[..], message].concat()
}

fn read_message(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message).unwrap();
    message
}

/// Whether the server has closed the connection, and sent nothing before.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 64]) {
        Ok(read) => read == 0,
        Err(error) => matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
    }
}

fn echo(query: &[u8]) -> Option<Vec<u8>> {
    Some(query.to_vec())
}

/// The longest answer that a frame can hold.
fn long(query: &[u8]) -> Option<Vec<u8>> {
    Some([query, &vec![7; 65_000]].concat())
}

#[test]
fn queries_may_come_together_and_in_pieces() {
    let rig = Rig::start("", echo);
    let mut stream = TcpStream::connect(rig.tcp).unwrap();
    let queries: Vec<u8> = (0..200).flat_map(|id| framed(&query(id))).collect();
    let pieces = queries.chunks(7);
    let mut writer = stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || pieces.for_each(|piece| writer.write_all(piece).unwrap()));
        let mut ids: Vec<u16> = (0..200)
            .map(|_| read_message(&mut stream))
            .map(|answer| u16::from_be_bytes([answer[0], answer[1]]))
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..200).collect::<Vec<u16>>());
    });
    let counted = rig.counted();
    assert_eq!((counted.queries, counted.answers, counted.open), (200, 200, 1));
}

#[test]
fn a_client_that_sends_no_more_still_gets_its_answers() {
    let rig = Rig::start("", echo);
    let mut stream = TcpStream::connect(rig.tcp).unwrap();
    stream.write_all(&framed(&query(1))).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(read_message(&mut stream), query(1));
    assert!(is_closed(&mut stream));
    rig.wait_until(|counted| counted.open == 0);
}

#[test]
fn what_is_no_query_ends_the_connection() {
    let rig = Rig::start("", echo);
    let mut response = query(1);
    response[2] = 0x80;
    let wrong = [vec![0, 0], framed(&[0; 11]), framed(&response), vec![0, 11, 0]];
    for (number, bytes) in wrong.iter().enumerate() {
        let mut stream = TcpStream::connect(rig.tcp).unwrap();
        stream.write_all(bytes).unwrap();
        assert!(is_closed(&mut stream), "{bytes:?}");
        rig.wait_until(|counted| counted.malformed == number as u64 + 1);
    }
    assert_eq!(rig.counted().queries, 0);
}

#[test]
fn a_query_that_is_too_long_goes_on_as_its_header_and_is_not_kept() {
    let rig = Rig::start("", echo);
    let mut stream = TcpStream::connect(rig.tcp).unwrap();
    let long = [query(1), vec![0xff; 65_535 - 29]].concat();
    let just = [query(2), vec![0xff; MAX_QUERY - 29]].concat();
    for messages in [&[&long, &just, &query(3)][..], &[&long, &long, &query(3)]] {
        for message in messages {
            stream.write_all(&framed(message)).unwrap();
        }
        for message in messages {
            let whole = if message.len() > MAX_QUERY { HEADER } else { message.len() };
            assert_eq!(read_message(&mut stream), message[..whole]);
        }
    }
    let mut response = long;
    response[2] = 0x80;
    stream.write_all(&framed(&response)[..100]).unwrap();
    assert!(is_closed(&mut stream));
    rig.wait_until(|counted| counted.malformed == 1);
}

#[test]
fn the_rest_of_a_query_that_is_too_long_has_its_time() {
    let rig = Rig::start("io_timeout_ms = 200", echo);
    let mut stream = TcpStream::connect(rig.tcp).unwrap();
    stream.write_all(&[framed(&vec![0; 60_000]), vec![0]].concat()[..50_000]).unwrap();
    assert_eq!(read_message(&mut stream), [0; HEADER]);
    // Bytes of the same query give it no more time.
    while stream.write_all(&[0]).is_ok() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    rig.wait_until(|counted| counted.slow_queries == 1);
}

#[test]
fn idle_connections_and_half_queries_are_closed() {
    let rig = Rig::start("idle_timeout_ms = 50\nio_timeout_ms = 20", echo);
    let mut idle = TcpStream::connect(rig.tcp).unwrap();
    assert!(is_closed(&mut idle));
    rig.wait_until(|counted| counted.idle == 1);
    let mut slow = TcpStream::connect(rig.tcp).unwrap();
    slow.write_all(&framed(&query(1))[..9]).unwrap();
    assert!(is_closed(&mut slow));
    rig.wait_until(|counted| counted.slow_queries == 1);
}

#[test]
fn cve_2024_0760_a_client_that_never_reads_is_closed_and_others_are_served() {
    let rig = Rig::start("io_timeout_ms = 200\nmax_buffered_bytes = \"64KiB\"", long);
    let mut deaf = TcpStream::connect(rig.tcp).unwrap();
    let queries: Vec<u8> = (0..500).flat_map(|id| framed(&query(id))).collect();
    // The server takes no more queries than it may have answers for.
    let writing = std::thread::spawn({
        let mut deaf = deaf.try_clone().unwrap();
        move || (0..1000).all(|_| deaf.write_all(&queries).is_ok())
    });
    let mut other = TcpStream::connect(rig.tcp).unwrap();
    other.write_all(&framed(&query(1))).unwrap();
    assert_eq!(read_message(&mut other).len(), 29 + 65_000);
    rig.wait_until(|counted| counted.slow_readers == 1);
    assert!(!writing.join().unwrap(), "the connection was closed under its queries");
    // What the kernel still has of the answers may be read.
    while !is_closed(&mut deaf) {}
}

#[test]
fn cve_2025_30193_queries_on_one_connection_come_to_an_end() {
    let rig = Rig::start("max_queries_per_connection = 3", echo);
    let mut stream = TcpStream::connect(rig.tcp).unwrap();
    let queries: Vec<u8> = (0..5).flat_map(|id| framed(&query(id))).collect();
    stream.write_all(&queries).unwrap();
    for _ in 0..3 {
        read_message(&mut stream);
    }
    assert!(is_closed(&mut stream));
    rig.wait_until(|counted| counted.exhausted == 1);
    assert_eq!(rig.counted().queries, 3);
}

#[test]
fn connections_beyond_those_of_a_prefix_are_refused() {
    let rig = Rig::start("max_connections_per_prefix = 2", echo);
    let mut streams: Vec<TcpStream> =
        (0..3).map(|_| TcpStream::connect(rig.tcp).unwrap()).collect();
    rig.wait_until(|counted| counted.refused_prefix == 1);
    assert!(is_closed(&mut streams[2]));
    streams[0].write_all(&framed(&query(1))).unwrap();
    assert_eq!(read_message(&mut streams[0]), query(1));
}

#[test]
fn a_query_without_an_answer_is_given_up() {
    // A frame without a message says that the line has dropped the query.
    let dropped: Handler = |_| Some(Vec::new());
    for (handler, is_told) in [(dropped, 1), (|_| None, 0)] {
        let rig = Rig::start("", handler);
        let mut stream = TcpStream::connect(rig.tcp).unwrap();
        stream.write_all(&framed(&query(1))).unwrap();
        rig.wait_until(|counted| counted.dropped == is_told && counted.unanswered == 1 - is_told);
        assert_eq!(rig.counted().open, 1, "the connection stays");
    }
}

#[test]
fn attack_a_connections_without_a_query_make_place_for_those_of_others() {
    let rig = Rig::start("max_connections = 6\nmax_connections_per_prefix = 3", echo);
    let mut held = Vec::new();
    for network in [1, 2, 3] {
        for number in 1..=2 {
            let mut silent = rig.connect_from(network);
            silent.write_all(&[0]).unwrap();
            held.push(silent);
            rig.wait_until(|counted| counted.accepted == u64::from(network - 1) * 2 + number);
        }
    }
    for network in [11, 12, 13] {
        let mut honest = rig.connect_from(network);
        honest.write_all(&framed(&query(1))).unwrap();
        assert_eq!(read_message(&mut honest), query(1), "{network}");
        held.push(honest);
    }
    let counted = rig.counted();
    // Who has asked is idle and gives its place back at once, while places are few.
    assert_eq!((counted.displaced + counted.slow_queries >= 1, counted.refused_full), (true, 0));
}

#[test]
fn attack_a_who_may_not_ask_takes_no_place() {
    let denied = std::net::IpAddr::from([127, 0, 1, 1]);
    let access = AccessList::new(Arc::new(move |client| client != denied));
    let rig = Rig::start_for("max_connections = 1", access.clone(), echo);
    for number in 1..=20 {
        let mut denied = rig.connect_from(1);
        assert!(is_closed(&mut denied));
        rig.wait_until(|counted| counted.denied == number);
    }
    let mut allowed = rig.connect_from(2);
    allowed.write_all(&framed(&query(1))).unwrap();
    assert_eq!(read_message(&mut allowed), query(1));
    assert_eq!((rig.counted().accepted, rig.counted().refused_full), (1, 0));
    access.set(Arc::new(|_| false));
    assert!(is_closed(&mut rig.connect_from(2)), "a reload counts for the next connection");
}

/// Answers what has a high id, and nothing else.
fn selective(query: &[u8]) -> Option<Vec<u8>> {
    (query[0] != 0).then(|| query.to_vec())
}

#[test]
fn attack_b_queries_that_wait_make_room_for_those_of_others_and_get_servfail() {
    let rig = Rig::start("max_queries = 8", selective);
    let mut slow: Vec<TcpStream> = [1, 2].map(|network| rig.connect_from(network)).into();
    for stream in &mut slow {
        (1..=4).for_each(|id| stream.write_all(&framed(&query(id))).unwrap());
    }
    rig.wait_until(|counted| counted.queries == 8);
    for network in 11..14 {
        let mut honest = rig.connect_from(network);
        honest.write_all(&framed(&query(0x100))).unwrap();
        assert_eq!(read_message(&mut honest), query(0x100), "a hit");
    }
    // The room that a hit took is free again, so one query alone was given up.
    assert_eq!((rig.counted().shed, rig.counted().no_room), (1, 0));
    for stream in &slow {
        stream.set_nonblocking(true).unwrap();
    }
    let refused = loop {
        let mut buffer = [0; 64];
        let read = slow.iter_mut().find_map(|stream| stream.read(&mut buffer).ok());
        if let Some(read) = read {
            break buffer[2..read].to_vec();
        }
        std::thread::yield_now();
    };
    assert_eq!((&refused[..2], refused[3] & 0x0f), (&query(1)[..2], 2), "the oldest, SERVFAIL");
}

#[test]
fn attack_c_a_client_that_does_not_read_loses_its_connection_to_others() {
    let settings = "io_timeout_ms = 60000\nmax_buffered_bytes_in_all = \"256KiB\"";
    let rig = Rig::start(settings, long);
    let deaf: Vec<TcpStream> = (0..8).map(|_| rig.connect_from(1)).collect();
    deaf.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
    for network in 11..100 {
        let before = rig.counted();
        if before.slow_readers > 0 && network >= 16 {
            return;
        }
        // The kernel takes some of the answers at any time. The rest fills the sum.
        for mut stream in &deaf {
            let _is_full = (0..100).try_for_each(|id| stream.write_all(&framed(&query(id))));
        }
        rig.wait_until(|now| now.no_memory > before.no_memory || now.slow_readers > 0);
        let mut other = rig.connect_from(network);
        other.write_all(&framed(&query(1))).unwrap();
        assert_eq!(read_message(&mut other).len(), 29 + 65_000);
    }
    panic!("nobody lost a connection: {:?}", rig.counted());
}
