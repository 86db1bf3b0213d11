//! Anycast by docs/tasks/anycast.md: its BIRD configurations on both sides of the TAP of an AF_XDP port, and its `[anycast]`
//! table. Routes are withdrawn when the node cannot serve, and announced again.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::harness::{HUGE_FOLDER, isolated_alone, path, reserve_huge_pages, sh, wait_until};
use crate::nsd;
use crate::pmdns::{BINARY, COMMON, Pmdns, interface_exists, run};
use crate::process::Process;

const PAGE: &str = include_str!("../../../docs/tasks/anycast.md");
const SOCKET: &str = "/run/lab/pmdns.sock";
/// What clients ask.
const SERVICE: [&str; 2] = ["198.51.100.53", "2001:db8:53::53"];
/// Looks at the router's routes, this long apart, in which they have to be gone: a second.
const LOOKS: u32 = 50;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// Holds one thread as a debugger does (ptrace(2): SEIZE, INTERRUPT). It goes on when this program ends.
const HOLD: &str = r#"
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
thread = int(sys.argv[1])
for request in (0x4206, 0x4207):
    if libc.ptrace(request, thread, 0, 0) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
print("held", flush=True)
time.sleep(600)
"#;

/// The only block of the page in this language.
fn block(language: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("```{language}\n")).expect("the page has the block");
    rest.split_once("```").expect("the block ends").0
}

/// The page's configuration, over the device and the upstream of this lab.
fn config() -> String {
    let upstream = format!("192.0.2.2:{}", nsd::PORT);
    let page = block("toml")
        .replace("0000:01:00.0", "net_af_xdp0,iface=vB,start_queue=0,queue_count=1")
        .replace("203.0.113.1:53", &upstream);
    format!(
        "[eal]\nargs = [\"--no-pci\", \"--in-memory\", \"-m\", \"256\", \"--huge-dir\", \"{HUGE_FOLDER}\"]\n\
         {page}{COMMON}[acl]\nallow = [\"192.0.2.0/24\", \"2001:db8::/64\"]\n"
    )
}

/// A veth pair: `vB` here, which is the port, and `vA` in the router's namespace.
fn lay_cable() {
    reserve_huge_pages(512);
    sh("ip netns add router && ip link add vB type veth peer name vA netns router");
    sh(
        "ip link set lo up && ip link set vB up && ip -n router link set lo up && ip -n router link set vA up",
    );
    sh("ip -n router address add 192.0.2.1/24 dev vA");
    sh("ip -n router address add 2001:db8::1/64 dev vA nodad");
    wait_until("the cable has carrier", || sh("ip -brief link show vB").contains("LOWER_UP"));
}

fn bird(name: &str, prefix: &[&str], text: &str) -> Process {
    let (config, socket) = (path(&format!("{name}.conf")), path(&format!("{name}.ctl")));
    fs::write(&config, text).unwrap();
    let mut words = prefix.iter().copied().chain(["/usr/sbin/bird", "-f", "-c"]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).arg(&config).arg("-s").arg(&socket).arg("-P");
    let bird = Process::start(name, command.arg(path(&format!("{name}.pid"))));
    wait_until("BIRD listens", || socket.exists());
    bird
}

fn watch() -> Process {
    let mut command = Command::new(BINARY);
    command.args(["health", "--watch", "-c"]).arg(path("pmdns.toml"));
    let mut watch = Process::start("watch", &mut command);
    watch.wait_for("watching");
    watch
}

/// How many of the service addresses the router has a route to.
fn routes() -> usize {
    let route = |address: &&&str| {
        let family = if address.contains(':') { "-6" } else { "-4" };
        sh(&format!("ip -n router {family} route show proto bird")).contains(**address)
    };
    SERVICE.iter().filter(route).count()
}

fn wait_for_routes() -> Duration {
    let start = Instant::now();
    wait_until("both routes are announced", || routes() == SERVICE.len());
    start.elapsed()
}

