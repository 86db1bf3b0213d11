//! Files of clients: a line for each prefix, with the view that its clients are in.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use super::{FileError, open};
use crate::nearest::nearest;
use crate::settings::{ClientSettings, View};
use crate::views::{view_names, view_number};
use crate::{Config, Prefix};

/// The longest line that is read.
const MAX_LINE: usize = 1024;

/// The prefixes of `clients.file`, each with the number of its view, in the order of the file. Without a file there are none.
///
/// # Errors
///
/// The file cannot be read, or a line is no `PREFIX VIEW`.
pub fn read_clients(config: &Config) -> Result<Vec<(Prefix, u8)>, FileError> {
    let ClientSettings { file: Some(file), max_entries, .. } = &config.clients else {
        return Ok(Vec::new());
    };
    read(file, &config.views, *max_entries as usize)
}

fn read(path: &Path, views: &[View], max_entries: usize) -> Result<Vec<(Prefix, u8)>, FileError> {
    let mut reader = BufReader::new(open(path)?);
    let (mut read, mut text, mut line) = (Vec::new(), Vec::new(), 0);
    loop {
        line += 1;
        text.clear();
        let mut bounded = std::io::Read::take(&mut reader, MAX_LINE as u64);
        let bytes = bounded.read_until(b'\n', &mut text);
        let bytes =
            bytes.map_err(|source| FileError::Unreadable { file: path.to_owned(), source })?;
        if bytes == 0 {
            return Ok(read);
        }
        let wrong = |problem| FileError::Line { file: path.to_owned(), line, problem };
        if bytes == MAX_LINE && !text.ends_with(b"\n") {
            return Err(wrong(format!("has more than {MAX_LINE} bytes; write PREFIX VIEW")));
        }
        let text = String::from_utf8_lossy(&text);
        let said = text.split('#').next().unwrap_or_default().trim();
        if said.is_empty() {
            continue;
        }
        if read.len() == max_entries {
            let problem =
                format!("there are more than {max_entries} prefixes; raise `clients.max_entries`");
            return Err(wrong(problem));
        }
        read.push(entry(said, views).map_err(wrong)?);
    }
}

fn entry(text: &str, views: &[View]) -> Result<(Prefix, u8), String> {
    let mut words = text.split_ascii_whitespace();
    let (Some(prefix), Some(view), None) = (words.next(), words.next(), words.next()) else {
        return Err(format!("`{text}` is not PREFIX VIEW, as in 192.0.2.7 kids"));
    };
    let prefix = prefix.parse().map_err(|error: crate::PrefixError| error.to_string())?;
    match view_number(view, views) {
        Some(number) => Ok((prefix, number)),
        None => {
            let meant =
                nearest(view, view_names(views)).map(|name| format!("; did you mean `{name}`?"));
            let meant = meant.unwrap_or_else(|| "; add a [[view]] of that name".to_owned());
            Err(format!("there is no view `{view}`{meant}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(test: &str, text: &str) -> Result<Vec<(String, u8)>, String> {
        let path =
            std::env::temp_dir().join(format!("pmdns-clients-{}-{test}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let config = Config {
            clients: ClientSettings { max_entries: 3, file: Some(path.clone()), journal: None },
            views: vec![View { name: "kids".into(), ..View::default() }],
            ..Config::default()
        };
        let read = read_clients(&config);
        std::fs::remove_file(&path).unwrap();
        let read = read.map_err(|error| error.to_string())?;
        Ok(read.into_iter().map(|(prefix, view)| (prefix.to_string(), view)).collect())
    }

    #[test]
    fn each_line_is_a_prefix_and_a_view() {
        let text = "# subscribers\n192.0.2.7 kids\n\n 2001:db8::/56\tdefault # opted out";
        let read = read_text("good", text).unwrap();
        assert_eq!(read, [("192.0.2.7/32".to_owned(), 1), ("2001:db8::/56".to_owned(), 0)]);
        assert_eq!(read_text("empty", ""), Ok(Vec::new()));
    }

    #[test]
    fn a_wrong_line_is_named() {
        let long = format!("192.0.2.1 {}\n", "k".repeat(2000));
        for (test, text, part) in [
            (
                "prefix",
                "192.0.2.1 kids\n192.0.2.1/24 kids\n",
                ", line 2: `192.0.2.1/24` has bits set",
            ),
            ("address", "router kids\n", "line 1: `router` is not an IP address"),
            ("view", "192.0.2.1 kid\n", "line 1: there is no view `kid`; did you mean `kids`?"),
            ("unknown", "192.0.2.1 enterprise\n", "add a [[view]] of that name"),
            ("words", "192.0.2.1\n", "is not PREFIX VIEW"),
            ("more", "192.0.2.1 kids x\n", "is not PREFIX VIEW"),
            ("many", "::1 kids\n::2 kids\n::3 kids\n::4 kids\n", "line 4: there are more than 3"),
            ("long", &long, "line 1: has more than 1024 bytes"),
        ] {
            let error = read_text(test, text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
