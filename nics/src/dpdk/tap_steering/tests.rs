//! Processes with queues of one TAP come and end in every order, and clients reach the one that serves.

use std::ffi::CStr;
use std::fs::File;
use std::io::Read as _;
use std::net::UdpSocket;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{MutexGuard, PoisonError};
use std::thread;

use super::*;
use crate::DESCRIPTORS;

const INTERFACE: &str = "pmsteer0";
const KIND_HERE: c_int = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_MULTI_QUEUE;
/// Clients that ask, each with a flow of its own.
const CLIENTS: usize = 24;

/// What one process has of the interface.
struct Owner {
    queues: Vec<File>,
    steering: TapSteering,
}

impl Owner {
    /// Opens as many queues beside one whose queues are these, or were just now.
    fn start(before: TapQueues, count: u32) -> Self {
        let queues = (0..count).map(|_| queue()).collect();
        Self { queues, steering: TapSteering::new(INTERFACE, before, count).unwrap() }
    }

    /// Ends, as a process does whose descriptors close in an order that nobody knows.
    fn end(mut self, is_reversed: bool) {
        if is_reversed {
            self.queues.reverse();
            let Self { queues, steering } = self;
            drop(steering);
            drop(queues);
        }
    }

    /// Whether every client reaches this process.
    fn hears_all(&mut self) -> bool {
        let mut frame = [0; 2048];
        self.queues.iter_mut().for_each(|queue| while queue.read(&mut frame).is_ok() {});
        for _ in 0..CLIENTS {
            UdpSocket::bind("10.96.0.1:0").unwrap().send_to(b"?", "10.96.0.2:53").unwrap();
        }
        let mut heard = 0;
        for queue in &mut self.queues {
            while let Ok(len) = queue.read(&mut frame) {
                heard += usize::from(len > 38 && frame[36..38] == [0, 53]);
            }
        }
        heard == CLIENTS
    }
}

fn queue() -> File {
    let queue = device().unwrap();
    // SAFETY: all-zero bytes are an `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(INTERFACE.bytes()) {
        *to = libc::c_char::try_from(from).unwrap();
    }
    request.ifr_ifru.ifru_flags = to_flags(KIND_HERE).unwrap();
    ask(&queue.try_clone().unwrap().into(), TUNSETIFF, &mut request).unwrap();
    queue
}

/// Moves this thread to a network of its own, and shows that in /sys.
fn own_network() -> Option<MutexGuard<'static, ()>> {
    let guard = DESCRIPTORS.lock().unwrap_or_else(PoisonError::into_inner);
    let mount = |what: &CStr, on: &CStr, flags| {
        // SAFETY: changes only what this thread sees. The texts outlive the call.
        unsafe { libc::mount(what.as_ptr(), on.as_ptr(), what.as_ptr(), flags, ptr::null()) == 0 }
    };
    // SAFETY: changes only what this thread sees.
    let moved = unsafe { libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWNS) == 0 }
        && mount(c"none", c"/", libc::MS_REC | libc::MS_PRIVATE)
        && mount(c"sysfs", c"/sys", 0);
    (moved && fs::exists(TUN).unwrap()).then_some(guard)
}

/// The first process, whose clients are set up.
fn first(count: u32) -> Owner {
    let owner = Owner::start(TapQueues::default(), count);
    for words in [
        "addr add 10.96.0.1/24 dev pmsteer0",
        "link set pmsteer0 up",
        "neigh add 10.96.0.2 lladdr 02:00:00:00:00:aa dev pmsteer0",
    ] {
        assert!(Command::new("ip").args(words.split(' ')).status().unwrap().success(), "{words}");
    }
    owner
}

#[test]
fn every_client_reaches_the_process_that_serves_whoever_comes_and_ends() {
    let Some(_network) = own_network() else {
        eprintln!("skipped: needs root and /dev/net/tun");
        return;
    };
    for counts in [&[1, 1, 1, 1, 1][..], &[2, 2, 2, 2], &[1, 2, 2, 1, 3, 3], &[3, 1, 2, 1]] {
        for is_reversed in [false, true] {
            let mut serving = first(counts[0]);
            serving.steering.be_alone().unwrap();
            for count in &counts[1..] {
                // One that ends before it serves, and at its end, costs nothing.
                for _ in 0..2 {
                    let next = Owner::start(serving.steering.own(), *count);
                    serving.steering.make_room().unwrap();
                    assert!(
                        serving.hears_all(),
                        "{counts:?} {serving:?}",
                        serving = serving.steering
                    );
                    next.steering.to_own().unwrap();
                    next.steering.to_before().unwrap();
                    next.end(is_reversed);
                    assert!(serving.hears_all());
                }
                let mut next = Owner::start(serving.steering.own(), *count);
                assert!(serving.hears_all());
                serving.steering.make_room().unwrap();
                assert!(serving.hears_all());
                next.steering.to_own().unwrap();
                assert!(next.hears_all(), "{counts:?} {:?}", next.steering);
                serving.end(is_reversed);
                assert!(next.hears_all(), "{counts:?} {:?}", next.steering);
                let are_same = counts.iter().all(|other| other == count);
                assert!(!are_same || next.steering.own().first <= *count, "they take turns");
                next.steering.be_alone().unwrap();
                serving = next;
            }
            // It is killed, and the next one has not opened its queues.
            let before = serving.steering.own();
            let holder = serving.steering.holder().try_clone_to_owned().unwrap();
            serving.end(is_reversed);
            let mut next = Owner::start(before, 2);
            next.steering.to_own().unwrap();
            assert!(next.hears_all(), "{counts:?} {:?}", next.steering);
            drop(holder);
        }
    }
}

#[test]
fn fillers_do_not_grow_without_end_and_queues_of_others_are_seen() {
    let Some(_network) = own_network() else { return };
    let mut serving = first(1);
    for _ in 0..100 {
        let mut next = Owner::start(serving.steering.own(), 2);
        serving.steering.make_room().unwrap();
        next.steering.to_own().unwrap();
        drop(serving);
        next.steering.be_alone().unwrap();
        assert!(next.hears_all() && next.steering.own().first <= MOST_FILLERS);
        serving = next;
    }
    let _other = queue();
    let mine = queue();
    assert!(TapSteering::new(INTERFACE, serving.steering.own(), 1).is_err());
    drop(mine);
    assert!(serving.steering.own().first == 0 || serving.steering.make_room().is_err());
    assert!(serving.hears_all());
}

/// The driver of TAPs has a signal sent for each frame that comes.
#[test]
fn a_program_is_loaded_although_signals_come() {
    extern "C" fn nothing(_: c_int) {}
    let _guard = DESCRIPTORS.lock();
    let handler = nothing as extern "C" fn(c_int);
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) };
    // SAFETY: it names this thread, which outlives the other one.
    let loads = unsafe { libc::pthread_self() };
    let is_over = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // SAFETY: the thread is there.
                unsafe { libc::pthread_kill(loads, libc::SIGUSR2) };
            }
        });
        let queues = TapQueues { first: 0, count: 1 };
        let loaded = (0..100).try_for_each(|_| program(queues).map(drop));
        is_over.store(true, Ordering::Relaxed);
        match loaded {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                eprintln!("skipped: needs root, for bpf(2)");
            }
            loaded => loaded.unwrap(),
        }
    });
}
