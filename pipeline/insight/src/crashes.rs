//! What crashes have left, for operators: the bytes of another process, of which nothing has been checked.

use std::collections::HashSet;
use std::fmt::Write as _;

use pmdns_config::{readable, type_name};
use pmdns_control::crashes::{Crash, CrashList, CrashedPacket};
use pmdns_nics::crash::{CrashRecord, PacketInHand, signal_name};

use crate::capture::headers::Headers;
use crate::capture::stream::packet_of;

/// The bytes of a DNS message before its flags: the ID, which is another one each time.
const ID: usize = 2;

/// The list of these crashes, the newest one last. `ports` has the names of ports in use now, without that of streams.
pub fn list(records: &[CrashRecord], ports: &[String]) -> CrashList {
    let marks: Vec<HashSet<&[u8]>> = records
        .iter()
        .map(|crash| crash.packets.iter().map(|it| mark_of(crash, it)).collect())
        .collect();
    let crashes = records.iter().enumerate().rev().map(|(at, crash)| {
        let CrashRecord { signal, core, time, process, version, packets, .. } = crash;
        let packets = packets.iter().map(|packet| {
            let (before, mark) = (marks[..at].iter().rev(), mark_of(crash, packet));
            let in_a_row =
                1 + before.take_while(|marks| marks.contains(mark)).map(|_| 1).sum::<u32>();
            report_packet(crash, packet, ports, in_a_row)
        });
        Crash {
            time: *time,
            process: *process,
            version: version.clone(),
            signal: signal_name(*signal),
            core: *core,
            packets: packets.collect(),
        }
    });
    CrashList { crashes: crashes.collect() }
}

fn is_stream(crash: &CrashRecord, packet: &PacketInHand) -> bool {
    u32::from(packet.port) >= crash.wires
}

fn headers_of(crash: &CrashRecord, packet: &PacketInHand) -> Option<Headers> {
    let read = if is_stream(crash, packet) { Headers::of_stream } else { Headers::read };
    read(&packet.bytes)
}

/// By what a packet is known again: its DNS message without the ID, whoever sends it; else all of it.
fn mark_of<'p>(crash: &CrashRecord, packet: &'p PacketInHand) -> &'p [u8] {
    let message = headers_of(crash, packet).and_then(|headers| headers.message());
    let message = message.and_then(|at| packet.bytes.get(at + ID..));
    message.filter(|message| !message.is_empty()).unwrap_or(&packet.bytes)
}

fn report_packet(
    crash: &CrashRecord,
    packet: &PacketInHand,
    ports: &[String],
    in_a_row: u32,
) -> CrashedPacket {
    let PacketInHand { core, port, len, bytes } = packet;
    let (headers, is_stream) = (headers_of(crash, packet), is_stream(crash, packet));
    let question = headers.and_then(|headers| headers.question(bytes));
    // Another configuration may have had others under these numbers.
    let are_same = usize::try_from(crash.wires) == Ok(ports.len());
    let name = ports.get(usize::from(*port)).filter(|_| are_same);
    let made_up = packet_of(bytes, false).filter(|_| is_stream);
    CrashedPacket {
        core: *core,
        port: match name {
            _ if is_stream => "streams".to_owned(),
            Some(name) => name.clone(),
            None => format!("port {port}"),
        },
        client: headers.map(|headers| headers.source),
        question: question.map(|(name, qtype)| format!("{} {}", readable(name), type_name(qtype))),
        in_a_row,
        length: (*len).into(),
        is_stream: made_up.is_some(),
        bytes: digits(made_up.as_ref().map_or(bytes, |(packet, _)| packet)),
    }
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

#[cfg(test)]
mod tests {
    use pmdns_stages::testing::query;
    use proptest::prelude::*;

    use super::*;

    fn packet(question: &str, id: u8) -> PacketInHand {
        let mut bytes = query(question).frame_bytes();
        let at = Headers::read(&bytes).unwrap().message().unwrap();
        bytes[at] = id;
        PacketInHand { core: 1, port: 0, len: bytes.len() as u16, bytes }
    }

    fn crash(packets: Vec<PacketInHand>) -> CrashRecord {
        let version = "1.2.3".to_owned();
        CrashRecord { signal: 6, core: Some(1), time: 9, process: 7, version, wires: 1, packets }
    }

    #[test]
    fn a_packet_that_comes_again_is_known_by_all_but_its_id() {
        let one = || packet("a.example. A", 1);
        let records = [
            crash(vec![one()]),
            crash(vec![packet("b.example. A", 1)]),
            crash(vec![one()]),
            crash(vec![packet("b.example. A", 2), packet("a.example. A", 2)]),
            crash(vec![packet("a.example. A", 3)]),
        ];
        let list = list(&records, &["lan".to_owned()]);
        let in_a_row = |crash: &Crash| crash.packets.iter().map(|it| it.in_a_row).collect();
        let counts: Vec<Vec<u32>> = list.crashes.iter().map(in_a_row).collect();
        assert_eq!(counts, [vec![3], vec![1, 2], vec![1], vec![1], vec![1]]);
        let CrashedPacket { port, question, client, length, bytes, .. } =
            &list.crashes[0].packets[0];
        assert_eq!((port.as_str(), question.as_deref()), ("lan", Some("a.example A")));
        assert!(client.is_some());
        assert_eq!(bytes.len(), 2 * *length as usize);
    }

    #[test]
    fn ports_of_another_configuration_have_numbers() {
        let ports = ["lan".to_owned(), "wan".to_owned()];
        for ports in [&ports[..], &[]] {
            let list = list(&[crash(vec![packet("a.example. A", 1)])], ports);
            assert_eq!(list.crashes[0].packets[0].port, "port 0");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_stop_it(bytes: Vec<u8>, cut in 0usize..99, port: u8, len: u16, wires in 0u32..3) {
            let mut nearly = packet("a.example. A", 1).bytes;
            nearly.truncate(cut);
            nearly.extend(&bytes);
            let packets = [bytes, nearly].map(|bytes| PacketInHand { core: 1, port, len, bytes });
            let crash = CrashRecord { wires, ..crash(packets.to_vec()) };
            let list = list(&[crash.clone(), crash], &["lan".to_owned()]);
            prop_assert!(list.crashes[0].packets.iter().all(|packet| packet.in_a_row == 2));
        }
    }
}
