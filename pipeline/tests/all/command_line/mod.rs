//! The program as an operator starts it: what it prints, and what it exits with (docs/operations.md).

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod conditions;
mod listings;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use pmdns_config::Pin;
use rcgen::{CertificateParams, KeyPair, PublicKeyData as _};

const BINARY: &str = env!("CARGO_BIN_EXE_pmdns");
/// A user without rights.
const NOBODY: u32 = 65_534;

/// A folder of a test; it goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("pmdns-command-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Writes a config with this device, and gives its path.
    fn config(&self, device: &str, rest: &str) -> String {
        let (path, socket) = (self.path("pmdns.toml"), self.path("pmdns.sock"));
        let text = format!(
            "[eal]\nargs = [\"--no-huge\"]\n[[port]]\nname = \"p0\"\ndevice = \"{device}\"\naddresses = [\"10.97.0.2/24\"]\n\
             [[upstream]]\naddress = \"127.0.0.1:5353\"\n[control]\nsocket = \"{socket}\"\n\
             [acl]\nallow = [\"10.97.0.0/24\"]\n{rest}"
        );
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn pmdns(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).output().unwrap()
}

/// The exit code, what is printed, and what is said of failures.
fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Answers so many requests with the text, and gives their first lines.
fn instance(path: &str, text: String, requests: usize) -> std::thread::JoinHandle<Vec<String>> {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        let answer = |_| {
            let (mut stream, _) = listener.accept().unwrap();
            let head = BufReader::new(&stream).lines().map_while(Result::ok);
            let head: Vec<String> = head.take_while(|line| !line.is_empty()).collect();
            let kind = "content-type: application/json\r\nconnection: close";
            // Who asked may have gone.
            let _ = write!(stream, "HTTP/1.1 200 OK\r\n{kind}\r\n\r\n{text}");
            head.into_iter().next().unwrap_or_default()
        };
        (0..requests).map(answer).collect()
    })
}

#[test]
fn d03_a_wrong_log_level_is_refused() {
    let output = Command::new(BINARY).arg("version").env("PMDNS_LOG", "bogus").output().unwrap();
    let (code, _, said) = told(&output);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("PMDNS_LOG is `bogus`; allowed: off, error, warn, info"), "{said}");
}

#[test]
fn d05_d06_check_tells_everything_at_once_and_asks_the_machine() {
    let folder = Folder::new("d05");
    let rest = "[[placement]]\ncores = [1000]\n[cache]\nsize = \"1024GiB\"\n[frames]\nbatch = 0\n";
    let config = folder.config("net_null0", rest);
    let (code, printed, said) = told(&pmdns(&["check", "-c", &config]));
    assert_eq!(code, Some(2), "{said}");
    assert_eq!(said.lines().count(), 4, "{said}");
    for (line, words) in [
        (14, "`placement[0].cores[0]` is 1000; this process may run on the CPUs"),
        (16, "`cache.size` is 1024GiB, but this machine has"),
        (18, "`frames.batch` is 0; allowed: 1 to 64"),
    ] {
        assert!(said.contains(&format!("pmdns.toml, line {line}: {words}")), "{words} in {said}");
    }
    assert_eq!(printed, "");
    let config = folder.config("net_tap0,iface=pm0", rest.split("[frames]").next().unwrap());
    let (code, printed, said) = told(&pmdns(&["check", "--elsewhere", "-c", &config]));
    assert_eq!((code, &*said), (Some(0), ""), "{printed}");
}

