//! A ring carries values from one core to the next.
//!
//! One core pushes, one core pops; each holds its own end. Nothing blocks: a full ring refuses values, and an empty one
//! returns none. The ring is that of `rtrb`; this file adds batches and counters.
//!
//! The cost of a crossing is the cache lines that come from the other core. The sender saves some of them: it reads the
//! receiver's position only if it does not know of enough free slots. After a push it prefetches the lines of the next
//! slots, which arrive while it does other work.

use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::Arc;

use arrayvec::ArrayVec;
use pmdns_nics::prefetch_to_write;

use pmdns_counters::{Occupancy, RingGauge};

/// Bytes that cross cores together.
const LINE_BYTES: usize = 64;

/// The end that pushes.
#[derive(Debug)]
pub struct RingSender<T> {
    slots: rtrb::Producer<T>,
    gauge: Arc<RingGauge>,
}

/// The end that pops.
#[derive(Debug)]
pub struct RingReceiver<T> {
    slots: rtrb::Consumer<T>,
    occupancy: Occupancy,
    gauge: Arc<RingGauge>,
}

/// A ring with room for `capacity` values. All of its memory is allocated now.
///
/// ```
/// # use pmdns_engine::ring::ring;
/// let (mut sender, mut receiver) = ring(2);
/// let core = std::thread::spawn(move || sender.push("a miss").unwrap());
/// core.join().unwrap();
/// assert_eq!(receiver.pop(), Some("a miss"));
/// ```
pub fn ring<T>(capacity: usize) -> (RingSender<T>, RingReceiver<T>) {
    let (sender, receiver) = rtrb::RingBuffer::new(capacity);
    let gauge = Arc::new(RingGauge::new(capacity));
    let sender = RingSender { slots: sender, gauge: Arc::clone(&gauge) };
    (sender, RingReceiver { slots: receiver, occupancy: Occupancy::default(), gauge })
}

