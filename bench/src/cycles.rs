//! TSC cycles as criterion's unit of measurement: what the targets are written in.
//!
//! The counter runs at a constant rate, which is the same on every core. It may differ from the core's clock rate, so
//! figures are times in units close to cycles.

use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter};
use criterion::{Criterion, Throughput};
use pmdns_config::narrow::floor_u64;
use pmdns_engine::clock::Clock;

const WARM_UP: Duration = Duration::from_millis(500);
const MEASUREMENT: Duration = Duration::from_secs(2);

/// Measures TSC cycles, and shows them by element where a throughput is given.
#[derive(Clone, Copy, Debug)]
pub struct Cycles {
    clock: Clock,
}

impl Cycles {
    /// The measurement, with a clock of its own.
    pub fn new() -> Self {
        Self { clock: Clock::start() }
    }

    /// The counter.
    #[inline]
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// How many cycles a second has.
    pub fn per_second(&self) -> u64 {
        self.clock.ticks_per_second()
    }
}

impl Default for Cycles {
    fn default() -> Self {
        Self::new()
    }
}

/// Criterion with cycles for its unit, and times that suit dozens of cases.
pub fn criterion() -> Criterion<Cycles> {
    Criterion::default()
        .with_measurement(Cycles::new())
        .warm_up_time(WARM_UP)
        .measurement_time(MEASUREMENT)
}

/// Calls `once` so many times, and returns the typical cycles of one call, times `iterations`. `once` returns the
/// cycles of its own work, so that preparation between two measurements does not count.
pub fn typical(iterations: u64, mut once: impl FnMut() -> u64) -> u64 {
    let mut all: Vec<u64> = (0..iterations).map(|_| once()).collect();
    floor_u64(typical_of(&mut all) * iterations as f64).max(1)
}

/// The mean of all but the slowest 2 %. In those the kernel, or the host of a virtual machine, took the core away.
pub fn typical_of(all: &mut [u64]) -> f64 {
    let most = (all.len() - all.len() / 50).max(1);
    if most < all.len() {
        all.select_nth_unstable(most);
    }
    all.iter().take(most).sum::<u64>() as f64 / most as f64
}

impl Measurement for Cycles {
    type Intermediate = u64;
    type Value = u64;

    fn start(&self) -> u64 {
        self.now()
    }

    fn end(&self, start: u64) -> u64 {
        self.now().saturating_sub(start).max(1)
    }

    fn add(&self, left: &u64, right: &u64) -> u64 {
        left + right
    }

    fn zero(&self) -> u64 {
        0
    }

    fn to_f64(&self, value: &u64) -> f64 {
        *value as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        &Formatter
    }
}

struct Formatter;

impl ValueFormatter for Formatter {
    fn scale_values(&self, _typical: f64, _values: &mut [f64]) -> &'static str {
        "cycles"
    }

    fn scale_throughputs(
        &self,
        _typical: f64,
        throughput: &Throughput,
        values: &mut [f64],
    ) -> &'static str {
        let (count, unit) = match throughput {
            Throughput::Elements(count) => (*count, "cycles/each"),
            Throughput::Bytes(count) | Throughput::BytesDecimal(count) => (*count, "cycles/byte"),
            _ => (1, "cycles"),
        };
        for value in values {
            *value /= count.max(1) as f64;
        }
        unit
    }

    fn scale_for_machines(&self, _values: &mut [f64]) -> &'static str {
        "cycles"
    }
}
