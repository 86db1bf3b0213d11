//! Commands that are one call, and print its answer.

use pmdns_control::answers::{Configuration, EntryPage};
use pmdns_control::cache::{CachePage, CacheSearch};
use pmdns_control::hitters::{Floods, HitterTable, LimitTable};
use pmdns_control::lookup::{LookupReport, LookupRequest};
use pmdns_control::{
    Call, EntryChoice, EntryKind, EntryRequest, EntryScope, HittersQuery, LimitOrder, PurgeOrder,
    RuleAction,
};

use super::Command;
use super::request::{AskedFor, first_page};
use super::traffic::{HitterArguments, LimitArguments};

impl Command {
    /// What it asks; an error: it is another command.
    ///
    /// # Errors
    ///
    /// It is not a command that is one call.
    #[expect(clippy::result_large_err, reason = "it is moved once")]
    pub fn asked(self) -> Result<AskedFor, Self> {
        Ok(match self {
            Self::Resume { instance } => AskedFor::done(Call::Resume, instance),
            Self::Purge { name, suffix, record_type: r#type, instance } => {
                AskedFor::done(Call::Purge(PurgeOrder { name, suffix, r#type }), instance)
            }
            Self::Block { name, suffix, action, views, instance } => {
                AskedFor::change(entry(EntryKind::Block, name, suffix, action, views), instance)
            }
            Self::Allow { name, suffix, views, instance } => {
                let action = RuleAction::default();
                AskedFor::change(entry(EntryKind::Allow, name, suffix, action, views), instance)
            }
            Self::Unblock { name, view, instance } => {
                AskedFor::change(Call::RemoveEntry(EntryChoice { name, view }), instance)
            }
            Self::Refresh { name, instance } => AskedFor::done(Call::RefreshList(name), instance),
            Self::Entries { after, listed } => {
                AskedFor::list::<EntryPage>(Call::Entries(first_page(after)), listed)
            }
            Self::Local { command } => command.asked(),
            Self::Client { command } => command.asked(),
            Self::List { command } => command.asked(),
            Self::Upstream { command } => command.asked(),
            Self::Config { diff: false, instance, json, .. } => {
                AskedFor::shown::<Configuration>(Call::Config, instance, json)
            }
            Self::Cache { name, record_type: r#type, limit, instance, json } => {
                let search = CacheSearch { name, r#type, limit };
                AskedFor::shown::<CachePage>(Call::Cache(search), instance, json)
            }
            Self::Lookup { name, record_type, client, instance, json } => {
                let (r#type, client) = (Some(record_type), client.map(|one| one.to_string()));
                let request = LookupRequest { name, r#type, client };
                AskedFor::shown::<LookupReport>(Call::Lookup(request), instance, json)
            }
            Self::Hitters { search } => {
                let HitterArguments { what, window, count: n, json, instance } = search;
                let query = HittersQuery { what, window, n };
                AskedFor::shown::<HitterTable>(Call::Hitters(query), instance, json)
            }
            Self::Floods { json, instance } => {
                AskedFor::shown::<Floods>(Call::Floods, instance, json)
            }
            Self::Limit { limit } => limit_or_limits(limit),
            Self::Unlimit { zone, instance } => AskedFor::change(Call::Unlimit(zone), instance),
            other => return Err(other),
        })
    }
}

fn entry(
    kind: EntryKind,
    name: String,
    suffix: bool,
    action: RuleAction,
    views: Vec<String>,
) -> Call {
    let scope = if suffix { EntryScope::Suffix } else { EntryScope::Exact };
    Call::AddEntries(vec![EntryRequest { name, kind, scope, action, views }])
}

/// Without a zone the limits are printed.
fn limit_or_limits(limit: LimitArguments) -> AskedFor {
    let LimitArguments { zone, rate, time, json, instance } = limit;
    let Some(zone) = zone else {
        return AskedFor::shown::<LimitTable>(Call::Limits, instance.instance, json);
    };
    // What is longer than the longest time is refused for that.
    let seconds = time.map(|time| u32::try_from(time.0.as_secs()).unwrap_or(u32::MAX));
    let order = LimitOrder { zone, rate: rate.unwrap_or_default(), seconds };
    AskedFor::change(Call::Limit(order), instance)
}