#[test]
fn check_prints_the_pin_of_the_certificate_that_clients_get() {
    let folder = Folder::new("pin");
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::default().self_signed(&key).unwrap();
    let files = [folder.path("certificate.pem"), folder.path("key.pem")];
    fs::write(&files[0], certificate.pem()).unwrap();
    fs::write(&files[1], key.serialize_pem()).unwrap();
    let encrypted = format!(
        "[streams]\ntls = [\"127.0.0.1:8853\"]\ncertificate = {:?}\nkey = {:?}\n",
        files[0], files[1]
    );
    let check = |rest: &str| {
        let config = folder.config("net_tap0,iface=pm0", rest);
        told(&pmdns(&["check", "--elsewhere", "-c", &config]))
    };
    let digest = ring::digest::digest(&ring::digest::SHA256, &key.subject_public_key_info());
    let pin = Pin(digest.as_ref().try_into().unwrap());
    let (code, printed, said) = check(&encrypted);
    assert_eq!(code, Some(0), "{said}");
    let line = format!("streams.certificate: its key has the pin {pin}");
    assert_eq!(printed.lines().last(), Some(&*line));
    let (code, printed, _) = check("[streams]\ntcp = [\"127.0.0.1:8853\"]\n");
    assert!(code == Some(0) && !printed.contains("has the pin"), "{printed}");
    fs::write(&files[1], "no key").unwrap();
    let (code, _, said) = check(&encrypted);
    let expected = "`streams.key` cannot read a private key";
    assert!(code == Some(2) && said.contains("line 16: ") && said.contains(expected), "{said}");
}

#[test]
fn d07_a_user_without_rights_is_told_so() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("not root: nobody else can be tried");
    }
    let folder = Folder::new("d07");
    let socket = folder.path("pmdns.sock");
    let _instance = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o660)).unwrap();
    // The build folder may be root's alone. Another process copies: a child that another test starts meanwhile would
    // inherit our file, and what is open for writing cannot be run.
    let binary = folder.path("pmdns");
    assert!(Command::new("cp").args([BINARY, &binary]).status().unwrap().success());
    let ask =
        Command::new(&binary).args(["stats", "--socket", &socket]).uid(NOBODY).gid(NOBODY).output();
    let (code, _, said) = told(&ask.unwrap());
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("permission denied") && said.contains("control.group"), "{said}");
    assert!(!said.contains("start one"), "{said}");
}

#[test]
fn d09_output_that_nobody_reads_to_its_end_ends_quietly() {
    let folder = Folder::new("d09");
    let socket = folder.path("pmdns.sock");
    // More than a pipe holds.
    let counters: Vec<String> =
        (1..50_000).map(|number| format!("\"counter_{number}\":{number}")).collect();
    let instance = instance(&socket, format!("{{{}}}", counters.join(",")), 1);
    let mut asking = Command::new(BINARY)
        .args(["stats", "--socket", &socket])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(asking.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("counter_1 "), "{first}");
    let (code, _, said) = told(&asking.wait_with_output().unwrap());
    assert_eq!((code, &*said), (Some(0), ""));
    assert_eq!(instance.join().unwrap(), ["GET /api/v1/stats HTTP/1.1"]);
}

#[cfg(feature = "dpdk")]
#[test]
fn d10_an_interface_that_is_missing_is_named() {
    let folder = Folder::new("d10");
    let config = folder.config("net_af_xdp0,iface=pmdns-nope", "");
    let (code, _, said) = told(&pmdns(&["run", "-c", &config]));
    assert_eq!(code, Some(4), "{said}");
    let expected = "there is no interface `pmdns-nope` here (`ip link` lists them)";
    assert!(said.contains(expected) && !said.contains("not permitted"), "{said}");
}

#[test]
fn d11_what_cannot_be_used_exits_with_2() {
    let folder = Folder::new("d11");
    let config = folder.config("replay", "");
    let missing = folder.path("no.pcap");
    let (code, _, said) = told(&pmdns(&["replay", &missing, "-c", &config]));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("no.pcap"), "{said}");
    let (code, _, said) = told(&pmdns(&["check", "-c", &folder.path("no.toml")]));
    assert_eq!(code, Some(2), "{said}");
}

#[test]
fn d01_the_socket_is_found_without_being_told() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let script = Command::new("scripts/run.sh").current_dir(root).arg("--print-config").output();
    let (code, config, said) = told(&script.unwrap());
    assert_eq!(code, Some(0), "{said}");
    let config = pmdns_config::Config::from_toml(&config).unwrap();
    assert_eq!(config.control.socket, pmdns_config::Control::default().socket, "what is asked");
    let (_, help, _) = told(&pmdns(&["top", "--help"]));
    assert!(help.contains(&format!("{} by default", config.control.socket.display())), "{help}");
    let script = fs::read_to_string(format!("{root}/scripts/run.sh")).unwrap();
    assert!(script.contains("$binary top"), "and the user is told how to look");
}

