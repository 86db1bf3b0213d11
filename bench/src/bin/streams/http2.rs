//! One request over HTTP/2 (RFC 9113), on a connection that is for nothing else.

use std::io::{self, Read, Write};

use pmdns_config::narrow::to_u8;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Types of frames (section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
/// Flags.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Bytes before a frame's contents.
const HEAD: usize = 9;

/// Posts a query (RFC 8484), and reads the response to its end. An error: there is no answer in it.
pub(crate) fn ask(stream: &mut (impl Read + Write), query: &[u8]) -> io::Result<()> {
    let mut request = PREFACE.to_vec();
    request.extend(frame(SETTINGS, 0, 0, &[]));
    request.extend(frame(HEADERS, END_HEADERS, 1, &headers(query.len())));
    request.extend(frame(DATA, END_STREAM, 1, query));
    stream.write_all(&request)?;
    let mut received = 0;
    loop {
        let mut head = [0; HEAD];
        stream.read_exact(&mut head)?;
        let [l0, l1, l2, kind, flags, ..] = head;
        let mut contents = vec![0; u32::from_be_bytes([0, l0, l1, l2]) as usize];
        stream.read_exact(&mut contents)?;
        let is_ours = head[HEAD - 1] == 1;
        if kind == DATA {
            received += contents.len();
        }
        if is_ours && matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
            let has_answer = received > query.len();
            return if has_answer { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) };
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u8, contents: &[u8]) -> Vec<u8> {
    let head = [0, 0, to_u8(contents.len()), kind, flags, 0, 0, 0, stream];
    [&head[..], contents].concat()
}

/// The fields of the request (RFC 7541): those of the static table by number, values as they are.
fn headers(len: usize) -> Vec<u8> {
    // `:method: POST` and `:scheme: https`.
    let mut fields = vec![0x83, 0x87];
    let mut field = |name: &[u8], value: &str| {
        fields.extend(name);
        fields.push(to_u8(value.len()));
        fields.extend(value.as_bytes());
    };
    field(&[0x01], "dns.example");
    field(&[0x04], "/dns-query");
    // A number above 14 takes a second byte: content-length is 28, content-type 31.
    field(&[0x0f, 28 - 15], &len.to_string());
    field(&[0x0f, 31 - 15], "application/dns-message");
    fields
}
