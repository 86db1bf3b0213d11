//! How new rules replace those in use while queries are answered.
//!
//! A data core frees and allocates nothing, so new rules are lent to it. The reloader prepares everything that a thread needs
//! and puts it into that thread's ring. Between two batches the thread swaps it for its old rules. These come back through a
//! second ring and are freed where they were made. A reload is over when all old rules have come back. Until then no other
//! reload begins, so neither ring is ever full.
//!
//! Threads swap their rules one after another. A packet that was judged by the old rules may be encoded on a core with
//! the new ones, or the reverse. Encode notices that, and judges again. The facts about the client stay as acl found
//! them. A miss says which rules let it pass, and the slow path judges it again by newer ones.
//!
//! A thread of the slow path gives its old rules back only when it has judged all its answers by the new ones. When all
//! have come back, packets and answers may still lie in rings that old rules let pass. So the data cores then take turns
//! with nothing new, as many as the line has stretches. In each a core works until its rings have lost what was in them.

use std::sync::Arc;

use pmdns_config::{BrokenRule, Config};
use pmdns_stages::acl::{Acl, Dropped};
use pmdns_stages::cache::Head;
use pmdns_stages::cookie::{Calendar, Cookies};
use pmdns_stages::policy::{Digest, Ruleset, RulesetError, RuntimeNames};
use pmdns_stages::ratelimit::Limiter;
use pmdns_stages::wire::name::Seed;

pub use crate::lending::RulesInbox;
use crate::lending::{Lender, lend};
use crate::rule_names::{ListNames, RuleNames};
use crate::upstreams::{ResolverUpdate, UpstreamsError, UpstreamsInUse, UpstreamsUpdate};

/// The rules of a data core.
pub struct LineRules {
    /// The rules about clients; absent: those in use stay.
    pub clients: Option<ClientRules>,
    /// The rules about names; absent: all stay, and what waits in the core's rings is to leave.
    pub names: Option<NameRules>,
}

/// The rules about clients.
pub struct ClientRules {
    /// Which clients may ask.
    pub acl: Acl,
    /// Clients that get no answer.
    pub dropped: Dropped,
    /// The check of cookies; absent: it stays as it is.
    pub cookies: Option<Option<Cookies>>,
    /// The rate limit of queries.
    pub queries: Limiter,
    /// The rate limit of misses.
    pub misses: Limiter,
    /// The rate limit of errors.
    pub errors: Limiter,
    /// The rate limit of pings.
    pub pings: Limiter,
}

/// The rules of a thread of the slow path.
pub struct ResolverRules {
    /// The rules about names.
    pub names: Arc<Ruleset>,
    /// The upstreams, and how they are asked; absent: those in use stay.
    pub update: Option<ResolverUpdate>,
}

/// The rules about names, for each stage that has them.
pub struct NameRules {
    /// The rules for cached answers.
    pub lookup: Arc<Ruleset>,
    /// The rules about names.
    pub policy: Arc<Ruleset>,
    /// The records that encode answers from.
    pub encode: Arc<Ruleset>,
}

impl NameRules {
    fn new(rules: &Arc<Ruleset>) -> Self {
        let [lookup, policy, encode] = [rules, rules, rules].map(Arc::clone);
        Self { lookup, policy, encode }
    }
}

/// Lends rules to all threads.
pub struct RulesPublisher {
    workers: Vec<Lender<LineRules>>,
    slow_path: Vec<Lender<ResolverRules>>,
    next: RulesBuilder,
    /// The rules that were read last.
    read: Option<Arc<Ruleset>>,
    /// What is said of names at run time.
    runtime: Option<Arc<RuntimeNames>>,
    /// The stretches of the line.
    stretches: usize,
    /// Turns that the data cores have yet to take before the rules that were lent last hold for everything that leaves.
    turns: usize,
    /// Who wants to know the rules in use, to log them.
    names: RuleNames,
}

/// The inboxes that go with a publisher.
pub struct RulesInboxes {
    /// By worker.
    pub workers: Vec<RulesInbox<LineRules>>,
    /// By thread of the slow path.
    pub slow_path: Vec<RulesInbox<ResolverRules>>,
}