#[test]
fn the_config_is_looked_for_where_packages_put_it() {
    let (_, help, _) = told(&pmdns(&["run", "--help"]));
    assert!(help.contains("[default: /etc/pmdns/pmdns.toml]"), "{help}");
}

/// The level and the text of the findings of a check.
fn findings(json: &serde_json::Value, check: &str) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let findings = json["findings"].as_array().unwrap().iter().filter(|one| one["check"] == check);
    findings.map(|one| (text(&one["level"]), text(&one["found"]))).collect()
}

#[test]
fn doctor_exits_with_the_worst_and_tries_the_upstreams() {
    let folder = Folder::new("doctor");
    let [answers, babbles] = [1, 2].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let addresses = [&answers, &babbles].map(|socket| socket.local_addr().unwrap());
    let upstream = |address| format!("[[upstream]]\naddress = \"{address}\"\n");
    let more: String = addresses.into_iter().chain([closed]).map(upstream).collect();
    let config = folder
        .config("net_null0", &format!("{more}[[upstream]]\naddress = \"quic://192.0.2.1\"\n"));
    let upstreams = [(answers, 0x80), (babbles, 0)].map(|(socket, bits)| {
        std::thread::spawn(move || {
            let mut query = [0; 64];
            let (length, client) = socket.recv_from(&mut query).unwrap();
            query[2] |= bits;
            socket.send_to(&query[..length], client).unwrap();
        })
    });
    let (code, out, err) = told(&pmdns(&["doctor", "--json", "-c", &config]));
    assert_eq!(code, Some(7), "{out}{err}");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["worst"], "fail");
    let levels: Vec<String> =
        findings(&json, "upstream").into_iter().map(|(level, _)| level).collect();
    // The first one is that of every config here, at a port where nobody answers.
    assert_eq!(levels[1..], ["ok", "fail", "fail", "ok"], "{out}");
    for upstream in upstreams {
        upstream.join().unwrap();
    }
    for (level, found) in findings(&json, "driver") {
        assert_eq!((level.as_str(), found.as_str()), ("ok", "port p0: net_null"));
    }
}

#[test]
fn doctor_tells_of_the_machine_without_a_config_and_of_mistakes_with_one() {
    let folder = Folder::new("doctor-none");
    let (code, _, err) = told(&pmdns(&["doctor", "-c", &folder.path("nothing.toml")]));
    assert_eq!(code, Some(2), "{err}");
    let wrong = folder.config("net_null0", "[cache]\nsize = \"1KiB\"\n");
    let (code, out, _) = told(&pmdns(&["doctor", "-c", &wrong]));
    assert_eq!(code, Some(7), "{out}");
    assert!(out.contains("cache.size") && out.contains("pmdns check"), "{out}");
    assert!(out.contains("kernel  ") && out.contains("hugepages "), "the rest is told too: {out}");
}

#[test]
fn an_imported_configuration_passes_the_check_and_lists_what_it_lacks() {
    let folder = Folder::new("import");
    let (input, output) = (folder.path("unbound.conf"), folder.path("out.toml"));
    let whole = "server:\n interface: 192.0.2.53\n access-control: 192.0.2.0/24 allow\n local-data: 'a.example. A 192.0.2.7'\n\
                 forward-zone:\n name: .\n forward-addr: 127.0.0.1@9\n";
    fs::write(&input, whole).unwrap();
    let (code, _, said) = told(&pmdns(&["import", &input, "-o", &output]));
    assert_eq!(
        (code, &*said),
        (Some(0), "0 settings were not taken over or differ; 0 need nothing\n")
    );
    let (code, printed, said) = told(&pmdns(&["check", "--elsewhere", "-c", &output]));
    assert_eq!(code, Some(0), "{printed}{said}");
    let (code, _, said) = told(&pmdns(&["import", &input, "-o", &output]));
    assert!(code == Some(2) && said.contains("cannot be written"), "{said}");
    fs::write(&input, format!("{whole}server:\n ede: yes\n")).unwrap();
    let (code, printed, said) = told(&pmdns(&["import", &input, "--format", "unbound"]));
    assert_eq!(code, Some(6), "{said}");
    assert!(said.contains("unbound.conf:9: `ede: yes`: pmdns has no"), "{said}");
    assert!(printed.contains("[[local]]"), "{printed}");
    let (code, _, said) = told(&pmdns(&["import", &folder.path("none")]));
    assert!(code == Some(2) && said.contains("cannot be read"), "{said}");
}

