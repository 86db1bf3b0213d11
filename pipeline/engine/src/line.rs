//! The line: the stages in order. Read this file first.
//!
//! ```text
//! parse -> neighbor -> acl -> ratelimit -> lookup -> policy -> encode -> transmit
//! ```
//!
//! A packet only goes down the line: to a later stage, out of the port, to the slow path, or it is dropped. One core
//! may run the whole line or a stretch of it. A stage cannot tell the difference.

use std::sync::Arc;

use pmdns_config::Config;
use pmdns_nics::{Burst, FramePool};
use pmdns_stages::Tick;
use pmdns_stages::acl::{Acl, Dropped};
use pmdns_stages::cache::{Cache, Retention, Sampler};
use pmdns_stages::client_table::ClientTable;
use pmdns_stages::cookie::{CookieCounts, Cookies};
use pmdns_stages::encode::Encode;
use pmdns_stages::fixed::FixedAnswers;
use pmdns_stages::lookup::Lookup;
use pmdns_stages::neighbor::Neighbor;
use pmdns_stages::parse::Parse;
use pmdns_stages::policy::{Policy, Ruleset};
use pmdns_stages::ports::Ports;
use pmdns_stages::ratelimit::{Limiter, RateLimit};
use pmdns_stages::wire::name::Seed;
use pmdns_stages::zone_limits::ZoneLimits;

use crate::rules::{ClientRules, LineRules};
use crate::station::line;

line! {
    /// Whether a frame is for us, whether it is DNS, and what it asks.
    parse: Parse,
    /// ARP, neighbour discovery and ping.
    neighbor: Neighbor,
    /// Which clients may ask.
    acl: Acl,
    /// How fast they may ask.
    ratelimit: RateLimit,
    /// Cached answers.
    lookup: Lookup,
    /// Local records and blocked names.
    policy: Policy,
    /// Writes the answer.
    encode: Encode,
}

/// The parts that stages are made from.
#[derive(Clone)]
pub struct StageParts<'c> {
    /// The operator's settings.
    pub config: &'c Config,
    /// The ports, with our addresses.
    pub ports: Ports,
    /// The cache.
    pub cache: Arc<Cache>,
    /// The rules about names.
    pub rules: Arc<Ruleset>,
    /// The views of clients that change at run time, if there is such a table.
    pub clients: Option<Arc<ClientTable>>,
    /// The check of clients' cookies, if it is configured.
    pub cookies: Option<Cookies>,
    /// Ticks of the clock in a second, for rates.
    pub ticks_per_second: u64,
}

impl Stages {
    /// One of each stage.
    pub fn new(parts: StageParts<'_>) -> Self {
        let StageParts { config, ports, cache, rules, clients, cookies, ticks_per_second } = parts;
        let seed = cache.seed();
        let misses = Limiter::of_misses(&config.ratelimit, ticks_per_second, seed);
        let errors = Limiter::of_error_replies(&config.ratelimit, ticks_per_second, seed);
        let fixed = Arc::new(FixedAnswers::new(&config.answers));
        Self {
            parse: Parse::new(Arc::clone(&ports), seed)
                .with_cookies(cookies)
                .with_subnet_policy(config.client_subnet.policy)
                .with_fixed_answers(Arc::clone(&fixed))
                .with_dropped(Dropped::new(config)),
            neighbor: Neighbor::new(Arc::clone(&ports), ticks_per_second, seed)
                .with_limit(errors.clone()),
            acl: Acl::new(config, &rules).with_table(clients),
            ratelimit: RateLimit::new(config, ticks_per_second, seed),
            lookup: Lookup::new(Arc::clone(&cache), Arc::clone(&rules))
                .with_samples(Retention::of(config).needs_hits()),
            policy: Policy::new(Arc::clone(&rules), seed)
                .with_limit(misses)
                .with_fixed_answers(&fixed),
            encode: Encode::new(cache, rules, ports, config.answers.max_udp_size)
                .with_fixed_answers(fixed, config.answers.nsid.as_deref())
                .with_limit(errors),
        }
    }

