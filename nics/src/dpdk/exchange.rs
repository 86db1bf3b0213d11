//! Queues that are exchanged while cores poll them: a first one for a second one. No frame is lost, because a first one is read
//! until it is empty. Cores receive all the time, but transmit only what there is. So a first queue for that stays where the main
//! thread can take it.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::frame::Burst;
use crate::{RxQueue, TxQueue};

/// The core has the first queue alone.
const FIRST: u8 = 0;
/// The second one is here, and the first one is read as well.
const BOTH: u8 = 1;
/// The first one is left once it is empty.
const SECOND: u8 = 2;

/// What passes between a core and the main thread, which has this.
pub(super) struct Exchange<Q: ?Sized> {
    step: AtomicU8,
    second: Mutex<Option<Box<Q>>>,
    first: Mutex<Option<Box<Q>>>,
}

impl<Q: ?Sized> Exchange<Q> {
    /// The core gets the second queue.
    pub(super) fn bring(&self, second: Box<Q>) {
        *lock(&self.second) = Some(second);
        self.step.store(BOTH, Ordering::Release);
    }

    /// The core is to leave the first queue. Says whether it has.
    pub(super) fn recall(&self) -> bool {
        self.step.store(SECOND, Ordering::Release);
        lock(&self.first).is_some()
    }

    /// The first queue, if the core has left it.
    pub(super) fn take(&self) -> Option<Box<Q>> {
        lock(&self.first).take()
    }
}

fn lock<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A queue that a core polls.
pub(super) struct Exchanged<Q: ?Sized> {
    first: Option<Box<Q>>,
    second: Option<Box<Q>>,
    exchange: Arc<Exchange<Q>>,
    /// The step that the core knows of.
    step: u8,
}

impl<Q: ?Sized> Exchanged<Q> {
    fn new(first: Option<Box<Q>>, shared: Option<Box<Q>>) -> (Self, Arc<Exchange<Q>>) {
        let (step, second) = (AtomicU8::new(FIRST), Mutex::new(None));
        let exchange = Arc::new(Exchange { step, second, first: Mutex::new(shared) });
        let copy = Arc::clone(&exchange);
        (Self { first, second: None, exchange, step: FIRST }, copy)
    }

    #[inline]
    fn poll(&mut self) {
        let step = self.exchange.step.load(Ordering::Acquire);
        if step != self.step {
            self.step = step;
            if let Some(second) = lock(&self.exchange.second).take() {
                self.second = Some(second);
            }
        }
    }
}

impl Exchanged<dyn RxQueue> {
    /// A queue that begins with `first`.
    pub(super) fn receiving(first: Box<dyn RxQueue>) -> (Self, Arc<Exchange<dyn RxQueue>>) {
        Self::new(Some(first), None)
    }
}

impl Exchanged<dyn TxQueue> {
    /// A queue that begins with `first`.
    pub(super) fn transmitting(first: Box<dyn TxQueue>) -> (Self, Arc<Exchange<dyn TxQueue>>) {
        Self::new(None, Some(first))
    }
}

impl RxQueue for Exchanged<dyn RxQueue> {
    #[inline]
    fn receive(&mut self, burst: &mut Burst, limit: usize) -> usize {
        self.poll();
        let mut count = 0;
        if let Some(first) = &mut self.first {
            count = first.receive(burst, limit);
            if count == 0 && self.step == SECOND && self.second.is_some() {
                *lock(&self.exchange.first) = self.first.take();
            }
        }
        if let Some(second) = self.second.as_mut().filter(|_| count < limit) {
            count += second.receive(burst, limit - count);
        }
        count
    }
}

impl TxQueue for Exchanged<dyn TxQueue> {
    #[inline]
    fn transmit(&mut self, burst: &mut Burst) -> usize {
        self.poll();
        if let Some(second) = &mut self.second {
            return second.transmit(burst);
        }
        // It may have gone since the step was read. Then the next call has the second one.
        lock(&self.exchange.first).as_mut().map_or(0, |first| first.transmit(burst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HeapPool;

    /// A queue that has so many frames to give, and takes all.
    struct Fake(HeapPool, usize, u8);

    impl RxQueue for Fake {
        fn receive(&mut self, burst: &mut Burst, limit: usize) -> usize {
            let count = self.1.min(limit);
            for _ in 0..count {
                let mut frame = self.0.take().unwrap();
                frame.set_port(self.2);
                burst.push(frame);
            }
            self.1 -= count;
            count
        }
    }

    impl TxQueue for Fake {
        fn transmit(&mut self, burst: &mut Burst) -> usize {
            let count = burst.len();
            burst.drain(..).for_each(drop);
            self.1 += count;
            count
        }
    }

    fn fake(frames: usize, port: u8) -> Box<Fake> {
        Box::new(Fake(HeapPool::new(64), frames, port))
    }

    #[test]
    fn the_first_queue_is_read_until_it_is_empty_and_then_given_back() {
        let (mut queue, exchange) = Exchanged::receiving(fake(6, 1));
        let mut receive = |limit| {
            let mut burst = Burst::new();
            let count = queue.receive(&mut burst, limit);
            let ports: Vec<_> = burst.iter().map(|frame| frame.port()).collect();
            assert_eq!(ports.len(), count);
            ports
        };
        assert_eq!(receive(2), [1, 1]);
        exchange.bring(fake(5, 2));
        assert_eq!(receive(2), [1, 1], "the first one comes first");
        assert!(!exchange.recall());
        assert_eq!(receive(3), [1, 1, 2], "a burst has frames of both");
        assert!(!exchange.recall(), "it had frames just now");
        assert_eq!(receive(3), [2, 2, 2]);
        assert!(exchange.recall() && exchange.take().is_some());
        assert_eq!(receive(3), [2]);
    }

    #[test]
    fn a_core_that_transmits_nothing_keeps_no_queue() {
        let (mut queue, exchange) = Exchanged::transmitting(fake(0, 1));
        let mut transmit = || queue.transmit(&mut HeapPool::new(1).take().into_iter().collect());
        assert_eq!(transmit(), 1);
        exchange.bring(fake(0, 2));
        assert!(exchange.recall() && exchange.take().is_some());
        assert_eq!(transmit(), 1);
        assert!(exchange.take().is_none());
    }

    #[test]
    fn a_queue_that_is_gone_takes_nothing() {
        let (mut queue, exchange) = Exchanged::transmitting(fake(0, 1));
        drop(exchange.take());
        let mut burst: Burst = HeapPool::new(1).take().into_iter().collect();
        assert_eq!((queue.transmit(&mut burst), burst.len()), (0, 1));
    }
}