impl<T> RingSender<T> {
    /// Pushes one value; a full ring gives it back.
    ///
    /// ```
    /// # let (mut sender, _receiver) = pmdns_engine::ring::ring(1);
    /// assert_eq!(sender.push(1), Ok(()));
    /// assert_eq!(sender.push(2), Err(2), "there is one slot");
    /// ```
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), T> {
        self.slots.push(value).map_err(|rtrb::PushError::Full(value)| {
            self.gauge.refuse(1);
            value
        })
    }

    /// Pushes values from the front of `batch` until the ring is full, and returns how many. They become visible to the
    /// other side together. The others stay in `batch`.
    ///
    /// ```
    /// # let (mut sender, _receiver) = pmdns_engine::ring::ring(4);
    /// let mut batch: arrayvec::ArrayVec<u32, 8> = (0..6).collect();
    /// assert_eq!(sender.push_batch(&mut batch), 4);
    /// assert_eq!(batch.as_slice(), [4, 5]);
    /// ```
    #[inline]
    pub fn push_batch<const N: usize>(&mut self, batch: &mut ArrayVec<T, N>) -> usize {
        let count = self.room(batch.len());
        if count == 0 {
            return 0;
        }
        let mut chunk = self.slots.write_chunk_uninit(count).expect("that many slots are free");
        let (first, second) = chunk.as_mut_slices();
        let (front, back) = batch[..count].split_at(first.len());
        copy_into(first, front);
        copy_into(second, back);
        batch.drain(..count).for_each(mem::forget);
        // SAFETY: all slots of the chunk have been written just now. The batch has forgotten their values, so the ring
        // is their only owner.
        unsafe { chunk.commit_all() };
        self.prefetch_next(count);
        count
    }

    /// Pushes the first of `count` values, as many as fit, and returns how many. They are constructed in their slots.
    ///
    /// ```
    /// # let (mut sender, mut receiver) = pmdns_engine::ring::ring(4);
    /// assert_eq!(sender.push_from((1..).map(|number| number * 10), 2), 2);
    /// assert_eq!((receiver.pop(), receiver.pop(), receiver.pop()), (Some(10), Some(20), None));
    /// ```
    #[inline]
    pub fn push_from(&mut self, values: impl Iterator<Item = T>, count: usize) -> usize {
        let count = self.room(count);
        if count == 0 {
            return 0;
        }
        let chunk = self.slots.write_chunk_uninit(count).expect("that many slots are free");
        let pushed = chunk.fill_from_iter(values);
        self.prefetch_next(pushed);
        pushed
    }

    /// Pushes `count` values or, if there is no room for all of them, none; whether it did. Each starts as the default, and
    /// `fill` completes it in its slot, by its number. They become visible to the other side together.
    ///
    /// ```
    /// # let (mut sender, mut receiver) = pmdns_engine::ring::ring(4);
    /// assert!(sender.push_all(3, |number, value| *value = number * 10));
    /// assert!(!sender.push_all(2, |_, _| {}));
    /// assert_eq!((receiver.pop(), receiver.pop(), receiver.pop()), (Some(0), Some(10), Some(20)));
    /// assert_eq!(receiver.pop(), None);
    /// ```
    #[inline]
    pub fn push_all(&mut self, count: usize, mut fill: impl FnMut(usize, &mut T)) -> bool
    where
        T: Default,
    {
        let Ok(mut chunk) = self.slots.write_chunk(count) else { return false };
        let (first, second) = chunk.as_mut_slices();
        for (number, slot) in first.iter_mut().chain(second).enumerate() {
            fill(number, slot);
        }
        chunk.commit_all();
        self.prefetch_next(count);
        true
    }

    /// How many slots there are.
    ///
    /// ```
    /// # let (sender, _receiver) = pmdns_engine::ring::ring::<u8>(1024);
    /// assert_eq!(sender.capacity(), 1024);
    /// ```
    pub fn capacity(&self) -> usize {
        self.slots.buffer().capacity()
    }

    /// How many slots are free. The receiver's position is read only if fewer than `enough` are known to be free.
    ///
    /// ```
    /// # let (mut sender, _receiver) = pmdns_engine::ring::ring(4);
    /// sender.push('a').unwrap();
    /// assert_eq!(sender.free(4), 3);
    /// ```
    #[inline]
    pub fn free(&self, enough: usize) -> usize {
        let known = self.slots.cached_slots();
        if known < enough { self.slots.slots() } else { known }
    }

    /// Counts `count` values as refused, for a caller that found no room for them.
    ///
    /// ```
    /// # let (sender, receiver) = pmdns_engine::ring::ring::<u8>(4);
    /// sender.refuse(3);
    /// assert_eq!(receiver.gauge().refused(), 3);
    /// ```
    pub fn refuse(&self, count: usize) {
        self.gauge.refuse(count);
    }

    /// How many of `asked` values fit. The others are counted as refused.
    #[inline]
    fn room(&self, asked: usize) -> usize {
        let known = self.slots.cached_slots();
        let free = if known < asked { self.slots.slots() } else { known };
        if free < asked {
            self.gauge.refuse(asked - free);
        }
        free.min(asked)
    }

    /// Prefetches the lines of the next `count` slots, as far as they are known to be free. Values larger than a line
    /// are not prefetched: they would take more outstanding loads than a core has.
    #[inline]
    fn prefetch_next(&mut self, count: usize) {
        if size_of::<T>() == 0 || size_of::<T>() > LINE_BYTES {
            return;
        }
        let count = self.slots.cached_slots().min(count);
        let Ok(mut chunk) = self.slots.write_chunk_uninit(count) else { return };
        let (first, second) = chunk.as_mut_slices();
        for slots in [first, second] {
            let one_a_line = slots.iter().step_by(LINE_BYTES / size_of::<T>());
            one_a_line.for_each(|slot| prefetch_to_write(slot));
        }
    }
}

