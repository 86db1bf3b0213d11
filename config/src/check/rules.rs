//! Shared by the checks of all tables: mistakes, and rules of single values.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};

use crate::limits::{MAX_CORE, MAX_MISTAKES, MAX_NAME};
use crate::problem::BrokenRule;

/// A rule that is broken, and the path of the key that breaks it.
#[derive(Debug)]
pub(crate) struct Mistake {
    pub(crate) key: String,
    pub(crate) problem: BrokenRule,
}

/// The result of checking one rule.
pub(super) type Checked = Result<(), Mistake>;

/// The rules that are broken, as far as they will be told.
#[derive(Debug, Default)]
pub(super) struct Mistakes(pub(super) Vec<Mistake>);

impl Mistakes {
    /// Notes a mistake: of each key the first.
    pub(super) fn note(&mut self, checked: Checked) {
        if let Err(mistake) = checked
            && self.0.len() < MAX_MISTAKES
            && !self.0.iter().any(|other| other.key == mistake.key)
        {
            self.0.push(mistake);
        }
    }
}

/// An address and a port that can be listened at.
pub(super) fn listen(key: &str, listen: Option<SocketAddr>, fix: &'static str) -> Checked {
    match listen {
        Some(listen) if listen.port() == 0 => broken(key, BrokenRule::Empty(fix)),
        Some(listen) if listen.ip().is_multicast() => {
            broken(key, BrokenRule::NotUnicast(listen.ip()))
        }
        _ => Ok(()),
    }
}

/// CPU numbers that exist on some machine, each once.
pub(super) fn cores(key: &str, cores: &[usize], found: &mut Mistakes) {
    for (index, core) in cores.iter().enumerate() {
        found.note(in_range(&format!("{key}[{index}]"), *core, 0, MAX_CORE));
    }
}

/// A short name that the operator chose.
pub(super) fn plain_name(key: &str, name: &str) -> Checked {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_plain) {
        true => Ok(()),
        false => broken(key, BrokenRule::PlainName(name.to_owned())),
    }
}

pub(super) fn unicast(key: &str, address: IpAddr) -> Checked {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    if address.is_unspecified() || address.is_multicast() || broadcast {
        return broken(key, BrokenRule::NotUnicast(address));
    }
    Ok(())
}

pub(super) fn in_range<T: PartialOrd + Display>(key: &str, value: T, min: T, max: T) -> Checked {
    // Not a number is in no range.
    if !(&min..=&max).contains(&&value) {
        let (value, min, max) = (value.to_string(), min.to_string(), max.to_string());
        return broken(key, BrokenRule::OutOfRange { value, min, max });
    }
    Ok(())
}

pub(super) fn power_of_two(key: &str, value: u32, min: u32, max: u32) -> Checked {
    in_range(key, value, min, max)?;
    if !value.is_power_of_two() {
        // The bounds are powers of two themselves, so the next one is within them.
        let (value, nearest) = (value.into(), value.next_power_of_two().into());
        return broken(key, BrokenRule::NoPowerOfTwo { value, nearest });
    }
    Ok(())
}

pub(super) fn at_most(key: &str, what: &'static str, count: usize, max: usize) -> Checked {
    if count > max {
        return broken(key, BrokenRule::TooMany { count, what, max });
    }
    Ok(())
}

/// Whether no earlier entry is the `same` as that at `index`; `path` gives the path of an entry's key.
pub(super) fn unlike_earlier<T>(
    entries: &[T],
    index: usize,
    same: impl Fn(&T) -> bool,
    path: impl Fn(usize) -> String,
    value: impl Display,
    fix: &'static str,
) -> Checked {
    match entries[..index].iter().position(same) {
        Some(first) => {
            let (value, other) = (value.to_string(), path(first));
            broken(path(index), BrokenRule::Twice { value, other, fix })
        }
        None => Ok(()),
    }
}

/// Says that the key at the path `key` breaks a rule.
pub(super) fn broken(key: impl Into<String>, problem: BrokenRule) -> Checked {
    Err(Mistake { key: key.into(), problem })
}
