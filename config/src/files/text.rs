//! Prepares the text of a zone file for the scanner (domain 0.12.3). The scanner does not know times with units, so they are
//! converted to seconds. It panics at some unclosed brackets and quotes, so these are refused.

/// What is wrong with a line, by its number.
type Mistake = (u64, &'static str);

/// The text as the scanner takes it, line for line. `$TTL`, the TTLs of records and the times of SOA records may have
/// units, as in `1h30m`, which BIND began with.
pub(super) fn prepare(bytes: &[u8]) -> Result<Vec<u8>, Mistake> {
    let mut text = Text { out: Vec::with_capacity(bytes.len()), ..Text::default() };
    let mut rest = bytes;
    while let Some(byte) = rest.first() {
        let len = match byte {
            b'\n' => text.end_line(),
            b' ' | b'\t' | b'\r' => text.skip_blank(),
            b';' => rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
            b'(' => text.open()?,
            b')' => text.close()?,
            b'"' => text.quoted(rest)?,
            _ => {
                let len = text.word_len(rest)?;
                let place = text.place;
                text.place = place.after(&rest[..len]);
                if place.is_time()
                    && let Some(seconds) = seconds(&rest[..len])
                {
                    text.out.extend(seconds.to_string().into_bytes());
                    rest = &rest[len..];
                    continue;
                }
                len
            }
        };
        text.out.extend(&rest[..len]);
        rest = &rest[len..];
        // The scanner panics at a word that begins where a quoted text ends.
        if *byte == b'"' && rest.first().is_some_and(|byte| !ends_word(*byte)) {
            text.out.push(b' ');
        }
    }
    match text.opened_at {
        Some(line) => Err((line, "a parenthesis is opened here and never closed")),
        None => Ok(text.out),
    }
}

/// How far a text has been read.
#[derive(Default)]
struct Text {
    out: Vec<u8>,
    /// Lines that have ended.
    ended: u64,
    /// The line of the parenthesis that is open.
    opened_at: Option<u64>,
    place: WordRole,
}

impl Text {
    fn line(&self) -> u64 {
        self.ended + 1
    }

    fn end_line(&mut self) -> usize {
        self.ended += 1;
        if self.opened_at.is_none() {
            self.place = WordRole::Owner;
        }
        1
    }

    fn skip_blank(&mut self) -> usize {
        // A line that begins with a blank has the owner of the one before.
        if self.place == WordRole::Owner {
            self.place = WordRole::BeforeType;
        }
        1
    }

    fn open(&mut self) -> Result<usize, Mistake> {
        match self.opened_at.replace(self.line()) {
            Some(_) => Err((self.line(), "a parenthesis opens inside another one")),
            None => Ok(1),
        }
    }

    fn close(&mut self) -> Result<usize, Mistake> {
        match self.opened_at.take() {
            Some(_) => Ok(1),
            None => Err((self.line(), "a parenthesis is closed that was not opened")),
        }
    }

    /// The length of the quoted text that `rest` begins with, quotes included.
    fn quoted(&mut self, rest: &[u8]) -> Result<usize, Mistake> {
        self.place = WordRole::Rest;
        let mut len = 1;
        loop {
            len += match rest.get(len) {
                Some(b'"') => return Ok(len + 1),
                Some(b'\n') => {
                    return Err((self.line(), "a double quote is not closed on its line"));
                }
                Some(_) => self.character_len(&rest[len..])?,
                None => return Err((self.line(), "a double quote is not closed")),
            };
        }
    }

    /// The length of the word that `rest` begins with.
    fn word_len(&self, rest: &[u8]) -> Result<usize, Mistake> {
        let mut len = 0;
        while let Some(byte) = rest.get(len)
            && !ends_word(*byte)
        {
            len += self.character_len(&rest[len..])?;
        }
        Ok(len)
    }

    /// The length of a character, which may be an escape.
    fn character_len(&self, rest: &[u8]) -> Result<usize, Mistake> {
        match rest {
            [b'\\', b'\n', ..] | [b'\\'] => {
                Err((self.line(), "the line ends in the middle of an escape"))
            }
            [b'\\', ..] => Ok(2),
            _ => Ok(1),
        }
    }
}

/// Whether a word is over before this character, unless it is escaped.
fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b';' | b'(' | b')' | b'"')
}