impl<T> RingReceiver<T> {
    /// Pops one value.
    ///
    /// ```
    /// # let (mut sender, mut receiver) = pmdns_engine::ring::ring(4);
    /// sender.push('a').unwrap();
    /// assert_eq!(receiver.pop(), Some('a'));
    /// assert_eq!(receiver.pop(), None);
    /// ```
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.slots.pop().ok()
    }

    /// Pops up to `limit` values into `batch`, as far as it has room, and returns how many.
    ///
    /// ```
    /// # let (mut sender, mut receiver) = pmdns_engine::ring::ring(4);
    /// sender.push_from(0..4, 4);
    /// let mut batch = arrayvec::ArrayVec::<u32, 3>::new();
    /// assert_eq!(receiver.pop_batch(&mut batch, 2), 2, "as many as asked for");
    /// assert_eq!(receiver.pop_batch(&mut batch, 2), 1, "as many as fit");
    /// assert_eq!(batch.as_slice(), [0, 1, 2]);
    /// ```
    #[inline]
    pub fn pop_batch<const N: usize>(&mut self, batch: &mut ArrayVec<T, N>, limit: usize) -> usize {
        let waiting = self.slots.slots();
        let count = waiting.min(limit).min(batch.remaining_capacity());
        if count == 0 {
            return 0;
        }
        self.occupancy.sample(waiting, count);
        let chunk = self.slots.read_chunk(count).expect("that many slots are filled");
        batch.extend(chunk);
        count
    }

    /// Shows `see` up to `limit` values where they lie, in two parts, and takes them out then. Returns how many. Large values
    /// are not copied that way.
    ///
    /// ```
    /// # let (mut sender, mut receiver) = pmdns_engine::ring::ring(4);
    /// sender.push_from(1..4, 3);
    /// assert_eq!(receiver.see_batch(2, |first, second| assert_eq!([first, second].concat(), [1, 2])), 2);
    /// assert_eq!(receiver.pop(), Some(3));
    /// ```
    #[inline]
    pub fn see_batch(&mut self, limit: usize, see: impl FnOnce(&[T], &[T])) -> usize {
        let waiting = self.slots.slots();
        let count = waiting.min(limit);
        if count == 0 {
            return 0;
        }
        self.occupancy.sample(waiting, count);
        let chunk = self.slots.read_chunk(count).expect("that many slots are filled");
        let (first, second) = chunk.as_slices();
        see(first, second);
        chunk.commit_all();
        count
    }

    /// Publishes the ring's occupancy, which was measured whenever a batch was popped.
    ///
    /// ```
    /// # let (mut sender, mut receiver) = pmdns_engine::ring::ring(4);
    /// # let mut batch = arrayvec::ArrayVec::<u32, 4>::new();
    /// sender.push_from(0..3, 3);
    /// receiver.pop_batch(&mut batch, 4);
    /// assert_eq!(receiver.gauge().occupancy().max, 0, "not yet published");
    /// receiver.publish();
    /// assert_eq!(receiver.gauge().occupancy().max, 3);
    /// ```
    pub fn publish(&self) {
        self.gauge.publish(&self.occupancy);
    }

    /// The counters of both ends, for any thread to read.
    ///
    /// ```
    /// # let (mut sender, receiver) = pmdns_engine::ring::ring(1);
    /// let gauge = receiver.gauge();
    /// sender.push('a').unwrap();
    /// sender.push('b').unwrap_err();
    /// assert_eq!((gauge.capacity(), gauge.refused()), (1, 1));
    /// ```
    pub fn gauge(&self) -> Arc<RingGauge> {
        Arc::clone(&self.gauge)
    }

    /// The number of values that wait.
    ///
    /// ```
    /// # let (mut sender, receiver) = pmdns_engine::ring::ring(4);
    /// sender.push('a').unwrap();
    /// assert_eq!(receiver.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.slots.slots()
    }

    /// Whether no value waits.
    ///
    /// ```
    /// # let (sender, receiver) = pmdns_engine::ring::ring::<u8>(4);
    /// assert!(receiver.is_empty());
    /// # drop(sender);
    /// ```
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether no value waits and none will come, because the sender was dropped.
    ///
    /// ```
    /// # let (mut sender, mut receiver) = pmdns_engine::ring::ring(4);
    /// sender.push('a').unwrap();
    /// drop(sender);
    /// assert!(!receiver.has_ended(), "one value still waits");
    /// receiver.pop();
    /// assert!(receiver.has_ended());
    /// ```
    pub fn has_ended(&self) -> bool {
        // The order matters: the second check sees every value that was pushed before the sender was dropped.
        self.slots.is_abandoned() && self.slots.is_empty()
    }
}

