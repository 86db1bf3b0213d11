//! The page "A day of an operator": its commands in their order, as they stand there, and the lines that it shows.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use crate::api_calls::{serve_files, write_certificates};
use crate::harness::{isolated, path, sh, wait_until};
use crate::nsd;
use crate::pmdns::{BINARY, TAP_PORT, TAP_V4};
use crate::process::Process;
use crate::stats::Stats;

const PAGE: &str = include_str!("../../../docs/tasks/day.md");
const SERVER: &str = "10.97.0.53";
const CONFIG: &str = "/etc/pmdns/pmdns.toml";
const COURT: &str = "# Orders of the court\n# 17 O 311/26\nshop.example\nbad.example\n";
/// Names of the flood: as many as cannot come in the time of the lab.
const FLOOD_NAMES: u32 = 100_000;

/// The commands of the page that were not run yet, each with the lines that follow it.
struct Page(VecDeque<(&'static str, Vec<&'static str>)>);

impl Page {
    fn read() -> Self {
        let blocks =
            PAGE.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        let mut steps = VecDeque::new();
        for line in blocks.flat_map(str::lines) {
            match line.strip_prefix("$ ") {
                Some(command) => steps.push_back((command, Vec::new())),
                None => steps.back_mut().expect("a command comes first").1.push(line),
            }
        }
        Self(steps)
    }

    /// The next command, which begins so.
    fn next(&mut self, begin: &str) -> (&'static str, Vec<&'static str>) {
        let (command, shown) = self.0.pop_front().expect("the page goes on");
        assert!(command.starts_with(begin), "the page has `{command}`, and the lab `{begin}`");
        (command, shown)
    }

    /// Runs the next command, which begins so. It ends with this code and prints what the page shows.
    fn run(&mut self, begin: &str, code: i32) {
        let (command, shown) = self.next(begin);
        let printed = shell(command, code);
        println!("$ {command}\n{printed}");
        // An address is told by its numbers; of other lines they differ from run to run.
        let is_exact = command.ends_with("+short");
        let same = |one: &str, other: &str| match is_exact {
            true => one == other,
            false => without_numbers(one) == without_numbers(other),
        };
        for line in shown {
            let is_printed = printed.lines().any(|printed| same(printed, line));
            assert!(is_printed, "`{command}` does not print `{line}`, but:\n{printed}");
        }
    }
}

/// A line with 0 for each number, and single spaces.
fn without_numbers(line: &str) -> String {
    let mut text = String::new();
    for c in line.split_whitespace().collect::<Vec<_>>().join(" ").chars() {
        match c.is_ascii_digit() {
            true if text.ends_with('0') => {}
            true => text.push('0'),
            false => text.push(c),
        }
    }
    text
}

/// Runs a command in the folder of the new program, where `pmdns` is the one under test.
fn shell(command: &str, code: i32) -> String {
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(path("bin"))
        .env("PATH", "/run/lab/bin:/usr/bin:/usr/sbin:/bin:/sbin")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{command}: {text}");
    text.into_owned()
}

/// The folders of an installed pmdns, which only the lab sees, and the files that the page speaks of.
fn install() {
    sh("cp -a /etc /run/lab/etc && mount --bind /run/lab/etc /etc");
    sh("mkdir /run/lab/var && mount --bind /run/lab/var /var/lib");
    sh("mkdir -p /etc/pmdns /var/lib/pmdns /run/pmdns /run/lab/bin /run/lab/www");
    symlink(BINARY, path("bin/pmdns")).unwrap();
    let config = PAGE.split_once("```toml\n").unwrap().1.split("```").next().unwrap();
    let port = TAP_PORT.replace(TAP_V4, SERVER);
    let pages = "[cache]\nsize = \"32MiB\"\npages = \"normal\"";
    fs::write(CONFIG, format!("{port}{}", config.replacen("[cache]", pages, 1))).unwrap();
    fs::write("/etc/pmdns/court.txt", COURT).unwrap();
    fs::write("/etc/pmdns/family.txt", "casino.example\n").unwrap();
    sh("openssl rand -hex 32 | install -m 0640 /dev/stdin /etc/pmdns/console.token");
    write_certificates("lists.example.net");
    fs::copy(path("ca.pem"), "/etc/pmdns/lists-ca.pem").unwrap();
    for address in ["192.0.2.53", "198.51.100.53", "203.0.113.80"] {
        sh(&format!("ip address add {address}/32 dev lo"));
    }
}

/// An upstream with the zones of the page.
fn serve(name: &str, address: &str) -> Process {
    let zone = |zone: &str, records: &str| {
        format!(
            "$ORIGIN {zone}.\n$TTL 3600\n@ SOA ns h 1 3600 900 604800 60\n@ NS ns\nns A 127.0.0.1\n{records}\n"
        )
    };
    let zones = [
        ("shop.example", "www A 203.0.113.7"),
        ("news.example", "* A 203.0.113.8"),
        ("victim.example", "www A 203.0.113.9"),
        ("casino.example", "@ A 203.0.113.11"),
    ];
    let texts = zones.map(|(name, records)| zone(name, records));
    let zones: Vec<_> =
        zones.iter().zip(&texts).map(|((name, _), text)| (*name, &**text)).collect();
    nsd::serve_at(name, (address, 53), &zones)
}

/// Has the server of lists serve so many names.
fn serve_names(count: u32) {
    let names: String = (1..=count).map(|number| format!("m{number}.malware.example\n")).collect();
    fs::write(path("www/malware.txt"), names).unwrap();
}

