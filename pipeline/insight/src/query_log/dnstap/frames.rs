//! Frame Streams: the handshake with a reader, and how frames stand in a stream (farsightsec/fstrm, `control.h`).

use std::io::{self, Read, Write};

/// The content that we send.
pub(super) const CONTENT: &[u8] = b"protobuf:dnstap.Dnstap";
/// Bytes of the longest control frame.
const MAX_CONTROL: usize = 512;
/// The field of a control frame that names a content.
const CONTENT_TYPE: u32 = 1;

const ACCEPT: u32 = 1;
const START: u32 = 2;
const STOP: u32 = 3;
const READY: u32 = 4;

/// Tells the reader what we send, and waits until it accepts that.
pub(super) fn begin(stream: &mut (impl Read + Write)) -> io::Result<()> {
    stream.write_all(&control(READY, Some(CONTENT)))?;
    let answer = read_control(stream)?;
    if !accepts(&answer) {
        return Err(io::Error::other("it does not accept dnstap"));
    }
    stream.write_all(&control(START, Some(CONTENT)))
}

/// Tells the reader that nothing more comes. Its farewell is not waited for.
pub(super) fn end(stream: &mut impl Write) -> io::Result<()> {
    stream.write_all(&control(STOP, None))
}

fn control(kind: u32, content: Option<&[u8]>) -> Vec<u8> {
    let mut body = kind.to_be_bytes().to_vec();
    if let Some(content) = content {
        body.extend(CONTENT_TYPE.to_be_bytes());
        body.extend(length(content));
        body.extend(content);
    }
    let mut frame = vec![0; 4];
    frame.extend(length(&body));
    frame.extend(body);
    frame
}

/// The length of a frame, as it stands before it.
pub(super) fn length(frame: &[u8]) -> [u8; 4] {
    u32::try_from(frame.len()).unwrap_or(u32::MAX).to_be_bytes()
}

/// Reads a control frame: a zero, its length, itself. A longer one than there may be is an error.
fn read_control(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut start = [0; 8];
    stream.read_exact(&mut start)?;
    let [escape, length] = [0, 4].map(|at| word(&start, at).unwrap_or(u32::MAX));
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if escape != 0 || length > MAX_CONTROL {
        return Err(io::Error::other("it speaks no Frame Streams"));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(body)
}

/// Whether a control frame is an ACCEPT for our content. One that names no content accepts all.
fn accepts(body: &[u8]) -> bool {
    let Some((kind, mut fields)) = body.split_first_chunk::<4>() else { return false };
    if u32::from_be_bytes(*kind) != ACCEPT {
        return false;
    }
    let (mut names, mut ours) = (0, 0);
    while let (Some(field), Some(len)) = (word(fields, 0), word(fields, 4)) {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let Some((value, rest)) = fields[8..].split_at_checked(len) else { return false };
        fields = rest;
        names += usize::from(field == CONTENT_TYPE);
        ours += usize::from(field == CONTENT_TYPE && value == CONTENT);
    }
    fields.is_empty() && (names == 0 || ours > 0)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A reader that says `says`, and what it was told.
    struct Far<'s> {
        says: &'s [u8],
        told: Vec<u8>,
    }

    impl Read for Far<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.says.read(buffer)
        }
    }

    impl Write for Far<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.told.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn shake(says: &[u8]) -> Result<Vec<u8>, String> {
        let mut far = Far { says, told: Vec::new() };
        begin(&mut far).map(|()| far.told).map_err(|error| error.to_string())
    }

    #[test]
    fn the_handshake_is_that_of_frame_streams() {
        let told = shake(&control(ACCEPT, Some(CONTENT))).unwrap();
        let ready = b"\0\0\0\0\0\0\0\x22\0\0\0\x04\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap";
        let start = b"\0\0\0\0\0\0\0\x22\0\0\0\x02\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap";
        assert_eq!(told, [&ready[..], &start[..]].concat());
        assert!(shake(&control(ACCEPT, None)).is_ok(), "it accepts everything");
    }

    #[test]
    fn a_reader_of_something_else_gets_nothing() {
        let other = control(ACCEPT, Some(b"protobuf:other"));
        for says in
            [&other[..], &control(STOP, None), b"\0\0\0\0\0\0\0\0", b"\0\0\0\0\0\0\0\x03abc"]
        {
            assert_eq!(shake(says), Err("it does not accept dnstap".to_owned()));
        }
        for says in [&b"HTTP/1.1 400 Bad Request"[..], b"\0\0\0\0\0\0\x02\x01"] {
            assert_eq!(shake(says), Err("it speaks no Frame Streams".to_owned()));
        }
        assert!(shake(b"").is_err());
    }

    proptest! {
        #[test]
        fn no_answer_of_a_reader_is_too_much(says in proptest::collection::vec(any::<u8>(), 0..600), is_control: bool) {
            let framed = [&[0; 4][..], &length(&says), &says].concat();
            let _ = shake(if is_control { &framed } else { &says });
            let _ = accepts(&says);
        }
    }
}
