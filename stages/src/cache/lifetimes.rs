//! How long answers are kept, and how long they may be.

use pmdns_config::Config;

/// How long answers are kept.
#[derive(Clone, Copy, Debug)]
pub struct Lifetimes {
    /// TTLs below are raised to it, in seconds.
    pub min_ttl: u32,
    /// TTLs above are lowered to it, in seconds.
    pub max_ttl: u32,
    /// The longest a negative answer is kept, in seconds.
    pub max_negative_ttl: u32,
    /// A body longer than this is not kept: the entry only says TC=1.
    pub max_body: usize,
}

impl Lifetimes {
    /// The settings of the config.
    pub fn of(config: &Config) -> Self {
        Self {
            min_ttl: config.cache.min_ttl,
            max_ttl: config.cache.max_ttl,
            max_negative_ttl: config.cache.max_negative_ttl,
            max_body: match config.streams.are_configured() {
                true => usize::from(u16::MAX),
                false => usize::from(config.answers.max_udp_size),
            },
        }
    }

    /// A record's TTL within bounds.
    pub(super) fn bound(&self, ttl: u32) -> u32 {
        // RFC 2181 section 8: a TTL with the top bit set is zero.
        let ttl = if ttl > i32::MAX as u32 { 0 } else { ttl };
        ttl.max(self.min_ttl).min(self.max_ttl)
    }
}
