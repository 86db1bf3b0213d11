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
    /// NSEC3 hash rounds for one question (CVE-2023-50868).
    pub hash_rounds: u32,
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
            checks: 128,
            failed_checks: 16,
            hash_rounds: 8192,
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
    /// NSEC3 hash rounds.
    pub hash_rounds: u32,
    /// Questions asked upstream.
    pub fetches: u32,
}
