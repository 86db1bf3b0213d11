//! The answer to a query for which there is no room: SERVFAIL with extended error 14 (Not Ready), as the resolver gives to a
//! client that loses its place. It says nothing about the name, and lets the client go on to its next resolver at once.

use pmdns_config::narrow::to_u16;

/// Bytes of a DNS header (RFC 1035 section 4.1.1), and behind the name of a question.
const HEADER: usize = 12;
const BEHIND_NAME: usize = 4;
/// The longest name and label (RFC 1035 section 2.3.4).
const MAX_NAME: usize = 255;
const MAX_LABEL: u8 = 63;
/// Where an OPT record without a name has its type and the DO bit, and its length without options (RFC 6891 section 6.1.2).
const OPT_TYPE: std::ops::Range<usize> = 1..3;
const OPT_DO: usize = 7;
const OPT_HEAD: usize = 11;
const OPT: [u8; 2] = [0, 41];
/// The part of a query that is needed for its refusal.
const KEPT: usize = HEADER + MAX_NAME + BEHIND_NAME + OPT_HEAD;

const RESPONSE: u8 = 0x80;
/// Opcode and RD.
const ECHOED: u8 = 0x79;
/// RA, and CD if the client sent it.
const RECURSION: u8 = 0x80;
const CHECKING_DISABLED: u8 = 0x10;
const SERVFAIL: u8 = 2;
const DO: u8 = 0x80;
/// Extended error 14, "Not Ready" (RFC 8914 section 4.15), as an option.
const NOT_READY: [u8; 6] = [0, 15, 0, 2, 0, 14];
/// The size that our OPT record announces; over a stream it means nothing.
const UDP_SIZE: [u8; 2] = 1232_u16.to_be_bytes();

/// The part of a query that [`servfail`] needs.
pub(crate) fn kept(query: &[u8]) -> Box<[u8]> {
    query[..query.len().min(KEPT)].into()
}

/// SERVFAIL to a query, of which this was [`kept`]. Without a question if that cannot be read.
pub(crate) fn servfail(query: &[u8]) -> Vec<u8> {
    let mut answer = vec![0; HEADER];
    let Some(header) = query.first_chunk::<HEADER>() else { return answer };
    answer[..2].copy_from_slice(&header[..2]);
    answer[2] = RESPONSE | header[2] & ECHOED;
    answer[3] = RECURSION | header[3] & CHECKING_DISABLED | SERVFAIL;
    let [_, _, _, _, counts @ ..] = header;
    // One question, and nothing but additional records.
    let [0, 1, 0, 0, 0, 0, additional @ ..] = counts else { return answer };
    let Some(end) = question_end(query) else { return answer };
    answer[5] = 1;
    answer.extend_from_slice(&query[HEADER..end]);
    let opt = query.get(end..end + OPT_HEAD).filter(|opt| opt[0] == 0 && opt[OPT_TYPE] == OPT);
    if let Some(opt) = opt
        && *additional != [0, 0]
    {
        answer[11] = 1;
        answer.extend([0]);
        answer.extend(OPT);
        answer.extend(UDP_SIZE);
        answer.extend([0, 0, opt[OPT_DO] & DO, 0]);
        answer.extend(to_u16(NOT_READY.len()).to_be_bytes());
        answer.extend(NOT_READY);
    }
    answer
}

/// Where the question ends. Names of questions are not compressed: nothing stands before them.
fn question_end(query: &[u8]) -> Option<usize> {
    let mut at = HEADER;
    loop {
        let length = *query.get(at)?;
        at += 1 + usize::from(length);
        if at > HEADER + MAX_NAME || length > MAX_LABEL {
            return None;
        }
        if length == 0 {
            let end = at + BEHIND_NAME;
            return (end <= query.len()).then_some(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::QUERY;

    #[test]
    fn a_query_gets_its_question_back_and_opt_only_for_opt() {
        let mut query = QUERY.to_vec();
        (query[0], query[3]) = (7, 0x10);
        let answer = servfail(&kept(&query));
        assert_eq!(answer[..4], [7, 0, 0x81, 0x92]);
        assert_eq!(answer[4..], query[4..], "one question and no records");
        query[11] = 1;
        query.extend(b"\0\0\x29\x04\xd0\0\0\x80\0\0\x04\0\x0b\0\0");
        let answer = servfail(&kept(&query));
        let opt = b"\0\0\x29\x04\xd0\0\0\x80\0\0\x06\0\x0f\0\x02\0\x0e";
        assert_eq!(answer[QUERY.len()..], opt[..]);
        assert_eq!((answer[5], answer[11]), (1, 1));
    }

    #[test]
    fn any_bytes_have_a_refusal() {
        let mut query = QUERY.to_vec();
        query[11] = 1;
        query.extend(b"\0\0\x29\x04\xd0\0\0\x80\0\0\0");
        for len in 0..query.len() {
            assert!(servfail(&query[..len]).len() >= HEADER);
        }
        for at in 4..query.len() {
            let mut odd = query.clone();
            odd[at] ^= 0xff;
            assert_eq!(servfail(&odd)[3] & 0x0f, SERVFAIL, "{at}");
        }
        assert_eq!(servfail(&[&QUERY[..12], &[63; 600]].concat()).len(), HEADER, "no such name");
    }
}
