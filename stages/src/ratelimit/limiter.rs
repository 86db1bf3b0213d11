//! A limit on the packets from one client prefix.
//!
//! Each client prefix has a bucket of tokens. A full bucket holds a burst of them, a query takes one, and so many
//! come back each second. The buckets stand in a table of fixed size that belongs to one core. A client whose
//! queries come to several cores has a bucket on each. Where a view has a limit of its own, a client prefix has a bucket
//! in each view. Over streams it has another bucket: nobody can empty that one in its name.

use pmdns_config::{Config, View};

use super::bucket::Allowance;
use super::prefixes::ClientPrefixes;
use super::table::{BucketTable, TableSlot};
use crate::packet::{Packet, Tick};
use crate::wire::layout::Who;
use crate::wire::name::Seed;

/// Client prefixes whose error replies (or pings) a core counts. Few provoke any, and under pressure the table keeps who provokes
/// most.
const ERROR_TABLE: u32 = 4096;

/// The decision on a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitDecision {
    /// It is within the limit.
    Pass,
    /// It is not, but is answered with TC=1: a client that can do TCP is really there.
    Slip,
    /// It is not.
    Drop,
}

/// A limit, and what each client prefix has left of it.
#[derive(Clone, Debug)]
pub struct Limiter {
    /// `None`: there is no limit.
    allowance: Option<Allowance>,
    /// The same by view; empty if no view has a limit of its own.
    of_views: Box<[Option<Allowance>]>,
    table: BucketTable,
    prefixes: ClientPrefixes,
    slip: u32,
    dry_run: bool,
    /// Queries beyond the limit that were let pass.
    dry_run_passed: u64,
}

impl Limiter {
    /// The limit on all queries, which a view may have of its own.
    pub fn of_queries(config: &Config, ticks_per_second: u64, seed: Seed) -> Self {
        let settings = &config.ratelimit;
        let rate = (settings.queries_per_second, settings.burst);
        let everyone = Self::of_rate(rate, settings, ticks_per_second, seed);
        let has_own = |view: &View| view.queries_per_second.is_some() || view.burst.is_some();
        if !config.views.iter().any(has_own) {
            return everyone;
        }
        let of_view = |view: &View| {
            let rate = view.queries_per_second.unwrap_or(rate.0);
            Allowance::new(rate, view.burst.unwrap_or(settings.burst), ticks_per_second)
        };
        let others = everyone.allowance;
        let of_views: Box<[_]> =
            std::iter::once(others).chain(config.views.iter().map(of_view)).collect();
        let slots = if of_views.iter().any(Option::is_some) { settings.table } else { 0 };
        Self { of_views, table: BucketTable::new(slots as usize), ..everyone }
    }

    /// The limit on queries that the cache cannot answer.
    pub fn of_misses(
        settings: &pmdns_config::RateLimitSettings,
        ticks_per_second: u64,
        seed: Seed,
    ) -> Self {
        let rate = (settings.miss_queries_per_second, settings.miss_burst);
        Self::of_rate(rate, settings, ticks_per_second, seed)
    }

    /// The limit on error replies, and on ping replies, which holds beside all other limits. Nobody is told to come
    /// back over TCP.
    pub fn of_error_replies(
        settings: &pmdns_config::RateLimitSettings,
        ticks_per_second: u64,
        seed: Seed,
    ) -> Self {
        let rate = settings.error_replies_per_second;
        let settings =
            pmdns_config::RateLimitSettings { slip: 0, table: ERROR_TABLE, ..settings.clone() };
        Self::of_rate((rate, rate), &settings, ticks_per_second, seed)
    }

    /// A limit of so many a second and so many at once (`rate`), for each client prefix of `settings`; a rate of 0 is none.
    pub fn of_rate(
        rate: (u32, u32),
        settings: &pmdns_config::RateLimitSettings,
        ticks_per_second: u64,
        seed: Seed,
    ) -> Self {
        Self::new(Allowance::new(rate.0, rate.1, ticks_per_second), settings, seed)
    }

