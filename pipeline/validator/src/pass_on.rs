//! Which records of a judged reply clients get, and other checks beside the verdict.

use crate::message::{be16, copy_data, rtype};
use crate::name::{self, Form};

/// AD in the second octet of flags.
const AD: u8 = 0x20;
/// The longest message.
const MAX_MESSAGE: usize = 65_535;
/// Offsets that a pointer reaches.
const MAX_OFFSET: u16 = 0x3fff;

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

/// The reply as clients get it: with AD or without, and without the records that `keep` does not name ([`crate::Judgement::keep`]).
/// DNSSEC records are left out unless they were asked for (RFC 4035 sections 3.2.1 and 3.2.3). `None`: it is malformed, or
/// too long.
#[must_use]
pub fn pass_on(
    reply: &[u8],
    keep: &[bool],
    is_secure: bool,
    dnssec_ok: bool,
    limit: usize,
) -> Option<Vec<u8>> {
    let mut target = reply.get(..skip_questions(reply)?)?.to_vec();
    target[3] = if is_secure { target[3] | AD } else { target[3] & !AD };
    if keep.is_empty() && dnssec_ok {
        target.extend_from_slice(&reply[target.len()..]);
        return Some(target);
    }
    // There is one question.
    let qtype = be16(reply, target.len().checked_sub(4)?)?;
    let (mut at, mut number) = (target.len(), 0);
    let mut before = (Vec::new(), 0);
    for count_at in [6, 8, 10] {
        let mut kept = 0u16;
        for _ in 0..be16(reply, count_at)? {
            let (end, rtype) = extent(reply, at)?;
            let is_wanted = dnssec_ok
                || rtype == qtype
                || ![rtype::RRSIG, rtype::NSEC, rtype::NSEC3].contains(&rtype);
            if number >= limit {
                return None;
            }
            if is_wanted && keep.get(number).copied().unwrap_or(true) {
                copy(reply, at, end, &mut target, &mut before)?;
                kept += 1;
            }
            (at, number) = (end, number + 1);
        }
        target[count_at..count_at + 2].copy_from_slice(&kept.to_be_bytes());
    }
    (target.len() <= MAX_MESSAGE).then_some(target)
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

/// Where the record at `at` ends, and its type.
fn extent(reply: &[u8], at: usize) -> Option<(usize, u16)> {
    let fixed = skip_name(reply, at)?;
    let end = fixed + 10 + usize::from(be16(reply, fixed + 8)?);
    (end <= reply.len()).then_some((end, be16(reply, fixed)?))
}

/// Copies a record. An owner that was written `before`, at an offset, is not written again.
fn copy(
    reply: &[u8],
    at: usize,
    end: usize,
    target: &mut Vec<u8>,
    before: &mut (Vec<u8>, usize),
) -> Option<()> {
    let mut owner = Vec::new();
    let fixed = name::read(reply, at, Form::Kept, &mut owner)?;
    if before.0 == owner
        && let Ok(offset @ ..=MAX_OFFSET) = u16::try_from(before.1)
    {
        target.extend((0xc000 | offset).to_be_bytes());
    } else {
        *before = (owner, target.len());
        target.extend_from_slice(&before.0);
    }
    target.extend_from_slice(reply.get(fixed..fixed + 8)?);
    let length_at = target.len();
    target.extend([0, 0]);
    copy_data(reply.get(..end)?, fixed + 10, be16(reply, fixed)?, target)?;
    let length = u16::try_from(target.len() - length_at - 2).ok()?;
    target[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
    (target.len() <= MAX_MESSAGE).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!((stripped[3] & AD, &stripped[6..12]), (0, &[0, 1, 0, 0, 0, 1][..]));
        assert!(!is_signed(&stripped, 9));
        let answer = &stripped[29..];
        assert!(
            answer
                .starts_with(b"\x03WWW\x07Example\0\0\x05\0\x01\0\0\0\x3c\0\x0b\x01a\x07Example\0")
        );
        assert!(answer.ends_with(b"\xc0\x1d\0\x0f\0\x01\0\0\0\x3c\0\x0b\0\x05\x07Example\0"));
        let asked_for = pass_on(&reply(46), &[], false, false, 9).unwrap();
        assert!(is_signed(&asked_for, 9));
    }

    #[test]
    fn what_is_not_kept_is_left_out() {
        let all = reply(1);
        let some = pass_on(&all, &[true, true, false], true, true, 9).unwrap();
        assert_eq!((some[3] & AD, &some[6..12]), (AD, &[0, 2, 0, 0, 0, 0][..]));
        assert!(pass_on(&all, &[true], true, true, 2).is_none(), "more records than are looked at");
        for end in 0..all.len() {
            assert!(pass_on(&all[..end], &[true], true, false, 9).is_none());
        }
    }
}
