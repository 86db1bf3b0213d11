//! From byte offsets to lines and keys, and from keys back to lines.
//!
//! Paths are written as operators read them: `cache.size`, `port[0].addresses[1]`.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Location;

/// The place that `offset` of `text` is at.
pub(crate) fn place_at(text: &str, offset: usize) -> Location {
    let before = text.get(..offset).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = number(before[start..].chars().count() + 1);
    Location { file: None, line: Some(line_at(before)), column: Some(column) }
}

/// The place of the line on which the key at `path` stands, or of the nearest table around it that
/// is written at all.
pub(crate) fn place_of(text: &str, path: &str) -> Location {
    let offset = DeTable::parse(text).ok().and_then(|root| offset_of(root.get_ref(), path));
    let line = offset.map(|offset| line_at(text.get(..offset).unwrap_or(text)));
    Location { file: None, line, column: None }
}

/// The path of the innermost key or value that `offset` of `text` belongs to.
pub(crate) fn key_at(text: &str, offset: usize) -> Option<String> {
    let root = DeTable::parse(text).ok()?;
    key_in_table(root.get_ref(), "", offset)
}

/// The number of the line that follows `before`, from 1.
fn line_at(before: &str) -> u32 {
    number(before.bytes().filter(|byte| *byte == b'\n').count() + 1)
}

/// Files are bounded far below 2^32 bytes; a longer text only loses its exact place.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Where the last step of `path` that exists begins; none if not even the first does.
fn offset_of(root: &DeTable<'_>, path: &str) -> Option<usize> {
    let mut table = root;
    let mut offset = None;
    for step in path.split('.') {
        let (name, index) = match step.split_once('[') {
            Some((name, index)) => (name, index.trim_end_matches(']').parse::<usize>().ok()),
            None => (step, None),
        };
        let Some((key, mut value)) = table.get_key_value(name) else {
            return offset;
        };
        offset = Some(key.span().start);
        if let Some(index) = index {
            let Some(element) = value.get_ref().as_array().and_then(|array| array.get(index))
            else {
                return offset;
            };
            value = element;
            offset = Some(element.span().start);
        }
        match value.get_ref().as_table() {
            Some(inner) => table = inner,
            None => return offset,
        }
    }
    offset
}

/// [`key_at`], for the keys of one table whose own path is `path`.
fn key_in_table(table: &DeTable<'_>, path: &str, offset: usize) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let name = key.get_ref();
        let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
        key_in_value(value, &path, offset).or_else(|| key.span().contains(&offset).then_some(path))
    })
}

/// [`key_at`], for a value and everything in it.
fn key_in_value(value: &Spanned<DeValue<'_>>, path: &str, offset: usize) -> Option<String> {
    let inner = match value.get_ref() {
        DeValue::Table(table) => key_in_table(table, path, offset),
        DeValue::Array(array) => array.iter().enumerate().find_map(|(index, element)| {
            key_in_value(element, &format!("{path}[{index}]"), offset)
        }),
        _ => None,
    };
    inner.or_else(|| value.span().contains(&offset).then(|| path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
[cache]
size = \"1MiB\"

[[port]]
name = \"a\"
addresses = [
  \"192.0.2.1\",
  \"192.0.2.2\",
]

[[port]]
name = \"ü\" # after this
control = { socket = \"x\" }
";

    fn line_of(path: &str) -> Option<u32> {
        place_of(TEXT, path).line
    }

    fn key_of(word: &str) -> Option<String> {
        key_at(TEXT, TEXT.find(word).unwrap())
    }

    #[test]
    fn a_path_is_found_on_its_line() {
        assert_eq!(line_of("cache.size"), Some(2));
        assert_eq!(line_of("port[0]"), Some(4));
        assert_eq!(line_of("port[0].name"), Some(5));
        assert_eq!(line_of("port[0].addresses"), Some(6));
        assert_eq!(line_of("port[0].addresses[1]"), Some(8));
        assert_eq!(line_of("port[1]"), Some(11));
        assert_eq!(line_of("port[1].control.socket"), Some(13));
    }

    #[test]
    fn a_key_that_is_not_written_is_found_at_its_table() {
        assert_eq!(line_of("cache.pages"), Some(1));
        assert_eq!(line_of("port[1].addresses[0]"), Some(11));
        assert_eq!(line_of("port[2].name"), Some(4));
        assert_eq!(line_of("frames.batch"), None);
    }

    #[test]
    fn an_offset_is_told_as_a_key() {
        assert_eq!(key_of("1MiB").as_deref(), Some("cache.size"));
        assert_eq!(key_of("size").as_deref(), Some("cache.size"));
        assert_eq!(key_of("192.0.2.2").as_deref(), Some("port[0].addresses[1]"));
        assert_eq!(key_of("socket").as_deref(), Some("port[1].control.socket"));
        assert_eq!(key_at(TEXT, TEXT.rfind("[[port]]").unwrap()).as_deref(), Some("port[1]"));
        assert_eq!(key_of("# after"), None);
    }

    #[test]
    fn columns_count_characters() {
        let place = place_at(TEXT, TEXT.find("# after").unwrap());
        assert_eq!((place.line, place.column), (Some(12), Some(12)));
        let place = place_at(TEXT, 0);
        assert_eq!((place.line, place.column), (Some(1), Some(1)));
    }
}