    /// No limit.
    pub fn off(seed: Seed) -> Self {
        Self::new(None, &pmdns_config::RateLimitSettings::default(), seed)
    }

    fn new(
        allowance: Option<Allowance>,
        settings: &pmdns_config::RateLimitSettings,
        seed: Seed,
    ) -> Self {
        let slots = if allowance.is_some() { settings.table } else { 0 };
        Self {
            allowance,
            of_views: Box::default(),
            table: BucketTable::new(slots as usize),
            prefixes: ClientPrefixes::new(settings, seed),
            slip: settings.slip,
            dry_run: settings.dry_run,
            dry_run_passed: 0,
        }
    }

    /// Keeps to the limit of `with` from now on, which gets the one it had. Buckets that mean the same stay: a
    /// reload is no fresh start for who floods.
    pub fn swap_rules(&mut self, with: &mut Self) {
        std::mem::swap(self, with);
        let mean_the_same = self.allowance == with.allowance
            && self.of_views.is_empty() == with.of_views.is_empty()
            // Views that are new or gone change nothing for the others.
            && self.of_views.iter().zip(&with.of_views).all(|(one, other)| one == other)
            && self.prefixes == with.prefixes
            && self.table.len() == with.table.len();
        if mean_the_same {
            std::mem::swap(&mut self.table, &mut with.table);
        }
        self.dry_run_passed = with.dry_run_passed;
    }

    /// Whether there is no limit.
    #[inline(always)]
    pub fn is_off(&self) -> bool {
        self.allowance.is_none() && self.of_views.is_empty()
    }

    /// Queries beyond the limit that a dry run has let pass.
    #[inline(always)]
    pub fn dry_run_passed(&self) -> u64 {
        self.dry_run_passed
    }

    /// The number by which [`Limiter::judge`] knows the packet's client. Starts loading the memory for it.
    #[inline(always)]
    pub fn client(&self, packet: &Packet) -> u64 {
        let mut client = self.prefixes.hash(packet);
        if !self.of_views.is_empty() {
            client = self.prefixes.hash_in_view(client, packet.layout.who.view());
        }
        // Datagrams may be forged. What they use up is not what `slip` sends their client to.
        if packet.layout.is_stream() {
            client = self.prefixes.hash_over_streams(client);
        }
        self.table.prefetch(client);
        client
    }

    /// Counts a packet of its client that is let pass or dropped, and says whether it is one too many.
    #[inline(always)]
    pub fn is_exceeded(&mut self, packet: &Packet, now: Tick) -> bool {
        !self.is_off() && self.is_one_too_many(packet, now)
    }

    #[inline(never)]
    fn is_one_too_many(&mut self, packet: &Packet, now: Tick) -> bool {
        self.judge(packet, self.client(packet), now) != LimitDecision::Pass
    }

    /// Counts a query of a client, unless it is exempt.
    #[inline]
    pub fn judge(&mut self, packet: &Packet, client: u64, now: Tick) -> LimitDecision {
        let of_view = self.of_views.get(usize::from(packet.layout.who.view()));
        let Some(allowance) = of_view.unwrap_or(&self.allowance) else {
            return LimitDecision::Pass;
        };
        if packet.layout.who.is(Who::EXEMPT) {
            return LimitDecision::Pass;
        }
        let place = self.table.place(client);
        if self.table.bucket(place).take(allowance, now) {
            return LimitDecision::Pass;
        }
        self.exceeded(packet, place)
    }

    /// What becomes of a query that is one too many. Out of line, so that those within their limits cost as little as can be.
    #[cold]
    fn exceeded(&mut self, packet: &Packet, place: TableSlot) -> LimitDecision {
        // Clients of the same prefix do not decide whether this node is fit.
        if packet.is_probe() {
            return LimitDecision::Pass;
        }
        if self.dry_run {
            self.dry_run_passed += 1;
            return LimitDecision::Pass;
        }
        // A client over a stream has come by the way that others would be sent.
        match !packet.layout.is_stream() && self.table.slips(place, self.slip) {
            true => LimitDecision::Slip,
            false => LimitDecision::Drop,
        }
    }
}
