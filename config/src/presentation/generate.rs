//! `$GENERATE` of BIND: one line for many records that differ by a number.

use super::Problem;
use super::data::read_data;
use super::directive::GenerateWords;
use super::head::{RecordHead, ZoneRecord, of_type};
use super::number::decimal;
use super::text::put_name;
use super::words::{Word, ZoneFileEntries, shown};
use crate::narrow::{low_u8, low_u32};

/// Records that one directive makes, at most: those of a reverse zone of 65,536 addresses, sixteen times.
const MAX_RECORDS: u32 = 1 << 20;

/// The longest text of owner and data before numbers stand in it, and after.
const MAX_TEMPLATE: usize = 2048;
const MAX_TEXT: usize = 8192;

/// The most digits of a number.
const MAX_WIDTH: usize = 63;

/// The records of a `$GENERATE` that are still to be made.
pub(super) struct Generate {
    owner: Vec<Piece>,
    data: Vec<Piece>,
    ttl: u32,
    rtype: u16,
    next: Option<u32>,
    last: u32,
    step: u32,
}

/// A part of a template.
enum Piece {
    Text(Vec<u8>),
    Number(Number),
}

/// Where a number stands: `$`, or `${offset,width,base}`.
struct Number {
    offset: i64,
    width: usize,
    base: Base,
}

/// How a number is written.
#[derive(Clone, Copy)]
enum Base {
    Decimal,
    Octal,
    Hex,
    UpperHex,
    /// Hexadecimal digits from the lowest on, with dots between them, as in ip6.arpa.
    Nibbles,
    UpperNibbles,
}

impl Generate {
    pub(super) fn new(
        words: &GenerateWords<'_, '_>,
        head: &RecordHead<'_, '_>,
        ttl: u32,
    ) -> Result<Self, Problem> {
        let (first, last, step) = range(words.range)?;
        let data = match head.data {
            [one] if one.is_quoted => unquoted(one.text),
            words => joined(words),
        };
        if words.owner.text.len() > MAX_TEMPLATE || data.len() > MAX_TEMPLATE {
            return Err(format!("owner and data of $GENERATE have at most {MAX_TEMPLATE} bytes"));
        }
        let (owner, data) = (pieces(words.owner.text)?, pieces(&data)?);
        Ok(Self { owner, data, ttl, rtype: head.rtype, next: Some(first), last, step })
    }

    /// The next record.
    pub(super) fn next(&mut self, origin: &[u8]) -> Result<Option<ZoneRecord>, Problem> {
        let Some(number) = self.next.filter(|next| *next <= self.last) else { return Ok(None) };
        self.next = number.checked_add(self.step);
        let owner = filled(&self.owner, number)?;
        let owner = Word { text: &owner, is_quoted: false, is_joined: false, line: 0 };
        let mut name = Vec::new();
        put_name(&mut name, &owner, Some(origin))?;
        name.make_ascii_lowercase();
        let text = filled(&self.data, number)?;
        let mut entries = ZoneFileEntries::new(&text);
        let entry = entries.next().map_err(|(_, problem)| problem)?;
        let words = entry.map(|entry| entry.words().to_vec()).unwrap_or_default();
        let data = read_data(self.rtype, &words, Some(origin))
            .map_err(|(_, problem)| of_type(self.rtype, &problem))?;
        let (ttl, rtype) = (self.ttl, self.rtype);
        Ok(Some(ZoneRecord { name, rtype, ttl, data }))
    }
}

/// `first-last` or `first-last/step`.
fn range(word: &Word<'_>) -> Result<(u32, u32, u32), Problem> {
    let read = |text: &str| {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, decimal::<u32>(step).filter(|step| *step > 0)?),
            None => (text, 1),
        };
        let (first, last) = range.split_once('-')?;
        let (first, last): (u32, u32) = (decimal(first)?, decimal(last)?);
        let is_range = first <= last && last <= i32::MAX.unsigned_abs();
        is_range.then_some((first, last, step))
    };
    let found = std::str::from_utf8(word.text).ok().and_then(read);
    let (first, last, step) =
        found.ok_or_else(|| format!("{} is not a range like 1-254 or 0-254/2", word.shown()))?;
    match (last - first) / step >= MAX_RECORDS {
        true => {
            Err(format!("$GENERATE makes at most {MAX_RECORDS} records; write a shorter range"))
        }
        false => Ok((first, last, step)),
    }
}

