//! The log lines of DPDK during a call: the reason of a failure is only there.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use super::owned_text;

/// Lines kept of one call, the last ones.
const MAX_LINES: usize = 32;

/// One call at a time: the log stream is the process's.
static STREAM: Mutex<()> = Mutex::new(());

/// Runs `call` and gives its result and the lines DPDK logged meanwhile, which do not go to stderr.
pub(super) fn capture<T>(call: impl FnOnce() -> T) -> (T, Vec<String>) {
    let _alone = STREAM.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the lock makes this the only capture under way.
    let failed = unsafe { dpdk_sys::shim_log_capture() };
    let result = call();
    if failed != 0 {
        return (result, Vec::new());
    }
    // SAFETY: the lock makes this the end of the capture that began above.
    let text = unsafe { dpdk_sys::shim_log_captured() };
    let lines = tidy(&owned_text(text));
    // SAFETY: the text was made by open_memstream and is ours to free; null is allowed.
    unsafe { libc::free(text.cast::<c_void>()) };
    (result, lines)
}

/// The last lines, without empty ones.
fn tidy(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let first = lines.len().saturating_sub(MAX_LINES);
    lines[first..].iter().map(|&line| line.to_owned()).collect()
}
