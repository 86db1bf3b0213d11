//! `docs/configuration.md` says what the code does: its keys, defaults, bounds and messages.
//!
//! The keys are not listed here: serde is asked for them, by a key that does not exist. A key that
//! is added to a settings struct has to be documented before these tests pass again.

use std::path::Path;

use pmdns_config::{Config, ConfigError, ConfigText, is_reloaded};
use toml::{Table, Value};

const DOCUMENT: &str = include_str!("../../../docs/configuration.md");
const OPERATIONS: &str = include_str!("../../../docs/operations.md");

/// Lawful, and nothing in it but what is required.
const LEAST: &str = r#"
[[port]]
name = "least"
device = "replay"
addresses = ["10.97.0.53"]

[[placement]]
cores = [1]

[[upstream]]
address = "10.97.0.1:53"

[[group]]
name = "default"

[[forward]]
zone = "least.example"
group = "default"

[[view]]
name = "least"
clients = ["10.97.1.0/24"]

[[local]]
name = "least.example"
type = "A"
data = "10.97.0.2"

[[zone]]
file = "least.zone"

[[zone]]
file = "view.zone"
views = ["least"]

[[blocklist]]
file = "least.txt"

[[rpz]]
file = "least.rpz"

[[token]]
name = "least"
sha256 = "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"
[[dns64]]
prefix = "64:ff9b::/96"

[[redirect]]
addresses = ["10.97.0.80"]

[[rebinding]]

[[tsig]]
name = "least"
secret = "c2l4dGVlbiBsZXR0ZXJzIQ=="
"#;

/// One table of the document.
struct Section {
    /// As in the heading: `[cache]` or `[[port]]`.
    header: String,
    rows: Vec<Row>,
    /// Fenced blocks: a wrong text and the message it gets.
    examples: Vec<(String, String)>,
}

/// One key of a table.
struct Row {
    key: String,
    unit: String,
    default: String,
    bounds: String,
}

impl Section {
    fn name(&self) -> &str {
        self.header.trim_matches(['[', ']'])
    }
}

#[test]
fn every_table_is_documented_and_no_other() {
    let documented: Vec<String> = sections().iter().map(|section| section.header.clone()).collect();
    let existing: Vec<String> = keys_of("").iter().map(|name| header_of(name)).collect();
    assert_eq!(documented, existing, "the tables of docs/configuration.md and of the code");
}

#[test]
fn every_key_is_documented_and_no_other() {
    for section in sections() {
        let documented: Vec<&str> = section.rows.iter().map(|row| &*row.key).collect();
        let existing = keys_of(&format!("{}\n", section.header));
        assert_eq!(
            documented, existing,
            "the keys of {} in the document and the code",
            section.header
        );
    }
}

/// docs/operations.md names the tables of which a reload changes something in the process that runs.
#[test]
fn every_table_that_a_reload_changes_is_named() {
    let (_, list) = OPERATIONS.split_once("## Reload\n").expect("the section");
    let list = list.split("With other keys").next().expect("a text has a first part");
    for section in sections() {
        let paths = section.rows.iter().map(|row| format!("{}.{}", section.name(), row.key));
        let is_changed = paths.into_iter().any(|path| is_reloaded(&path));
        assert_eq!(
            list.contains(&format!("`{}`", section.header)),
            is_changed,
            "{}",
            section.header
        );
    }
}

/// A key of a time ends with its unit. A TTL needs none: it is in seconds wherever DNS has it (RFC 1035 section 3.2.1).
#[test]
fn every_key_of_a_time_says_its_unit() {
    let rows: Vec<Row> = sections().into_iter().flat_map(|section| section.rows).collect();
    assert!(rows.iter().any(|row| row.unit == "seconds"), "the document names units");
    for Row { key, unit, .. } in rows {
        let ending = match &*unit {
            "seconds" if key == "ttl" || key.ends_with("_ttl") => continue,
            "seconds" => "_seconds",
            "milliseconds" => "_ms",
            _ => {
                let is_time =
                    ["_ms", "_seconds", "_secs", "_ttl"].iter().any(|it| key.ends_with(it));
                assert!(!is_time, "{key}: the document does not name its unit");
                continue;
            }
        };
        assert!(key.ends_with(ending), "{key} is in {unit}: its name has to end with {ending}");
    }
}

#[test]
fn every_default_is_the_true_one() {
    let least = debug(&table(LEAST));
    for section in sections() {
        for row in &section.rows {
            let place = format!("{}.{}", section.name(), row.key);
            let mut written = table(LEAST);
            match &*row.default {
                "required" => {
                    let removed = table_in(&mut written, section.name()).remove(&row.key);
                    assert!(removed.is_some(), "{place} is said to be required, but is not");
                    let error = load(&written).unwrap_err();
                    let missing =
                        matches!(&error, ConfigError::MissingKey { key, .. } if *key == row.key);
                    assert!(missing, "{place} is said to be required, but without it: {error}");
                }
                "absent" => {
                    let is_one_of_two = row.bounds.starts_with("this or ");
                    assert!(
                        is_one_of_two || least.contains(&format!("{}: None", row.key)),
                        "{place} is never absent"
                    );
                }
                default => {
                    let value = value(default.trim_matches('`'));
                    let before =
                        table_in(&mut written, section.name()).insert(row.key.clone(), value);
                    assert!(
                        before.is_none(),
                        "{place} is required, but is said to default to {default}"
                    );
                    assert_eq!(debug(&written), least, "{place} does not default to {default}");
                }
            }
        }
    }
}

