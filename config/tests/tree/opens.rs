//! Paths that people choose are opened in one file, `config/src/files/open.rs`. It waits for nothing, and what is written
//! follows no planted link.

use crate::files::files;

/// What opens files otherwise.
const OPENERS: [&str; 9] = [
    "File::open(",
    "File::create(",
    "File::create_new(",
    "File::options(",
    "OpenOptions::new(",
    "fs::read(",
    "fs::write(",
    "fs::read_to_string(",
    "Connection::open_with_flags(",
];
/// Where that is right: the file, how often it is done there, and why.
const ALLOWED: [(&str, usize, &str); 19] = [
    ("config/src/files/open.rs", 4, "the file itself"),
    ("config/src/files/whole.rs", 1, "a folder, to have the disk confirm a name"),
    ("config/src/import/source.rs", 1, "a file of the command line, which may be a pipe"),
    ("config/src/load.rs", 1, "the configuration itself, which may be a pipe"),
    ("nics/src/device.rs", 2, "facts of the kernel"),
    ("nics/src/dpdk/advice.rs", 1, "facts of the kernel"),
    ("nics/src/dpdk/eal.rs", 1, "/dev/null"),
    ("nics/src/dpdk/vhost.rs", 1, "a device of the kernel"),
    ("nics/src/hugepage/kernel.rs", 3, "facts of the kernel"),
    ("nics/src/tap.rs", 1, "a device of the kernel"),
    ("pipeline/src/control/socket/listener.rs", 1, "the groups of the system"),
    ("pipeline/src/doctor/drivers.rs", 1, "a library of DPDK"),
    ("pipeline/src/doctor/tree.rs", 1, "facts of the kernel"),
    ("pipeline/src/exceptions/interface.rs", 1, "settings of the kernel"),
    ("pipeline/src/machine/devices.rs", 1, "facts of the kernel"),
    ("pipeline/src/machine/facts.rs", 3, "facts of the kernel"),
    ("pipeline/src/privileges/status.rs", 1, "facts of the kernel"),
    ("pipeline/src/query_log/sqlite/file.rs", 1, "SQLite opens what was opened before"),
    ("pipeline/src/slowpath/descriptor_limit.rs", 1, "facts of the kernel"),
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
    assert!(!opens("WholeFile::create(path)") && !opens("read(path) // fs::read(path)"));
}
