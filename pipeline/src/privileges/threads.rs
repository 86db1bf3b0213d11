//! Restricts every thread of the process like the calling one.
//!
//! Linux keeps capabilities, no-new-privs and Landlock for each thread, and DPDK's threads run before ours. So each
//! thread is sent a signal, and the handler makes the system calls. glibc does the same for setuid(2), and libpsx for
//! capabilities. A handler must be async-signal-safe (signal-safety(7)): it uses only system calls and atomics.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use libc::{c_int, c_long, c_ulong, pid_t};
use pmdns_config::narrow::low_u32;

/// How long a thread may take to be interrupted. Even a thread that waits for a busy core needs less.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most threads that are signalled in all; more than a process has.
const MAX_THREADS: usize = 65_536;
/// How often the threads are listed, to find threads that were started meanwhile.
const MAX_ROUNDS: usize = 16;
/// The version of capabilities with 64 bits (capget(2)).
const CAPABILITY_VERSION: u32 = 0x2008_0522;
/// More than there are capabilities.
const CAPABILITIES: c_ulong = 64;

/// The restrictions that a thread takes on.
#[derive(Debug)]
pub(super) struct Restriction {
    /// The capabilities that it keeps if it has them.
    pub(super) capabilities: u64,
    /// The Landlock ruleset that it keeps to.
    pub(super) ruleset: Option<OwnedFd>,
}

/// The handler has no arguments, so it reads its input here and writes its results here.
static KEPT: AtomicU64 = AtomicU64::new(0);
static RULESET: AtomicI32 = AtomicI32::new(-1);
static DONE: AtomicU64 = AtomicU64::new(0);
static ERROR: AtomicI32 = AtomicI32::new(0);
/// One restriction at a time.
static TURN: Mutex<()> = Mutex::new(());

