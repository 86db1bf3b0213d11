//! The version of a list that is kept, and whether another one may take its place.

use std::io::{self, Write as _};
use std::path::Path;

use pmdns_config::ListFormat;
use pmdns_config::files::{WholeFile, folder_of, list_from, read_list};

/// The owner writes, the group reads.
const MODE: u32 = 0o640;
/// A list that has lost more than half of its names is taken for damaged.
const SHRINK: u64 = 2;

/// Names of the list in this file; 0: there is none that can be read.
pub(super) fn names_in(file: &Path, format: ListFormat) -> u64 {
    read_list(file, format, |_| true).map_or(0, |summary| summary.names)
}

/// The number of names in a download that may take the place of a list with `before` names, where there is `room` for so many.
///
/// # Errors
///
/// Why it may not.
pub(super) fn check(
    bytes: &[u8],
    file: &Path,
    format: ListFormat,
    (before, room): (u64, usize),
) -> Result<u64, String> {
    let mut count = 0;
    let summary = list_from(bytes, file, format, |_| {
        count += 1;
        count <= room
    });
    let names = summary.map_err(|error| error.to_string())?.names;
    if names == 0 {
        return Err("it has no names".to_owned());
    }
    if names.saturating_mul(SHRINK) < before {
        let file = file.display();
        return Err(format!(
            "it has {names} names where it had {before}; if that is right, remove {file} and refresh it"
        ));
    }
    Ok(names)
}

/// Puts a download into the file, which is either as it was or whole.
pub(super) fn keep(bytes: &[u8], file: &Path) -> io::Result<()> {
    let mut out = WholeFile::create(file, MODE)?;
    out.write_all(bytes)?;
    out.finish().map(drop)
}

/// Removes what an earlier list has left in the file of another one.
///
/// # Errors
///
/// The reason, with a remedy if there is one.
pub(crate) fn clear(file: &Path) -> Result<(), String> {
    let folder = folder_of(file);
    let clear = std::fs::remove_file(file);
    let error = clear.err().filter(|error| error.kind() != io::ErrorKind::NotFound);
    match error {
        Some(error) => Err(format!("cannot remove {}: {error}", file.display())),
        None if folder.is_dir() => Ok(()),
        None => {
            let folder = folder.display();
            Err(format!(
                "there is no folder {folder}; make it, and give it to pmdns; that needs another process"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_begins_without_what_another_has_left() {
        let folder = std::env::temp_dir().join(format!("pmdns-clear-{}", std::process::id()));
        let file = folder.join("ads");
        assert!(clear(&file).unwrap_err().contains("there is no folder"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(&file, "old.example\n").unwrap();
        assert_eq!((clear(&file), file.exists(), clear(&file)), (Ok(()), false, Ok(())));
        std::fs::create_dir(&file).unwrap();
        assert!(clear(&file).unwrap_err().contains("cannot remove"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn only_what_looks_like_the_list_takes_its_place() {
        let check = |text: &str, before| {
            check(text.as_bytes(), Path::new("ads"), ListFormat::Auto, (before, 2))
        };
        assert_eq!(check("a.example\nb.example\n", 0), Ok(2));
        assert_eq!(check("a.example\nb.example\n", 4), Ok(2));
        assert!(check("a.example\nb.example\n", 5).unwrap_err().contains("2 names where it had 5"));
        assert!(check("", 0).unwrap_err().contains("no names"));
        assert!(check("# nothing\n", 0).unwrap_err().contains("no names"));
        let more = check("a.example\nb.example\nc.example\n", 2).unwrap_err();
        assert!(more.contains("no room for more names"), "{more}");
        let page = "<!DOCTYPE html>\n<html><body>Not found</body></html>\n";
        assert!(check(page, 0).unwrap_err().contains("is no rule of this format"));
    }
}
