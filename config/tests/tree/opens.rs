//! Paths that people choose are opened in one file, `config/src/files/open.rs`. It waits for nothing, and what is written
//! follows no planted link. All such paths of a configuration are known, and `pmdns check` is tried with each.

use crate::files::files;

/// What opens files otherwise.
const OPENERS: [&str; 13] = [
    "File::open(",
    "File::create(",
    "File::create_new(",
    "File::options(",
    "OpenOptions::new(",
    "fs::read(",
    "fs::write(",
    "fs::read_to_string(",
    "fs::copy(",
    "fs::open(",
    "fs::openat(",
    "libc::open(",
    "Connection::open_with_flags(",
];
/// Where that is right: the file, how often it is done there, and why.
const ALLOWED: [(&str, usize, &str); 21] = [
    ("config/src/files/open.rs", 5, "the file itself"),
    ("config/src/files/whole.rs", 1, "a folder, to have the disk confirm a name"),
    ("pipeline/import/src/source.rs", 1, "a file of the command line, which may be a pipe"),
    ("config/src/load.rs", 1, "the configuration itself, which may be a pipe"),
    ("nics/src/device.rs", 3, "facts of the kernel"),
    ("nics/src/dpdk/advice.rs", 1, "facts of the kernel"),
    ("nics/src/dpdk/eal.rs", 1, "/dev/null"),
    ("nics/src/dpdk/runtime_files.rs", 1, "a lock of DPDK"),
    ("nics/src/dpdk/vhost.rs", 1, "a device of the kernel"),
    ("nics/src/hugepage/kernel.rs", 4, "facts of the kernel"),
    ("nics/src/hugepage/memfd.rs", 1, "what is open already, by its number"),
    ("nics/src/tap.rs", 1, "a device of the kernel"),
    ("pipeline/src/control/socket/listener.rs", 2, "the groups of the system, and our own socket"),
    ("pipeline/cli/src/doctor/drivers.rs", 1, "a library of DPDK"),
    ("pipeline/cli/src/doctor/tree.rs", 1, "facts of the kernel"),
    ("pipeline/engine/src/exceptions/interface.rs", 2, "settings of the kernel"),
    ("pipeline/src/machine/devices.rs", 1, "facts of the kernel"),
    ("nics/src/machine.rs", 3, "facts of the kernel"),
    ("pipeline/src/privileges/status.rs", 1, "facts of the kernel"),
    ("pipeline/insight/src/query_log/sqlite/file.rs", 1, "SQLite opens what was opened before"),
    ("pipeline/engine/src/slowpath/descriptor_limit.rs", 1, "facts of the kernel"),
];

#[test]
fn paths_of_people_are_opened_in_one_place() {
    let mut wrong = Vec::new();
    for file in files().iter().filter(|file| is_of_the_program(&file.name)) {
        let code = file.text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let found: Vec<&str> = code.lines().map(str::trim).filter(|line| opens(line)).collect();
        let allowed = ALLOWED.iter().find(|(name, ..)| *name == file.name).map_or(0, |one| one.1);
        if found.len() != allowed {
            wrong.push(format!(
                "{} does it {}, not {allowed} times: {found:#?}",
                file.name,
                found.len()
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "take pmdns_config::files for paths of people:\n{}",
        wrong.join("\n")
    );
}

/// Whether a line of code opens a file.
fn opens(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    OPENERS.iter().any(|opener| {
        // `WholeFile::create(` is another name.
        let before = |at: usize| code[..at].chars().next_back();
        let mut places = code.match_indices(opener);
        places.any(|(at, _)| !before(at).is_some_and(|c| c.is_alphanumeric() || c == '_'))
    })
}

/// Whether it is a source of what runs, tests apart.
fn is_of_the_program(name: &str) -> bool {
    let is_source = name.ends_with(".rs") && name.contains("/src/") && !name.starts_with("bench/");
    let is_test =
        ["tests.rs", "testing.rs", "/tests/", "fixture.rs", "stub.rs", "/stub/", "hierarchy/"];
    is_source && !is_test.iter().any(|part| name.contains(part))
}

#[test]
fn what_opens_is_seen() {
    assert!(opens("let file = std::fs::File::open(path)?;") && opens("fs::read(path)"));
    assert!(
        opens("rustix::fs::open(path, flags, mode)?") && opens("unsafe { libc::open(path, 0) }")
    );
    assert!(!opens("WholeFile::create(path)") && !opens("read(path) // fs::read(path)"));
}

/// Keys of paths at which `pmdns check` opens no file of its own accord, or which the walk sets apart.
const NOT_WALKED: [(&str, &str); 5] = [
    ("control.socket", "a socket"),
    ("control.lists", "a folder"),
    ("control.entries", "set by the walk itself"),
    ("control.crashes", "set by the walk itself"),
    ("query_log.dnstap", "a socket of another program"),
];

/// Every path of the settings is one of `Config::paths`, and `check` is tried with a pipe in its place.
#[test]
fn every_path_of_the_settings_is_named_and_walked() {
    let files = files();
    let text = |name: &str| &*files.iter().find(|file| file.name == name).unwrap().text;
    let settings = files.iter().filter(|file| file.name.starts_with("config/src/settings/"));
    let mut fields: Vec<&str> = settings.flat_map(|file| path_fields(&file.text)).collect();
    let named = keys(text("config/src/paths.rs"));
    let mut last: Vec<&str> = named.iter().filter_map(|key| key.rsplit('.').next()).collect();
    fields.sort_unstable();
    last.sort_unstable();
    assert_eq!(fields, last, "the fields of settings, and the keys in config/src/paths.rs");
    let conditions = text("pipeline/tests/all/command_line/conditions.rs");
    let all = conditions.split_once("const ALL_PATHS: &str = r#\"").unwrap().1;
    let walked = walked(all.split_once("\"#;").unwrap().0);
    for key in named {
        let is_apart = NOT_WALKED.iter().any(|(other, _)| *other == key);
        assert_ne!(walked.contains(&key), is_apart, "{key}: add it to ALL_PATHS or to NOT_WALKED");
    }
}

/// The names of fields that are paths.
fn path_fields(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| line.contains("PathBuf") && !line.starts_with("use "));
    lines.map(|line| match line {
        // The variant of a type that one key has.
        "Unix(PathBuf)," => "dnstap",
        _ => line
            .strip_prefix("pub ")
            .and_then(|rest| rest.split_once(':'))
            .map_or(line, |field| field.0),
    })
}

/// The keys among the texts of a source, without their indexes: `zone[{index}].file` is `zone.file`.
fn keys(source: &str) -> Vec<String> {
    let code = source.lines().filter(|line| !line.trim().starts_with("//"));
    let texts = code.filter_map(|line| line.split('"').nth(1));
    texts.filter(|text| text.contains('.')).map(|text| text.replace("[{index}]", "")).collect()
}

/// The keys of a configuration that lead into its `FOLDER`.
fn walked(toml: &str) -> Vec<String> {
    let mut table = "";
    let mut keys = Vec::new();
    for line in toml.lines() {
        if line.starts_with('[') {
            table = line.trim_matches(['[', ']']);
        } else if let Some((key, _)) = line.split_once(" = \"FOLDER/") {
            keys.push(format!("{table}.{key}"));
        }
    }
    keys
}
