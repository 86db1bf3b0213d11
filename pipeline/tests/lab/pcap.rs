//! Capture files: classic pcap, Ethernet, microseconds, little-endian.

use std::fs;
use std::path::Path;

const HEADER: usize = 24;
const RECORD: usize = 16;

/// Writes `frames` as a capture.
pub(crate) fn write<F: AsRef<[u8]>>(file: &Path, frames: impl IntoIterator<Item = F>) {
    let mut bytes = Vec::new();
    for field in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(field.to_le_bytes());
    }
    for (number, frame) in (0_u32..).zip(frames) {
        let frame = frame.as_ref();
        let length = u32::try_from(frame.len()).unwrap();
        for field in [number / 1000, number % 1000 * 1000, length, length] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend(frame);
    }
    fs::write(file, bytes).unwrap();
}

/// The frames of a capture.
pub(crate) fn read(file: &Path) -> Vec<Vec<u8>> {
    parse(&fs::read(file).unwrap())
}

/// The frames of a capture in memory.
pub(crate) fn parse(bytes: &[u8]) -> Vec<Vec<u8>> {
    let magic = u32::from_le_bytes(bytes[..4].try_into().unwrap());
    // The second has nanoseconds in its stamps.
    assert!(matches!(magic, 0xa1b2_c3d4 | 0xa1b2_3c4d), "{magic:#x} begins no classic pcap");
    let mut frames = Vec::new();
    let mut at = HEADER;
    while at < bytes.len() {
        let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        frames.push(bytes[at + RECORD..at + RECORD + length].to_vec());
        at += RECORD + length;
    }
    frames
}
