//! What a machine lacks, files that cannot be used, and output that cannot be written.

use std::fs;
#[cfg(feature = "dpdk")]
use std::net::TcpListener;
#[cfg(feature = "dpdk")]
use std::os::unix::fs::PermissionsExt as _;
#[cfg(feature = "dpdk")]
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use pmdns_config::{ConfigText, PathUse};

#[cfg(feature = "dpdk")]
use super::NOBODY;
use super::{BINARY, Folder, findings, instance, pmdns, told};

/// What `check` and `run` say of a config, and their exit codes.
#[cfg(feature = "dpdk")]
fn check_and_run(config: &str) -> [(Option<i32>, String); 2] {
    ["check", "run"].map(|command| {
        let (code, _, said) = told(&pmdns(&[command, "-c", config]));
        (code, said)
    })
}

#[cfg(feature = "dpdk")]
#[test]
fn d06_check_and_run_refuse_the_same_in_the_same_words() {
    let folder = Folder::new("d06");
    let none = folder.path("none/file");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let ca_file = folder.path("ca.pem");
    fs::write(&ca_file, "no certificate\n").unwrap();
    for (device, rest, code, words) in [
        (
            "net_null0",
            format!("[query_log]\njson = {none:?}\n"),
            2,
            "line 14: `query_log.json` cannot be written: ",
        ),
        (
            "net_null0",
            format!("[query_log]\nsqlite = {none:?}\n"),
            2,
            "`query_log.sqlite` cannot be written: ",
        ),
        (
            "net_null0",
            format!("[clients]\nmax_entries = 1\njournal = {none:?}\n"),
            2,
            "`clients.journal` cannot be written: ",
        ),
        (
            "net_null0",
            format!("[[zone]]\nfile = {none:?}\n"),
            2,
            "line 14: `zone[0].file` cannot be used: ",
        ),
        ("lo", String::new(), 4, "`port[0].device` is `lo`, which is an interface of the kernel"),
        ("net_nosuch0", String::new(), 4, "`port[0].device` has the driver net_nosuch, which is"),
        (
            "net_vhost0,iface=/nowhere/at.sock",
            String::new(),
            4,
            "`port[0].device` has its socket in /nowhere, which is no folder",
        ),
        (
            "net_null0",
            format!("[streams]\ntcp = [\"{}\"]\n", taken.local_addr().unwrap()),
            5,
            "line 14: `streams.tcp[0]` is 127.0.0.1:",
        ),
        (
            "net_null0",
            format!("[[upstream]]\naddress = \"tls://192.0.2.9\"\nca_file = {ca_file:?}\n"),
            2,
            "line 15: `upstream[1].ca_file` cannot be used: ",
        ),
    ] {
        let config = folder.config(device, &rest);
        let [checked, ran] = check_and_run(&config);
        assert!(checked.1.contains(words), "{words} in {checked:?}");
        assert_eq!((checked.0, ran.0), (Some(2), Some(code)), "{words}");
        assert_eq!(checked.1, ran.1, "both say the same");
        let (code, printed, said) = told(&pmdns(&["check", "--elsewhere", "-c", &config]));
        let is_of_elsewhere = words.contains("zone[0]");
        assert_eq!(code, Some(if is_of_elsewhere { 2 } else { 0 }), "{printed}{said}");
    }
}

/// A folder of somebody else, which is there or whose parent is.
#[cfg(feature = "dpdk")]
#[test]
fn d06_check_and_run_refuse_a_socket_that_this_user_cannot_make() {
    let folder = Folder::new("d06-socket");
    let (binary, config) = (folder.path("pmdns"), folder.config("net_null0", ""));
    // The build folder may be root's alone.
    assert!(Command::new("cp").args([BINARY, &binary]).status().unwrap().success());
    let text = fs::read_to_string(&config).unwrap();
    let closed = folder.path("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    for (socket, words) in [
        (format!("{closed}/pmdns.sock"), "where this user cannot make a socket: Permission denied"),
        (format!("{closed}/none/pmdns.sock"), "is not there, and this user cannot make it in"),
    ] {
        fs::write(&config, text.replace(&folder.path("pmdns.sock"), &socket)).unwrap();
        let [checked, ran] = ["check", "run"].map(|command| {
            let mut command_line = Command::new(&binary);
            command_line.args([command, "-c", &config]);
            // Nothing is closed to root.
            if rustix::process::geteuid().is_root() {
                command_line.uid(NOBODY).gid(NOBODY);
            }
            let (code, _, said) = told(&command_line.output().unwrap());
            (code, said)
        });
        assert!(
            checked.1.contains("`control.socket` is in ") && checked.1.contains(words),
            "{checked:?}"
        );
        assert_eq!((checked.0, ran.0), (Some(2), Some(5)), "{words}");
        assert_eq!(checked.1, ran.1, "both say the same");
    }
}

