//! Commands on the names that are blocked and allowed.

use clap::Args;
use pmdns_control::{EntryChoice, EntryKind, EntryRequest, EntryScope, RuleAction, ask};

use super::instance::{Changing, Listing, first_page};
use crate::failure::Failure;

#[derive(Args)]
pub(super) struct Block {
    /// The name; `*.ads.example.com` is `ads.example.com --suffix`.
    name: String,
    /// Also block the names below this one; without `--suffix` the name alone.
    #[arg(long)]
    suffix: bool,
    /// The answer to clients: nxdomain, nodata, refused, null or drop.
    #[arg(long, default_value_t)]
    action: RuleAction,
    /// A view in which the entry holds, and no other; may be given again.
    #[arg(long = "view", value_name = "VIEW")]
    views: Vec<String>,
    /// The instance that is asked.
    #[command(flatten)]
    instance: Changing,
}

#[derive(Args)]
pub(super) struct Allow {
    /// The name; `*.ads.example.com` is `ads.example.com --suffix`.
    name: String,
    /// Also let the names below this one pass; without `--suffix` the name alone.
    #[arg(long)]
    suffix: bool,
    /// A view in which the entry holds, and no other; may be given again.
    #[arg(long = "view", value_name = "VIEW")]
    views: Vec<String>,
    /// The instance that is asked.
    #[command(flatten)]
    instance: Changing,
}

#[derive(Args)]
pub(super) struct Unblock {
    /// The name.
    name: String,
    /// The view of the entry; without it the entry of all views is removed.
    #[arg(long, value_name = "VIEW")]
    view: Option<String>,
    /// The instance that is asked.
    #[command(flatten)]
    instance: Changing,
}

#[derive(Args)]
pub(super) struct EntriesCommand {
    /// Begin after this name.
    after: Option<String>,
    /// Where it is asked, and how it is printed.
    #[command(flatten)]
    listed: Listing,
}

impl Block {
    pub(super) fn run(self) -> Result<(), Failure> {
        let Self { name, suffix, action, views, instance } = self;
        let (kind, scope) = (EntryKind::Block, scope(suffix));
        let entry = EntryRequest { name, kind, scope, action, views };
        instance.has_done(ask::AddEntries(vec![entry]))
    }
}

impl Allow {
    pub(super) fn run(self) -> Result<(), Failure> {
        let Self { name, suffix, views, instance } = self;
        let (kind, scope) = (EntryKind::Allow, scope(suffix));
        let entry = EntryRequest { name, kind, scope, action: RuleAction::default(), views };
        instance.has_done(ask::AddEntries(vec![entry]))
    }
}

fn scope(suffix: bool) -> EntryScope {
    if suffix { EntryScope::Suffix } else { EntryScope::Exact }
}

impl Unblock {
    pub(super) fn run(self) -> Result<(), Failure> {
        let Self { name, view, instance } = self;
        instance.has_done(ask::RemoveEntry(EntryChoice { name, view }))
    }
}

impl EntriesCommand {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.listed.show(ask::Entries(first_page(self.after)))
    }
}