/// Where in an entry a word stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WordRole {
    /// At its start: the owner, or a directive.
    #[default]
    Owner,
    /// Behind `$TTL`.
    DefaultTtl,
    /// Where TTL, class and type may stand.
    BeforeType,
    /// In the data of an SOA record, behind so many words of it.
    Soa(u8),
    /// Where no time stands.
    Rest,
}

impl WordRole {
    /// Whether a word here may be a time.
    fn is_time(self) -> bool {
        matches!(self, Self::DefaultTtl | Self::BeforeType | Self::Soa(3..=6))
    }

    /// Where the next word stands.
    fn after(self, word: &[u8]) -> Self {
        let is = |other: &str| word.eq_ignore_ascii_case(other.as_bytes());
        match self {
            Self::Owner if is("$TTL") => Self::DefaultTtl,
            Self::Owner if word.starts_with(b"$") => Self::Rest,
            Self::Owner => Self::BeforeType,
            Self::BeforeType if is("SOA") => Self::Soa(0),
            Self::BeforeType if is("IN") || word[0].is_ascii_digit() => Self::BeforeType,
            Self::Soa(words @ 0..=5) => Self::Soa(words + 1),
            Self::DefaultTtl | Self::BeforeType | Self::Soa(_) | Self::Rest => Self::Rest,
        }
    }
}

/// The seconds of a time with units: numbers, each with one of `w`, `d`, `h`, `m` and `s` behind it. `None`: it is
/// something else, or more than 32 bits.
fn seconds(word: &[u8]) -> Option<u32> {
    let (mut sum, mut number) = (0_u32, None);
    for byte in word {
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
    number.is_none().then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(text: &str) -> String {
        String::from_utf8(prepare(text.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn units_are_written_out() {
        for (word, expected) in [
            ("0s", Some(0)),
            ("90m", Some(5_400)),
            ("1h30m", Some(5_400)),
            ("1W2D3H4M5S", Some(604_800 + 2 * 86_400 + 3 * 3_600 + 4 * 60 + 5)),
            ("7101w", Some(4_294_684_800)),
            ("7102w", None),
            ("99999999999s", None),
            ("1h30", None),
            ("h", None),
            ("1hh", None),
            ("1y", None),
            ("-1h", None),
        ] {
            assert_eq!(seconds(word.as_bytes()), expected, "{word}");
        }
    }

    #[test]
    fn a_word_behind_a_quoted_text_is_another_one() {
        assert_eq!(prepared("a TXT \"x\"y\"z\" w\n"), "a TXT \"x\" y\"z\" w\n");
    }

    #[test]
    fn times_are_where_times_stand_and_nowhere_else() {
        assert_eq!(prepared("$TTL 1h\n$ttl 1D ; 1D\n"), "$TTL 3600\n$ttl 86400 ; 1D\n");
        assert_eq!(prepared("1h 1h IN A 192.0.2.1\n"), "1h 3600 IN A 192.0.2.1\n");
        assert_eq!(
            prepared("a IN 1h A 192.0.2.1\n\t2m A x\n"),
            "a IN 3600 A 192.0.2.1\n\t120 A x\n"
        );
        assert_eq!(prepared("a 60 CNAME 1h\n"), "a 60 CNAME 1h\n");
        assert_eq!(
            prepared("a TXT 1h 1h \"1h\"\n$ORIGIN 1h\n"),
            "a TXT 1h 1h \"1h\"\n$ORIGIN 1h\n"
        );
        assert_eq!(
            prepared("@ 1d IN SOA 1h 2h ( 3\n 4h ; 5h\n 5m 6W\n 7d ) 1h\n"),
            "@ 86400 IN SOA 1h 2h ( 3\n 14400 ; 5h\n 300 3628800\n 604800 ) 1h\n"
        );
        assert_eq!(prepared("a\\ 1h 1h A x"), "a\\ 1h 3600 A x");
    }
}
