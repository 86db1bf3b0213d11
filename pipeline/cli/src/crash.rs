//! What crashes have left, as a capture (pcapng).

use std::io::{self, Write};

use pmdns_control::crashes::{Crash, CrashList, CrashedPacket};
use pmdns_nics::pcap::{Direction, LinkType, NgWriter};

const SECOND_NS: u64 = 1_000_000_000;

/// Writes the packets of these crashes, the oldest crash first. Returns how many there were.
///
/// # Errors
///
/// What the system says, or that the bytes of a packet are no hexadecimal digits.
pub fn write_crashes(list: &CrashList, output: impl Write) -> io::Result<usize> {
    let oldest_first = || list.crashes.iter().rev().flat_map(|crash| &crash.packets);
    let mut ports: Vec<(&str, LinkType)> = Vec::new();
    for packet in oldest_first() {
        let port = port_of(packet);
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    let program = concat!("pmdns ", env!("CARGO_PKG_VERSION"));
    let mut writer = NgWriter::new(output, program, ports.iter().copied())?;
    for crash in list.crashes.iter().rev() {
        for packet in &crash.packets {
            let place = ports.iter().position(|port| *port == port_of(packet)).unwrap_or_default();
            let time = crash.time.saturating_mul(SECOND_NS);
            let (bytes, comment) = (bytes_of(&packet.bytes)?, comment(crash, packet));
            // Made up headers are of what is there.
            let length = if packet.is_stream { 0 } else { packet.length as usize };
            writer.write(place, time, (&bytes, length), Direction::In, &comment)?;
        }
    }
    writer.flush()?;
    Ok(oldest_first().count())
}

fn port_of(packet: &CrashedPacket) -> (&str, LinkType) {
    (&packet.port, if packet.is_stream { LinkType::Raw } else { LinkType::Ethernet })
}

fn comment(crash: &Crash, packet: &CrashedPacket) -> String {
    let Crash { signal, process, version, .. } = crash;
    let CrashedPacket { core, in_a_row, length, .. } = packet;
    format!(
        "in hand on core {core} when process {process} (pmdns {version}) got {signal}; {length} bytes; crashes in a row: \
         {in_a_row}"
    )
}

fn bytes_of(digits: &str) -> io::Result<Vec<u8>> {
    let byte = |pair: &[u8]| {
        let [high, low] = pair else { return None };
        let digit = |digit: u8| char::from(digit).to_digit(16);
        u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()
    };
    let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
    bytes.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a packet is no bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(port: &str, is_stream: bool, bytes: &str) -> CrashedPacket {
        let (port, bytes) = (port.to_owned(), bytes.to_owned());
        CrashedPacket { port, is_stream, bytes, ..CrashedPacket::default() }
    }

    fn crash(packets: Vec<CrashedPacket>) -> Crash {
        Crash { packets, time: 7, signal: "SIGSEGV".to_owned(), ..Crash::default() }
    }

    #[test]
    fn the_packets_are_written_and_those_of_wires_are_read_again() {
        let newest = crash(vec![packet("lan", false, "0aff"), packet("streams", true, "45")]);
        let list = CrashList { crashes: vec![newest, crash(vec![packet("lan", false, "01")])] };
        let path = std::env::temp_dir().join(format!("pmdns-crash-{}", std::process::id()));
        assert_eq!(write_crashes(&list, std::fs::File::create(&path).unwrap()).unwrap(), 3);
        let capture = pmdns_nics::pcap::Capture::read(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        let read: Vec<_> = capture.records().map(|one| (one.time_ns, one.bytes)).collect();
        assert_eq!(read, [(7 * SECOND_NS, &[1][..]), (7 * SECOND_NS, &[0x0a, 0xff])]);
        assert_eq!(capture.left_out(), 1, "it has no Ethernet header");
    }

    #[test]
    fn what_are_no_digits_is_refused() {
        for bytes in ["0", "0g", "\u{e4}", "+1"] {
            let list = CrashList { crashes: vec![crash(vec![packet("lan", false, bytes)])] };
            assert!(write_crashes(&list, Vec::new()).is_err(), "{bytes}");
        }
    }
}
