//! What validation may cost: each loop over what a message holds counts against one of these.

/// Bounds of one validator. The defaults are what pmdns runs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Records of one reply. The cache takes no more either.
    pub records: usize,
    /// Signature checks for one set of records (CVE-2023-50387).
    pub checks_per_set: u32,
    /// Signature checks for one question, with all that is fetched for it.
    pub checks: u32,
    /// Signature checks for one question that fail.
    pub failed_checks: u32,
    /// Blocks that SHA-1 takes in for the NSEC3 hashes of one question (CVE-2023-50868).
    pub hash_blocks: u32,
    /// NSEC3 iterations above which a zone counts as unsigned (RFC 9276 section 3.2).
    pub nsec3_iterations: u16,
    /// Questions to the upstreams for one question.
    pub fetches: u32,
    /// Aliases from the name in question on.
    pub aliases: usize,
    /// Zones and names that are remembered.
    pub zones: usize,
    /// Bytes they take.
    pub zone_bytes: usize,
    /// The longest that one is remembered, in seconds.
    pub zone_seconds: u32,
    /// The same for what could not be found out (RFC 9520 section 3.2).
    pub failure_seconds: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            records: 512,
            checks_per_set: 8,
            checks: 64,
            failed_checks: 4,
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
    /// Those of them that were wrong.
    pub failed_checks: u32,
    /// Blocks that SHA-1 took in for NSEC3 hashes.
    pub hash_blocks: u32,
    /// Questions asked upstream.
    pub fetches: u32,
}

/// Why a piece of work ends before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// Others first.
    Pause,
    /// A budget is used up.
    Over,
    /// These records are needed first.
    Fetch(crate::name::Name, u16),
}

/// Counts what a job costs.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) limits: Limits,
    pub(crate) cost: Cost,
    /// Whether signatures of one set were checked in this step. Those of another are for the next one.
    pub(crate) is_spent: bool,
}

impl Meter {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, cost: Cost::default(), is_spent: false }
    }

    /// Before a signature is checked.
    pub(crate) fn check(&mut self) -> Result<(), Halt> {
        let is_over = self.cost.checks >= self.limits.checks
            || self.cost.failed_checks >= self.limits.failed_checks;
        self.cost.checks += u32::from(!is_over);
        if is_over { Err(Halt::Over) } else { Ok(()) }
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

    /// Before somebody is asked.
    pub(crate) fn fetch(&mut self) -> Result<(), Halt> {
        if self.cost.fetches >= self.limits.fetches {
            return Err(Halt::Over);
        }
        self.cost.fetches += 1;
        Ok(())
    }
}