/// Something happens to the node. Both routes are gone after a second's looks at most; then it ends, and they are back.
fn withdrawn<T>(what: &str, happens: impl FnOnce() -> T, ends: impl FnOnce(T)) {
    assert_eq!(routes(), SERVICE.len(), "{what}: announced before");
    let happened = happens();
    let start = Instant::now();
    let mut looks = 0;
    while routes() > 0 {
        looks += 1;
        assert!(looks <= LOOKS, "{what}: the routes are still there");
        sleep(BETWEEN_LOOKS);
    }
    let gone = start.elapsed();
    wait_until(&format!("{what}: the interface is gone"), || !interface_exists("pm-anycast"));
    let code = run(&["health", "--socket", SOCKET]);
    ends(happened);
    let back = wait_for_routes();
    println!(
        "{what}: withdrawn after {} ms, back {:.1} s after its end; then `pmdns health` exited with {:?}",
        gone.as_millis(),
        back.as_secs_f64(),
        code.status.code()
    );
}

/// The thread of the data core.
fn data_core(process: u32) -> u32 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let is_worker = |path: &std::path::PathBuf| {
        fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with("worker-"))
    };
    let worker = threads.map(|entry| entry.path()).find(is_worker).expect("there is a data core");
    worker.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

fn hold(thread: u32) -> Process {
    fs::write(path("hold.py"), HOLD).unwrap();
    let mut command = Command::new("python3");
    let mut holder = Process::start("hold", command.arg(path("hold.py")).arg(thread.to_string()));
    holder.wait_for("held");
    holder
}

/// No packet names a better router to the kernel, or the way that its answer takes: it has taken the settings of both interfaces.
fn settings_are_in_force() {
    for interface in ["pm-edge", "pm-anycast"] {
        for setting in ["accept_redirects", "accept_source_route"] {
            for family in ["ipv4", "ipv6"] {
                let file = format!("/proc/sys/net/{family}/conf/{interface}/{setting}");
                assert_eq!(fs::read_to_string(&file).unwrap().trim(), "0", "{file}");
            }
        }
    }
}

fn ask() -> String {
    sh(&format!("ip netns exec router dig +tries=2 +time=5 +short @{} n9.bulk.test", SERVICE[0]))
}

fn command(word: &str) {
    let output = run(&[word, "--socket", SOCKET]);
    assert!(output.status.success(), "pmdns {word}: {output:?}");
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn routes_follow_the_health_of_the_node() {
    isolated_alone("anycast::routes_follow_the_health_of_the_node", || {
        lay_cable();
        let pmdns = Pmdns::start(&config());
        let _nsd = nsd::start_at("192.0.2.2");
        let mut watching = Some(watch());
        let _node = bird("node", &[], block("bird-node"));
        let _router = bird("router", &["ip", "netns", "exec", "router"], block("bird-router"));
        wait_for_routes();
        settings_are_in_force();
        assert_eq!(ask().trim(), nsd::bulk_address(9));
        assert_eq!(run(&["health", "--socket", SOCKET]).status.code(), Some(0));

        withdrawn(
            "drained",
            || command("drain"),
            |()| {
                let health = run(&["health", "--json", "--socket", SOCKET]);
                assert_eq!(health.status.code(), Some(9));
                let text = String::from_utf8(health.stdout).unwrap();
                assert!(
                    text.contains("\"state\":\"drained\"") && text.contains("\"problems\":[]"),
                    "{text}"
                );
                assert!(
                    pmdns.log().contains("call=\"drain\" outcome=\"done\""),
                    "the log says who asked"
                );
                command("resume");
            },
        );
        // A name server has several processes.
        let nsd = |signal| drop(sh(&format!("kill -{signal} $(pgrep nsd)")));
        withdrawn("no upstream replies", || nsd("STOP"), |()| nsd("CONT"));
        let worker = data_core(pmdns.id());
        withdrawn(
            "the data core is stuck",
            || hold(worker),
            |holder| {
                let health = run(&["health", "--socket", SOCKET]);
                assert_eq!(health.status.code(), Some(8), "{health:?}");
                drop(holder);
            },
        );
        withdrawn("pmdns is stopped", || pmdns.signal("STOP"), |()| pmdns.signal("CONT"));
        let kill = || watching.take().unwrap().signal("KILL");
        let mut again = None;
        withdrawn("the watch is killed", kill, |()| again = Some(watch()));
        assert_eq!(ask().trim(), nsd::bulk_address(9));
        drop(again);
        pmdns.stop();
    });
}
