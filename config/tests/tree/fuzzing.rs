//! The fuzz program links no TLS: it fuzzes none, and each gate would compile it with the program.

use std::fs;

use crate::files::root;

/// Parts of the names of packages that are TLS, or are there for it.
const TLS: [&str; 4] = ["native-tls", "openssl", "quinn", "rustls"];

/// The packages of a lock file.
fn packages(lock: &str) -> Vec<String> {
    let lock = fs::read_to_string(root().join(lock)).unwrap();
    let names = lock.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    names.map(str::to_owned).collect()
}

fn is_tls(package: &str) -> bool {
    TLS.iter().any(|part| package.contains(part))
}

#[test]
fn the_fuzz_program_links_no_tls() {
    let linked = packages("bench/fuzz/Cargo.lock");
    for used in ["pmdns-control", "pmdns-streams"] {
        assert!(linked.iter().any(|name| name == used), "the targets of {used} have gone");
    }
    let tls: Vec<_> = linked.iter().filter(|name| is_tls(name)).collect();
    assert!(tls.is_empty(), "take our crates without their feature `tls`: {tls:?}");
    assert!(packages("Cargo.lock").iter().any(|name| is_tls(name)), "TLS has other names now");
}
