//! Whether DPDK takes its arguments, without a start.
//!
//! DPDK has no call for that. But every release reads its devices last of all arguments, and then starts. So a copy of this
//! process gives it a last device that has no driver, and ends. Nothing is allocated, and no device is touched.

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use super::eal::{c_strings, initialise, with_cores, without};
use super::{advice, owned_text};

/// An option whose value the trial gives.
const OURS: &str = "--file-prefix";
/// A device that DPDK has no driver for.
const NO_DRIVER: &str = "pmdns-check";
/// How long it may take, in seconds.
const PATIENCE: u32 = 10;

/// What DPDK says against these arguments. `None`: it takes them, or cannot be asked.
pub fn refusal(arguments: &[String]) -> Option<String> {
    // It takes these. All that it says against them is the device.
    let usual = said_of(&[])?;
    let of_device = usual.iter().find(|line| line.contains(NO_DRIVER))?;
    let said = said_of(arguments)?;
    (!said.contains(of_device)).then(|| advice::detail(&said))
}

/// What DPDK says of arguments and of a device that it has no driver for.
fn said_of(arguments: &[String]) -> Option<Vec<String>> {
    // A lock that another thread holds would stay locked in the copy.
    if fs::read_dir("/proc/self/task").ok()?.count() != 1 {
        return None;
    }
    let mut arguments = with_cores(&without_ours(arguments));
    arguments.extend([format!("{OURS}=pmdns-check"), format!("--vdev={NO_DRIVER}")]);
    let texts = c_strings("pmdns", &arguments).ok()?;
    let (mut reader, writer) = io::pipe().ok()?;
    // SAFETY: this process has one thread, so all that the copy calls is as it is here.
    let copy = unsafe { libc::fork() };
    if copy == 0 {
        // SAFETY: ends the copy if DPDK hangs.
        unsafe { libc::alarm(PATIENCE) };
        // From 25.11 on, DPDK ends the process for some arguments. So its log goes to the reader at once.
        // SAFETY: both are open.
        unsafe { libc::dup2(writer.as_raw_fd(), libc::STDERR_FILENO) };
        let _never_unwinds = catch_unwind(AssertUnwindSafe(|| {
            without(&io::stdout(), || initialise(&texts));
            remove_folder();
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

/// The arguments without the one of which one has to be enough.
fn without_ours(arguments: &[String]) -> Vec<String> {
    let mut rest = arguments.iter();
    let mut kept = Vec::new();
    while let Some(argument) = rest.next() {
        if argument == OURS {
            rest.next();
        } else if !argument.starts_with(OURS) {
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