#[test]
fn every_numeric_bound_is_the_true_one() {
    let mut checked = 0;
    for section in sections() {
        for row in &section.rows {
            let Some((min, max)) = range(&row.bounds) else { continue };
            // Bounds of texts and lists are lengths, which no number can try.
            let is_number = row.default.trim_matches('`').parse::<u64>().is_ok();
            if !is_number && row.default != "absent" {
                continue;
            }
            checked += 1;
            let place = format!("{}.{}", section.name(), row.key);
            for (number, lawful) in [(min - 1, false), (min, true), (max, true), (max + 1, false)] {
                let mut written = table(LEAST);
                // So that no deadline is shorter than a timeout while either is tried.
                table_in(&mut written, "upstream").insert("timeout_ms".into(), 1.into());
                table_in(&mut written, "slowpath").insert("deadline_ms".into(), 60_000.into());
                // So that weights mean something.
                table_in(&mut written, "group").insert("strategy".into(), "round_robin".into());
                // Blocks of ports are those of single addresses.
                if row.key == "ipv4_port_bits" {
                    let ratelimit = table_in(&mut written, "ratelimit");
                    ratelimit.insert("ipv4_prefix".into(), 32.into());
                    let prefixes = vec![toml::Value::from("192.0.2.0/24")];
                    ratelimit.insert("ipv4_port_prefixes".into(), prefixes.into());
                }
                table_in(&mut written, section.name()).insert(row.key.clone(), number.into());
                let answer = load(&written);
                assert_eq!(answer.is_ok(), lawful, "{place} = {number}, said to be {}", row.bounds);
            }
        }
    }
    assert!(checked >= 20, "only {checked} bounds were found in the document");
}

#[test]
fn every_message_is_the_true_one() {
    for section in sections() {
        assert!(!section.examples.is_empty(), "{} has no example of an error", section.header);
        for (wrong, message) in &section.examples {
            // What is required follows the example, so that its lines and indexes stay.
            let rest = LEAST.replace("[[placement]]\ncores = [1]\n", "");
            let error = Config::from_toml(&format!("{wrong}{rest}")).expect_err(wrong);
            assert_eq!(error.to_string(), *message, "the example of {}", section.header);
        }
    }
}

#[test]
fn trap_27_unknown_keys_are_refused_in_every_table() {
    for section in sections() {
        let mut written = table(LEAST);
        table_in(&mut written, section.name()).insert("log_queries".into(), true.into());
        let error = load(&written).expect_err("a key nobody reads");
        let unknown = matches!(&error, ConfigError::UnknownKey { key, .. } if key == "log_queries");
        assert!(unknown, "{}: {error}", section.header);
    }
    let mut written = table(LEAST);
    written.insert("querylog".into(), Value::Table(Table::new()));
    let error = load(&written).expect_err("a table nobody reads");
    assert!(matches!(&error, ConfigError::UnknownKey { key, .. } if key == "querylog"), "{error}");
}

/// Serde says which keys are paths, when a number stands there.
#[test]
fn every_path_is_listed_with_what_is_done_there() {
    let file = std::env::temp_dir().join(format!("pmdns-paths-{}.toml", std::process::id()));
    let mut listed = 0;
    for section in sections() {
        for row in &section.rows {
            let place = format!("{}.{}", section.name(), row.key);
            let mut written = table(LEAST);
            table_in(&mut written, section.name()).insert(row.key.clone(), 7.into());
            let told = load(&written).map_or_else(|error| error.to_string(), |_| String::new());
            if !told.contains("allowed: a path in quotes") {
                continue;
            }
            table_in(&mut written, section.name()).insert(row.key.clone(), "/some/where".into());
            std::fs::write(&file, toml::to_string(&written).expect("a table is TOML"))
                .expect("a file");
            let config = ConfigText::read(&file).expect("it is TOML").config;
            let is_listed = config.paths().iter().any(|one| {
                one.path == Path::new("/some/where") && one.key.replace("[0]", "") == place
            });
            assert!(is_listed, "{place} is a path, and Config::paths does not list it");
            listed += 1;
        }
    }
    std::fs::remove_file(file).expect("it was written");
    assert!(listed >= 25, "only {listed} keys are paths");
}

#[test]
fn trap_27_no_key_is_dead() {
    let sources = sources_that_use_settings();
    for section in sections() {
        for row in &section.rows {
            let word = |c: char| c.is_alphanumeric() || c == '_';
            let used = sources.iter().any(|text| text.split(|c| !word(c)).any(|w| w == row.key));
            // `type` is a word of the language.
            assert!(used || row.key == "type", "{}: nothing reads `{}`", section.header, row.key);
        }
    }
}

