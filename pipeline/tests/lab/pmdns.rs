//! The program under test, running.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::harness::{path, sh, wait_until};
use crate::process::Process;
use crate::stats::Stats;

/// The binary this package builds.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_pmdns");

/// What a process that has taken over says when it is the only one.
pub(crate) const IS_ALONE: &str = "the process before has ended";

/// Our end of the TAP port, where clients sit: `.1` and `::1`.
pub(crate) const TAP_V4: &str = "10.97.0.2";
/// pmdns's IPv6 address on the TAP port.
pub(crate) const TAP_V6: &str = "fd97::2";
/// A TAP port that needs no huge pages, and what every config of a lab has.
pub(crate) const TAP_PORT: &str = r#"
[eal]
args = ["--no-pci", "--no-huge", "-m", "512", "--no-shconf"]

[[port]]
name = "tap"
device = "net_tap0,iface=pm0,mac=02:00:00:00:00:aa"
addresses = ["10.97.0.2/24", "fd97::2/64"]
"#;
/// The control socket, and a cache on normal pages.
pub(crate) const COMMON: &str = r#"
[control]
socket = "/run/lab/pmdns.sock"

[cache]
size = "32MiB"
pages = "normal"
"#;

/// A running `pmdns run`.
pub(crate) struct Pmdns {
    process: Process,
    output: PathBuf,
}

impl Pmdns {
    /// Starts `pmdns run` with this config, and waits until it serves.
    pub(crate) fn start(config: &str) -> Self {
        let mut pmdns = Self::launch(config);
        pmdns.process.wait_for(" ready");
        pmdns
    }

    /// Starts it on [`TAP_PORT`] with `rest` added to the config, and gives the kernel's end of the
    /// TAP its addresses.
    pub(crate) fn start_on_tap(rest: &str) -> Self {
        let pmdns = Self::start(&format!("{TAP_PORT}{COMMON}{rest}"));
        set_up_tap();
        pmdns
    }

    /// The same with a config that has [`COMMON`]'s tables of its own.
    pub(crate) fn start_on_tap_alone(rest: &str) -> Self {
        let pmdns = Self::start(&format!("{TAP_PORT}{rest}"));
        set_up_tap();
        pmdns
    }

    /// The same with this output for its log, in this form; it is asked whether it serves.
    pub(crate) fn start_logging_to(rest: &str, format: &str, log: Stdio) -> Self {
        let file = config_file(&format!("{TAP_PORT}{rest}"));
        let mut command = Command::new(BINARY);
        command.args(["run", "--json", "-c"]).arg(file).env("PMDNS_LOG_FORMAT", format).stderr(log);
        let (process, output) = Process::start_with_stderr_set("pmdns", &mut command);
        wait_until("it serves", || {
            run(&["stats", "--socket", "/run/lab/pmdns.sock"]).status.success()
        });
        set_up_tap();
        Self { process, output }
    }

    /// Starts `pmdns run` and does not wait.
    fn launch(config: &str) -> Self {
        Self::launch_as("pmdns", config)
    }

    /// The same, with another name for its log.
    pub(crate) fn launch_as(name: &str, config: &str) -> Self {
        Self::launch_by(name, config, &mut Command::new(BINARY))
    }

    /// The same. It stops itself at this step of a hand-over, until SIGCONT.
    pub(crate) fn launch_held(name: &str, config: &str, step: &str) -> Self {
        let mut command = Command::new(BINARY);
        let held = Self::launch_by(name, config, command.env("PMDNS_HANDOVER_HOLD", step));
        let stat = format!("/proc/{}/stat", held.id());
        let is_stopped = || fs::read_to_string(&stat).is_ok_and(|text| text.contains(") T "));
        wait_until(&format!("{name} is held at {step}\n{}", held.log()), is_stopped);
        held
    }

    /// Starts a keeper of a process, and waits until that serves.
    pub(crate) fn start_kept(config: &str) -> Self {
        Self::start_kept_by(config, &mut Command::new(BINARY))
    }

    /// The same. A packet with these bytes crashes its process.
    pub(crate) fn start_kept_crashing(config: &str, on: &str) -> Self {
        Self::start_kept_by(config, Command::new(BINARY).env("PMDNS_CRASH_ON", on))
    }

    fn start_kept_by(config: &str, command: &mut Command) -> Self {
        command.args(["run", "--keeper", "-c"]).arg(config_file(config));
        let (process, output) = Process::start_with_output("kept", command);
        let mut kept = Self { process, output };
        kept.wait_for(" ready");
        kept
    }

