//! Heads and strings, of which the data of several types is made.

/// A head of so many bytes, and whether a name follows it.
pub(super) type Head = (usize, bool);

/// Bytes of the string that `rest` begins with, its length byte among them.
pub(super) fn text_len(rest: &[u8]) -> Option<usize> {
    let len = 1 + usize::from(*rest.first()?);
    (len <= rest.len()).then_some(len)
}

/// Whether `rest` consists of strings.
pub(super) fn are_texts(mut rest: &[u8]) -> bool {
    while !rest.is_empty() {
        let Some(len) = text_len(rest) else { return false };
        rest = &rest[len..];
    }
    true
}