/// What reads the settings: everything that is compiled into pmdns but their own crate, and what in that crate turns them into
/// something else.
fn sources_that_use_settings() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = [
        "nics/src",
        "stages/src",
        "pipeline/resolver/src",
        "pipeline/streams/src",
        "pipeline/control/src",
        "pipeline/encrypted/src",
        "pipeline/insight/src",
        "pipeline/engine/src",
        "pipeline/src",
    ];
    let mut folders: Vec<_> = folders.map(|it| root.join(it)).into();
    let makers = [
        include_str!("../../src/local.rs"),
        include_str!("../../src/cookies.rs"),
        include_str!("../../src/discovery.rs"),
        include_str!("../../src/token.rs"),
        include_str!("../../src/client_prefix.rs"),
        include_str!("../../src/port_blocks.rs"),
    ];
    let mut sources = makers.map(str::to_owned).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.file_stem().is_some_and(|name| name == "tests") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(path).expect("a source file");
                // Tests write configs of their own, and comments speak of keys. Where tests are a file, code follows its name.
                let text = text.replace("#[cfg(test)]\nmod tests;", "");
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
                sources.push(lines.collect::<Vec<_>>().join("\n"));
            }
        }
    }
    sources
}

/// The document, section by section.
fn sections() -> Vec<Section> {
    let section = |text: &str| {
        let (heading, body) = text.split_once('\n').expect("a heading is a line");
        let header = heading.trim().trim_matches('`').to_owned();
        // Other tables, such as that of the forms of a line, do not begin with the head of those of keys.
        let tables = body.split("\n\n").filter(|part| part.trim_start().starts_with("| key |"));
        let rows = tables.flat_map(str::lines).filter(|line| line.starts_with("| `")).map(row);
        let rows = rows.collect();
        Section { header, rows, examples: examples(body) }
    };
    let texts = DOCUMENT.split("\n## ").skip(1).filter(|text| text.starts_with('`'));
    let sections: Vec<Section> = texts.map(section).collect();
    assert!(!sections.is_empty(), "the document has sections");
    sections
}

/// One line of a table.
fn row(line: &str) -> Row {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [key, kind, default, bounds, meaning] = cells[..] else {
        panic!("five cells are expected in: {line}");
    };
    assert!(meaning.ends_with('.'), "the meaning is a sentence: {line}");
    Row {
        key: key.trim_matches('`').into(),
        unit: kind.split_once(", ").map_or("", |(_, unit)| unit).into(),
        default: default.into(),
        bounds: bounds.into(),
    }
}

/// The pairs of fenced blocks: what is wrong, and what is said of it.
fn examples(body: &str) -> Vec<(String, String)> {
    let pair = |text: &str| {
        let (wrong, rest) = text.split_once("```\n```text\n").expect("a message follows");
        let (message, _) = rest.split_once("\n```").expect("the block is closed");
        (wrong.to_owned(), message.to_owned())
    };
    body.split("```toml\n").skip(1).map(pair).collect()
}

/// The keys that are allowed after `header`, as the code lists them.
fn keys_of(header: &str) -> Vec<String> {
    unknown_key(&format!("{header}no_such_key = 1\n"))
        .unwrap_or_else(|| panic!("`{header}` should have no key `no_such_key`"))
}

/// The keys that are allowed instead of the one that does not exist, if that is what is wrong with `text`.
fn unknown_key(text: &str) -> Option<Vec<String>> {
    let error = Config::from_toml(text).expect_err("there is no such key");
    error.mistakes().iter().find_map(|mistake| match mistake {
        ConfigError::UnknownKey { allowed, .. } => Some(allowed.to_vec()),
        _ => None,
    })
}

/// The table called `name` as it is written, in single brackets or in double ones.
fn header_of(name: &str) -> String {
    let single = format!("[{name}]");
    match unknown_key(&format!("{single}\nno_such_key = 1\n")) {
        Some(_) => single,
        None => format!("[{single}]"),
    }
}

/// `lowest to highest`, if a cell says so in numbers.
fn range(bounds: &str) -> Option<(i64, i64)> {
    let (before, after) = bounds.split_once(" to ")?;
    let min = before.rsplit(' ').next()?.parse().ok()?;
    let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    Some((min, after[..digits].parse().ok()?))
}

/// The table `name`, the first of its kind, made if need be.
fn table_in<'a>(written: &'a mut Table, name: &str) -> &'a mut Table {
    let entry = written.entry(name).or_insert_with(|| Value::Table(Table::new()));
    let table = match entry {
        Value::Array(tables) => &mut tables[0],
        single => single,
    };
    table.as_table_mut().expect("a table")
}

fn table(text: &str) -> Table {
    text.parse().expect("TOML")
}

fn value(text: &str) -> Value {
    table(&format!("value = {text}")).remove("value").expect("it was written")
}

fn load(written: &Table) -> Result<Config, ConfigError> {
    Config::from_toml(&toml::to_string(written).expect("a table is TOML"))
}

/// The configuration with every default filled in.
fn debug(written: &Table) -> String {
    format!("{:?}", load(written).unwrap_or_else(|error| panic!("{error}")))
}
