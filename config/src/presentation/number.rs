//! Numbers, times and encoded bytes in a record's data.

use domain::utils::{base16, base32, base64};

use super::Problem;
use super::fields::DataWords;
use crate::narrow::{low_u32, to_u8};

/// A number in decimal digits, and nothing else.
pub(super) fn decimal<T: std::str::FromStr>(text: &str) -> Option<T> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// A time in seconds, or with units: numbers, each with one of `w`, `d`, `h`, `m` and `s` behind it.
pub(super) fn seconds(text: &str) -> Option<u32> {
    decimal(text).or_else(|| with_units(text))
}

fn with_units(text: &str) -> Option<u32> {
    let (mut sum, mut number) = (0_u32, None);
    for byte in text.bytes() {
        let unit = match byte.to_ascii_lowercase() {
            digit @ b'0'..=b'9' => {
                let before: u32 = number.unwrap_or(0);
                number = Some(before.checked_mul(10)?.checked_add(u32::from(digit - b'0'))?);
                continue;
            }
            b's' => 1,
            b'm' => 60,
            b'h' => 3_600,
            b'd' => 86_400,
            b'w' => 604_800,
            _ => return None,
        };
        sum = sum.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    (number.is_none() && !text.is_empty()).then_some(sum)
}

/// A point in time (RFC 4034 section 3.2): `YYYYMMDDHHmmSS`, or seconds since 1970.
pub(super) fn stamp(text: &str) -> Option<u32> {
    if text.len() <= 10 {
        return decimal(text);
    }
    if text.len() != 14 {
        return None;
    }
    let part = |from: usize, to: usize| decimal::<u64>(text.get(from..to)?);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(8, 10)?, part(10, 12)?, part(12, 14)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let length = *lengths.get(usize::try_from(month.checked_sub(1)?).ok()?)?;
    // A leap second is a time too.
    if year < 1970 || !(1..=length).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    let days_of_years = (year - 1970) * 365 + leaps(year - 1) - leaps(1969);
    let months = lengths.iter().take(usize::try_from(month - 1).ok()?).sum::<u64>();
    let days = days_of_years + months + day - 1;
    // Serial arithmetic: the field is the time without its high bits.
    Some(low_u32(((days * 24 + hour) * 60 + minute) * 60 + second))
}

/// Takes all words that are left as hexadecimal digits.
pub(super) fn put_hex(out: &mut Vec<u8>, words: &mut DataWords<'_, '_>) -> Result<(), Problem> {
    let digits = words.take_joined()?;
    out.extend(hex(&digits).ok_or("there should be pairs of hexadecimal digits here")?);
    Ok(())
}

/// Bytes in hexadecimal digits; at least one.
pub(super) fn hex(text: &str) -> Option<Vec<u8>> {
    base16::decode_vec(text).ok().filter(|bytes| !bytes.is_empty())
}

/// Bytes in base64; at least one.
pub(super) fn base64(text: &str) -> Option<Vec<u8>> {
    base64::decode::<Vec<u8>>(text).ok().filter(|bytes| !bytes.is_empty())
}

/// Takes all words that are left as base64.
pub(super) fn put_base64(out: &mut Vec<u8>, words: &mut DataWords<'_, '_>) -> Result<(), Problem> {
    let text = words.take_joined()?;
    out.extend(base64(&text).ok_or("there should be base64 here, with its `=` at the end")?);
    Ok(())
}

/// Takes a salt with its length: hexadecimal digits, or `-` for none (RFC 5155 section 3.3).
pub(super) fn put_salt(out: &mut Vec<u8>, words: &mut DataWords<'_, '_>) -> Result<(), Problem> {
    let what = "a salt: up to 255 bytes in hexadecimal digits, or `-`";
    let salt = words.take_as(what, |text| match text {
        "-" => Some(Vec::new()),
        _ => hex(text).filter(|salt| salt.len() <= 255),
    })?;
    out.push(to_u8(salt.len()));
    out.extend(salt);
    Ok(())
}

/// Takes a hashed name with its length, in base32 with extended hex alphabet (RFC 5155 section 3.3).
pub(super) fn put_hash(out: &mut Vec<u8>, words: &mut DataWords<'_, '_>) -> Result<(), Problem> {
    let read = |text: &str| base32::decode_hex::<Vec<u8>>(text).ok();
    let hash = words.take_as("a hashed name in base32hex", |text| {
        read(text).filter(|hash| (1..=255).contains(&hash.len()))
    })?;
    out.push(to_u8(hash.len()));
    out.extend(hash);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_may_have_units() {
        for (word, expected) in [
            ("0s", Some(0)),
            ("90m", Some(5_400)),
            ("1h30m", Some(5_400)),
            ("1W2D3H4M5S", Some(604_800 + 2 * 86_400 + 3 * 3_600 + 4 * 60 + 5)),
            ("7101w", Some(4_294_684_800)),
            ("4294967295", Some(u32::MAX)),
            ("4294967296", None),
            ("7102w", None),
            ("99999999999s", None),
            ("1h30", None),
            ("h", None),
            ("1hh", None),
            ("1y", None),
            ("-1h", None),
            ("+1", None),
            ("", None),
        ] {
            assert_eq!(seconds(word), expected, "{word}");
        }
    }

    #[test]
    fn points_in_time_are_counted_from_1970() {
        for (text, expected) in [
            ("19700101000000", Some(0)),
            ("20000229120000", Some(951_825_600)),
            ("20241231235959", Some(1_735_689_599)),
            // Behind the year 2106 the field starts anew.
            ("21060207062816", Some(0)),
            ("1735689599", Some(1_735_689_599)),
            ("20230229000000", None),
            ("20241301000000", None),
            ("20240100000000", None),
            ("20240101240000", None),
            ("2024010100000", None),
            ("4294967296", None),
        ] {
            assert_eq!(stamp(text), expected, "{text}");
        }
    }
}
