//! Tests of pcapng: what is written is read, in either byte order, and hostile files are errors.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::pcap::{Capture, CapturedFrame, PcapError};

fn parse(bytes: &[u8]) -> Result<Capture, PcapError> {
    Capture::parse(Path::new("test.pcapng"), bytes.to_vec())
}

fn written(packets: &[(usize, &[u8])]) -> Vec<u8> {
    let interfaces = [("p0", LinkType::Ethernet), ("streams", LinkType::Raw)];
    let mut writer = NgWriter::new(Vec::new(), "pmdns", interfaces).unwrap();
    for (interface, packet) in packets {
        writer.write(*interface, 7_000_000_123, (packet, 0), Direction::In, "a comment").unwrap();
    }
    assert_eq!(writer.written(), writer.output.len() as u64);
    writer.output
}

/// A block of words, in big-endian order.
fn big_endian(kind: u32, body: &[u32]) -> Vec<u8> {
    let len = 12 + 4 * to_u32(body.len());
    let words = [kind, len].into_iter().chain(body.iter().copied()).chain([len]);
    words.flat_map(u32::to_be_bytes).collect()
}

#[test]
fn what_is_written_is_read_and_what_is_not_ethernet_is_left_out() {
    let capture =
        parse(&written(&[(0, b"one"), (1, b"a stream"), (0, b""), (0, b"four")])).unwrap();
    let bytes: Vec<&[u8]> = capture.records().map(|record| record.bytes).collect();
    assert_eq!(bytes, [b"one".as_slice(), b"", b"four"]);
    assert_eq!(capture.left_out(), 1);
    let first = capture.records().next().unwrap();
    assert_eq!(first, CapturedFrame { time_ns: 7_000_000_123, bytes: b"one", original_len: 3 });
}

#[test]
fn the_other_byte_order_units_offsets_and_simple_packets_are_read() {
    let mut file = big_endian(SECTION, &[BYTE_ORDER, 0x0001_0000, u32::MAX, u32::MAX]);
    // Ethernet, at most 4 bytes of a packet, units of 1/8 second, and the times are 100 seconds later.
    let unit = [u32::from(TIME_UNIT) << 16 | 1, 0x8300_0000];
    let offset = [u32::from(TIME_OFFSET) << 16 | 8, 0, 100];
    let interface: Vec<u32> = [1 << 16, 4].into_iter().chain(unit).chain(offset).collect();
    file.extend(big_endian(INTERFACE, &interface));
    file.extend(big_endian(ENHANCED, &[0, 0, 12, 2, 9, 0x6162_0000]));
    file.extend(big_endian(0x0bad, &[1, 2, 3]));
    file.extend(big_endian(SIMPLE, &[9, 0x6364_6566]));
    let capture = parse(&file).unwrap();
    let records: Vec<_> = capture.records().collect();
    assert_eq!(
        records[0],
        CapturedFrame { time_ns: 101_500_000_000, bytes: b"ab", original_len: 9 }
    );
    assert_eq!(records[1], CapturedFrame { time_ns: 0, bytes: b"cdef", original_len: 9 });
}

#[test]
fn damage_is_an_error_with_the_number_of_its_block() {
    let whole = written(&[(0, b"one")]);
    let blocks = |bytes: &[u8]| match parse(bytes) {
        Err(PcapError::Damaged { record, .. }) => Some(record),
        _ => None,
    };
    assert_eq!(blocks(&whole[..whole.len() - 1]), Some(4), "two interfaces come before");
    let mut twice = whole.clone();
    twice.extend(&whole);
    assert_eq!(parse(&twice).unwrap().records().len(), 2, "a second section");
    let mut without = big_endian(SECTION, &[BYTE_ORDER, 0x0001_0000, u32::MAX, u32::MAX]);
    without.extend(big_endian(ENHANCED, &[0, 0, 0, 0, 0]));
    assert_eq!(blocks(&without), Some(2), "a packet of no interface");
    let mut odd = big_endian(SECTION, &[0x1234_5678, 0, 0, 0]);
    assert_eq!(blocks(&odd), Some(1), "no byte order");
    odd[4..8].copy_from_slice(&[0xff; 4]);
    assert_eq!(blocks(&odd), Some(1));
}

proptest! {
    #[test]
    fn no_file_makes_the_reader_panic(
        changes in proptest::collection::vec((0_usize..400, any::<u8>()), 0..8),
        end in 0_usize..400,
    ) {
        let mut file = written(&[(0, b"one"), (1, b"two"), (0, b"three")]);
        for (at, byte) in changes {
            let len = file.len();
            file[at % len] = byte;
        }
        file.truncate(end.max(4));
        if let Ok(capture) = parse(&file) {
            prop_assert!(capture.records().all(|record| record.bytes.len() <= file.len()));
        }
    }
}
