//! The parser's and serde's errors, told as an operator would want them told.

use toml::de::{DeTable, DeValue, Error};

use crate::error::ConfigError;
use crate::locate::{key_at, place_at};
use crate::nearest::nearest;
use crate::settings::Config;

/// The tables of which there can be several.
const SEVERAL: [&str; 14] = [
    "port",
    "placement",
    "upstream",
    "group",
    "forward",
    "view",
    "local",
    "zone",
    "blocklist",
    "rpz",
    "dns64",
    "redirect",
    "rebinding",
    "tsig",
];

/// Messages of serde, and their meaning in words of an operator.
const PLAIN_WORDS: [(&str, &str); 9] = [
    ("expected u8", "allowed: a whole number from 0 to 255"),
    ("expected u16", "allowed: a whole number from 0 to 65535"),
    ("expected u32", "allowed: a whole number from 0 to 4294967295"),
    ("expected u64", "allowed: a whole number, 0 or more"),
    ("expected usize", "allowed: a whole number, 0 or more"),
    ("expected a boolean", "allowed: true or false"),
    ("expected a sequence", "allowed: a list in brackets, [..., ...]"),
    ("expected a string", "allowed: text in quotes"),
    ("expected path string", "allowed: a path in quotes"),
];

/// Messages of the standard library about addresses, and an example for each.
const EXAMPLES: [(&str, &str); 2] = [
    (
        "invalid socket address syntax",
        "this is not an address with a port; write for example \"192.0.2.53:53\" or \"[2001:db8::53]:53\"",
    ),
    (
        "invalid IP address syntax",
        "this is not an IP address; write for example \"192.0.2.53\" or \"2001:db8::53\"",
    ),
];

/// An error of TOML's own grammar.
pub(crate) fn not_toml(text: &str, error: &Error) -> ConfigError {
    let span = error.span().unwrap_or(0..0);
    let mut problem = error.message().to_owned();
    if problem == "duplicate key" {
        let key = text.get(span.clone()).unwrap_or_default();
        problem = format!("`{key}` stands here a second time; remove one of the two");
    }
    ConfigError::NotToml { place: place_at(text, span.start), problem }
}

/// Tells `[port]` for `[[port]]` and `[[cache]]` for `[cache]`, which serde would tell in riddles.
pub(crate) fn wrong_bracket(text: &str, root: &DeTable<'_>) -> Vec<ConfigError> {
    let wrong = root.iter().filter_map(|(key, value)| {
        let name = key.get_ref().as_ref();
        let problem = if SEVERAL.contains(&name) && value.get_ref().is_table() {
            format!("there can be several; write [[{name}]] with two brackets on each side")
        } else if !SEVERAL.contains(&name) && value.get_ref().is_array() && is_table(name) {
            format!("there is only one; write [{name}] with one bracket on each side, once")
        } else {
            return None;
        };
        let place = place_at(text, value.span().start);
        Some(ConfigError::WrongValue { place, key: name.to_owned(), problem })
    });
    wrong.collect()
}

/// Whether a value may stand for what has this name, by its brackets.
pub(crate) fn has_its_brackets(name: &str, value: &DeValue<'_>) -> bool {
    match SEVERAL.contains(&name) {
        true => !value.is_table(),
        false => !value.is_array() || !is_table(name),
    }
}

/// Whether there is a table of this name.
fn is_table(name: &str) -> bool {
    toml::from_str::<Config>(&format!("[{name}]\n")).is_ok()
}

/// An error of a key or a value, and where in the text it is.
pub(crate) fn misread(text: &str, error: &Error) -> (ConfigError, usize) {
    let words = quoted(error.message());
    let offset = offset_of(text, error, &words);
    (wrong_value(text, error.message(), &words, offset), offset)
}

fn wrong_value(text: &str, message: &str, words: &[&str], offset: usize) -> ConfigError {
    let place = place_at(text, offset);
    let path = key_at(text, offset).unwrap_or_default();
    if message.starts_with("unknown field") && !words.is_empty() {
        let (key, allowed) = (words[0].to_owned(), &words[1..]);
        let table = path.rsplit_once('.').map_or("", |(table, _)| table);
        return ConfigError::UnknownKey {
            place,
            nearest: nearest(&key, allowed.iter().copied()).map(str::to_owned),
            key,
            table: in_table(table),
            allowed: allowed.iter().map(|word| (*word).to_owned()).collect(),
        };
    }
    if message.starts_with("missing field") && !words.is_empty() {
        return ConfigError::MissingKey { place, key: words[0].to_owned(), table: in_table(&path) };
    }
    let problem = if message.starts_with("unknown variant") && !words.is_empty() {
        no_such_choice(words[0], &words[1..])
    } else {
        in_plain_words(message)
    };
    ConfigError::WrongValue { place, key: path, problem }
}