/// Copies values into slots as one block; `fill_from_iter` copies each through the stack. The caller still owns the
/// values until the ring commits the slots.
#[inline]
fn copy_into<T>(slots: &mut [MaybeUninit<T>], values: &[T]) {
    assert_eq!(slots.len(), values.len());
    // SAFETY: both slices have the same length, and a mutable borrow overlaps no other.
    unsafe { ptr::copy_nonoverlapping(values.as_ptr(), slots.as_mut_ptr().cast(), values.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_ring_refuses_and_keeps_the_order() {
        let (mut sender, mut receiver) = ring(4);
        let mut batch: ArrayVec<u32, 8> = (0..6).collect();
        assert_eq!(sender.push_batch(&mut batch), 4);
        assert_eq!(batch.as_slice(), [4, 5]);
        assert_eq!(sender.push(9), Err(9));
        let mut out: ArrayVec<u32, 3> = ArrayVec::new();
        assert_eq!(receiver.pop_batch(&mut out, 8), 3, "as far as there is room");
        assert_eq!(sender.push_batch(&mut batch), 2, "round the end of the ring");
        out.clear();
        assert_eq!(receiver.pop_batch(&mut out, 2), 2, "as many as asked for");
        assert_eq!(out.as_slice(), [3, 4]);
        assert_eq!(receiver.pop(), Some(5));
        assert_eq!(receiver.pop(), None);
        receiver.publish();
        let occupancy = receiver.gauge().occupancy();
        assert_eq!((occupancy.pops, occupancy.taken, occupancy.max), (2, 5, 4), "of the batches");
        assert_eq!(receiver.gauge().refused(), 2 + 1, "what each push had left");
    }

    #[test]
    fn a_value_has_one_owner_wherever_it_is() {
        let value = Arc::new(());
        let (mut sender, mut receiver) = ring(4);
        let mut batch: ArrayVec<Arc<()>, 8> = ArrayVec::new();
        let mut out: ArrayVec<Arc<()>, 8> = ArrayVec::new();
        for pushed in [3, 4, 2] {
            batch.extend(std::iter::repeat_n(Arc::clone(&value), 5));
            assert_eq!(
                sender.push_batch(&mut batch),
                4,
                "round the end of the ring, each time elsewhere"
            );
            assert_eq!(batch.len(), 1);
            assert_eq!(Arc::strong_count(&value), 1 + 5);
            assert_eq!(receiver.pop_batch(&mut out, pushed), pushed);
            out.extend(std::iter::from_fn(|| receiver.pop()));
            assert_eq!((out.len(), Arc::strong_count(&value)), (4, 1 + 5));
            batch.clear();
            out.clear();
            assert_eq!(sender.push(Arc::clone(&value)), Ok(()));
            assert!(receiver.pop().is_some());
            assert_eq!(Arc::strong_count(&value), 1);
        }
        batch.push(Arc::clone(&value));
        sender.push_batch(&mut batch);
        drop((sender, receiver));
        assert_eq!(Arc::strong_count(&value), 1, "what is left in a ring is dropped with it");
    }

    #[test]
    fn a_ring_ends_when_its_sender_is_gone_and_nothing_waits() {
        let (mut sender, mut receiver) = ring(2);
        sender.push(1).unwrap();
        assert!(!receiver.has_ended());
        drop(sender);
        assert!(!receiver.has_ended(), "one value still waits");
        receiver.pop();
        assert!(receiver.has_ended());
    }

    #[test]
    fn values_cross_threads_whole_and_in_order() {
        const COUNT: u64 = if cfg!(miri) { 500 } else { 200_000 };
        let (mut sender, mut receiver) = ring::<Box<u64>>(64);
        let pusher = std::thread::spawn(move || {
            let mut batch: ArrayVec<Box<u64>, 32> = ArrayVec::new();
            let mut next = 0;
            while next < COUNT || !batch.is_empty() {
                while next < COUNT && !batch.is_full() {
                    batch.push(Box::new(next));
                    next += 1;
                }
                if sender.push_batch(&mut batch) == 0 {
                    std::thread::yield_now();
                }
            }
        });
        let mut expected = 0;
        let mut batch: ArrayVec<Box<u64>, 32> = ArrayVec::new();
        while expected < COUNT {
            if receiver.pop_batch(&mut batch, 32) == 0 {
                std::thread::yield_now();
            }
            for value in batch.drain(..) {
                assert_eq!(*value, expected);
                expected += 1;
            }
        }
        pusher.join().unwrap();
        assert!(receiver.is_empty());
    }
}