/// capget(2)'s header and data.
#[repr(C)]
struct Header {
    version: u32,
    pid: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Set {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Restricts every thread of the process, and so all threads that they start. Returns the number of threads.
///
/// # Errors
///
/// The error of the system. Threads after one that fails may be unrestricted.
pub(super) fn restrict_all(restriction: &Restriction) -> io::Result<usize> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    KEPT.store(restriction.capabilities, Ordering::SeqCst);
    RULESET.store(restriction.ruleset.as_ref().map_or(-1, |fd| fd.as_raw_fd()), Ordering::SeqCst);
    ERROR.store(0, Ordering::SeqCst);
    let signal = Signal::take()?;
    // This thread comes first, so threads that it starts from now on are restricted from the beginning.
    restrict_this();
    let mut told = BTreeSet::from([this_thread()]);
    for _ in 0..MAX_ROUNDS {
        let new: Vec<_> = threads()?.into_iter().filter(|id| !told.contains(id)).collect();
        if new.is_empty() || ERROR.load(Ordering::SeqCst) != 0 || told.len() > MAX_THREADS {
            break;
        }
        for id in new {
            signal.send(id)?;
            told.insert(id);
        }
    }
    drop(signal);
    match ERROR.load(Ordering::SeqCst) {
        0 => Ok(told.len()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// The ids of this process's threads.
fn threads() -> io::Result<Vec<pid_t>> {
    let tasks = std::fs::read_dir("/proc/self/task")?;
    let names = tasks.flatten().map(|task| task.file_name());
    Ok(names.filter_map(|name| name.to_str()?.parse().ok()).collect())
}

fn this_thread() -> pid_t {
    // SAFETY: asks for a number.
    unsafe { libc::gettid() }
}

/// A signal that is otherwise unused, with our handler. Dropping it removes the handler.
struct Signal(c_int);

impl Signal {
    fn take() -> io::Result<Self> {
        for number in (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev() {
            // SAFETY: an all-zero sigaction is one: SIG_DFL, no flags, an empty mask.
            let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: the pointer is to a sigaction that the kernel fills.
            let code = unsafe { libc::sigaction(number, std::ptr::null(), &raw mut old) };
            if code != 0 || old.sa_sigaction != libc::SIG_DFL {
                continue;
            }
            // System calls of the thread are restarted.
            let handler: extern "C" fn(c_int) = handle;
            set_handler(number, handler as libc::sighandler_t, libc::SA_RESTART)?;
            return Ok(Self(number));
        }
        Err(io::Error::other("no real-time signal is free"))
    }

    /// Has a thread restrict itself, and waits until it has done so or has ended.
    fn send(&self, id: pid_t) -> io::Result<()> {
        let (before, start) = (DONE.load(Ordering::SeqCst), Instant::now());
        let process = std::process::id();
        // SAFETY: sends a signal that has a handler to a thread of this very process.
        let code = unsafe { libc::syscall(libc::SYS_tgkill, process, id, self.0) };
        if code != 0 {
            let error = io::Error::last_os_error();
            // It has ended.
            return if error.raw_os_error() == Some(libc::ESRCH) { Ok(()) } else { Err(error) };
        }
        while DONE.load(Ordering::SeqCst) == before && threads()?.contains(&id) {
            if start.elapsed() > PATIENCE {
                return Err(io::Error::other(format!("thread {id} does not take signals")));
            }
            std::thread::yield_now();
        }
        Ok(())
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        // With SIG_DFL, a signal that a slow thread takes late would end the process.
        let _ = set_handler(self.0, libc::SIG_IGN, 0);
    }
}

fn set_handler(number: c_int, handler: libc::sighandler_t, flags: c_int) -> io::Result<()> {
    // SAFETY: an all-zero sigaction is one.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    (action.sa_sigaction, action.sa_flags) = (handler, flags);
    // SAFETY: the handler is async-signal-safe, or SIG_IGN, and lives as long as the process.
    match unsafe { libc::sigaction(number, &raw const action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn handle(_signal: c_int) {
    // SAFETY: the address of this thread's errno, which what was interrupted may be about to read.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let kept = unsafe { *errno };
    restrict_this();
    // SAFETY: as above.
    unsafe { *errno = kept };
    DONE.fetch_add(1, Ordering::SeqCst);
}

/// Restricts this thread. Async-signal-safe.
fn restrict_this() {
    // Bits of the bounding set can be dropped only with CAP_SETPCAP. Without it they stay, but no-new-privs keeps the
    // thread from gaining them.
    let kept = KEPT.load(Ordering::SeqCst);
    for number in 0..CAPABILITIES {
        if kept & 1 << number == 0 {
            // The kernel does not know all of these numbers.
            let _ = prctl(libc::PR_CAPBSET_DROP, number);
        }
    }
    note(prctl(libc::PR_SET_NO_NEW_PRIVS, 1));
    let _ = prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as c_ulong);
    note(keep_capabilities(kept));
    let ruleset = RULESET.load(Ordering::SeqCst);
    if ruleset >= 0 {
        // SAFETY: the descriptor is open as long as `restrict_all` runs; the call takes no pointers.
        note(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0) });
    }
}

/// Takes all capabilities except `kept` from this thread.
fn keep_capabilities(kept: u64) -> c_long {
    let mut header = Header { version: CAPABILITY_VERSION, pid: 0 };
    let mut sets = [Set::default(); 2];
    // SAFETY: header and sets are as capget(2) says for this version, and the kernel fills them.
    let code = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, &raw mut sets) };
    if code != 0 {
        return code;
    }
    for (set, kept) in sets.iter_mut().zip([low_u32(kept), (kept >> 32) as u32]) {
        let permitted = set.permitted & kept;
        *set = Set { effective: permitted, permitted, inheritable: 0 };
    }
    // SAFETY: as above; the kernel only reads them.
    unsafe { libc::syscall(libc::SYS_capset, &raw mut header, &raw const sets) }
}

fn prctl(option: c_int, value: c_ulong) -> c_long {
    const NONE: c_ulong = 0;
    // SAFETY: the options used here take numbers, and further arguments have to be zero.
    unsafe { libc::prctl(option, value, NONE, NONE, NONE) }.into()
}

/// Notes a call that failed.
fn note(code: c_long) {
    if code != 0 {
        // SAFETY: the address of this thread's errno.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: as above.
        ERROR.store(unsafe { *errno }, Ordering::SeqCst);
    }
}