/// Where the error is. For a bad list entry the parser knows only the list; the entry
/// is found by the word that the message quotes.
fn offset_of(text: &str, error: &Error, words: &[&str]) -> usize {
    let span = error.span().unwrap_or(0..0);
    let written = text.get(span.clone()).unwrap_or_default();
    let entry = match words.first() {
        Some(word) if written.starts_with('[') => {
            written.find(&format!("\"{word}\"")).or_else(|| written.find(&format!("'{word}'")))
        }
        _ => None,
    };
    span.start + entry.unwrap_or(0)
}

/// The words that stand in backquotes in `message`.
fn quoted(message: &str) -> Vec<&str> {
    message.split('`').skip(1).step_by(2).collect()
}

/// A table as an operator writes it.
fn in_table(path: &str) -> String {
    match path.split('[').next().unwrap_or_default() {
        "" => "at the top level".to_owned(),
        name if SEVERAL.contains(&name) => format!("in [[{name}]]"),
        name => format!("in [{name}]"),
    }
}

/// The message about a word that is none of the choices.
fn no_such_choice(word: &str, allowed: &[&str]) -> String {
    let meant = match nearest(word, allowed.iter().copied()) {
        Some(meant) => format!(" did you mean \"{meant}\"?"),
        None => String::new(),
    };
    format!("\"{word}\" is no choice here;{meant} allowed: {}", allowed.join(", "))
}

