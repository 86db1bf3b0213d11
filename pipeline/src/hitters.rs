//! Calls of operators about heavy hitters ([`pmdns_insight::hitters`]), and limits for the zones of floods.

use std::time::Instant;

use pmdns_config::HitterSettings;
use pmdns_control::{LimitOrder, PendingCall, Refusal};
use pmdns_insight::hitters::{FloodBegun, HeavyHitters, HitterSnapshot};

use crate::zone_limits::ZoneLimiter;

/// Answers a call about what comes most.
pub fn answer(call: PendingCall, hitters: Option<&HeavyHitters>) {
    match (call, hitters) {
        (PendingCall::Hitters(query, caller), Some(hitters)) => {
            caller.reply(Ok(hitters.top(&query)));
        }
        (PendingCall::Floods(caller), Some(hitters)) => caller.reply(Ok(hitters.floods())),
        (call, _) => {
            let why = "nothing is counted; set `hitters.enabled = true`, and reload";
            call.refuse(Refusal::Unable, why);
        }
    }
}

/// Limits the zones whose floods have begun, if the configuration says so.
pub fn limit_floods(
    begun: Vec<FloodBegun>,
    settings: &HitterSettings,
    limiter: &mut ZoneLimiter,
    now: Instant,
) {
    if settings.auto_limit == 0 {
        return;
    }
    for FloodBegun { zone, misses, is_told } in begun {
        let (rate, seconds) = (settings.auto_limit, Some(settings.limit_seconds));
        match limiter.limit_flood(&LimitOrder { zone, rate, seconds }, misses, now) {
            Ok(Some(done)) => tracing::warn!("{done}, because it is flooded"),
            Err((_, why)) if is_told => {
                tracing::warn!("a flooded zone is not limited: {why}");
            }
            Ok(None) | Err(_) => {}
        }
    }
}

/// The counters of an instance, with those of its limits.
pub fn counters_of(hitters: Option<&HeavyHitters>, limiter: &ZoneLimiter) -> HitterSnapshot {
    let counters = hitters.map(HeavyHitters::counters).unwrap_or_default();
    let (limited, refused) = limiter.counts();
    HitterSnapshot { limited, refused, ..counters }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pmdns_changes::Author;
    use pmdns_config::LimitAnswer;
    use pmdns_control::Call;
    use pmdns_engine::lending::LimitsLender;
    use pmdns_engine::testing::{Rig, config};
    use pmdns_nics::Burst;
    use pmdns_stages::ratelimit::ClientPrefixes;
    use pmdns_stages::testing::query;
    use pmdns_stages::wire::name::Seed;

    use super::*;

    /// Which clients count as one.
    fn prefixes() -> ClientPrefixes {
        ClientPrefixes::new(&pmdns_config::RateLimitSettings::default(), Seed::new([3; 16]))
    }

    #[test]
    fn a_flood_is_limited_as_configured() {
        let (lender, inboxes) = LimitsLender::new(1);
        let mut limiter = ZoneLimiter::new(lender, LimitAnswer::Drop, prefixes(), 1000);
        drop(inboxes);
        let begun = || {
            let zone = "example.com".to_owned();
            vec![FloodBegun { zone, misses: 100, is_told: true }]
        };
        let (settings, now) = (HitterSettings::default(), Instant::now());
        limit_floods(begun(), &settings, &mut limiter, now);
        assert_eq!(limiter.list(now).limits.len(), 0, "it is not wanted");
        let auto = HitterSettings { auto_limit: 7, ..settings };
        limit_floods(begun(), &auto, &mut limiter, now);
        let limits = limiter.list(now).limits;
        assert_eq!((limits.len(), &*limits[0].zone, limits[0].rate), (1, "example.com", 7));
    }

    #[test]
    fn hits_and_other_names_pass_a_limit() {
        let mut rig = Rig::new(&config("[hitters]\nenabled = true\n"));
        rig.learn(&query("hit.example.com. A"), &[(0, 1, 86_400, vec![192, 0, 2, 1])]);
        let mut limiter =
            ZoneLimiter::new(rig.zone_limits.take().unwrap(), Default::default(), prefixes(), 1000);
        let (order, now) =
            (LimitOrder { zone: "example.com".to_owned(), rate: 0, seconds: None }, Instant::now());
        let author = Author { by: "test".into(), since: 0, until_restart: false };
        limiter.change(&Call::Limit(order), (&author, false), now, |_| Ok(())).unwrap();
        limiter.turn((now, 0));
        // Long enough for a worker's next housekeeping.
        std::thread::sleep(Duration::from_millis(11));
        rig.settle();
        let names = ["x999.example.com. A", "hit.example.com. A", "other.example. A"];
        let mut frames: Burst =
            names.iter().map(|name| rig.frame(&query(name).frame_bytes())).collect();
        rig.offer(0, &mut frames);
        rig.settle();
        assert_eq!(rig.slow_path[0].inlets.misses[0].len(), 1, "the other name");
        assert_eq!(limiter.counts(), (1, 1));
    }
}