/// Starts pmdns as its service does.
fn start() -> (Process, PathBuf) {
    let mut command = Command::new(BINARY);
    let (mut pmdns, output) = Process::start_with_output("pmdns", command.args(["run", "--json"]));
    pmdns.wait_for(" ready");
    for host in ["1", "8", "9"] {
        sh(&format!("ip address add 10.97.0.{host}/24 dev pm0"));
    }
    sh("ip link set pm0 up");
    wait_until("the TAP has carrier", || sh("ip -brief link show pm0").contains("LOWER_UP"));
    (pmdns, output)
}

fn stop((mut pmdns, output): (Process, PathBuf)) -> Stats {
    pmdns.signal("TERM");
    assert_eq!(pmdns.wait().code(), Some(0), "{}", pmdns.log());
    let stats = Stats::parse(&fs::read_to_string(output).unwrap());
    stats.assert_balanced();
    stats
}

/// Asks for names, again and again or each once, with these options of dnsperf.
fn dnsperf(name: &str, names: impl Iterator<Item = String>, options: &str) -> Process {
    let file = path(&format!("{name}.names"));
    fs::write(&file, names.map(|name| format!("{name} A\n")).collect::<String>()).unwrap();
    let mut command = Command::new("dnsperf");
    command.args(["-s", SERVER, "-d"]).arg(file).args(options.split(' '));
    Process::start(name, &mut command)
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn the_page_says_what_happens() {
    isolated("day::the_page_says_what_happens", || {
        install();
        let first = serve("first", "192.0.2.53");
        let _second = serve("second", "198.51.100.53");
        serve_names(200);
        let _lists = serve_files(("203.0.113.80", 443));
        let mut page = Page::read();
        let pmdns = start();
        complaint(&mut page);
        flood(&mut page);
        dying_upstream(&mut page, first);
        bad_list(&mut page);
        upgrade(&mut page, pmdns);
        assert!(page.0.is_empty(), "the lab does not run {:?}", page.0);
    });
}

fn complaint(page: &mut Page) {
    let blocked = format!("dig @{SERVER} -b 10.97.0.8 www.shop.example");
    assert!(shell(&blocked, 0).contains("NXDOMAIN"));
    wait_until("it is logged", || shell("pmdns log --blocked", 0).contains("www.shop.example"));
    page.run("pmdns log", 0);
    page.run("pmdns lookup www.shop.example", 0);
    page.run("pmdns allow", 0);
    page.run("dig", 0);
    page.run("sed", 0);
    page.run("pmdns reload", 0);
    page.run("pmdns unblock", 0);
    page.run("pmdns entries", 0);
    page.run("dig", 0);
    page.run("pmdns lookup casino.example", 0);
    page.run("pmdns client set", 0);
    page.run("dig", 0);
    page.run("dig", 0);
}

fn flood(page: &mut Page) {
    shell(&format!("dig @{SERVER} www.victim.example"), 0);
    let names = (0..FLOOD_NAMES).map(|number| format!("x{number}.victim.example"));
    let mut flood = dnsperf("flood", names, "-l 120 -t 1 -Q 1000");
    wait_until("the flood is found", || shell("pmdns floods", 0).contains("victim.example"));
    page.run("pmdns floods", 0);
    page.run("pmdns hitters", 0);
    page.run("pmdns limit", 0);
    let refused = || {
        let limits: serde_json::Value =
            serde_json::from_str(&shell("pmdns limit --json", 0)).unwrap();
        limits["limits"][0]["refused"].as_u64()
    };
    wait_until("misses are refused", || refused() > Some(100));
    page.run("pmdns limit", 0);
    page.run("dig", 0);
    page.run("dig", 0);
    flood.signal("INT");
    flood.wait();
    page.run("pmdns unlimit", 0);
    page.run("pmdns limit", 0);
}

fn dying_upstream(page: &mut Page, first: Process) {
    let names = (0..200).map(|number| format!("n{number}.news.example"));
    let mut clients = dnsperf("clients", names, "-n 1 -Q 100");
    drop(first);
    clients.wait();
    let report = clients.log();
    assert!(report.contains("Queries completed:    200 (100.00%)"), "{report}");
    assert!(report.contains("NOERROR 200 (100.00%)"), "{report}");
    page.run("pmdns health", 0);
    page.run("pmdns lookup", 0);
    page.run("pmdns stats", 0);
    let config = fs::read_to_string(CONFIG).unwrap();
    let without = config.replacen("[[upstream]]\naddress = \"192.0.2.53:53\"\n", "", 1);
    assert_ne!(config, without);
    fs::write(CONFIG, without).unwrap();
    page.run("pmdns config --diff", 0);
    page.run("pmdns check", 0);
    page.run("pmdns config --diff", 0);
    page.run("pmdns health", 0);
}

fn bad_list(page: &mut Page) {
    page.run("echo", 0);
    page.run("pmdns check", 0);
    page.run("pmdns reload", 0);
    page.run("echo", 0);
    page.run("pmdns check", 2);
    page.run("pmdns reload", 2);
    page.run("pmdns lookup bad.example", 0);
    fs::write(path("www/malware.txt"), "<html>Service unavailable</html>\n").unwrap();
    page.run("pmdns refresh", 1);
    page.run("pmdns lookup m1.malware.example", 0);
    serve_names(201);
    page.run("printf", 0);
    page.run("pmdns check", 0);
    page.run("pmdns refresh", 0);
}

fn upgrade(page: &mut Page, old: (Process, PathBuf)) {
    page.run("./pmdns check", 0);
    page.run("pmdns drain", 0);
    page.run("pmdns health", 9);
    page.run("curl", 0);
    page.next("systemctl restart pmdns");
    stop(old);
    let new = start();
    wait_until("the snapshot is loaded", || new.0.log().contains("answers loaded"));
    page.run("pmdns health", 0);
    page.run("pmdns lookup", 0);
    page.run("dig", 0);
    assert_eq!(stop(new).number("/upstreams/0/queries"), 0, "the first query is a hit");
}