/// A quoted text is the data, and not quoted there. So its `\"` are quotes.
fn unquoted(text: &[u8]) -> Vec<u8> {
    let mut data = Vec::with_capacity(text.len());
    let mut rest = text;
    loop {
        rest = match rest {
            [b'\\', b'"', after @ ..] => {
                data.push(b'"');
                after
            }
            [b'\\', escaped, after @ ..] => {
                data.extend([b'\\', *escaped]);
                after
            }
            [byte, after @ ..] => {
                data.push(*byte);
                after
            }
            [] => return data,
        };
    }
}

/// Words as they stood in the text.
fn joined(words: &[Word<'_>]) -> Vec<u8> {
    let mut text = Vec::new();
    for word in words {
        if !text.is_empty() && !word.is_joined {
            text.push(b' ');
        }
        let quote: &[u8] = if word.is_quoted { b"\"" } else { b"" };
        text.extend([quote, word.text, quote].concat());
    }
    text
}

/// A template, taken apart at each number. `$$` is a dollar sign, as is `\$`.
fn pieces(template: &[u8]) -> Result<Vec<Piece>, Problem> {
    let mut pieces = Vec::new();
    let mut text = Vec::new();
    let mut rest = template;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'$', [b'$', after @ ..]) => {
                text.push(b'$');
                rest = after;
            }
            (b'$', [b'{', ..]) => {
                let end = after.iter().position(|byte| *byte == b'}');
                let inside = end.and_then(|end| std::str::from_utf8(after.get(1..end)?).ok());
                let number = inside.and_then(number).ok_or_else(|| {
                    let text = shown(&[b"$", after.get(..20).unwrap_or(after)].concat());
                    format!("{text} is not a number like ${{0}}, ${{0,3}} or ${{0,2,x}}, with d, o, x, X, n or N")
                })?;
                pieces.push(Piece::Text(std::mem::take(&mut text)));
                pieces.push(Piece::Number(number));
                rest = end.and_then(|end| after.get(end + 1..)).unwrap_or_default();
            }
            (b'$', _) => {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
                pieces.push(Piece::Number(Number { offset: 0, width: 0, base: Base::Decimal }));
            }
            (b'\\', [escaped, after @ ..]) => {
                text.extend([b'\\', *escaped]);
                rest = after;
            }
            (byte, _) => text.push(*byte),
        }
    }
    pieces.push(Piece::Text(text));
    Ok(pieces)
}

/// `offset`, `offset,width` or `offset,width,base`.
fn number(text: &str) -> Option<Number> {
    let mut parts = text.split(',');
    let offset: i64 = i64::from(parts.next()?.trim().parse::<i32>().ok()?);
    let width = parts.next().map_or(Some(0), |width| {
        decimal::<usize>(width.trim()).filter(|width| *width <= MAX_WIDTH)
    })?;
    let base = match parts.next().map(str::trim) {
        None | Some("d") => Base::Decimal,
        Some("o") => Base::Octal,
        Some("x") => Base::Hex,
        Some("X") => Base::UpperHex,
        Some("n") => Base::Nibbles,
        Some("N") => Base::UpperNibbles,
        Some(_) => return None,
    };
    parts.next().is_none().then_some(Number { offset, width, base })
}

/// The text of a template for one number.
fn filled(pieces: &[Piece], number: u32) -> Result<Vec<u8>, Problem> {
    let mut text = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(part) => text.extend(part),
            Piece::Number(form) => text.extend(form.write(number).into_bytes()),
        }
        if text.len() > MAX_TEXT {
            return Err(format!(
                "owner and data that $GENERATE makes have at most {MAX_TEXT} bytes"
            ));
        }
    }
    Ok(text)
}

impl Number {
    fn write(&self, number: u32) -> String {
        let (number, width) = (i64::from(number) + self.offset, self.width);
        // Digits of a number below 0 are those of its 32 bits, as BIND writes them.
        let bits =
            u64::try_from(number).unwrap_or_else(|_| u64::from(low_u32(number.cast_unsigned())));
        match self.base {
            Base::Decimal => format!("{number:0width$}"),
            Base::Octal => format!("{bits:0width$o}"),
            Base::Hex => format!("{bits:0width$x}"),
            Base::UpperHex => format!("{bits:0width$X}"),
            Base::Nibbles => nibbles(bits, width),
            Base::UpperNibbles => nibbles(bits, width).to_ascii_uppercase(),
        }
    }
}

/// Digits from the lowest on, with dots between them. The width counts the dots as well.
fn nibbles(mut number: u64, mut width: usize) -> String {
    let mut text = String::new();
    loop {
        text.push(char::from_digit(u32::from(low_u8(number & 0xf)), 16).unwrap_or('0'));
        (number, width) = (number >> 4, width.saturating_sub(1));
        if number == 0 && width == 0 {
            return text;
        }
        text.push('.');
        width = width.saturating_sub(1);
        if number == 0 && width == 0 {
            return text;
        }
    }
}
