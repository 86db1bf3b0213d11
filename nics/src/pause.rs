//! A pause of a core that polls: short enough to be no delay, long enough to save power.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use pmdns_config::narrow::low_u32;

/// Ticks of a timed pause: under a microsecond on any processor that has it.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const TICKS: u64 = 1000;
/// The bit of CPUID leaf 7 that says whether a processor has `tpause` (Intel SDM, WAITPKG), in ECX.
const WAITPKG: u32 = 1 << 5;

/// How this processor pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    is_timed: bool,
}

impl Pause {
    /// As this processor does it best.
    pub fn of_this_processor() -> Self {
        Self::by_features(features())
    }

    /// As a processor does it best whose CPUID leaf 7 says this in ECX.
    fn by_features(features: u32) -> Self {
        Self { is_timed: features & WAITPKG != 0 }
    }

    /// Whether it is `tpause`, which rests the core for a given time. Else it is a hint that lasts some cycles.
    pub fn is_timed(self) -> bool {
        self.is_timed
    }

    /// Pauses.
    #[inline]
    pub fn pause(self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if self.is_timed {
            return timed_pause();
        }
        std::hint::spin_loop();
    }
}

/// The bits of CPUID leaf 7 in ECX; 0 where there is none.
fn features() -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ecx } else { 0 }
    }
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    0
}

/// Rests in C0.1, the state with the faster end, until the time is over. Only for processors with WAITPKG.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn timed_pause() {
    // SAFETY: reads a counter.
    let end = unsafe { std::arch::x86_64::_rdtsc() } + TICKS;
    // SAFETY: `tpause ecx` (in bytes, for assemblers that do not know it) touches the flags and no memory. It ends at the time
    // in EDX:EAX, or when the system's own limit is over. CPUID says that the processor has it.
    unsafe {
        std::arch::asm!(".byte 0x66, 0x0f, 0xae, 0xf1",
            in("ecx") 1_u32, in("eax") low_u32(end), in("edx") low_u32(end >> 32),
            options(nomem, nostack));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_processor_with_waitpkg_pauses_for_a_time() {
        assert!(!Pause::by_features(0).is_timed());
        assert!(!Pause::by_features(!WAITPKG).is_timed());
        assert!(Pause::by_features(WAITPKG).is_timed());
    }

    #[test]
    fn this_processor_can_pause() {
        let pause = Pause::of_this_processor();
        (0..1000).for_each(|_| pause.pause());
    }
}
