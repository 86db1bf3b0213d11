//! Which line of a block list decides about a name: for people who ask why it is blocked.

use std::io::{BufReader, Read as _};
use std::path::Path;

use super::list::{Scope, lines_from};
use super::{FileError, open};
use crate::limits::MAX_LIST_BYTES;
use crate::settings::ListFormat;

/// Finds the rule of a list that decides about `name`, which is in wire format and lower case, and its line. An exception
/// comes before all others, then the longest listed name, then the rule for the name alone.
///
/// # Errors
///
/// As [`read_list`](super::read_list).
pub fn find_in_list(
    path: &Path,
    format: ListFormat,
    name: &[u8],
) -> Result<Option<FoundRule>, FileError> {
    let reader = BufReader::with_capacity(1 << 16, open(path)?.take(MAX_LIST_BYTES));
    let mut best: Option<FoundRule> = None;
    lines_from(reader, path, format, |line, listed| {
        let found = FoundRule { line, scope: listed.scope, name: listed.name.into() };
        if found.is_about(name) && best.as_ref().is_none_or(|best| found.rank() > best.rank()) {
            best = Some(found);
        }
        true
    })?;
    Ok(best)
}

/// A rule of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRule {
    /// Its line.
    pub line: u64,
    /// What it says of the name.
    pub scope: Scope,
    /// The listed name.
    pub name: Box<[u8]>,
}

impl FoundRule {
    /// Whether it says anything of `name`.
    fn is_about(&self, name: &[u8]) -> bool {
        match self.scope {
            Scope::Exact => *self.name == *name,
            Scope::Below | Scope::Except => is_below(name, &self.name),
        }
    }

    /// Of two rules that say something of a name, the one of the higher rank decides. Of equal ones the first does.
    pub fn rank(&self) -> impl Ord + use<> {
        (self.scope == Scope::Except, self.name.len(), self.scope == Scope::Exact)
    }
}

/// Whether a name in wire format is this other one or below it.
fn is_below(mut name: &[u8], other: &[u8]) -> bool {
    while name.len() > other.len() {
        let Some(rest) = name.first().and_then(|len| name.get(1 + usize::from(*len)..)) else {
            return false;
        };
        name = rest;
    }
    name == other
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::wire_name;

    #[test]
    fn the_rule_that_decides_is_found_with_its_line() {
        let file = std::env::temp_dir().join(format!("pmdns-find-{}", std::process::id()));
        let lines = "# ads\nexample\nads.example\n0.0.0.0 x.ads.example\nx.ads.example\n@@||good.example^\nbadexample";
        std::fs::write(&file, lines).unwrap();
        let find = |name: &str| {
            let found = find_in_list(&file, ListFormat::Auto, &wire_name(name).unwrap()).unwrap();
            found.map(|rule| (rule.line, rule.scope))
        };
        assert_eq!(find("ads.example"), Some((3, Scope::Below)));
        assert_eq!(find("y.ads.example"), Some((3, Scope::Below)));
        assert_eq!(find("x.ads.example"), Some((4, Scope::Exact)), "for the name alone");
        assert_eq!(find("z.x.ads.example"), Some((5, Scope::Below)));
        assert_eq!(find("a.good.example"), Some((6, Scope::Except)));
        assert_eq!(find("b.example"), Some((2, Scope::Below)));
        assert_eq!(find("org"), None);
        assert_eq!(find("."), None);
        std::fs::remove_file(&file).unwrap();
    }
}
