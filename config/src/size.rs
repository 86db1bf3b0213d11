//! Byte sizes as people write them: `"64MiB"`, `"2GiB"`.

use std::fmt;
use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub usize);

impl ByteSize {
    /// `n` times 2^20 bytes.
    pub const fn mebibytes(n: usize) -> Self {
        Self(n << 20)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> usize {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let shift = match text[digits.len()..].trim() {
            "B" => 0,
            "KiB" => 10,
            "MiB" => 20,
            "GiB" => 30,
            _ => return Err(format!("`{text}` needs a unit: B, KiB, MiB or GiB, as in \"64MiB\"")),
        };
        let count: usize =
            digits.trim().parse().map_err(|_| format!("`{text}` is not a size like \"64MiB\""))?;
        count
            .checked_mul(1 << shift)
            .map(Self)
            .ok_or_else(|| format!("`{text}` is more than this machine can address"))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1 << 30 && n % (1 << 30) == 0 => write!(f, "{}GiB", n >> 30),
            n if n >= 1 << 20 && n % (1 << 20) == 0 => write!(f, "{}MiB", n >> 20),
            n if n >= 1 << 10 && n % (1 << 10) == 0 => write!(f, "{}KiB", n >> 10),
            n => write!(f, "{n}B"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_and_print_alike() {
        for text in ["1B", "3KiB", "64MiB", "2GiB"] {
            assert_eq!(text.parse::<ByteSize>().unwrap().to_string(), text);
        }
        assert!("64".parse::<ByteSize>().is_err());
        assert!("64MB".parse::<ByteSize>().is_err());
        assert!("99999999999GiB".parse::<ByteSize>().is_err());
    }
}
