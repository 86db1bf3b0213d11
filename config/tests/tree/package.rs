//! The files of the Debian package: the unit, the upgrade, and which devices its user may open. What a release has beside it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::files::root;

const UNIT: &str = include_str!("../../../scripts/package/pmdns.service");
const HEALTH: &str = include_str!("../../../scripts/package/health/pmdns-health.service");
const UPGRADE: &str = include_str!("../../../docs/tasks/upgrade.md");
const MANIFEST: &str = include_str!("../../../pipeline/Cargo.toml");

/// The values of an option of a unit.
fn values<'u>(unit: &'u str, option: &str) -> Vec<&'u str> {
    let lines = unit.lines().filter_map(|line| line.split_once('='));
    lines.filter(|(name, _)| *name == option).map(|(_, value)| value).collect()
}

/// A crash is not the end, however often it comes: every bug is one (docs/adr/0008-panic-aborts.md). Nor is a start that fails:
/// a list may be on a mount that comes later, and a certificate may be half renewed.
#[test]
fn systemd_never_gives_a_node_up() {
    for (unit, restart) in [(UNIT, "on-failure"), (HEALTH, "always")] {
        assert_eq!(values(unit, "StartLimitIntervalSec"), ["0"]);
        assert_eq!(values(unit, "Restart"), [restart]);
        assert_eq!(values(unit, "RestartPreventExitStatus"), [""; 0], "no failure is for ever");
        // Soon, and without a log that grows by lines all the time.
        assert_eq!(values(unit, "RestartSec"), ["2"]);
    }
}

/// Both make interfaces and write their settings (pipeline/engine/src/exceptions/interface.rs).
#[test]
fn both_units_may_write_the_settings_of_the_network_and_no_others() {
    for unit in [UNIT, HEALTH] {
        assert_eq!(values(unit, "ProtectKernelTunables"), ["yes"]);
        assert_eq!(values(unit, "ReadWritePaths"), ["-/proc/sys/net"]);
    }
}

#[test]
fn the_page_of_upgrades_installs_what_the_unit_runs() {
    let program = UNIT.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a program");
    let program = program.split(' ').next().expect("a path");
    assert_eq!(program, "/usr/bin/pmdns", "where the package has it");
    assert!(MANIFEST.contains("[\"target/release/pmdns\", \"usr/bin/\", \"755\"]"));
    let code = UPGRADE.split("```").skip(1).step_by(2);
    for line in code.flat_map(str::lines).filter(|line| line.trim().starts_with("install ")) {
        assert!(line.ends_with("PROGRAM"), "it installs to where the unit does not look: {line}");
    }
}

/// A group may be opened if all its NICs are ports of the configuration.
#[test]
fn only_groups_of_configured_nics_are_for_the_user_pmdns() {
    let cases = [
        ("one NIC, named", "device = \"0000:01:00.0\"", &[("0000:01:00.0", "0x020000")][..], true),
        ("its short form", "  device='01:00.0' # wan", &[("0000:01:00.0", "0x020000")], true),
        ("capital letters", "device = \"0000:0A:00.0\"", &[("0000:0a:00.0", "0x020000")], true),
        (
            "with an option",
            "device = \"0000:01:00.0,dv_flow_en=0\"",
            &[("0000:01:00.0", "0x020000")],
            true,
        ),
        (
            "its short form with an option",
            "device = \"01:00.0,x=1\"",
            &[("0000:01:00.0", "0x020000")],
            true,
        ),
        ("blanks around it", "device = \" 01:00.0 ,x=1\"", &[("0000:01:00.0", "0x020000")], true),
        ("without zeros in front", "device = \"1:0.0\"", &[("0000:01:00.0", "0x020000")], true),
        (
            "a domain of five digits",
            "device = \"10000:e1:00.0\"",
            &[("10000:e1:00.0", "0x020000")],
            true,
        ),
        ("a longer address", "device = \"01:00.01\"", &[("0000:01:00.0", "0x020000")], false),
        (
            "the end of another address",
            "device = \"0000:101:00.0\"",
            &[("0000:01:00.0", "0x020000")],
            false,
        ),
        (
            "in an option",
            "device = \"net_tap0,iface=01:00.0\"",
            &[("0000:01:00.0", "0x020000")],
            false,
        ),
        ("not named", "device = \"0000:02:00.0\"", &[("0000:01:00.0", "0x020000")], false),
        ("another domain", "device = \"01:00.0\"", &[("0001:01:00.0", "0x020000")], false),
        ("in a comment", "# device = \"01:00.0\"", &[("0000:01:00.0", "0x020000")], false),
        ("the dot is a dot", "device = \"0000:01:0000\"", &[("0000:01:00.0", "0x020000")], false),
        ("a graphics card", "device = \"0000:01:00.0\"", &[("0000:01:00.0", "0x030000")], false),
        (
            "behind a bridge",
            "device = \"01:00.0\"",
            &[("0000:00:01.0", "0x060400"), ("0000:01:00.0", "0x020000")],
            true,
        ),
        (
            "with the NIC of a guest",
            "device = \"01:00.0\"",
            &[("0000:01:00.0", "0x020000"), ("0000:01:00.1", "0x020000")],
            false,
        ),
        ("only a bridge", "device = \"01:00.0\"", &[("0000:00:01.0", "0x060400")], false),
    ];
    let folder = std::env::temp_dir().join(format!("pmdns-vfio-group-{}", std::process::id()));
    for (number, (what, line, devices, is_ours)) in cases.into_iter().enumerate() {
        let place = folder.join(number.to_string());
        fs::create_dir_all(place.join("etc/pmdns")).expect("a folder");
        fs::write(place.join("etc/pmdns/pmdns.toml"), format!("[[port]]\n{line}\n"))
            .expect("a file");
        for (address, class) in devices {
            let device = place.join("sys/kernel/iommu_groups/7/devices").join(address);
            fs::create_dir_all(&device).expect("a folder");
            fs::write(device.join("class"), format!("{class}\n")).expect("a file");
        }
        assert_eq!(is_named("7", &place), is_ours, "{what}");
        assert!(!is_named("8", &place), "there is no such group");
    }
    fs::remove_dir_all(folder).expect("the folders");
}

