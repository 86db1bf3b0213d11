//! The line: the stages in order. Read this file first.
//!
//! ```text
//! parse -> neighbor -> acl -> ratelimit -> lookup -> policy -> encode -> transmit
//! ```
//!
//! A packet only ever goes down: to the next stage that wants it, out of the port, to the slow path, or
//! nowhere. One core may man the whole line or a stretch of it; a stage cannot tell the difference.

use pmdns_config::{StageName, Stretch};
use pmdns_nics::{Burst, FramePool};
use pmdns_stages::acl::Acl;
use pmdns_stages::cache::Sampler;
use pmdns_stages::cookie::CookieCounts;
use pmdns_stages::encode::Encode;
use pmdns_stages::lookup::Lookup;
use pmdns_stages::neighbor::Neighbor;
use pmdns_stages::parse::Parse;
use pmdns_stages::policy::Policy;
use pmdns_stages::ratelimit::RateLimit;
use pmdns_stages::{Batch, Context, Stage, Tick};

use crate::rules::LineRules;
use crate::station::{Lap, Meter, Station};

/// The stretch of the line that one core mans. The other stations are manned elsewhere.
#[derive(Debug)]
pub struct Line {
    parse: Station<Parse>,
    neighbor: Station<Neighbor>,
    acl: Station<Acl>,
    ratelimit: Station<RateLimit>,
    lookup: Station<Lookup>,
    policy: Station<Policy>,
    encode: Station<Encode>,
}

impl Line {
    /// Takes every packet of the batch as far down the line as this core's stretch goes.
    #[inline]
    pub fn process(&mut self, batch: &mut Batch, context: &Context, lap: &mut Lap) {
        self.parse.run(batch, context, lap);
        self.neighbor.run(batch, context, lap);
        self.acl.run(batch, context, lap);
        self.ratelimit.run(batch, context, lap);
        self.lookup.run(batch, context, lap);
        self.policy.run(batch, context, lap);
        self.encode.run(batch, context, lap);
    }

    /// Exchanges the rules that the stages of this stretch have for others.
    pub fn exchange(&mut self, rules: &mut LineRules) {
        if let Some(parse) = self.parse.stage_mut() {
            parse.exchange(&mut rules.dropped);
        }
        if let Some(neighbor) = self.neighbor.stage_mut() {
            neighbor.limiter().exchange(&mut rules.pings);
        }
        if let Some(acl) = self.acl.stage_mut() {
            std::mem::swap(acl, &mut rules.acl);
        }
        if let Some(ratelimit) = self.ratelimit.stage_mut() {
            ratelimit.limiter().exchange(&mut rules.queries);
        }
        if let Some(lookup) = self.lookup.stage_mut() {
            lookup.exchange(&mut rules.lookup);
        }
        if let Some(policy) = self.policy.stage_mut() {
            policy.exchange(&mut rules.policy);
            policy.limiter().exchange(&mut rules.misses);
        }
        if let Some(encode) = self.encode.stage_mut() {
            encode.exchange(&mut rules.encode);
            encode.limiter().exchange(&mut rules.errors);
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

    /// What clients' cookies were.
    pub fn cookies(&mut self) -> CookieCounts {
        self.parse.stage_mut().map_or_else(Default::default, |stage| stage.cookie_counts())
    }

    /// Announces our addresses on a port whose link came up, if anybody is there for that here.
    pub fn announce(&mut self, port: usize, now: Tick) {
        if let Some(neighbor) = self.neighbor.stage_mut() {
            neighbor.announce(port, now);
        }
    }

    /// Writes the frames that the neighbor stage has to send unasked, or later than it was asked.
    pub fn write_due(&mut self, now: Tick, pool: &FramePool, frames: &mut Burst) {
        if let Some(neighbor) = self.neighbor.stage_mut() {
            neighbor.write_due(now, pool, frames);
        }
    }

    /// Where lookup takes notes of hits, if it is manned here and anybody wants them.
    pub fn sampler(&mut self) -> Option<&mut Sampler> {
        self.lookup.stage_mut()?.sampler()
    }

    /// What each station has counted, in line order.
    pub fn meters(&self) -> [&Meter; StageName::COUNT] {
        [
            self.parse.meter(),
            self.neighbor.meter(),
            self.acl.meter(),
            self.ratelimit.meter(),
            self.lookup.meter(),
            self.policy.meter(),
            self.encode.meter(),
        ]
    }
}

/// One of each stage, to be put on as many lines as there are cores.
#[derive(Clone, Debug)]
pub struct Stages {
    /// Is it for us, is it DNS, what does it ask.
    pub parse: Parse,
    /// ARP, neighbour discovery and ping.
    pub neighbor: Neighbor,
    /// Who may ask.
    pub acl: Acl,
    /// How fast.
    pub ratelimit: RateLimit,
    /// Cached answers.
    pub lookup: Lookup,
    /// Local records and blocked names.
    pub policy: Policy,
    /// The answer itself.
    pub encode: Encode,
}

impl Stages {
    /// The line of a core that mans `stretch`.
    pub fn man(&self, stretch: Stretch) -> Line {
        fn station<S: Stage + Clone>(stretch: Stretch, stage: &S) -> Station<S> {
            Station::new(stretch.contains(S::NAME).then(|| stage.clone()))
        }
        Line {
            parse: station(stretch, &self.parse),
            neighbor: station(stretch, &self.neighbor),
            acl: station(stretch, &self.acl),
            ratelimit: station(stretch, &self.ratelimit),
            lookup: station(stretch, &self.lookup),
            policy: station(stretch, &self.policy),
            encode: station(stretch, &self.encode),
        }
    }
}
