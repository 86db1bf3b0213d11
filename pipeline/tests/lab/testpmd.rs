//! testpmd as the other end of a virtio-user port: a generator that nobody here wrote.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{HUGE_FOLDER, wait_until};
use crate::process::Process;

/// The socket that it makes, for vhost-user or memif.
pub(crate) const SOCKET: &str = "/run/lab/vhost.sock";

/// A testpmd that waits for commands.
pub(crate) struct Testpmd {
    process: Process,
    /// Statistics asked for so far.
    asked: usize,
}

/// A port's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortCount {
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

impl Testpmd {
    /// Starts it on CPU 0 with `vdevs` as its ports, in order.
    pub(crate) fn start(vdevs: &[String]) -> Self {
        let mut command = Command::new("stdbuf");
        command
            .args(["-oL", "dpdk-testpmd", "--lcores", "0@0,1@0", "--no-pci", "-m", "256"])
            .args(["--file-prefix=lab-generator", "--in-memory", "--single-file-segments"])
            .args(["--huge-dir", HUGE_FOLDER])
            .args(vdevs.iter().map(|vdev| format!("--vdev={vdev}")))
            // Without --no-flush-rx the whole capture is thrown away at start.
            .args(["--", "-i", "--total-num-mbufs=16384", "--no-flush-rx"])
            .stdin(Stdio::piped());
        let process = Process::start("testpmd", &mut command);
        let mut testpmd = Self { process, asked: 0 };
        testpmd.process.wait_for("Done");
        wait_until("testpmd makes its socket", || Path::new(SOCKET).exists());
        testpmd
    }

    /// Gives it commands, a line each.
    pub(crate) fn tell(&mut self, commands: &[&str]) {
        let stdin = self.process.child().stdin.as_mut().unwrap();
        for command in commands {
            writeln!(stdin, "{command}").unwrap();
        }
        stdin.flush().unwrap();
    }

    /// The counters of a port.
    pub(crate) fn count(&mut self, port: usize) -> PortCount {
        self.tell(&[&format!("show port stats {port}")]);
        self.asked += 1;
        let mut report = String::new();
        let asked = self.asked;
        wait_until("testpmd reports", || {
            let log = self.process.log();
            let reports: Vec<&str> = log.split("NIC statistics for port").skip(1).collect();
            let whole = reports.get(asked - 1).filter(|report| report.contains("Tx-pps"));
            report = whole.map_or(String::new(), |report| (*report).to_owned());
            !report.is_empty()
        });
        let number = |key: &str| {
            let text = report.split_once(key).map_or("", |(_, text)| text);
            text.split_whitespace().next().unwrap_or("").parse().unwrap()
        };
        PortCount { received: number("RX-packets:"), sent: number("TX-packets:") }
    }

    /// Ends it, so that it closes its capture files.
    pub(crate) fn quit(mut self) {
        self.tell(&["stop", "quit"]);
        let status = self.process.wait();
        assert!(status.success(), "testpmd ended with {status}");
    }
}
