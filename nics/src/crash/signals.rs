//! The handler of the signals that end a process by a fault: it writes what the cores have in hand, and lets the signal go on.
//!
//! It allocates, locks and waits for nothing, and asks the kernel for the time alone. Memory is all it touches. So it may run in
//! any thread at any moment (signal-safety(7)), also where a thread has used up its stack: Rust gives each another one for that.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use libc::{SA_ONSTACK, SA_RESETHAND, SA_SIGINFO, SIG_DFL, SIG_IGN, siginfo_t};
use memmap2::MmapRaw;

use super::in_hand::{FramePlace, InHand};
use super::record::{CrashWriter, Head, PACKET_BYTES, SIGNALS};

/// What the handler works with.
pub(super) struct Watch {
    mapping: MmapRaw,
    /// The place of this process's crash.
    place: usize,
    hands: Vec<Arc<InHand>>,
    process: u32,
    version: &'static str,
    /// What happened with each of [`SIGNALS`] before.
    before: [libc::sigaction; SIGNALS.len()],
}

type Action = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
type ShortAction = extern "C" fn(c_int);

/// As long as the process lives, once there is one.
static WATCH: AtomicPtr<Watch> = AtomicPtr::new(ptr::null_mut());
/// The first signal is the cause. Others may follow from it.
static IS_WRITTEN: AtomicBool = AtomicBool::new(false);

impl Watch {
    /// Writes to the crash of this place.
    pub(super) fn new(
        mapping: MmapRaw,
        place: usize,
        hands: Vec<Arc<InHand>>,
        version: &'static str,
    ) -> Self {
        let process = std::process::id();
        Self { mapping, place, hands, process, version, before: [default_action(); _] }
    }

    fn write(&self, signal: c_int) {
        let put = |at: usize, bytes: &[u8]| {
            if at + bytes.len() <= self.mapping.len() {
                let to = self.mapping.as_mut_ptr().wrapping_add(at);
                // SAFETY: the mapping has this room (checked above), and only the one that is first writes to it.
                unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
            }
        };
        let own = self.hands.iter().find(|hand| hand.is_of_this_thread());
        let head = Head {
            signal: signal.cast_unsigned(),
            core: own.map(|hand| hand.core()),
            time: now(),
            process: self.process,
            version: self.version,
        };
        let Some(mut writer) = CrashWriter::begin(put, self.place, head) else { return };
        let is_own = |hand: &InHand| own.is_some_and(|own| ptr::eq(&raw const **own, hand));
        let others = self.hands.iter().filter(|hand| !is_own(hand));
        for hand in own.into_iter().chain(others) {
            for FramePlace { data, len, port } in hand.places() {
                let kept = usize::from(len).min(PACKET_BYTES);
                // SAFETY: the core had a frame of `len` bytes there. Those of this thread stand still. Those of other cores may be
                // given back and change meanwhile. Their pool's memory stays as long as the process, and any bytes are a record.
                let bytes = unsafe { slice::from_raw_parts(data, kept) };
                if !writer.add(hand.core(), port, len, bytes) {
                    return;
                }
            }
        }
    }
}

/// From now on the signals are handled so. It is called once.
pub(super) fn install(mut watch: Watch) -> io::Result<()> {
    for ((signal, _), before) in SIGNALS.iter().zip(&mut watch.before) {
        // SAFETY: no action is given, and the place of the one before outlives the call.
        check(unsafe { libc::sigaction(*signal, ptr::null(), before) })?;
    }
    // It is needed until the last moment.
    WATCH.store(Box::leak(Box::new(watch)), Ordering::Release);
    let mut action = default_action();
    action.sa_sigaction = (handle as Action) as usize;
    // The second signal of a kind ends the process, so nothing goes round in a circle.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND;
    for (signal, _) in SIGNALS {
        // SAFETY: the action is whole. Its handler does what handlers may do (see above).
        check(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) })?;
    }
    Ok(())
}

extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: it is null, or was leaked by `install`, and nobody has it to write.
    let Some(watch) = (unsafe { WATCH.load(Ordering::Acquire).as_ref() }) else { return };
    if !IS_WRITTEN.swap(true, Ordering::Relaxed) {
        watch.write(signal);
    }
    let mut all = SIGNALS.iter().zip(&watch.before);
    if let Some((_, before)) = all.find(|((number, _), _)| *number == signal) {
        go_on(before, signal, info, context);
    }
    // SAFETY: the kernel gives a handler with SA_SIGINFO what it knows.
    let is_fault = unsafe { (*info).si_code } > 0;
    if !is_fault {
        // A fault comes again when the instruction is tried again. What was sent does not, so it is sent again: it ends the process
        // when this handler has returned.
        // SAFETY: it takes a number, and is safe in handlers.
        unsafe { libc::raise(signal) };
    }
}

/// Has done what was done before with this signal. Rust says so if a stack was used up.
fn go_on(before: &libc::sigaction, signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let function = before.sa_sigaction;
    if function == SIG_DFL || function == SIG_IGN {
        return;
    }
    if before.sa_flags & SA_SIGINFO == 0 {
        // SAFETY: the kernel would call it so.
        let action = unsafe { mem::transmute::<usize, ShortAction>(function) };
        action(signal);
    } else {
        // SAFETY: as above.
        let action = unsafe { mem::transmute::<usize, Action>(function) };
        action(signal, info, context);
    }
}

fn default_action() -> libc::sigaction {
    // SAFETY: zero is a value of all of its fields: the default action, no flags, and an empty mask.
    unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() }
}

fn check(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Seconds since 1970.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the struct outlives the call, which is safe in handlers.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    time.tv_sec.cast_unsigned()
}
