//! Whether DPDK takes its arguments, without a start.
//!
//! DPDK has no call for that. But it reads all of its arguments before it looks at the kind of process. So a copy of this
//! process gives it a kind that does not exist as well, and ends. Nothing is allocated, and no device is touched.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use super::eal::{c_strings, initialise, with_cores, without};
use super::{advice, log, owned_text};

/// Options whose values the trial gives.
const OURS: [&str; 2] = ["--file-prefix", "--proc-type"];
/// How long it may take, in seconds.
const PATIENCE: u32 = 10;

/// What DPDK says against these arguments. `None`: it takes them, or cannot be asked.
pub fn refusal(arguments: &[String]) -> Option<String> {
    // It takes these. All that it says against them is the kind of process.
    let usual = said_of(&[])?;
    let of_kind = usual.iter().find(|line| line.contains("process type"))?;
    let said = said_of(arguments)?;
    (!said.contains(of_kind)).then(|| advice::detail(&said))
}

/// What DPDK says of arguments and of a kind of process that does not exist.
fn said_of(arguments: &[String]) -> Option<Vec<String>> {
    // A lock that another thread holds would stay locked in the copy.
    if fs::read_dir("/proc/self/task").ok()?.count() != 1 {
        return None;
    }
    let mut arguments = with_cores(&without_ours(arguments));
    arguments.extend(["--file-prefix=pmdns-check", "--proc-type=none"].map(str::to_owned));
    let texts = c_strings("pmdns", &arguments).ok()?;
    let (mut reader, mut writer) = io::pipe().ok()?;
    // SAFETY: this process has one thread, so all that the copy calls is as it is here.
    let copy = unsafe { libc::fork() };
    if copy == 0 {
        // SAFETY: ends the copy if DPDK hangs.
        unsafe { libc::alarm(PATIENCE) };
        let _never_unwinds = catch_unwind(AssertUnwindSafe(|| {
            // Some errors it tells standard error as well.
            let start = || without(&io::stderr(), || initialise(&texts));
            let (_, lines) = log::capture(|| without(&io::stdout(), start));
            remove_folder();
            let _nobody_listens = writer.write_all(lines.join("\n").as_bytes());
        }));
        // SAFETY: nothing of this process is to be ended by its copy.
        unsafe { libc::_exit(0) };
    }
    drop(writer);
    let mut text = String::new();
    let read = reader.read_to_string(&mut text);
    if copy > 0 {
        // SAFETY: waits for our copy, which ends by itself.
        unsafe { libc::waitpid(copy, std::ptr::null_mut(), 0) };
    }
    (copy > 0 && read.is_ok()).then(|| text.lines().map(str::to_owned).collect())
}

/// The arguments without those of which one has to be enough.
fn without_ours(arguments: &[String]) -> Vec<String> {
    let mut rest = arguments.iter();
    let mut kept = Vec::new();
    while let Some(argument) = rest.next() {
        if OURS.contains(&argument.as_str()) {
            rest.next();
        } else if !OURS.iter().any(|ours| argument.starts_with(ours)) {
            kept.push(argument.clone());
        }
    }
    kept
}

/// The folder that DPDK has made for itself, with nothing in it.
fn remove_folder() {
    // SAFETY: returns the EAL's own buffer.
    let folder = PathBuf::from(owned_text(unsafe { dpdk_sys::rte_eal_get_runtime_dir() }));
    if folder.ends_with("pmdns-check") {
        let _another_check_may_use_it = fs::remove_dir(folder);
    }
}
