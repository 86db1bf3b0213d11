//! The handler of the signals that end a process by a fault: it writes what the cores have in hand, and lets the signal go on.
//!
//! It allocates, locks and waits for nothing, and asks the kernel for the time alone. Memory is all it touches. So it may run in
//! any thread at any moment (signal-safety(7)), also where a thread has used up its stack: Rust gives each another one for that.

use std::ffi::{c_int, c_void};
use std::hint;
use std::io;
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use libc::{SA_ONSTACK, SA_SIGINFO, SIG_DFL, SIG_IGN, siginfo_t};
use memmap2::MmapRaw;

use super::in_hand::{FramePlace, InHand, this_thread};
use super::record::{CrashWriter, Head, PACKET_BYTES, SIGNALS};

/// What the handler works with.
pub(super) struct Watch {
    mapping: MmapRaw,
    /// The place of this process's crash.
    place: usize,
    hands: Vec<Arc<InHand>>,
    process: u32,
    version: &'static str,
    wires: u32,
    /// What happened with each of [`SIGNALS`] before.
    before: [libc::sigaction; SIGNALS.len()],
}

type Action = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
type ShortAction = extern "C" fn(c_int);

/// As long as the process lives, once there is one.
static WATCH: AtomicPtr<Watch> = AtomicPtr::new(ptr::null_mut());
/// The thread that got the first signal, which is the cause. Others may follow from it.
static FIRST: AtomicU64 = AtomicU64::new(0);
/// That thread has written all.
static IS_WRITTEN: AtomicBool = AtomicBool::new(false);
/// For so many seconds others let it write.
const PATIENCE: u64 = 2;

impl Watch {
    /// Writes to the crash of this place.
    pub(super) fn new(
        mapping: MmapRaw,
        place: usize,
        hands: Vec<Arc<InHand>>,
        (version, wires): (&'static str, u32),
    ) -> Self {
        let process = std::process::id();
        Self { mapping, place, hands, process, version, wires, before: [default_action(); _] }
    }

    /// `is_sent`: by another process, so that it says nothing about the thread that got it.
    fn write(&self, signal: c_int, is_sent: bool) {
        let copy = |from: *const u8, at: usize, len: usize| {
            if at + len <= self.mapping.len() {
                let to = self.mapping.as_mut_ptr().wrapping_add(at);
                // SAFETY: the mapping has this room (checked above), and only the thread that is first writes to it. `from`
                // has `len` bytes: a field, or a frame that the core had. A frame may be given back and change meanwhile, but
                // its pool's memory stays as long as the process, and any bytes are a record. Nothing refers to them.
                unsafe { ptr::copy_nonoverlapping(from, to, len) };
            }
        };
        let put = |at: usize, field: &[u8]| copy(field.as_ptr(), at, field.len());
        let own = self.hands.iter().find(|hand| !is_sent && hand.is_of_this_thread());
        let head = Head {
            signal: signal.cast_unsigned(),
            core: own.map(|hand| hand.core()),
            time: now(),
            process: self.process,
            version: self.version,
            wires: self.wires,
        };
        let Some(mut writer) = CrashWriter::begin(put, self.place, head) else { return };
        let is_own = |hand: &InHand| own.is_some_and(|own| ptr::eq(&raw const **own, hand));
        let others = self.hands.iter().filter(|hand| !is_own(hand));
        for hand in own.into_iter().chain(others) {
            for FramePlace { data, len, port } in hand.places() {
                let Some(at) = writer.add(hand.core(), port, len) else { return };
                copy(data, at, usize::from(len).min(PACKET_BYTES));
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
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (signal, _) in SIGNALS {
        // SAFETY: the action is whole. Its handler does what handlers may do (see above).
        check(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) })?;
    }
    Ok(())
}

extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: it is null, or was leaked by `install`, and nobody has it to write.
    let Some(watch) = (unsafe { WATCH.load(Ordering::Acquire).as_ref() }) else { return };
    // SAFETY: the kernel gives a handler with SA_SIGINFO what it knows.
    let code = unsafe { (*info).si_code };
    let is_fault = code > 0;
    match FIRST.compare_exchange(0, this_thread(), Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {
            watch.write(signal, !is_fault && code != libc::SI_TKILL);
            IS_WRITTEN.store(true, Ordering::Release);
        }
        // Writing has met a fault, so what there is has to be enough.
        Err(first) if first == this_thread() => {}
        // Two cores may crash by one packet. This one would end the process too early.
        Err(_) => wait(),
    }
    // The next signal ends the process, so nothing goes round in a circle, and no second handler needs room on this stack.
    let default = default_action();
    for (signal, _) in SIGNALS {
        // SAFETY: the action is whole, and handlers may set one.
        unsafe { libc::sigaction(signal, &raw const default, ptr::null_mut()) };
    }
    let mut all = SIGNALS.iter().zip(&watch.before);
    if let Some((_, before)) = all.find(|((number, _), _)| *number == signal) {
        go_on(before, signal, info, context);
    }
    if !is_fault {
        // A fault comes again when the instruction is tried again. What was sent does not, so it is sent again: it ends the process
        // when this handler has returned.
        // SAFETY: it takes a number, and is safe in handlers.
        unsafe { libc::raise(signal) };
    }
}

/// Waits until all is written, within bounds.
fn wait() {
    let begun = now();
    while !IS_WRITTEN.load(Ordering::Acquire) && now().saturating_sub(begun) < PATIENCE {
        hint::spin_loop();
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
