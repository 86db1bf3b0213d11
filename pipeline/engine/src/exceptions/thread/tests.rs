//! The thread's turns, with a kernel that a test holds.

use pmdns_nics::{HeapPool, release};
use pmdns_stages::testing::frame_from;
use pmdns_stages::wire::name::Seed;
use pmdns_stages::{Exception, Step};

use super::*;
use crate::exceptions::fake::Fake;
use crate::news::NewsBoard;
use crate::ring::ring;

/// A thread with one core beside it: the core's ends of the rings.
struct Lab {
    thread: TapThread,
    kernel: Fake,
    classes: Vec<RingSender<Packet>>,
    frames: RingReceiver<Frame>,
    pool: FramePool,
    news: AllPortNews,
}

impl Lab {
    fn new(frames: usize) -> Self {
        let pool = FramePool::Heap(HeapPool::new(frames));
        let (classes, receivers) = ExceptionClass::ALL.iter().map(|_| ring(128)).unzip();
        let (sender, frames) = ring(64);
        let news = AllPortNews::new(NewsBoard::new(3));
        let thread = TapThread {
            rings: TapRings { port: 2, exceptions: vec![receivers], frames: Some(sender) },
            kernel: None,
            reads: Arc::new(true.into()),
            told: None,
            left: Default::default(),
            pool: pool.clone(),
            partial_checksums: false,
            peers: Arc::new(KnownRouters::new([], Seed::new([3; 16]))),
            news: Arc::clone(&news),
            counters: Arc::default(),
            stop: Arc::default(),
        };
        Self { thread, kernel: Fake::default(), classes, frames, pool, news }
    }

    fn turn(&mut self) -> usize {
        self.thread.turn(&mut self.kernel)
    }

    fn pass(&mut self, class: ExceptionClass, byte: u8) {
        let frame = frame_from(&self.pool, &[byte; 60]);
        let packet = Packet { step: Step::exception(Exception::Arp), ..Packet::arrived(frame, 0) };
        self.classes[class as usize].push(packet).unwrap();
    }
}

#[test]
fn classes_are_served_in_their_order() {
    let mut lab = Lab::new(16);
    for (class, byte) in [
        (ExceptionClass::Rest, 3),
        (ExceptionClass::Streams, 2),
        (ExceptionClass::Control, 1),
        (ExceptionClass::Control, 1),
    ] {
        lab.pass(class, byte);
    }
    assert_eq!(lab.turn(), 4);
    let order: Vec<u8> = lab.kernel.got.iter().map(|frame| frame[0]).collect();
    assert_eq!(order, [1, 1, 2, 3]);
    assert_eq!((lab.pool.in_use(), lab.thread.counters.snapshot().to_kernel), (0, 4));
}

#[test]
fn what_the_kernel_sends_leaves_by_the_port_as_far_as_there_is_room() {
    let mut lab = Lab::new(200);
    lab.kernel.sends = (0..100).map(|byte| vec![byte; 60]).collect();
    assert_eq!((lab.turn(), lab.turn()), (64, 0), "the ring has 64 slots");
    assert_eq!(lab.kernel.sends.len(), 36, "the rest stays with the kernel");
    let mut burst = Burst::new();
    lab.frames.pop_batch(&mut burst, MAX_BURST);
    assert!(burst.iter().all(|frame| frame.port() == 2 && frame.bytes().len() == 60));
    assert_eq!((burst[0].bytes()[0], burst[63].bytes()[0]), (0, 63));
    release(&mut burst);
    assert_eq!(lab.turn(), 36);
    assert_eq!(lab.thread.counters.snapshot().from_kernel, 100);
}

#[test]
fn without_free_buffers_the_kernel_waits_and_what_is_too_long_is_dropped() {
    let mut lab = Lab::new(3);
    lab.kernel.sends = (0..5).map(|byte| vec![byte; 60]).collect();
    assert_eq!((lab.turn(), lab.turn()), (3, 0));
    while lab.frames.pop().is_some() {}
    lab.kernel.sends.push_front(vec![7; 4000]);
    assert_eq!(lab.turn(), 2);
    assert_eq!(lab.thread.counters.snapshot().too_long, 1);
    while lab.frames.pop().is_some() {}
    assert_eq!(lab.pool.in_use(), 0);
}

#[test]
fn the_kernel_hears_of_the_link_when_it_changes() {
    let mut lab = Lab::new(1);
    lab.turn();
    assert_eq!(lab.kernel.link.take(), Some(false), "one that was passed may have carrier");
    lab.news[2].link_came_up();
    lab.turn();
    assert_eq!(lab.kernel.link.take(), Some(true));
    lab.turn();
    assert_eq!(lab.kernel.link, None, "nothing is new");
    lab.news[2].link_went_down();
    lab.turn();
    assert_eq!((lab.kernel.link, lab.thread.counters.snapshot().link_up), (Some(false), 0));
}

#[test]
fn an_interface_that_is_down_or_deleted_loses_frames_and_they_are_counted() {
    let mut lab = Lab::new(8);
    for (error, gone) in [(libc::EIO, 0), (libc::EBADFD, 1)] {
        lab.kernel.error = Some(error);
        lab.pass(ExceptionClass::Rest, 0);
        assert_eq!(lab.turn(), 1);
        assert_eq!(lab.thread.counters.snapshot().gone, gone);
    }
    assert_eq!((lab.thread.counters.snapshot().refused, lab.pool.in_use()), (2, 0));
}

#[test]
fn what_finds_no_room_with_the_kernel_waits_and_nothing_overtakes_it() {
    let mut lab = Lab::new(16);
    for byte in 1..=3 {
        lab.pass(ExceptionClass::Control, byte);
    }
    lab.pass(ExceptionClass::Rest, 9);
    for (room, moved) in [(2, 2), (0, 0), (1, 1), (2, 1), (2, 0)] {
        lab.kernel.room = Some(room);
        assert_eq!(lab.turn(), moved);
    }
    let order: Vec<u8> = lab.kernel.got.iter().map(|frame| frame[0]).collect();
    assert_eq!(order, [1, 2, 3, 9]);
    let counted = lab.thread.counters.snapshot();
    assert_eq!((counted.to_kernel, counted.refused, lab.pool.in_use()), (4, 0, 0));
}

#[test]
fn what_the_kernel_sends_stays_with_it_while_another_process_reads() {
    let mut lab = Lab::new(8);
    lab.kernel.sends.extend([vec![1; 60], vec![2; 60]]);
    lab.thread.reads.store(false, Ordering::Relaxed);
    lab.pass(ExceptionClass::Rest, 3);
    assert_eq!((lab.turn(), lab.kernel.got.len(), lab.kernel.sends.len()), (1, 1, 2));
    lab.thread.reads.store(true, Ordering::Relaxed);
    assert_eq!((lab.turn(), lab.kernel.sends.len()), (2, 0));
    while lab.frames.pop().is_some() {}
}

#[test]
fn the_thread_ends_after_the_cores() {
    let Lab { mut thread, kernel, classes, mut frames, pool, .. } = Lab::new(8);
    thread.stop.store(true, Ordering::Relaxed);
    thread.attach(Box::new(kernel), Arc::default());
    let running = std::thread::spawn(move || run(thread));
    while !frames.has_ended() {
        assert!(frames.pop().is_none());
        std::thread::yield_now();
    }
    assert!(!running.is_finished(), "cores still have a way to it");
    drop(classes);
    running.join().unwrap();
    assert_eq!(pool.in_use(), 0);
}
