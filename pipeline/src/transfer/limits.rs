//! The limits of transfers.

use std::time::Duration;

/// Bounds of one transfer, and of all transfers together.
#[derive(Clone, Copy, Debug)]
pub struct TransferLimits {
    /// Bytes of messages, and of their records in memory.
    pub bytes: usize,
    /// Records.
    pub records: usize,
    /// The same of all transfers under way together.
    pub bytes_together: usize,
    /// Transfers under way at a time.
    pub at_once: usize,
    /// The longest time without received bytes.
    pub silence: Duration,
    /// The longest time of a whole transfer.
    pub patience: Duration,
}

impl Default for TransferLimits {
    fn default() -> Self {
        Self {
            bytes: 512 << 20,
            records: 1 << 24,
            bytes_together: 1 << 30,
            at_once: 8,
            silence: Duration::from_secs(30),
            patience: Duration::from_secs(900),
        }
    }
}