    /// The same with no limit, and without notes of hits.
    pub(crate) fn without_limits(self, seed: Seed) -> Self {
        let off = Limiter::off(seed);
        Self {
            neighbor: self.neighbor.with_limit(off.clone()),
            ratelimit: RateLimit::off(off.clone()),
            lookup: self.lookup.with_samples(false),
            policy: self.policy.with_limit(off.clone()),
            encode: self.encode.with_limit(off),
            ..self
        }
    }
}

impl Line {
    /// Swaps the rules of the stages of this stretch.
    pub fn swap_rules(&mut self, rules: &mut LineRules) {
        if let Some(clients) = &mut rules.clients {
            self.swap_client_rules(clients);
        }
        let Some(names) = &mut rules.names else { return };
        if let Some(lookup) = self.lookup.stage_mut() {
            lookup.swap_rules(&mut names.lookup);
        }
        if let Some(policy) = self.policy.stage_mut() {
            policy.swap_rules(&mut names.policy);
        }
        if let Some(encode) = self.encode.stage_mut() {
            encode.swap_rules(&mut names.encode);
        }
    }

    /// The generation of the rules that have judged this core's misses; 0: another core may have judged some, by other rules.
    pub fn generation(&self) -> u16 {
        let is_whole = self.lookup.stage().is_some();
        self.policy.stage().filter(|_| is_whole).map_or(0, Policy::generation)
    }

    /// Swaps the limits of zones, if this core runs policy.
    pub fn swap_zone_limits(&mut self, limits: &mut ZoneLimits) {
        if let Some(policy) = self.policy.stage_mut() {
            policy.swap_zone_limits(limits);
        }
    }

    fn swap_client_rules(&mut self, rules: &mut ClientRules) {
        if let Some(parse) = self.parse.stage_mut() {
            parse.swap_rules(&mut rules.dropped);
            if let Some(cookies) = &mut rules.cookies {
                parse.swap_cookies(cookies);
            }
        }
        if let Some(neighbor) = self.neighbor.stage_mut() {
            neighbor.limiter().swap_rules(&mut rules.pings);
        }
        if let Some(acl) = self.acl.stage_mut() {
            acl.swap_rules(&mut rules.acl);
        }
        if let Some(ratelimit) = self.ratelimit.stage_mut() {
            ratelimit.limiter().swap_rules(&mut rules.queries);
        }
        if let Some(policy) = self.policy.stage_mut() {
            policy.limiter().swap_rules(&mut rules.misses);
        }
        if let Some(encode) = self.encode.stage_mut() {
            encode.limiter().swap_rules(&mut rules.errors);
        }
    }

    /// Queries and pings over a rate limit that a dry run has let pass.
    pub fn dry_run_passed(&mut self) -> u64 {
        let pings = self.neighbor.stage_mut().map_or(0, |stage| stage.limiter().dry_run_passed());
        let queries =
            self.ratelimit.stage_mut().map_or(0, |stage| stage.limiter().dry_run_passed());
        let misses = self.policy.stage_mut().map_or(0, |stage| stage.limiter().dry_run_passed());
        let errors = self.encode.stage_mut().map_or(0, |stage| stage.limiter().dry_run_passed());
        pings + queries + misses + errors
    }

    /// Counts of clients' cookies.
    pub fn cookies(&mut self) -> CookieCounts {
        self.parse.stage_mut().map_or_else(Default::default, |stage| stage.cookie_counts())
    }

    /// Announces our addresses on a port whose link came up, if this core runs the neighbor stage.
    pub fn announce(&mut self, port: usize, now: Tick) {
        if let Some(neighbor) = self.neighbor.stage_mut() {
            neighbor.announce(port, now);
        }
    }

    /// Writes the frames that the neighbor stage has to send unsolicited, or delayed.
    pub fn write_due(&mut self, now: Tick, pool: &FramePool, frames: &mut Burst) {
        if let Some(neighbor) = self.neighbor.stage_mut() {
            neighbor.write_due(now, pool, frames);
        }
    }

    /// Lookup's notes of hits, if this core runs lookup and hits are reported.
    pub fn sampler(&mut self) -> Option<&mut Sampler> {
        self.lookup.stage_mut()?.sampler()
    }
}
