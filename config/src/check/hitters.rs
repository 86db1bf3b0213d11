//! The rules of `[hitters]`.

use super::rules::{Mistakes, in_range};
use crate::limits::{
    MAX_FLOOD_NAMES, MAX_HITTER_KEYS, MAX_LIMIT_SECONDS, MAX_LOG_SAMPLE, MAX_ZONE_RATE,
    MIN_HITTER_KEYS,
};
use crate::settings::HitterSettings;

pub(super) fn check(hitters: &HitterSettings, found: &mut Mistakes) {
    found.note(in_range("hitters.sample", hitters.sample, 1, MAX_LOG_SAMPLE));
    found.note(in_range("hitters.keys", hitters.keys, MIN_HITTER_KEYS, MAX_HITTER_KEYS));
    found.note(in_range("hitters.ipv4_prefix", hitters.ipv4_prefix, 0, 32));
    found.note(in_range("hitters.ipv6_prefix", hitters.ipv6_prefix, 0, 128));
    found.note(in_range("hitters.flood_names", hitters.flood_names, 1, MAX_FLOOD_NAMES));
    found.note(in_range("hitters.flood_share", hitters.flood_share, 0, 100));
    found.note(in_range("hitters.auto_limit", hitters.auto_limit, 0, MAX_ZONE_RATE));
    found.note(in_range("hitters.limit_seconds", hitters.limit_seconds, 1, MAX_LIMIT_SECONDS));
}
