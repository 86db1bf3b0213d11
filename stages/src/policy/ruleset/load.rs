//! How a ruleset is made: the files of a configuration are read, and everything that names are judged by is made ready.

use std::path::Path;
use std::sync::Arc;

use pmdns_config::files::{ListSummary, ListedName, Scope, read_list, read_zone};
use pmdns_config::narrow::to_u8;
use pmdns_config::{Absent, BlockAction, Config, ListFormat, ViewSet, subtree_name};

use super::{ReadRules, Ruleset, RulesetError};
use crate::policy::dns64::Dns64;
use crate::policy::filter::{Filter, all_candidates};
use crate::policy::lists::{CANARY, FIRST_LIST, Lists};
use crate::policy::local::{Entries, Local};
use crate::policy::names::Listing;
use crate::policy::reasons::Reasons;
use crate::policy::rebinding::Rebindings;
use crate::policy::redirect::{EXCEPT, ONLY, Redirect, Redirects};
use crate::policy::rpz::{PolicyZone, Skipped};
use crate::policy::sources::LocalSources;
use crate::policy::zone::Reply;
use crate::wire::dns::{Rcode, rtype};
use crate::wire::name::Seed;

/// A digest of the sources of a ruleset, for people.
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
    /// The content of each block list, in the order of the configuration; `None`: it was not fetched yet.
    pub lists: Vec<Option<ListSummary>>,
    /// Parts that were not understood, and are no error.
    pub warnings: Vec<String>,
}

impl Digest {
    /// Notes lines of a list that were not understood.
    pub(in crate::policy) fn note(&mut self, file: &Path, list: &ListSummary) {
        let ListSummary { names, unknown, first_unknown, .. } = list;
        let kinds = list.kinds_left_out();
        if let Some((line, text)) = first_unknown {
            let file = file.display();
            self.warnings.push(format!(
                "{file}: names: {names}, lines that are no rules: {unknown} ({kinds}), the first is line {line}: {text}",
            ));
        }
    }
}

/// The name by which browsers ask whether they may use a resolver of their own over HTTPS. NXDOMAIN: they may not.
const DOH_CANARY: &[u8] = b"\x13use-application-dns\x03net\0";

/// The TTL of the null address of a blocked name, in seconds.
const NULL_TTL: u32 = 300;

impl Ruleset {
    /// A ruleset without rules.
    pub fn empty(seed: Seed) -> Self {
        let config = Config {
            policy: pmdns_config::PolicySettings {
                special_use: false,
                ..pmdns_config::PolicySettings::default()
            },
            ..Config::default()
        };
        let (ruleset, _) = Self::load(&config, seed, 0).expect("no rules contradict each other");
        ruleset
    }

    /// Whether the block lists that `config` names can be read, and have room together.
    ///
    /// # Errors
    ///
    /// They cannot, or have not.
    pub fn check_lists(config: &Config) -> Result<(), RulesetError> {
        read_lists(config, &mut Digest::default()).map(drop)
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
        digest.warnings.extend_from_slice(&sources.warnings);
        let reasons = Reasons::of(config);
        let blocked = read_lists(config, &mut digest)?.build(seed);
        let mut entries = Entries::new(seed);
        let denials =
            [Rcode::NXDOMAIN, Rcode::NOERROR].map(|rcode| entries.add(&Reply::denial(rcode), 0));
        let [nxdomain, nodata] = denials;
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
        let redirects = read_redirects(config, &mut entries, seed, &mut digest)?;
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
        let read = ReadRules {
            filter,
            local: local.into(),
            judges_clients: policies.iter().any(|zone| !zone.client_prefixes.is_empty()),
            reasons,
            dns64: config.view_numbers().map(|view| Dns64::of(config, view)).collect(),
            redirects,
            scopes: config.scopes().into(),
            policies: policies.into(),
            blocked,
            entries,
            null: [a?, aaaa?],
            denials: [nxdomain?, nodata?],
            rebindings: Rebindings::of(config, seed).map_err(RulesetError::Rebinding)?,
        };
        Ok((Self { generation, runtime: None, read: Arc::new(read) }, digest))
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
        let listed = ListedName { name: &name, scope: Scope::Below, is_important: false };
        if !lists.add(listed, BlockAction::Nxdomain, (0, ViewSet::ALL)) {
            return Err(RulesetError::TooMany);
        }
    }
    for name in config.block.wire_exceptions()? {
        // No line of a list counts more.
        let listed = ListedName { name: &name, scope: Scope::Except, is_important: true };
        if !lists.add(listed, BlockAction::Nxdomain, (0, ViewSet::ALL)) {
            return Err(RulesetError::TooMany);
        }
    }
    let canary = ListedName { name: DOH_CANARY, scope: Scope::Exact, is_important: false };
    if let Some(views) = config.canary_views()
        && !lists.add(canary, BlockAction::Nxdomain, (CANARY, views))
    {
        return Err(RulesetError::TooMany);
    }
    for (number, list) in (FIRST_LIST..=u8::MAX).zip(&config.blocklists) {
        if list.url.is_some() && !list.file.exists() {
            let file = list.file.display();
            digest
                .warnings
                .push(format!("{file}: the list was not fetched yet, so it has no names"));
            digest.lists.push(None);
            continue;
        }
        let of = (number, config.view_set(&list.views));
        let take = |listed: ListedName<'_>| lists.add(listed, list.action, of);
        let summary = read_list(&list.file, list.format, take)?;
        digest.note(&list.file, &summary);
        digest.lists.push(Some(summary));
    }
    Ok(lists)
}

/// The redirections of names that do not exist, in their order.
fn read_redirects(
    config: &Config,
    entries: &mut Entries,
    seed: Seed,
    digest: &mut Digest,
) -> Result<Redirects, RulesetError> {
    let mut all = Vec::new();
    for one in &config.redirects {
        let mut listing = Listing::default();
        let sources = [(&one.names, &one.file, ONLY), (&one.except, &one.except_file, EXCEPT)];
        for (names, file, value) in sources {
            for name in names {
                let name = subtree_name(name).map_err(RulesetError::Redirect)?;
                if !listing.add(&name, value) {
                    return Err(RulesetError::TooMany);
                }
            }
            if let Some(file) = file {
                let add = |listed: ListedName<'_>| listing.add(listed.name, value);
                digest.note(file, &read_list(file, ListFormat::Domains, add)?);
            }
        }
        all.push(Redirect::new(one, config.view_set(&one.views), listing, entries, seed)?);
    }
    Ok(Redirects::new(all, seed))
}