fn is_named(group: &str, place: &Path) -> bool {
    let script = root().join("scripts/package/vfio-group");
    Command::new("sh").arg(script).arg(group).arg(place).status().expect("sh").success()
}

/// Runs a program there, and returns what it prints.
fn run(program: &str, arguments: &[&str], place: &Path) -> String {
    let output = Command::new(program).args(arguments).current_dir(place).output().expect(program);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_release_that_is_finished_twice_lists_what_is_published_and_keeps_no_signature() {
    let tree = std::env::temp_dir().join(format!("pmdns-finish-{}", std::process::id()));
    let made = tree.join("made");
    for folder in [&made, &tree.join("scripts")] {
        fs::create_dir_all(folder).expect("a folder");
    }
    fs::copy(root().join("scripts/release.sh"), tree.join("scripts/release.sh")).expect("a copy");
    let changes = "# Changelog\n\n## Unreleased\n\n* [One](docs/traps.md#a), [two](https://example.org/)\n\n## 0.1.0\n";
    let manifest = "version = \"0.2.0\"\nrepository = \"https://example.org/pmdns\"\n";
    fs::write(tree.join("CHANGELOG.md"), changes).expect("a file");
    fs::write(tree.join("Cargo.toml"), manifest).expect("a file");
    run("git", &["init", "--quiet"], &tree);
    run("git", &["add", "CHANGELOG.md", "Cargo.toml", "scripts"], &tree);
    let commit = "-c user.name=pmdns -c user.email=pmdns@example.org -c commit.gpgsign=false commit --quiet -m one";
    run("git", &commit.split(' ').collect::<Vec<_>>(), &tree);
    let commit = run("git", &["rev-parse", "HEAD"], &tree);
    let files = ["a.built-with.txt", "a.deb", "a.cdx.json", "SHA256SUMS.asc", "other"];
    for file in files {
        fs::write(made.join(file), file).expect("a file");
    }
    for _ in 0..2 {
        run("bash", &["scripts/release.sh", "--finish", "made"], &tree);
        run("sha256sum", &["--check", "--quiet", "SHA256SUMS"], &made);
        let sums = fs::read_to_string(made.join("SHA256SUMS")).expect("checksums");
        let listed: Vec<_> = sums.lines().filter_map(|line| line.split("  ").nth(1)).collect();
        assert_eq!(listed, ["a.deb", "a.cdx.json", "a.built-with.txt", "NOTES.md"]);
        assert!(!made.join("SHA256SUMS.asc").exists(), "a signature of other checksums");
    }
    let notes = fs::read_to_string(made.join("NOTES.md")).expect("notes");
    let page = format!("https://example.org/pmdns/blob/{}/docs/traps.md#a", commit.trim());
    let first = format!("* [One]({page}), [two](https://example.org/)");
    assert!(notes.contains(&first) && !notes.contains("0.1.0"), "{notes}");
    assert!(notes.ends_with("\n* a: a.built-with.txt\n"), "{notes}");
    fs::remove_dir_all(tree).expect("the folders");
}
