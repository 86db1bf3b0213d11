//! The parts of Protocol Buffers that dnstap messages are written with. Nothing is read.

const VARINT: u32 = 0;
const BYTES: u32 = 2;
const FIXED32: u32 = 5;

/// Writes a number: seven bits a byte, the least first.
fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push((number & 0x7f) as u8);
}

fn key(out: &mut Vec<u8>, field: u32, kind: u32) {
    varint(out, (field << 3 | kind).into());
}

/// A field with a number.
pub(super) fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    key(out, field, VARINT);
    varint(out, value);
}

/// A field with a number of four bytes.
pub(super) fn fixed(out: &mut Vec<u8>, field: u32, value: u32) {
    key(out, field, FIXED32);
    out.extend_from_slice(&value.to_le_bytes());
}

/// A field with bytes, or with a message.
pub(super) fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    key(out, field, BYTES);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_the_encoding_guide_shows() {
        let mut out = Vec::new();
        number(&mut out, 1, 150);
        bytes(&mut out, 2, b"testing");
        fixed(&mut out, 9, 1);
        number(&mut out, 15, u64::MAX);
        assert_eq!(
            out,
            *b"\x08\x96\x01\x12\x07testing\x4d\x01\0\0\0\x78\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
        );
    }
}
