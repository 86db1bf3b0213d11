//! A ring carries values from one core to the next.
//!
//! One core pushes, one core pops; each holds its own end. Nothing blocks: a full ring refuses, an empty
//! one gives nothing. Underneath is `rtrb`; this file adds bursts, and the names we use.

use arrayvec::ArrayVec;

/// The end that pushes.
#[derive(Debug)]
pub struct RingSender<T> {
    slots: rtrb::Producer<T>,
}

/// The end that pops.
#[derive(Debug)]
pub struct RingReceiver<T> {
    slots: rtrb::Consumer<T>,
}

/// A ring with room for `capacity` values, all of it taken now.
pub fn ring<T>(capacity: usize) -> (RingSender<T>, RingReceiver<T>) {
    let (sender, receiver) = rtrb::RingBuffer::new(capacity);
    (RingSender { slots: sender }, RingReceiver { slots: receiver })
}

impl<T> RingSender<T> {
    /// Pushes one value; a full ring gives it back.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), T> {
        self.slots.push(value).map_err(|rtrb::PushError::Full(value)| value)
    }

    /// Pushes values from the front of `batch` until the ring is full, and says how many. They become
    /// visible to the other side at once; what did not fit stays in `batch`.
    #[inline]
    pub fn push_batch<const N: usize>(&mut self, batch: &mut ArrayVec<T, N>) -> usize {
        let count = self.slots.slots().min(batch.len());
        self.push_from(batch.drain(..count), count)
    }

    /// Pushes the first of `count` values, as many as fit, and says how many. They are made in their slots.
    #[inline]
    pub fn push_from(&mut self, values: impl Iterator<Item = T>, count: usize) -> usize {
        let count = self.slots.slots().min(count);
        if count == 0 {
            return 0;
        }
        let chunk = self.slots.write_chunk_uninit(count).expect("that many slots are free");
        chunk.fill_from_iter(values)
    }
}

impl<T> RingReceiver<T> {
    /// Pops one value.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.slots.pop().ok()
    }

    /// Pops up to `limit` values into `batch`, as far as it has room, and says how many.
    #[inline]
    pub fn pop_batch<const N: usize>(&mut self, batch: &mut ArrayVec<T, N>, limit: usize) -> usize {
        let count = self.slots.slots().min(limit).min(batch.remaining_capacity());
        if count == 0 {
            return 0;
        }
        let chunk = self.slots.read_chunk(count).expect("that many slots are filled");
        batch.extend(chunk);
        count
    }

    /// How many values wait.
    pub fn len(&self) -> usize {
        self.slots.slots()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether none waits and none will come, because the other end is gone.
    pub fn has_ended(&self) -> bool {
        // In this order: what was pushed before the sender went is seen by the second look.
        self.slots.is_abandoned() && self.slots.is_empty()
    }
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
