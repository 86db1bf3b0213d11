//! Which records of a judged reply clients get, and other checks beside the verdict.

use crate::message::{be16, rtype};

/// AD in the second octet of flags.
const AD: u8 = 0x20;
/// The type of a record that is left out: a reserved one, which no reader takes for data (RFC 6895 section 3.1).
const LEFT_OUT: [u8; 2] = [0, 0];

/// Whether answer or authority have a signature within the first `limit` records. Names are skipped, not read.
#[must_use]
pub fn is_signed(reply: &[u8], limit: usize) -> bool {
    let find = || {
        let mut at = skip_questions(reply)?;
        let records = usize::from(be16(reply, 6)?) + usize::from(be16(reply, 8)?);
        for _ in 0..records.min(limit) {
            at = skip_name(reply, at)?;
            if be16(reply, at)? == rtype::RRSIG {
                return Some(());
            }
            at += 10 + usize::from(be16(reply, at + 8)?);
        }
        None
    };
    find().is_some()
}

/// The reply as clients may get it: with AD or without. Records that `keep` does not name ([`crate::Judgement::keep`])
/// lose their type, and so do DNSSEC records that nobody asked for (RFC 4035 sections 3.2.1 and 3.2.3). All other bytes
/// stay, so that pointers lead where they led, and the answer is as short as without validation.
/// `None`: it is malformed, or has more than `limit` records.
#[must_use]
pub fn pass_on(
    reply: &[u8],
    keep: &[bool],
    is_secure: bool,
    dnssec_ok: bool,
    limit: usize,
) -> Option<Vec<u8>> {
    let mut target = reply.to_vec();
    let mut at = skip_questions(reply)?;
    target[3] = if is_secure { target[3] | AD } else { target[3] & !AD };
    if keep.is_empty() && dnssec_ok {
        return Some(target);
    }
    // There is one question.
    let qtype = be16(reply, at.checked_sub(4)?)?;
    let count = |at| Some(usize::from(be16(reply, at)?));
    let records = count(6)? + count(8)? + count(10)?;
    if records > limit {
        return None;
    }
    for number in 0..records {
        let (type_at, end) = extent(reply, at)?;
        let rtype = be16(reply, type_at)?;
        let is_wanted = dnssec_ok
            || rtype == qtype
            || ![rtype::RRSIG, rtype::NSEC, rtype::NSEC3].contains(&rtype);
        if !is_wanted || !keep.get(number).copied().unwrap_or(true) {
            target[type_at..type_at + 2].copy_from_slice(&LEFT_OUT);
        }
        at = end;
    }
    Some(target)
}

/// Where the first record begins.
fn skip_questions(reply: &[u8]) -> Option<usize> {
    match be16(reply, 4)? {
        1 => Some(skip_name(reply, 12)? + 4),
        _ => None,
    }
}

/// Where a name ends, wherever its pointers lead.
fn skip_name(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *bytes.get(at)? {
            0 => return Some(at + 1),
            length @ 1..64 => at += 1 + usize::from(length),
            192.. => return Some(at + 2),
            _ => return None,
        }
    }
}

/// Where the type of the record at `at` stands, and where the record ends.
fn extent(reply: &[u8], at: usize) -> Option<(usize, usize)> {
    let type_at = skip_name(reply, at)?;
    let end = type_at + 10 + usize::from(be16(reply, type_at + 8)?);
    (end <= reply.len()).then_some((type_at, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the second record begins.
    const SIGNATURE_AT: usize = 29 + 16;

    /// `WWW.example. CNAME`, its signature, and an MX record of the same owner, whose names point to the question.
    fn reply(qtype: u8) -> Vec<u8> {
        let mut reply = vec![0, 0, 0x81, 0xa0, 0, 1, 0, 2, 0, 0, 0, 1];
        reply.extend(b"\x03WWW\x07Example\0\0");
        reply.extend([qtype, 0, 1]);
        reply.extend(b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x04\x01a\xc0\x10");
        reply.extend(b"\xc0\x0c\0\x2e\0\x01\0\0\0\x3c\0\x14");
        reply.extend([1; 18]);
        reply.extend([0, 9]);
        reply.extend(b"\xc0\x0c\0\x0f\0\x01\0\0\0\x3c\0\x04\0\x05\xc0\x10");
        reply
    }

    #[test]
    fn dnssec_records_are_for_those_who_ask_and_letters_stay() {
        let all = reply(1);
        assert!(is_signed(&all, 9) && !is_signed(&all, 1));
        let whole = pass_on(&all, &[], true, true, 9).unwrap();
        assert_eq!(whole, all, "byte for byte");
        let stripped = pass_on(&all, &[], false, false, 9).unwrap();
        assert_eq!(
            changes(&all, &stripped),
            [3, SIGNATURE_AT + 3],
            "AD, and the type of the signature"
        );
        assert!(!is_signed(&stripped, 9));
        let asked_for = pass_on(&reply(46), &[], false, false, 9).unwrap();
        assert_eq!(changes(&reply(46), &asked_for), [3]);
    }

    #[test]
    fn what_is_not_kept_has_no_type() {
        let all = reply(1);
        let some = pass_on(&all, &[true, true, false], true, true, 9).unwrap();
        assert_eq!(changes(&all, &some), [SIGNATURE_AT + 35]);
        assert!(pass_on(&all, &[true], true, true, 2).is_none(), "more records than are looked at");
        for end in 0..all.len() {
            assert!(pass_on(&all[..end], &[true], true, false, 9).is_none());
        }
    }

    /// Where two messages of one length differ.
    fn changes(one: &[u8], other: &[u8]) -> Vec<usize> {
        assert_eq!(one.len(), other.len());
        (0..one.len()).filter(|at| one[*at] != other[*at]).collect()
    }
}
