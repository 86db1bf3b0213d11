//! The process's clock: the time-stamp counter, calibrated once; the monotonic clock where there is none.
//!
//! UNSAFETY: reading the counter is an instruction the standard library does not offer as a safe function.

#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use pmdns_config::narrow;
use pmdns_stages::{Context, Tick};

/// How long calibration watches the counter run.
const CALIBRATION: Duration = Duration::from_millis(20);

/// Doublings of a pause that count; more are the longest pause in any case.
const MAX_DOUBLINGS: u64 = 16;

/// The second in which the process starts. It leaves room for a week before the start: a snapshot may have answers that
/// expired up to a week ago.
pub const FIRST_SECOND: u32 = 7 * 86_400;

/// How long to wait after so many doublings of the first pause.
pub fn back_off(first: Duration, doublings: u64, longest: Duration) -> Duration {
    (first * (1 << doublings.min(MAX_DOUBLINGS))).min(longest)
}

/// Shortens a pause by up to a quarter, so that not all ask at once.
pub fn jittered(pause: Duration) -> Duration {
    let mut random = [0; 1];
    // Without random numbers the pause is not shortened.
    let _ = getrandom::fill(&mut random);
    pause - pause / 4 * u32::from(random[0]) / 256
}

/// Counts ticks since its start, and converts them to durations. Copies read the same time.
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
        let ticks_per_second = (ran * 1_000_000_000 / nanoseconds.max(1)).max(1);
        let ticks_per_second = u64::try_from(ticks_per_second).unwrap_or(u64::MAX);
        Self {
            start: ticks(),
            ticks_per_second,
            first_second: 0,
            #[cfg(debug_assertions)]
            stepped: None,
        }
    }

    /// A clock for tests, which counts nanoseconds. It stands still until the test advances `time`.
    #[cfg(debug_assertions)]
    pub fn stepped(time: SteppedTime) -> Self {
        Self { start: 0, ticks_per_second: 1_000_000_000, first_second: 0, stepped: Some(time) }
    }

    /// The numbers of this clock, for another process on the same machine: its first tick, ticks of a second, and its first second.
    pub fn numbers(&self) -> [u64; 3] {
        [self.start, self.ticks_per_second, self.first_second.into()]
    }

    /// A clock that starts now and has the seconds of another process's, whose numbers these are. `None`: they are of no clock.
    pub fn following([start, ticks_per_second, first_second]: [u64; 3]) -> Option<Self> {
        // Elsewhere each process counts from its own start.
        if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            return None;
        }
        let seconds = ticks().wrapping_sub(start).checked_div(ticks_per_second)?;
        Some(Self {
            start: start.wrapping_add(seconds * ticks_per_second),
            ticks_per_second,
            first_second: narrow::low_u32(first_second.wrapping_add(seconds)),
            #[cfg(debug_assertions)]
            stepped: None,
        })
    }

    /// The same clock, with another first second.
    pub fn with_first_second(self, first_second: u32) -> Self {
        Self { first_second, ..self }
    }

    /// Ticks since the clock was started.
    #[inline]
    pub fn now(&self) -> Tick {
        #[cfg(debug_assertions)]
        if let Some(time) = self.stepped {
            return narrow::low_u64(time.now().as_nanos());
        }
        ticks().wrapping_sub(self.start)
    }

    /// The number of ticks in a second.
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

    /// The date, in seconds since 1970: by the clock on the wall, unless tests step the time.
    pub fn date(&self) -> u64 {
        #[cfg(debug_assertions)]
        if let Some(time) = self.stepped {
            return time.date();
        }
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
    }

    /// The time `now` in the units of the stages.
    #[inline]
    pub fn context(&self, now: Tick) -> Context {
        Context {
            now,
            seconds: self.first_second.wrapping_add(narrow::low_u32(now / self.ticks_per_second)),
        }
    }
}

/// The time of a clock that tests step. Release builds have no such clock, because a hit reads the clock and must not
/// check first which kind it is. Copies share one time, which is never freed.
#[cfg(debug_assertions)]
#[derive(Clone, Copy, Debug)]
pub struct SteppedTime {
    nanoseconds: &'static AtomicU64,
    /// The date at its start, in seconds since 1970.
    start: u32,
}

#[cfg(debug_assertions)]
impl Default for SteppedTime {
    fn default() -> Self {
        Self::since(1 << 30)
    }
}

#[cfg(debug_assertions)]
impl SteppedTime {
    /// A time that starts at this date, in seconds since 1970.
    pub fn since(start: u32) -> Self {
        Self { nanoseconds: Box::leak(Box::default()), start }
    }

    /// The time that has passed.
    pub fn now(self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }

    /// The date, in seconds since 1970.
    pub fn date(self) -> u64 {
        u64::from(self.start) + self.now().as_secs()
    }

    /// Lets `duration` pass.
    pub fn advance(self, duration: Duration) {
        self.nanoseconds.fetch_add(narrow::low_u64(duration.as_nanos()), Ordering::Relaxed);
    }
}

/// The counter. On all machines that DPDK supports, the TSC is invariant: it has the same rate on every core.
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
        assert_eq!(clock.date(), SteppedTime::default().date() + 2);
    }

    #[test]
    fn a_clock_that_follows_another_has_its_seconds() {
        let now = Clock::start().with_first_second(FIRST_SECOND);
        let second = now.ticks_per_second();
        // It has run for two days.
        let first = Clock { start: now.start.wrapping_sub(second * 200_000), ..now };
        let next = Clock::following(first.numbers()).unwrap();
        assert_eq!(next.ticks_per_second(), second);
        assert!(next.now() < second, "it has just started");
        let seconds = |clock: &Clock| clock.context(clock.now()).seconds;
        let (before, same, after) = (seconds(&first), seconds(&next), seconds(&first));
        assert!(before <= same && same <= after && after < before + 2);
        assert!(Clock::following([1, 0, 1]).is_none());
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
