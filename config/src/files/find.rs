//! Which line of a block list or policy zone decides about a name: for people who ask why it is blocked.

use std::io::{BufReader, Read as _};
use std::path::Path;

use super::list::lines_from;
use super::list_line::Scope;
use super::zone::{bytes_of, each_record};
use super::{FileError, open};
use crate::limits::MAX_LIST_BYTES;
use crate::settings::ListFormat;

/// The type that a zone's apex has (RFC 1035 section 3.2.2).
const SOA: u16 = 6;

/// Finds the rule of a list that decides about `name`, which is in wire format and lower case, and its line. An exception
/// comes before all others of its importance, then the longest listed name, then the rule for the name alone.
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
        let (scope, is_important) = (listed.scope, listed.is_important);
        let found = FoundRule { line, scope, is_important, name: listed.name.into() };
        if found.is_about(name) && best.as_ref().is_none_or(|best| found.rank() > best.rank()) {
            best = Some(found);
        }
        true
    })?;
    Ok(best)
}

/// Finds the rule of a policy zone about a query name in wire format and lower case. It is that of the name itself, or
/// else of the longest wildcard above it. The line is the last one of the rule's first record.
///
/// # Errors
///
/// As [`read_zone`](super::read_zone).
pub fn find_in_policy_zone(
    path: &Path,
    origin: Option<&str>,
    name: &[u8],
) -> Result<Option<FoundRule>, FileError> {
    let bytes = bytes_of(path)?;
    let mut apex: Option<Box<[u8]>> = None;
    let mut best: Option<FoundRule> = None;
    each_record(&bytes, path, origin, |record, line| {
        if record.rtype == SOA {
            apex.get_or_insert(record.name);
            return;
        }
        let owner = apex.as_ref().and_then(|apex| above(&record.name, apex));
        let Some((scope, owner)) = owner.map(|owner| match owner.strip_prefix(b"\x01*") {
            Some(parent) => (Scope::Below, parent),
            None => (Scope::Exact, owner),
        }) else {
            return;
        };
        let rule = [owner, &[0]].concat().into();
        let found = FoundRule { line: 0, scope, is_important: false, name: rule };
        // A wildcard stands for the names below its parent only.
        let is_about =
            found.is_about(name) && (scope == Scope::Exact || found.name.len() < name.len());
        if is_about && best.as_ref().is_none_or(|best| found.rank() > best.rank()) {
            best = Some(FoundRule { line, ..found });
        }
    })?;
    Ok(best)
}

/// The labels of a name without those of its zone's apex.
fn above<'n>(name: &'n [u8], apex: &[u8]) -> Option<&'n [u8]> {
    is_below(name, apex).then(|| &name[..name.len() - apex.len()])
}

/// A rule of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRule {
    /// Its line.
    pub line: u64,
    /// Its scope.
    pub scope: Scope,
    /// Whether it comes before all that is not.
    pub is_important: bool,
    /// The listed name.
    pub name: Box<[u8]>,
}

impl FoundRule {
    /// Whether it says anything of `name`.
    fn is_about(&self, name: &[u8]) -> bool {
        match self.scope {
            Scope::Exact | Scope::ExceptExact => *self.name == *name,
            Scope::Below | Scope::Except => is_below(name, &self.name),
        }
    }

    /// Of two rules that say something of a name, the one of the higher rank decides. Of equal ones the first does.
    pub fn rank(&self) -> impl Ord + use<> {
        let is_exact = !self.scope.is_about_names_below();
        (self.is_important, self.scope.is_exception(), self.name.len(), is_exact)
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
        let lines = "# ads\nexample.\nads.example\n0.0.0.0 x.ads.example\nx.ads.example\n@@||good.example^\nbadexample";
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

    #[test]
    fn the_rule_of_a_policy_zone_is_found_with_its_line() {
        let file = std::env::temp_dir().join(format!("pmdns-find-zone-{}", std::process::id()));
        let lines = "$ORIGIN rpz.example.
$TTL 60
@ SOA ns.example. admin.example. (1 2
  3 4 5)
@ NS ns.example.
ads.example CNAME .
*.ads.example CNAME .
x.ads.example A 192.0.2.1
32.1.2.0.192.rpz-client-ip CNAME .
ads.example TXT \"more\"
";
        std::fs::write(&file, lines).unwrap();
        let find = |name: &str| {
            let found = find_in_policy_zone(&file, None, &wire_name(name).unwrap()).unwrap();
            found.map(|rule| (rule.line, rule.scope))
        };
        assert_eq!(find("ads.example"), Some((6, Scope::Exact)));
        assert_eq!(find("y.ads.example"), Some((7, Scope::Below)));
        assert_eq!(find("x.ads.example"), Some((8, Scope::Exact)));
        assert_eq!(find("z.x.ads.example"), Some((7, Scope::Below)));
        assert_eq!(find("example"), None);
        assert_eq!(find("ads.example.rpz.example"), None, "names in rules are relative");
        std::fs::remove_file(&file).unwrap();
    }
}
