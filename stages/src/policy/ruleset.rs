//! The ruleset: everything that names are judged by, made ready at load, then only read.
//!
//! A reload makes a new one. A packet that was judged by one and is encoded on another core, which has the other,
//! is judged again there: an answer is a place in the ruleset of one generation, and is looked up in no other.

use pmdns_config::files::{FileError, ListSummary, Scope, read_list, read_zone};
use pmdns_config::limits::MAX_LIST_NAMES;
use pmdns_config::{BlockAction, Config, NameError};

use super::builtin::{pointers, special_use};
use super::filter::{Filter, Glance, all_candidates};
use super::lists::{Blocked, Lists};
use super::local::{Entries, Local, LocalError};
use super::zone::Reply;
use crate::StageName;
use crate::cache::Entry;
use crate::packet::{Answer, Packet};
use crate::step::{Reason, Step};
use crate::wire::dns::{Rcode, rtype};
use crate::wire::name::Seed;

/// Why there is no ruleset.
#[derive(Debug, thiserror::Error)]
pub enum RulesetError {
    /// Local data contradict themselves.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A blocked name is no name.
    #[error("block.names: {0}")]
    Block(#[from] NameError),
    /// There are more names than there is room for.
    #[error("block.names: there are more than {MAX_LIST_NAMES} blocked names; remove some")]
    TooMany,
}

/// Where an answer stands in the ruleset of one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Six bytes at two-byte alignment, so that an `Answer` with its tag fits in eight.
#[repr(Rust, packed(2))]
pub struct LocalRef {
    generation: u16,
    number: u32,
}

const _: () = assert!(size_of::<Answer>() == 8);

/// Everything that names are judged by.
#[derive(Debug)]
pub struct Ruleset {
    generation: u16,
    /// Which names the others have anything to say about.
    filter: Filter,
    local: Local,
    blocked: Blocked,
    entries: Entries,
    /// Answers to A and AAAA queries for names that are blocked with the null address.
    null: [u32; 2],
}

/// What was read to make a ruleset, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// Names with local records.
    pub local_names: usize,
    /// Names that are blocked, exceptions included.
    pub blocked_names: usize,
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
        let mut records = config.local.clone();
        for zone in &config.zones {
            records.extend(read_zone(&zone.file, zone.origin.as_deref())?);
        }
        if config.policy.special_use {
            records.extend(special_use(&records, &[]));
        }
        if config.policy.auto_ptr {
            records.extend(pointers(&records));
        }
        let blocked = read_lists(config, &mut digest)?.build(seed);
        let mut entries = Entries::new(seed);
        let null = [(rtype::A, 4), (rtype::AAAA, 16)]
            .map(|(rtype, len)| entries.add(&Reply::of(rtype, NULL_TTL, &vec![0; len]), 0));
        let [a, aaaa] = null;
        // A name above a local one exists, also if it is blocked.
        let is_blocked = |name: &[u8]| blocked.find(name, &all_candidates(name, seed)).is_some();
        let local = Local::new(&records, is_blocked, &mut entries)?;
        let mut filter = Filter::with_capacity(local.len() + blocked.len(), seed);
        local.add_to(&mut filter);
        blocked.add_to(&mut filter);
        digest.local_names = local.len();
        digest.blocked_names = blocked.len();
        digest.bytes = filter.footprint() + blocked.footprint();
        let ruleset = Self { generation, filter, local, blocked, entries, null: [a?, aaaa?] };
        Ok((ruleset, digest))
    }

    /// Whether there are no rules.
    pub(super) fn is_empty(&self) -> bool {
        self.local.len() + self.blocked.len() == 0
    }

    /// The answer at a place, unless it is a place in another ruleset.
    #[inline]
    pub(crate) fn entry(&self, found: LocalRef) -> Option<&Entry> {
        let LocalRef { generation, number } = found;
        (generation == self.generation).then(|| self.entries.get(number)).flatten()
    }

    /// The first look at a packet's name. Starts loading what the second look reads.
    #[inline(always)]
    pub(super) fn glance(&self, packet: &Packet) -> Glance {
        self.filter.glance(packet.query().name())
    }

    /// Where a packet goes at whose name this was the first look.
    #[inline(always)]
    pub(super) fn decide(&self, packet: &mut Packet, glance: Glance) -> Step {
        if glance.is_no() || !self.filter.may_have(glance) {
            return Step::at(StageName::Lookup);
        }
        self.judge(packet)
    }

    /// Where a packet goes whose name a rule may be about.
    #[inline(never)]
    pub(crate) fn judge(&self, packet: &mut Packet) -> Step {
        let query = packet.query();
        packet.answer = match self.verdict(query.name(), query.qtype()) {
            Verdict::Pass => return Step::at(StageName::Lookup),
            Verdict::Drop => return Step::drop(Reason::Blocked),
            Verdict::Rcode(rcode) => Answer::Rcode(rcode),
            Verdict::Entry(number) => {
                Answer::Local(LocalRef { generation: self.generation, number })
            }
        };
        Step::at(StageName::Encode)
    }

    fn verdict(&self, name: &[u8], qtype: u16) -> Verdict {
        let candidates = self.filter.candidates(name);
        if let Some(number) = self.local.find(name, &candidates, qtype) {
            return Verdict::Entry(number);
        }
        match self.blocked.find(name, &candidates) {
            None => Verdict::Pass,
            Some(BlockAction::Drop) => Verdict::Drop,
            Some(BlockAction::Nxdomain) => Verdict::Rcode(Rcode::NXDOMAIN),
            Some(BlockAction::Refused) => Verdict::Rcode(Rcode::REFUSED),
            Some(BlockAction::Null) if qtype == rtype::A => Verdict::Entry(self.null[0]),
            Some(BlockAction::Null) if qtype == rtype::AAAA => Verdict::Entry(self.null[1]),
            Some(BlockAction::Nodata | BlockAction::Null) => Verdict::Rcode(Rcode::NOERROR),
        }
    }
}

/// What is to be done with a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The rules say nothing about it.
    Pass,
    /// Answer with the entry of this number.
    Entry(u32),
    /// Answer with nothing but an rcode.
    Rcode(Rcode),
    /// Do not answer.
    Drop,
}

/// The names of `[block]` and of all block lists, in this order.
fn read_lists(config: &Config, digest: &mut Digest) -> Result<Lists, RulesetError> {
    let mut lists = Lists::default();
    for name in config.block.wire_names()? {
        if !lists.add(&name, Scope::Below, BlockAction::Nxdomain) {
            return Err(RulesetError::TooMany);
        }
    }
    for list in &config.blocklists {
        let take = |listed: pmdns_config::files::Listed<'_>| {
            lists.add(listed.name, listed.scope, list.action)
        };
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