/// Makes the rules of one generation.
#[derive(Clone, Debug)]
pub struct RulesBuilder {
    workers: usize,
    slow_path: usize,
    /// The upstreams in use; `None`: they do not change.
    upstreams: Option<UpstreamsInUse>,
    /// Makes the check of cookies; `None`: that does not change.
    cookies: Option<CookieMaker>,
    seed: Seed,
    ticks_per_second: u64,
    generation: u16,
}

/// Why rules cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A file is wrong, or records contradict each other.
    #[error(transparent)]
    Rules(#[from] RulesetError),
    /// The upstreams cannot be taken over.
    #[error(transparent)]
    Upstreams(#[from] UpstreamsError),
    /// The file with cookie secrets cannot be used.
    #[error("cookies.secret_file {0}")]
    Cookies(BrokenRule),
}

/// Rules for every thread.
pub struct RulesUpdate {
    workers: Vec<ClientRules>,
    upstreams: Option<UpstreamsUpdate>,
    rules: Ruleset,
    lists: ListNames,
    /// A summary of them.
    pub digest: Digest,
}

impl RulesPublisher {
    /// The generation of the first rules; 0 means no rules.
    pub const FIRST: u16 = 1;

    /// A publisher and the inboxes of all threads, which begin with rules of [`RulesPublisher::FIRST`].
    pub fn new(
        workers: usize,
        slow_path: usize,
        seed: Seed,
        ticks_per_second: u64,
    ) -> (Self, RulesInboxes) {
        let generation = Self::FIRST + 1;
        let next = RulesBuilder {
            workers,
            slow_path,
            upstreams: None,
            cookies: None,
            seed,
            ticks_per_second,
            generation,
        };
        let (workers, worker_inboxes) = (0..workers).map(|_| lend()).unzip();
        let (slow_path, slow_path_inboxes) = (0..slow_path).map(|_| lend()).unzip();
        let inboxes = RulesInboxes { workers: worker_inboxes, slow_path: slow_path_inboxes };
        (
            Self {
                workers,
                slow_path,
                next,
                read: None,
                runtime: None,
                stretches: 1,
                turns: 0,
                names: RuleNames::default(),
            },
            inboxes,
        )
    }

    /// The rules in use now. Without them nothing can be said of names at run time.
    pub fn begin_with(&mut self, rules: &Arc<Ruleset>) {
        self.read = Some(Arc::clone(rules));
        self.names.set_rules(rules);
    }

    /// The line has so many stretches, on cores of their own.
    pub fn set_stretches(&mut self, stretches: usize) {
        self.stretches = stretches;
    }

    /// The upstreams in use now, which follow the configuration from now on.
    pub fn set_upstreams(&mut self, upstreams: UpstreamsInUse) {
        self.next.upstreams = Some(upstreams);
    }

    /// Who makes the check of cookies, which follows the configuration from now on.
    pub fn set_cookies(&mut self, cookies: CookieMaker) {
        self.next.cookies = Some(cookies);
    }

    /// Where the rules in use are always found.
    pub fn names(&self) -> RuleNames {
        self.names.clone()
    }

    /// The builder of the next rules.
    pub fn builder(&self) -> RulesBuilder {
        self.next.clone()
    }

    /// Lends rules to every thread. No other rules may be lent at the time.
    pub fn lend(&mut self, fresh: RulesUpdate) {
        self.read = Some(Arc::new(fresh.rules));
        self.names.set_lists(fresh.lists);
        if let (Some(in_use), Some(update)) = (&self.next.upstreams, &fresh.upstreams) {
            in_use.set(update);
        }
        let updates = fresh.upstreams.into_iter().flat_map(|update| update.threads).map(Some);
        let updates = updates.chain(std::iter::repeat_with(|| None));
        self.lend_to_all(fresh.workers.into_iter().map(Some), updates);
    }

    /// Lends the same rules with other upstreams. No other rules may be lent at the time.
    pub fn lend_upstreams(&mut self, update: UpstreamsUpdate) {
        if let Some(in_use) = &self.next.upstreams {
            in_use.set(&update);
        }
        let updates = update.threads.into_iter().map(Some);
        self.lend_to_all(std::iter::repeat_with(|| None), updates);
    }

    /// Lends the same rules, with what is said of names at run time. No other rules may be lent at the time.
    pub fn lend_runtime(&mut self, runtime: Option<Arc<RuntimeNames>>) {
        self.runtime = runtime;
        self.lend_to_all(std::iter::repeat_with(|| None), std::iter::repeat_with(|| None));
    }

    /// The seed of the hash of names.
    pub fn seed(&self) -> Seed {
        self.next.seed
    }

    fn lend_to_all(
        &mut self,
        clients: impl Iterator<Item = Option<ClientRules>>,
        updates: impl Iterator<Item = Option<ResolverUpdate>>,
    ) {
        let Some(read) = &self.read else { return };
        let generation = self.next.generation;
        let rules = Arc::new(read.with_runtime(generation, self.runtime.clone()));
        self.names.set_rules(&rules);
        // Generations repeat after 65,534 reloads. No packet is under way for so long: a reload ends when every thread
        // has taken part. No answer in the cache keeps such an old mark: the slow path judges all of them after a
        // change of rules.
        let next = self.next.generation.checked_add(1);
        self.next.generation = next.filter(|next| *next != Head::BY_VIEW).unwrap_or(Self::FIRST);
        for (lender, clients) in self.workers.iter_mut().zip(clients) {
            lender.lend(LineRules { clients, names: Some(NameRules::new(&rules)) });
        }
        self.turns = self.stretches;
        for (lender, update) in self.slow_path.iter_mut().zip(updates) {
            lender.lend(ResolverRules { names: Arc::clone(&rules), update });
        }
    }

    /// Frees the rules that have come back. Returns whether some have not, or may not hold everywhere.
    pub fn collect(&mut self) -> bool {
        let workers = self.workers.iter_mut().map(Lender::collect);
        let slow_path = self.slow_path.iter_mut().map(Lender::collect);
        if workers.chain(slow_path).fold(false, |any, lent| any | lent) {
            return true;
        }
        let Some(left) = self.turns.checked_sub(1) else { return false };
        self.turns = left;
        for lender in &mut self.workers {
            lender.lend(LineRules { clients: None, names: None });
        }
        true
    }
}

/// Makes the check of cookies.
#[derive(Clone, Debug)]
pub struct CookieMaker {
    /// The secret while the configuration has none. It stays the same over reloads.
    pub random: [u8; 16],
    /// The date.
    pub calendar: Calendar,
}

impl CookieMaker {
    /// The check that these settings ask for.
    pub fn make(
        &self,
        settings: &pmdns_config::CookieSettings,
    ) -> Result<Option<Cookies>, BrokenRule> {
        if !settings.enabled {
            return Ok(None);
        }
        let secrets = settings.secrets()?;
        let secret = secrets.secret.map_or(self.random, |secret| secret.0);
        let accepted = secrets.accepted.map(|secret| secret.0);
        Ok(Some(Cookies::new(secret, accepted, settings.require, self.calendar.clone())))
    }
}

impl RulesBuilder {
    /// Makes only what `config` changes of upstreams; `None`: they do not follow the configuration.
    pub fn make_upstreams(&self, config: &Config) -> Result<Option<UpstreamsUpdate>, BuildError> {
        let upstreams = self.upstreams.as_ref().map(|in_use| in_use.build(config, self.slow_path));
        Ok(upstreams.transpose()?)
    }

    /// Makes the rules of `config` for every thread. Reading files may take long.
    pub fn make(&self, config: &Config) -> Result<RulesUpdate, BuildError> {
        let upstreams = self.make_upstreams(config)?;
        let cookies = self.cookies.as_ref().map(|maker| maker.make(&config.cookies));
        let cookies = cookies.transpose().map_err(BuildError::Cookies)?;
        let (ruleset, digest) = Ruleset::load(config, self.seed, self.generation)?;
        let errors = Limiter::of_error_replies(&config.ratelimit, self.ticks_per_second, self.seed);
        let line = |_| ClientRules {
            acl: Acl::new(config, &ruleset),
            dropped: Dropped::new(config),
            cookies: cookies.clone(),
            queries: Limiter::of_queries(config, self.ticks_per_second, self.seed),
            misses: Limiter::of_misses(&config.ratelimit, self.ticks_per_second, self.seed),
            errors: errors.clone(),
            pings: errors.clone(),
        };
        let workers = (0..self.workers).map(line).collect();
        let lists = ListNames::of(config).read(&digest);
        Ok(RulesUpdate { workers, upstreams, rules: ruleset, lists, digest })
    }
}