#[test]
fn an_import_that_loses_what_decides_about_access_or_privacy_writes_nothing() {
    let folder = Folder::new("import-decisive");
    let (input, output) = (folder.path("unbound.conf"), folder.path("out.toml"));
    let text = "server:\n interface: 192.0.2.53\n access-control: 192.0.2.0/24 allow_cookie\n\
                forward-zone:\n name: .\n forward-addr: 127.0.0.1@9\n";
    fs::write(&input, text).unwrap();
    let (code, printed, said) = told(&pmdns(&["import", &input, "-o", &output]));
    assert_eq!((code, &*printed), (Some(10), ""), "{said}");
    assert!(said.contains("unbound.conf:3: `access-control: 192.0.2.0/24 allow_cookie`"), "{said}");
    assert!(said.contains("nothing was written") && !Path::new(&output).exists(), "{said}");
    let (code, _, said) = told(&pmdns(&["import", &input, "-o", &output, "--partial"]));
    assert_eq!(code, Some(6), "{said}");
    assert!(fs::read_to_string(&output).unwrap().contains("refuse = [\"192.0.2.0/24\"]"));
}

#[test]
fn what_every_import_makes_is_loaded_as_a_check_loads_it() {
    let folder = Folder::new("import-loads");
    let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/import/tests/import/data/cases");
    let mut count = 0;
    for entry in fs::read_dir(cases).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".conf") {
            continue;
        }
        let (input, output) = (folder.path(&name), folder.path(&format!("{name}.toml")));
        let text = fs::read_to_string(format!("{cases}/{name}")).unwrap();
        fs::write(&input, text.replace("SCRATCH", cases)).unwrap();
        let (code, _, said) = told(&pmdns(&["import", &input, "-o", &output, "--partial"]));
        assert!(code == Some(0) || code == Some(6), "{name}: {said}");
        let (code, _, said) = told(&pmdns(&["check", "--elsewhere", "-c", &output]));
        assert_eq!(code, Some(0), "{name}: {said}");
        count += 1;
    }
    assert!(count > 10);
}

/// Runs a command that may write no byte to a file, with standard output and standard error in files.
fn without_room(folder: &Folder, arguments: &[&str]) -> Command {
    let file = |name| fs::File::create(folder.path(name)).unwrap();
    let mut command = Command::new("bash");
    command.args(["-c", "ulimit -f 0; exec \"$0\" \"$@\"", BINARY]).args(arguments);
    command.stdout(file("out")).stderr(file("err"));
    command
}

#[test]
fn a_limit_on_the_size_of_files_ends_no_command() {
    let folder = Folder::new("limit");
    let status = without_room(&folder, &["version"]).status().unwrap();
    assert_eq!(status.code(), Some(1), "{status}");

    // The watch says that it is ready, and then writes to its log.
    let socket = folder.path("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let config = folder.config("net_null0", "");
    let mut watch = without_room(&folder, &["health", "--watch", "-c", &config])
        .env("NOTIFY_SOCKET", &socket)
        .env("WATCHDOG_USEC", "1000000")
        .spawn()
        .unwrap();
    for message in ["READY=1", "READY=1\nWATCHDOG=1"] {
        let mut text = [0; 64];
        let length = manager.recv(&mut text).unwrap();
        assert_eq!(String::from_utf8_lossy(&text[..length]).trim(), message);
    }
    end(watch.id());
    let status = watch.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{status}");
}

/// Ends a process as a service manager does.
fn end(process: u32) {
    let status = Command::new("kill").arg(process.to_string()).status().unwrap();
    assert!(status.success());
}