/// Arguments that DPDK refuses when it starts, those of another of its versions among them; and some that it takes.
#[cfg(feature = "dpdk")]
#[test]
fn d06_check_refuses_the_arguments_that_dpdk_refuses() {
    let folder = Folder::new("d06-arguments");
    let text = fs::read_to_string(folder.config("net_null0", "")).unwrap();
    let with = |arguments: &str| {
        let words: Vec<String> = arguments.split(' ').map(|word| format!("{word:?}")).collect();
        let config = folder.path("arguments.toml");
        fs::write(&config, text.replace("\"--no-huge\"", &words.join(", "))).unwrap();
        config
    };
    for refused in [
        "-n 0",
        "-r 99",
        "--base-virtaddr=zz",
        "--syslog=nosuch",
        "--force-max-simd-bitwidth=3",
        "--vfio-intr=zz",
        "--vfio-vf-token=zz",
        "--socket-limit=zz",
        "--main-lcore=7",
        "--trace-bufsz=zz",
        "--trace-mode=zz",
        "-s 0xff",
        "-l x",
        "-l 0-4095",
        "--lcores=4095",
        "-c 0x0",
        "-l",
        "-b 0000:00:03.0 -a 0000:00:03.0",
        "--no-pci=1",
        "--log-color=zz",
    ] {
        let [checked, ran] = check_and_run(&with(&format!("--no-huge --no-shconf {refused}")));
        assert_eq!((checked.0, ran.0), (Some(2), Some(3)), "{refused}: {checked:?} {ran:?}");
        assert_eq!(checked.1, ran.1, "both say the same");
        for words in ["`eal.args[", "which DPDK refuses ("] {
            assert!(checked.1.contains(words), "{words} in {checked:?}");
        }
    }
    for taken in ["-n 4", "-l 0", "--proc-type=primary", "--file-prefix x", "-v", "--legacy-mem"] {
        let config = with(&format!("--no-huge {taken}"));
        let (code, _, said) = told(&pmdns(&["check", "-c", &config]));
        assert_eq!(code, Some(0), "{taken}: {said}");
    }
}

