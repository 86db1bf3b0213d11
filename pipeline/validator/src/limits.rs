//! The limits of validation: each loop over parts of a message counts against one of these.

/// Bounds of one validator. The defaults are what pmdns runs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidatorLimits {
    /// Records of one reply. The cache has the same limit.
    pub records: usize,
    /// Signature checks for one set of records (CVE-2023-50387).
    pub checks_per_set: u32,
    /// Signature checks for one question, with all that is fetched for it.
    pub checks: u32,
    /// Signature checks for one question that fail; one with a costly key counts as two.
    pub failed_checks: u32,
    /// Microseconds of the signature checks for one question, computed from the algorithms and the bytes that are signed.
    pub check_us: u32,
    /// Blocks that SHA-1 takes in for the NSEC3 hashes of one question (CVE-2023-50868).
    pub hash_blocks: u32,
    /// NSEC3 iterations above which a zone counts as unsigned (RFC 9276 section 3.2).
    pub nsec3_iterations: u16,
    /// Questions to the upstreams for one question.
    pub fetches: u32,
    /// Aliases from the name in question on.
    pub aliases: usize,
    /// Zones and names that are cached.
    pub zones: usize,
    /// Bytes of these.
    pub zone_bytes: usize,
    /// The longest time that one is cached, in seconds.
    pub zone_seconds: u32,
    /// The same for failures (RFC 9520 section 3.2).
    pub failure_seconds: u32,
}

/// From here on, a check that fails counts as two: so no step takes more than 3 ms.
const COSTLY_US: u32 = 500;

impl ValidatorLimits {
    /// The limits for questions of a zone that has used up its budget. They suffice for zones with usual signatures,
    /// even with Ed448. Zones above that one question has learnt stay cached, so the next question gets further.
    #[must_use]
    pub fn frugal(self) -> Self {
        Self { checks: 16, failed_checks: 1, check_us: 8000, hash_blocks: 1024, ..self }
    }
}

impl Default for ValidatorLimits {
    fn default() -> Self {
        Self {
            records: 2048,
            checks_per_set: 8,
            checks: 64,
            failed_checks: 4,
            check_us: 32_000,
            hash_blocks: 8192,
            nsec3_iterations: 150,
            fetches: 24,
            aliases: 16,
            zones: 16_384,
            zone_bytes: 16 << 20,
            zone_seconds: 3600,
            failure_seconds: 1,
        }
    }
}

/// What the validation of one reply has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Records read, those of fetched replies included.
    pub records: u32,
    /// Signatures checked.
    pub checks: u32,
    /// Checks that failed; one with a costly key counts as two.
    pub failed_checks: u32,
    /// Microseconds that the checks take, reckoned by algorithm.
    pub check_us: u32,
    /// Blocks that SHA-1 took in for NSEC3 hashes.
    pub hash_blocks: u32,
    /// Questions asked upstream.
    pub fetches: u32,
}

impl Cost {
    /// The total, in microseconds of a thread. It is computed, not measured, so the same reply always costs the same.
    #[must_use]
    pub fn work_us(&self) -> u32 {
        const RECORD: u32 = 1;
        const FETCH: u32 = 50;
        const BLOCKS: u32 = 8;
        let sum = self.check_us + self.records * RECORD + self.hash_blocks / BLOCKS;
        sum + self.fetches * FETCH
    }
}

/// Why a piece of work ends early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// Other jobs should run first.
    Pause,
    /// A budget is used up.
    Over,
    /// These records are needed first.
    Fetch(crate::name::Name, u16),
}

/// Signed bytes that a check hashes in a microsecond.
const HASHED_IN_US: usize = 256;

/// The time that a check takes for its hash of so many bytes, in microseconds.
pub(crate) fn hash_us(bytes: usize) -> u32 {
    u32::try_from(bytes / HASHED_IN_US).unwrap_or(u32::MAX)
}

/// Counts the cost of a job.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) limits: ValidatorLimits,
    pub(crate) cost: Cost,
    /// Whether signatures of one set were checked in this step. Those of another are for the next one.
    pub(crate) is_spent: bool,
}

impl Meter {
    pub(crate) fn new(limits: ValidatorLimits) -> Self {
        Self { limits, cost: Cost::default(), is_spent: false }
    }

    /// Before a signature check of `check_us` microseconds.
    pub(crate) fn check(&mut self, check_us: u32) -> Result<(), Halt> {
        let sum = self.cost.check_us.saturating_add(check_us);
        let is_over = self.cost.checks >= self.limits.checks
            || self.cost.failed_checks >= self.limits.failed_checks
            || sum > self.limits.check_us;
        if is_over {
            return Err(Halt::Over);
        }
        self.cost.checks += 1;
        self.cost.check_us = sum;
        Ok(())
    }

    /// After a signature turned out to be wrong.
    pub(crate) fn fail(&mut self, check_us: u32) {
        self.cost.failed_checks += 1 + u32::from(check_us >= COSTLY_US);
    }

    /// Before a name is hashed.
    pub(crate) fn hash(&mut self, blocks: u32) -> Result<(), Halt> {
        let sum = self.cost.hash_blocks.saturating_add(blocks);
        if sum > self.limits.hash_blocks {
            return Err(Halt::Over);
        }
        self.cost.hash_blocks = sum;
        Ok(())
    }

    /// Before an upstream is asked.
    pub(crate) fn fetch(&mut self) -> Result<(), Halt> {
        if self.cost.fetches >= self.limits.fetches {
            return Err(Halt::Over);
        }
        self.cost.fetches += 1;
        Ok(())
    }
}
