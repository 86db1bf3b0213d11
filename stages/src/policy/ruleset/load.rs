//! How a ruleset is made: the files of a configuration are read, and everything that names are judged by is made ready.

use std::sync::Arc;

use pmdns_config::files::{ListSummary, Listed, Scope, read_list, read_zone};
use pmdns_config::narrow::to_u8;
use pmdns_config::{Absent, BlockAction, Config, ViewSet};

use super::{Ruleset, RulesetError};
use crate::policy::filter::{Filter, all_candidates};
use crate::policy::lists::Lists;
use crate::policy::local::{Entries, Local};
use crate::policy::rpz::{PolicyZone, Skipped};
use crate::policy::sources::LocalSources;
use crate::policy::zone::Reply;
use crate::wire::dns::rtype;
use crate::wire::name::Seed;

/// What was read to make a ruleset, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// Names with local records, counted once for all views that have the same.
    pub local_names: usize,
    /// Names that policy zones have rules about.
    pub policy_names: usize,
    /// Names that are blocked, exceptions included.
    pub blocked_names: usize,
    /// Rules of policy zones that cannot be used.
    pub skipped_rules: usize,
    /// Bytes that the names take.
    pub bytes: usize,
    /// What was not understood, and is not an error.
    pub warnings: Vec<String>,
}

/// What an address of a name that is blocked with the null address may be remembered for, in seconds.
const NULL_TTL: u32 = 300;

impl Ruleset {
    /// A ruleset without rules.
    pub fn empty(seed: Seed) -> Self {
        let config = Config {
            policy: pmdns_config::Policy { special_use: false, auto_ptr: false },
            ..Config::default()
        };
        let (ruleset, _) = Self::load(&config, seed, 0).expect("no rules contradict each other");
        ruleset
    }

    /// Reads the files that `config` names and makes everything ready. `seed` is the one that parse hashes names
    /// with; `generation` another one than that of any ruleset in use.
    ///
    /// # Errors
    ///
    /// A [`RulesetError`] that names the file and line, or the records that contradict each other.
    pub fn load(
        config: &Config,
        seed: Seed,
        generation: u16,
    ) -> Result<(Self, Digest), RulesetError> {
        let mut digest = Digest::default();
        let sources = LocalSources::read(config)?;
        let blocked = read_lists(config, &mut digest)?.build(seed);
        let mut entries = Entries::new(seed);
        let null = [(rtype::A, 4), (rtype::AAAA, 16)]
            .map(|(rtype, len)| entries.add(&Reply::of(rtype, NULL_TTL, &vec![0; len]), 0));
        let [a, aaaa] = null;
        let (mut local, mut distinct) = (Vec::<Arc<Local>>::new(), Vec::new());
        for (view, first) in config.view_numbers().zip(sources.alike(config)) {
            if let Some(same) = local.get(usize::from(first)) {
                local.push(Arc::clone(same));
                continue;
            }
            // A name above a local one exists, also if it is blocked.
            let is_blocked =
                |name: &[u8]| blocked.find(name, &all_candidates(name, seed), view).is_some();
            let records = sources.records(config, view);
            local.push(Arc::new(Local::new(&records, is_blocked, &mut entries)?));
            distinct.extend(local.last().map(Arc::clone));
        }
        let local_names: usize = distinct.iter().map(|local| local.names.len()).sum();
        let policies = read_policies(config, &mut entries, seed, &mut digest)?;
        let policy_names: usize = policies.iter().map(PolicyZone::len).sum();
        let names = local_names + policy_names + blocked.names.len();
        let mut filter = Filter::with_capacity(names, seed);
        distinct.iter().for_each(|local| local.names.add_to(&mut filter));
        policies.iter().for_each(|zone| zone.add_to(&mut filter));
        blocked.names.add_to(&mut filter);
        digest.local_names = local_names;
        digest.policy_names = policy_names;
        digest.blocked_names = blocked.names.len();
        let policy_bytes: usize = policies.iter().map(PolicyZone::footprint).sum();
        digest.bytes = filter.footprint() + policy_bytes + blocked.names.footprint();
        let ruleset = Self {
            generation,
            filter,
            local: local.into(),
            judges_clients: policies.iter().any(|zone| !zone.client_prefixes.is_empty()),
            scopes: config.scopes().into(),
            policies: policies.into(),
            blocked,
            entries,
            null: [a?, aaaa?],
        };
        Ok((ruleset, digest))
    }
}

/// The policy zones, in their order.
fn read_policies(
    config: &Config,
    entries: &mut Entries,
    seed: Seed,
    digest: &mut Digest,
) -> Result<Vec<PolicyZone>, RulesetError> {
    let mut zones = Vec::new();
    for (number, rpz) in config.rpz.iter().enumerate() {
        let mut zone = if rpz.zone.is_none() || rpz.file.exists() {
            let records = read_zone(&rpz.file, rpz.origin.as_deref())?;
            PolicyZone::new(&records, entries, seed)
                .map_err(|problem| RulesetError::Rpz { file: rpz.file.clone(), problem })?
        } else {
            let is_open = rpz.absent == Absent::Pass;
            let what =
                if is_open { "it has no rules" } else { "queries in its views get SERVFAIL" };
            let file = rpz.file.display();
            digest.warnings.push(format!("{file}: the policy zone is not here yet, so {what}"));
            if is_open {
                continue;
            }
            PolicyZone::not_ready(seed)
        };
        if let Skipped { count, first: Some(problem) } = std::mem::take(&mut zone.skipped) {
            if rpz.strict {
                return Err(RulesetError::Rpz { file: rpz.file.clone(), problem });
            }
            digest.skipped_rules += count;
            let file = rpz.file.display();
            digest
                .warnings
                .push(format!("{file}: {count} rules are left out, the first because {problem}"));
        }
        zone.views = config.view_set(&rpz.views);
        zone.number = to_u8(number);
        zones.push(zone);
    }
    Ok(zones)
}

/// The names of `[block]` and of all block lists, in this order.
fn read_lists(config: &Config, digest: &mut Digest) -> Result<Lists, RulesetError> {
    let mut lists = Lists::default();
    for name in config.block.wire_names()? {
        if !lists.add(&name, Scope::Below, BlockAction::Nxdomain, ViewSet::ALL) {
            return Err(RulesetError::TooMany);
        }
    }
    for list in &config.blocklists {
        let views = config.view_set(&list.views);
        let take = |listed: Listed<'_>| lists.add(listed.name, listed.scope, list.action, views);
        let ListSummary { names, unknown, first_unknown } =
            read_list(&list.file, list.format, take)?;
        if let Some((line, text)) = first_unknown {
            digest.warnings.push(format!(
                "{}: {names} names; {unknown} lines are no rules we know, the first is line {line}: {text}",
                list.file.display(),
            ));
        }
    }
    Ok(lists)
}
