//! The process's clock: the time-stamp counter, calibrated once; the monotonic clock where there is none.
//!
//! UNSAFETY: reading the counter is an instruction the standard library does not offer as a safe function.

#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pmdns_stages::{Context, Tick};

/// How long calibration watches the counter run.
const CALIBRATION: Duration = Duration::from_millis(20);

/// Doublings of a pause that count; more are the longest pause in any case.
const MAX_DOUBLINGS: u64 = 16;

/// The second in which the process starts: so long ago, a week, an answer from before may have expired that is taken from a file.
pub const FIRST_SECOND: u32 = 7 * 86_400;

/// How long to wait after so many doublings of the first pause.
pub(crate) fn back_off(first: Duration, doublings: u64, longest: Duration) -> Duration {
    (first * (1 << doublings.min(MAX_DOUBLINGS))).min(longest)
}

/// Ticks since an arbitrary point, and what they are worth. Copies read the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Tick,
    ticks_per_second: u64,
    first_second: u32,
    #[cfg(debug_assertions)]
    stepped: Option<SteppedTime>,
}

impl Clock {
    /// Starts the clock. Takes [`CALIBRATION`].
    pub fn start() -> Self {
        let (before, tick_before) = (Instant::now(), ticks());
        while before.elapsed() < CALIBRATION {
            std::hint::spin_loop();
        }
        let (nanoseconds, tick_after) = (before.elapsed().as_nanos(), ticks());
        let ran = u128::from(tick_after.wrapping_sub(tick_before));
        let ticks_per_second = (ran * 1_000_000_000 / nanoseconds.max(1)).max(1) as u64;
        Self {
            start: ticks(),
            ticks_per_second,
            first_second: 0,
            #[cfg(debug_assertions)]
            stepped: None,
        }
    }

    /// A clock for tests, of nanoseconds: it stands still until `time` goes on.
    #[cfg(debug_assertions)]
    pub fn stepped(time: SteppedTime) -> Self {
        Self { start: 0, ticks_per_second: 1_000_000_000, first_second: 0, stepped: Some(time) }
    }

    /// The same clock, which counts seconds from this one.
    pub fn with_first_second(self, first_second: u32) -> Self {
        Self { first_second, ..self }
    }

    /// Ticks since the clock was started.
    #[inline]
    pub fn now(&self) -> Tick {
        #[cfg(debug_assertions)]
        if let Some(time) = self.stepped {
            return time.now().as_nanos() as Tick;
        }
        ticks().wrapping_sub(self.start)
    }

    /// How many ticks a second has.
    pub fn ticks_per_second(&self) -> u64 {
        self.ticks_per_second
    }

    /// `duration` in ticks.
    pub fn ticks_of(&self, duration: Duration) -> u64 {
        let ticks = duration.as_nanos() * u128::from(self.ticks_per_second) / 1_000_000_000;
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// `ticks` as a duration.
    pub fn duration_of(&self, ticks: u64) -> Duration {
        let nanoseconds = u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_second);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// What the stages see of the time `now`.
    #[inline]
    pub fn context(&self, now: Tick) -> Context {
        Context {
            now,
            seconds: self.first_second.wrapping_add((now / self.ticks_per_second) as u32),
        }
    }
}

/// The time of a clock that tests step. Release builds have no such clock: a hit reads the clock, and must not ask first
/// which one it is. Copies are the same time, which is never freed.
#[cfg(debug_assertions)]
#[derive(Clone, Copy, Debug)]
pub struct SteppedTime(&'static AtomicU64);

#[cfg(debug_assertions)]
impl Default for SteppedTime {
    fn default() -> Self {
        Self(Box::leak(Box::default()))
    }
}

#[cfg(debug_assertions)]
impl SteppedTime {
    /// How far it has come.
    pub fn now(self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    /// Lets so much time pass.
    pub fn advance(self, duration: Duration) {
        self.0.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
    }
}

/// The counter. Invariant TSCs run at one rate on every core of every machine DPDK supports.
#[inline]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has RDTSC, and Linux lets user space execute it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// The generic timer's counter.
#[inline]
#[cfg(all(target_arch = "aarch64", not(miri)))]
fn ticks() -> u64 {
    let count: u64;
    // SAFETY: Linux lets user space read the virtual counter; the instruction has no other effect.
    unsafe {
        std::arch::asm!("mrs {0}, cntvct_el0", out(reg) count,
            options(nostack, nomem, preserves_flags));
    }
    count
}

/// Nanoseconds of the monotonic clock.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn ticks() -> u64 {
    use std::sync::OnceLock;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_durations_convert_both_ways() {
        let clock = Clock { start: 0, ticks_per_second: 2_000_000_000, ..Clock::start() };
        assert_eq!(clock.ticks_of(Duration::from_millis(3)), 6_000_000);
        assert_eq!(clock.duration_of(6_000_000), Duration::from_millis(3));
        assert_eq!(clock.context(4_999_999_999).seconds, 2);
        assert_eq!(clock.with_first_second(FIRST_SECOND).context(4_999_999_999).seconds, 604_802);
    }

    #[test]
    #[cfg(debug_assertions)]
    fn a_stepped_clock_goes_on_only_when_it_is_told_to() {
        let time = SteppedTime::default();
        let clock = Clock::stepped(time).with_first_second(5);
        assert_eq!((clock.now(), clock.context(clock.now()).seconds), (0, 5));
        time.advance(Duration::from_millis(2_500));
        assert_eq!(clock.duration_of(clock.now()), Duration::from_millis(2_500));
        assert_eq!(clock.context(clock.now()).seconds, 7);
    }

    #[test]
    fn the_clock_never_runs_backwards() {
        let clock = Clock::start();
        let mut last = clock.now();
        for _ in 0..1000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }
}
