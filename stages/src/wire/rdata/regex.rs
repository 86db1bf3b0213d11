//! The substitution of a NAPTR record (RFC 3402 section 3.2): delimiter, expression, delimiter, replacement,
//! delimiter, flags.

/// Groups in an expression that a replacement can name.
const MAX_GROUPS: u8 = 9;

/// Whether `text` is a substitution, or nothing.
pub(super) fn is_substitution(text: &[u8]) -> bool {
    let Some((delimiter, rest)) = text.split_first() else { return true };
    if matches!(delimiter, b'0'..=b'9' | b'\\' | b'i' | 0) || rest.contains(&0) {
        return false;
    }
    let parts = split(*delimiter, rest);
    parts.is_some_and(|[expression, replacement, flags]| {
        let groups = groups(expression);
        groups.is_some_and(|groups| highest_reference(replacement).is_some_and(|one| one <= groups))
            && flags.iter().all(|flag| *flag == b'i')
    })
}

/// The texts between delimiters that no backslash precedes. `None`: there are not two more.
fn split(delimiter: u8, text: &[u8]) -> Option<[&[u8]; 3]> {
    let (expression, rest) = before(delimiter, text)?;
    let (replacement, flags) = before(delimiter, rest)?;
    Some([expression, replacement, flags])
}

fn before(delimiter: u8, text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    while *text.get(at)? != delimiter {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    Some((&text[..at], &text[at + 1..]))
}

/// The highest group that a replacement names; there is no group 0.
fn highest_reference(replacement: &[u8]) -> Option<u8> {
    let (mut at, mut highest) = (0, 0);
    while let Some(byte) = replacement.get(at) {
        if *byte == b'\\' {
            at += 1;
            match *replacement.get(at)? {
                b'0' => return None,
                digit @ b'1'..=b'9' => highest = highest.max(digit - b'0'),
                _ => {}
            }
        }
        at += 1;
    }
    Some(highest)
}

/// How many groups an extended regular expression has. `None`: brackets, braces or parentheses do not match, or
/// something is to be repeated that is not there.
fn groups(expression: &[u8]) -> Option<u8> {
    let (mut at, mut groups, mut open) = (0, 0_u8, 0_u8);
    // Whether there is something that could be repeated.
    let mut has_atom = false;
    while let Some(byte) = expression.get(at) {
        at += 1;
        match byte {
            b'\\' => {
                expression.get(at)?;
                at += 1;
                has_atom = true;
            }
            b'[' => {
                at = set_end(expression, at)?;
                has_atom = true;
            }
            b'(' => {
                (groups, open) = (groups.saturating_add(1).min(MAX_GROUPS), open.checked_add(1)?);
                has_atom = false;
            }
            b')' => {
                open = open.checked_sub(1)?;
                has_atom = has_atom.then_some(true)?;
            }
            b'|' => has_atom = has_atom.then_some(false)?,
            b'*' | b'+' | b'?' => has_atom.then_some(())?,
            b'{' => {
                has_atom.then_some(())?;
                at = repetition_end(expression, at)?;
            }
            _ => has_atom = true,
        }
    }
    (open == 0 && has_atom).then_some(groups)
}

/// Where a set of characters ends that begins before `at`.
fn set_end(expression: &[u8], mut at: usize) -> Option<usize> {
    at += usize::from(*expression.get(at)? == b'^');
    // A bracket that comes first is one of the set.
    let rest = expression.get(at + 1..)?;
    rest.iter().position(|byte| *byte == b']').map(|end| at + 1 + end + 1)
}

/// Where a count of repetitions ends: `{2}`, `{2,}` or `{2,3}`.
fn repetition_end(expression: &[u8], at: usize) -> Option<usize> {
    let len = expression[at..].iter().position(|byte| *byte == b'}')?;
    let text = std::str::from_utf8(&expression[at..at + len]).ok()?;
    let (low, high) = text.split_once(',').unwrap_or((text, text));
    let low: u8 = low.parse().ok()?;
    let is_range = high.is_empty() || high.parse::<u8>().is_ok_and(|high| low <= high);
    is_range.then_some(at + len + 1)
}