/// `message` without the names of Rust's types.
fn in_plain_words(message: &str) -> String {
    if let Some((_, example)) = EXAMPLES.iter().find(|(dry, _)| *dry == message) {
        return (*example).to_owned();
    }
    for (dry, plain) in PLAIN_WORDS {
        // Only at the end: "expected u16" must not be found in "expected u160" or in a value.
        if let Some(before) = message.strip_suffix(dry) {
            return format!("{before}{plain}").replace("`", "");
        }
    }
    match message.rsplit_once("expected struct ") {
        Some((before, name)) if name.chars().all(char::is_alphanumeric) => {
            format!("{before}allowed: a table in brackets, as [cache] is one").replace('`', "")
        }
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first mistake of the text.
    fn mistake(text: &str) -> String {
        match Config::from_toml(text).unwrap_err() {
            ConfigError::Several(errors) => errors[0].to_string(),
            one => one.to_string(),
        }
    }

    #[test]
    fn grammar_errors_carry_line_and_column() {
        let text = mistake("[cache]\nsize = \"1MiB\nmin_ttl = 0\n");
        assert!(text.starts_with("line 2, column "), "{text}");
        assert!(text.contains("not valid TOML"), "{text}");
        let text = mistake("[frames]\nbatch = 1\nbatch = 2\n");
        assert_eq!(
            text,
            "line 3, column 1: not valid TOML: `batch` stands here a second time; remove one of the two"
        );
    }

    #[test]
    fn an_unknown_key_is_answered_with_the_right_one() {
        let text = mistake("cache = 5\n");
        assert!(
            text.ends_with(
                "invalid type: integer 5, allowed: a table in brackets, as [cache] is one"
            ),
            "{text}"
        );
        let port = "[[port]]\nname = \"a\"\ndevice = \"replay\"\naddresses = [\"192.0.2.1\"]\n";
        let text = mistake(&format!("{port}rx_descriptor = 64\n"));
        let start = "line 5, column 1: unknown key `rx_descriptor` in [[port]]; did you mean \
                     `rx_descriptors`? allowed: name, device, addresses, ";
        assert!(text.starts_with(start), "{text}");
        let text = mistake("[prot]\n");
        assert!(
            text.starts_with("line 1, column 2: unknown key `prot` at the top level"),
            "{text}"
        );
        assert!(text.contains("did you mean `port`?"), "{text}");
        let text = mistake("[block]\nnmes = []\n");
        assert!(text.ends_with("did you mean `names`? allowed: names, except"), "{text}");
        let text = mistake("[cache]\nzebra = 1\n");
        assert!(text.contains("`zebra` in [cache]; allowed: size, pages"), "{text}");
        let local = "[[local]]\nname = \"a\"\ntype = \"A\"\ndata = \"192.0.2.1\"\n";
        let text = mistake(&format!("{local}kind = 1\n"));
        assert!(text.contains("`kind` in [[local]]; allowed: name, type, ttl, data"), "{text}");
    }

    #[test]
    fn a_missing_key_is_named_with_its_table() {
        let text = mistake("[[port]]\nname = \"a\"\n\n[[port]]\ndevice = \"replay\"\n");
        let rest = "the key `device` is missing in [[port]]; add it, it has no default";
        assert_eq!(text, format!("line 1, column 1: {rest}"));
        let text = mistake("[cache]\n\n[[upstream]]\ntimeout_ms = 5\n");
        assert!(text.starts_with("line 3, column 1: the key `address` is missing in [[upstream]]"));
    }

    #[test]
    fn a_wrong_type_is_told_in_plain_words() {
        let text = mistake("[[upstream]]\naddress = \"192.0.2.53:53\"\ntimeout_ms = \"x\"\n");
        assert!(text.starts_with("line 3, column 14: `upstream[0].timeout_ms`: "), "{text}");
        assert!(text.ends_with("allowed: a whole number, 0 or more"), "{text}");
        let text = mistake("[frames]\nbatch = 70000\n");
        assert!(text.contains("70000"), "{text}");
        assert!(text.ends_with("allowed: a whole number from 0 to 65535"), "{text}");
        let text = mistake("[acl]\nallow = \"192.0.2.0/24\"\n");
        assert!(text.ends_with("allowed: a list in brackets, [..., ...]"), "{text}");
        let port = "[[port]]\nname = \"a\"\ndevice = \"replay\"\naddresses = [\"192.0.2.1\"]\n";
        let text = mistake(&format!("{port}promiscuous = 1\n"));
        assert!(text.contains("`port[0].promiscuous`"), "{text}");
        assert!(text.ends_with("allowed: true or false"), "{text}");
        let text = mistake("[control]\nsocket = 1\n");
        assert!(text.ends_with("allowed: a path in quotes"), "{text}");
    }

    #[test]
    fn a_value_that_cannot_be_read_is_told_with_its_place() {
        let text = mistake("[acl]\ndrop = [\n  \"192.0.2.0/24\",\n  \"192.0.2.7/24\",\n]\n");
        assert!(text.starts_with("line 4, column 3: `acl.drop[1]`: "), "{text}");
        assert!(text.ends_with("the network is 192.0.2.0/24"), "{text}");
        let text = mistake("[[upstream]]\naddress = \"192.0.2.53\"\n");
        assert!(text.contains("write for example \"192.0.2.53:53\""), "{text}");
        let text = mistake("[[upstream]]\naddress = \"192.0.2.53:53\"\nsource = \"192.0.2.1:0\"\n");
        assert!(text.contains("this is not an IP address"), "{text}");
        let text = mistake("[cache]\nsize = \"64MB\"\n");
        assert!(text.contains("`cache.size`: `64MB` needs a unit"), "{text}");
        let text = mistake("[[placement]]\nstages = \"parse..lookpu\"\ncores = [1]\n");
        assert!(text.contains("`placement[0].stages`: there is no stage `lookpu`"), "{text}");
        let text =
            mistake("\n[[local]]\nname = \"h.example\"\ntype = \"A\"\ndata = \"192.0.2.999\"\n");
        assert!(
            text.starts_with("line 2, column 1: `local[0]`: local record `h.example A`"),
            "{text}"
        );
    }

    #[test]
    fn a_wrong_choice_is_answered_with_the_choices() {
        let text = mistake("[[placement]]\ncores = [1]\nidle = \"adaptiv\"\n");
        assert_eq!(
            text,
            "line 3, column 8: `placement[0].idle`: \"adaptiv\" is no choice here; \
             did you mean \"adaptive\"? allowed: spin, adaptive"
        );
        let text = mistake("[cache]\npages = \"4M\"\n");
        assert!(text.contains("allowed: auto, 2M, 1G, normal"), "{text}");
    }

    #[test]
    fn brackets_are_counted() {
        let text = mistake("[port]\nname = \"a\"\n");
        assert!(text.starts_with("line 1, column 1: `port`: "), "{text}");
        assert!(text.contains("write [[port]]"), "{text}");
        let text = mistake("\n[[cache]]\nsize = \"1MiB\"\n");
        assert!(text.starts_with("line 2, column 1: `cache`: "), "{text}");
        assert!(text.contains("write [cache]"), "{text}");
    }
}
