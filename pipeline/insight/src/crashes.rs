//! What crashes have left, for operators: the bytes of another process, of which nothing has been checked.

use std::fmt::Write as _;

use pmdns_config::{readable, type_name};
use pmdns_control::crashes::{Crash, CrashList, CrashedPacket};
use pmdns_nics::crash::{CrashRecord, PacketInHand, signal_name};

use crate::capture::headers::Headers;
use crate::capture::stream::packet_of;

/// The bytes of a DNS message before its flags: the ID, which is another one each time.
const ID: usize = 2;

/// The list of these crashes, the newest one last. `ports` has their names, and those behind `wires` are of streams.
pub fn list(records: &[CrashRecord], ports: &[String], wires: usize) -> CrashList {
    let crashes = (0..records.len()).rev().map(|at| {
        let CrashRecord { signal, core, time, process, version, packets } = &records[at];
        let packets = packets.iter().map(|packet| {
            let is_stream = usize::from(packet.port) >= wires;
            let mark = mark_of(packet, is_stream);
            let before = records[..at].iter().rev();
            let has_it = |crash: &&CrashRecord| {
                let same =
                    |other: &PacketInHand| mark_of(other, usize::from(other.port) >= wires) == mark;
                crash.packets.iter().any(same)
            };
            let in_a_row = 1 + before.take_while(has_it).map(|_| 1).sum::<u32>();
            report_packet(packet, is_stream, ports, in_a_row)
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

fn headers_of(packet: &PacketInHand, is_stream: bool) -> Option<Headers> {
    if is_stream { Headers::of_stream(&packet.bytes) } else { Headers::read(&packet.bytes) }
}

/// By what a packet is known again: its DNS message without the ID, whoever sends it; else all of it.
fn mark_of(packet: &PacketInHand, is_stream: bool) -> &[u8] {
    let message = headers_of(packet, is_stream).and_then(|headers| headers.message());
    let message = message.and_then(|at| packet.bytes.get(at + ID..));
    message.filter(|message| !message.is_empty()).unwrap_or(&packet.bytes)
}

fn report_packet(
    packet: &PacketInHand,
    is_stream: bool,
    ports: &[String],
    in_a_row: u32,
) -> CrashedPacket {
    let PacketInHand { core, port, len, bytes } = packet;
    let headers = headers_of(packet, is_stream);
    let question = headers.and_then(|headers| headers.question(bytes));
    let name = ports.get(usize::from(*port)).cloned();
    let made_up = packet_of(bytes, false).filter(|_| is_stream);
    CrashedPacket {
        core: *core,
        port: name.unwrap_or_else(|| format!("port {port}")),
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
        CrashRecord { signal: 6, core: Some(1), time: 9, process: 7, version, packets }
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
        let list = list(&records, &["lan".to_owned()], 1);
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
    fn a_port_that_is_no_more_has_a_number() {
        let list = list(&[crash(vec![packet("a.example. A", 1)])], &[], 1);
        assert_eq!(list.crashes[0].packets[0].port, "port 0");
    }

    proptest! {
        #[test]
        fn no_bytes_stop_it(bytes: Vec<u8>, cut in 0usize..99, port: u8, len: u16, wires in 0usize..3) {
            let mut nearly = packet("a.example. A", 1).bytes;
            nearly.truncate(cut);
            nearly.extend(&bytes);
            let packets = [bytes, nearly].map(|bytes| PacketInHand { core: 1, port, len, bytes });
            let records = [crash(packets.to_vec()), crash(packets.to_vec())];
            let list = list(&records, &["lan".to_owned()], wires);
            prop_assert!(list.crashes[0].packets.iter().all(|packet| packet.in_a_row == 2));
        }
    }
}