#[test]
fn d24_a_file_that_is_missing_is_told_with_line_and_key() {
    let folder = Folder::new("d24");
    let missing = folder.path("missing.txt");
    let config = folder.config("net_null0", &format!("[[blocklist]]\nfile = {missing:?}\n"));
    let (code, _, said) = told(&pmdns(&["check", "--elsewhere", "-c", &config]));
    assert_eq!(code, Some(2), "{said}");
    let expected =
        format!("pmdns.toml, line 14: `blocklist[0].file` leads to {missing}: cannot be read");
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn d25_doctor_says_of_an_instance_that_runs_whether_it_has_this_configuration() {
    let folder = Folder::new("d25");
    let config = folder.config("net_null0", "");
    let text = fs::read_to_string(&config).unwrap();
    for (toml, expected) in [
        (text.clone(), Some("an instance with this configuration is running")),
        (text.replace("10.97.0.2/24", "10.97.0.3/24"), None),
    ] {
        let shown = serde_json::json!({ "toml": toml, "entries": [], "records": [] });
        let socket = folder.path("pmdns.sock");
        let _ = fs::remove_file(&socket);
        // More than are asked.
        let _instance = instance(&socket, shown.to_string(), 9);
        let (_, out, _) = told(&pmdns(&["doctor", "--json", "-c", &config]));
        let json: serde_json::Value = serde_json::from_str(&out).unwrap();
        let told = findings(&json, "addresses");
        let is_told = |text: &str| told.iter().any(|(_, found)| found == text);
        match expected {
            Some(text) => assert!(is_told(text), "{told:?}"),
            None => {
                assert!(told.iter().all(|(_, found)| !found.contains("is running")), "{told:?}")
            }
        }
    }
}

#[test]
fn output_that_cannot_be_written_ends_no_command_by_a_signal() {
    let folder = Folder::new("full");
    let config = folder.config("net_null0", "");
    let wrong = folder.path("wrong.toml");
    fs::write(&wrong, "[nonsense]\n").unwrap();
    for words in [
        &["version"][..],
        &["check", "-c", &config],
        &["check", "-c", &wrong],
        &["nonsense"],
        &["--help"],
    ] {
        for is_error in [false, true] {
            let full = fs::File::options().write(true).open("/dev/full").unwrap();
            let mut command = Command::new(BINARY);
            let command = command.args(words).stdout(Stdio::null()).stderr(Stdio::null());
            let command = if is_error { command.stderr(full) } else { command.stdout(full) };
            let status = command.status().unwrap();
            assert!(status.code().is_some(), "{words:?}: {status}");
        }
    }
}

/// A table for each path of a configuration; `FOLDER` is where they are.
const ALL_PATHS: &str = r#"
[cookies]
secret_file = "FOLDER/cookies"
[cache]
snapshot = "FOLDER/snapshot"
[dnssec]
trust_anchor = "FOLDER/anchor"
[clients]
max_entries = 1
file = "FOLDER/clients"
journal = "FOLDER/journal"
[[zone]]
file = "FOLDER/zone"
[[blocklist]]
file = "FOLDER/list"
[[blocklist]]
file = "FOLDER/fetched"
url = "https://lists.example/ads"
ca_file = "FOLDER/list-ca"
[[rpz]]
file = "FOLDER/rpz"
[[rpz]]
zone = "rpz.example"
primaries = ["192.0.2.1:53"]
file = "FOLDER/transferred"
[[redirect]]
addresses = ["192.0.2.80"]
file = "FOLDER/redirect"
except_file = "FOLDER/except"
[[tsig]]
name = "key.example"
secret_file = "FOLDER/tsig"
[streams]
tls = ["127.0.0.1:8853"]
certificate = "FOLDER/certificate"
key = "FOLDER/key"
[api]
socket = "FOLDER/api.sock"
listen = "127.0.0.1:8443"
certificate = "FOLDER/api-certificate"
key = "FOLDER/api-key"
client_ca = "FOLDER/api-ca"
[[token]]
name = "one"
secret_file = "FOLDER/token"
[query_log]
json = "FOLDER/json"
sqlite = "FOLDER/sqlite"
client_secret_file = "FOLDER/client-secret"
[[upstream]]
address = "tls://192.0.2.9"
ca_file = "FOLDER/upstream-ca"
"#;

#[test]
fn a_pipe_in_place_of_any_file_is_told_and_not_waited_for() {
    let folder = Folder::new("pipes");
    let text = ALL_PATHS.replace("FOLDER", folder.0.to_str().unwrap());
    let file = folder.config("net_null0", &text);
    let text = fs::read_to_string(&file).unwrap();
    let (entries, crashes) = (folder.path("entries"), folder.path("crashes"));
    let kept = format!("[control]\nentries = \"{entries}\"\ncrashes = \"{crashes}\"\n");
    fs::write(&file, text.replacen("[control]\n", &kept, 1)).unwrap();
    let config = ConfigText::read(Path::new(&file)).unwrap().config;
    use PathUse::{Read, Write};
    let files: Vec<_> =
        config.paths().into_iter().filter(|one| matches!(one.usage, Read | Write)).collect();
    assert!(files.len() >= 24, "{files:?}");
    for one in &files {
        assert!(Command::new("mkfifo").arg(one.path).status().unwrap().success());
    }
    let (code, printed, said) = told(&pmdns(&["check", "-c", &folder.path("pmdns.toml")]));
    assert_eq!(code, Some(2), "{said}");
    for one in files {
        let (key, path) = (format!("`{}`", one.key), one.path.display().to_string());
        let is_it = |line: &str| {
            line.contains(&key) && line.contains(&path) && line.contains("no regular file")
        };
        assert!(said.lines().chain(printed.lines()).any(is_it), "{key} in {said}\n{printed}");
    }
}