    fn launch_by(name: &str, config: &str, command: &mut Command) -> Self {
        let file = config_file(config);
        command.args(["run", "--json", "-c"]).arg(file);
        let (process, output) = Process::start_with_output(name, command);
        Self { process, output }
    }

    /// Waits until it has ended, and returns its exit code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        self.process.wait().code()
    }

    /// Starts another one with this config, which takes over from this one, and waits until this one has ended. Returns the other
    /// one.
    pub(crate) fn hand_over(self, name: &str, config: &str) -> Self {
        self.hand_over_and_count(name, config).0
    }

    /// The same, with what this one has counted.
    pub(crate) fn hand_over_and_count(mut self, name: &str, config: &str) -> (Self, Stats) {
        let mut next = Self::launch_as(name, config);
        next.process.wait_for(IS_ALONE);
        let status = self.process.wait();
        assert_eq!(status.code(), Some(0), "pmdns ended with {status}\n{}", self.process.log());
        let stats = Stats::parse(&fs::read_to_string(&self.output).unwrap());
        stats.assert_balanced();
        (next, stats)
    }

    /// Waits until it has logged this.
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.process.wait_for(text);
    }

    /// Waits until it has logged this so many times.
    pub(crate) fn wait_for_times(&self, text: &str, times: usize) {
        let what = format!("it says {text:?} {times} times");
        wait_until(&what, || self.log().matches(text).count() >= times);
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Everything it has logged so far.
    pub(crate) fn log(&self) -> String {
        self.process.log()
    }

    /// Asks for the counters.
    pub(crate) fn stats(&self) -> Stats {
        let output = run(&["stats", "--json", "--socket", "/run/lab/pmdns.sock"]);
        assert!(output.status.success(), "pmdns stats: {output:?}");
        Stats::parse(&String::from_utf8(output.stdout).unwrap())
    }

    /// Stops it with SIGTERM; expects exit code 0 and returns the counters it ends with.
    pub(crate) fn stop(mut self) -> Stats {
        self.process.signal("TERM");
        let status = self.process.wait();
        assert_eq!(status.code(), Some(0), "pmdns ended with {status}\n{}", self.process.log());
        let stats = Stats::parse(&fs::read_to_string(&self.output).unwrap());
        stats.assert_balanced();
        stats
    }

    /// The same; returns all that it has logged.
    pub(crate) fn stop_with_log(self) -> String {
        let log = self.process.log_file().to_owned();
        self.stop();
        String::from_utf8_lossy(&fs::read(log).unwrap()).into_owned()
    }

    /// Kills it, as the kernel does when memory runs out.
    pub(crate) fn kill(mut self) {
        self.process.signal("KILL");
        self.process.wait();
    }
}

/// Runs pmdns to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).output().unwrap()
}

/// Runs `pmdns run` with a config that cannot work, and returns its exit code and what it says.
pub(crate) fn run_to_failure(config: &str) -> (Option<i32>, String) {
    let mut pmdns = Pmdns::launch(config).process;
    let status = pmdns.wait();
    (status.code(), pmdns.log())
}

/// Who may ask in a lab that says nothing of it: the hosts of its own networks.
const CLIENTS: &str = "\n[acl]\nallow = [\"10.0.0.0/8\", \"fd00::/8\"]\n";
/// A lab asks for as many errors as it likes.
const LIMITS: &str = "\n[ratelimit]\nerror_replies_per_second = 0\n";

/// Writes a config into the lab's folder.
pub(crate) fn config_file(config: &str) -> PathBuf {
    let file = path("pmdns.toml");
    let clients = if config.contains("[acl]") { "" } else { CLIENTS };
    let limits = if config.contains("[ratelimit]") { "" } else { LIMITS };
    fs::write(&file, format!("{config}{clients}{limits}")).unwrap();
    file
}

/// Gives the kernel's end of the TAP port its addresses.
pub(crate) fn set_up_tap() {
    sh("ip address add 10.97.0.1/24 dev pm0");
    sh("ip address add fd97::1/64 dev pm0 nodad");
    sh("ip link set pm0 up");
    wait_until("the TAP has carrier", || sh("ip -brief link show pm0").contains("LOWER_UP"));
}

/// Whether an interface exists.
pub(crate) fn interface_exists(name: &str) -> bool {
    Path::new("/sys/class/net").join(name).exists()
}

/// An `[[upstream]]` on loopback.
pub(crate) fn upstream(port: u16) -> String {
    format!("\n[[upstream]]\naddress = \"127.0.0.1:{port}\"\ntimeout_ms = 800\n")
}
