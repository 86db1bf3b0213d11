//! The data of LOC records (RFC 1876).

use super::Problem;
use super::fields::DataWords;
use super::number::decimal;

/// What is meant where nothing is written: 1 m, 10,000 m and 10 m, as a digit and a power of ten of centimetres.
const DEFAULT_SIZES: [u8; 3] = [0x12, 0x16, 0x13];

/// The equator and the prime meridian.
const MIDDLE: u32 = 1 << 31;

/// Altitudes are counted in centimetres from 100,000 m below the reference spheroid.
const LOWEST: i64 = -10_000_000;

/// The largest size, in centimetres.
const MAX_SIZE: i64 = 9_000_000_000;

/// Takes latitude, longitude, altitude, and up to three sizes.
pub(super) fn put_location(
    out: &mut Vec<u8>,
    words: &mut DataWords<'_, '_>,
) -> Result<(), Problem> {
    let latitude = angle(words, 90, ["N", "S"])?;
    let longitude = angle(words, 180, ["E", "W"])?;
    let what = "an altitude in metres, -100000.00m to 42849672.95m";
    let altitude =
        words.take_as(what, |text| u32::try_from(centimetres(text)?.checked_sub(LOWEST)?).ok())?;
    let mut sizes = DEFAULT_SIZES;
    for size in &mut sizes {
        if words.len() > 0 {
            let what = "a size in metres, 0m to 90000000m";
            *size = words.take_as(what, |text| {
                let size = centimetres(text)?;
                (0..=MAX_SIZE).contains(&size).then(|| power_of_ten(size))
            })?;
        }
    }
    out.push(0);
    out.extend(sizes);
    out.extend([latitude, longitude, altitude].into_iter().flat_map(u32::to_be_bytes));
    Ok(())
}

/// Takes degrees, perhaps minutes and seconds, and one of two directions. The first is the positive one.
fn angle(words: &mut DataWords<'_, '_>, max: u32, ends: [&str; 2]) -> Result<u32, Problem> {
    const SECOND: u32 = 1_000;
    let degrees_what = format!("degrees, 0 to {max}");
    let degrees =
        words.take_as(&degrees_what, |text| decimal::<u32>(text).filter(|n| *n <= max))?;
    let mut thousandths = degrees * 3_600 * SECOND;
    let direction = |word: &super::words::Word<'_>| ends.iter().position(|end| word.is(end));
    let mut found = None;
    let mut at_end = |words: &mut DataWords<'_, '_>| {
        found = words.take_if(|word| direction(word).is_some()).and_then(direction);
        found.is_some()
    };
    if !at_end(words) {
        let minutes =
            words.take_as("minutes, 0 to 59", |text| decimal::<u32>(text).filter(|n| *n < 60))?;
        thousandths += minutes * 60 * SECOND;
        if !at_end(words) {
            thousandths += words.take_as("seconds, 0 to 59.999", |text| {
                u32::try_from(fixed(text, 3)?).ok().filter(|n| *n < 60 * SECOND)
            })?;
            let what = format!("{} or {}", ends[0], ends[1]);
            at_end(words);
            if found.is_none() {
                return Err(match words.take(&what) {
                    Ok(word) => super::fields::wrong(word, &what),
                    Err(missing) => missing,
                });
            }
        }
    }
    if thousandths > max * 3_600 * SECOND {
        return Err(format!("an angle is more than {max} degrees"));
    }
    Ok(if found == Some(0) { MIDDLE + thousandths } else { MIDDLE - thousandths })
}

/// Metres with up to two decimals and perhaps an `m` behind them.
fn centimetres(text: &str) -> Option<i64> {
    let text = text.strip_suffix(['m', 'M']).unwrap_or(text);
    match text.strip_prefix('-') {
        Some(text) => Some(-fixed(text, 2)?),
        None => fixed(text.strip_prefix('+').unwrap_or(text), 2),
    }
}

/// A number with up to so many decimals, times ten to their number.
fn fixed(text: &str, decimals: usize) -> Option<i64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.len() > decimals || whole.len() > 10 {
        return None;
    }
    decimal(&format!("{whole}{part:0<decimals$}"))
}

/// A digit and a power of ten (RFC 1876 section 2), rounded down.
fn power_of_ten(mut size: i64) -> u8 {
    let mut power = 0;
    while size > 9 {
        (size, power) = (size / 10, power + 1);
    }
    u8::try_from(size).unwrap_or(9) << 4 | power
}

/// Whether bytes are a size: a digit and a power of ten.
pub(super) fn is_size(byte: u8) -> bool {
    byte >> 4 < 10 && byte & 0xf < 10
}
