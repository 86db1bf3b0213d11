//! A child process with a log, ended when dropped.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use crate::harness::{path, sh, wait_until};

/// Lines of a log that are shown when a lab fails.
const SHOWN_LINES: usize = 40;

/// A child process. Dropping it kills it, and shows the end of its log if the lab is failing.
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`; its stderr goes to a log, and so does its stdout.
    pub(crate) fn start(name: &str, command: &mut Command) -> Self {
        let log = path(&format!("{name}.log"));
        let file = File::create(&log).unwrap();
        command.stdout(file.try_clone().unwrap()).stderr(file);
        Self::spawn(name, command, log)
    }

    /// Starts `command`; its stderr goes to a log, its stdout to a file.
    pub(crate) fn start_with_output(name: &str, command: &mut Command) -> (Self, PathBuf) {
        let (log, output) = (path(&format!("{name}.log")), path(&format!("{name}.out")));
        command.stdout(File::create(&output).unwrap()).stderr(File::create(&log).unwrap());
        (Self::spawn(name, command, log), output)
    }

    /// Starts `command`, whose stdout is set; its stderr goes to a log.
    pub(crate) fn start_with_stdout_set(name: &str, command: &mut Command) -> Self {
        let log = path(&format!("{name}.log"));
        command.stderr(File::create(&log).unwrap());
        Self::spawn(name, command, log)
    }

    /// Starts `command`, whose stderr is set; its stdout goes to a file.
    pub(crate) fn start_with_stderr_set(name: &str, command: &mut Command) -> (Self, PathBuf) {
        let (log, output) = (path(&format!("{name}.log")), path(&format!("{name}.out")));
        File::create(&log).unwrap();
        command.stdout(File::create(&output).unwrap());
        (Self::spawn(name, command, log), output)
    }

    fn spawn(name: &str, command: &mut Command, log: PathBuf) -> Self {
        let child =
            command.spawn().unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        Self { name: name.to_owned(), child, log }
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The child, for its stdin.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The file of its log.
    pub(crate) fn log_file(&self) -> &Path {
        &self.log
    }

    /// Everything it has logged so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap()).into_owned()
    }

    /// Waits until its log contains `text`; fails if it ends before.
    pub(crate) fn wait_for(&mut self, text: &str) {
        let what = format!("{} says {text:?}", self.name);
        wait_until(&what, || {
            let ended = self.child.try_wait().unwrap();
            let said = self.log().contains(text);
            assert!(said || ended.is_none(), "{} ended early: {}", self.name, ended.unwrap());
            said
        });
    }

    /// Sends a signal, for example `TERM`.
    pub(crate) fn signal(&self, signal: &str) {
        sh(&format!("kill -{signal} {}", self.child.id()));
    }

    /// Waits until it has ended.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let what = format!("{} ends", self.name);
        let mut status = None;
        wait_until(&what, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            println!("--- the end of what {} said:", self.name);
            for line in &lines[lines.len().saturating_sub(SHOWN_LINES)..] {
                println!("    {line}");
            }
        }
    }
}
