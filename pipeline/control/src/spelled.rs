//! Calls as lines of words, for the audit.

use std::fmt::Display;

use crate::cache::CacheSearch;
use crate::call::{Call, PurgeOrder, RecordChoice};
use crate::entries::{EntryKind, EntryRequest, EntryScope, RecordRequest};
use crate::hitters::LimitOrder;
use crate::lists::NewList;
use crate::lookup::LookupRequest;
use crate::query_log::LogSearch;
use crate::trace::PacketSearch;
use crate::upstreams::{NewUpstream, UpstreamState};

/// A word and its value, or nothing.
fn option(word: &str, value: Option<impl Display>) -> String {
    value.map(|value| format!(" {word} {value}")).unwrap_or_default()
}

fn flag(word: &str, is_set: bool) -> String {
    if is_set { format!(" {word}") } else { String::new() }
}

fn each(word: &str, values: &[String]) -> String {
    values.iter().map(|value| format!(" {word} {value}")).collect()
}

impl Call {
    /// The lines: one for each name or record that is set. Of many changes of clients there is one, with their number and the
    /// first.
    pub(crate) fn spelled(&self) -> Vec<String> {
        match self {
            Self::AddEntries(entries) => entries.iter().map(entry).collect(),
            Self::AddRecords(records) => records.iter().map(record).collect(),
            other => vec![other.line().trim_end().to_owned()],
        }
    }

    fn line(&self) -> String {
        match self {
            Self::State => "state".to_owned(),
            Self::Stats => "stats".to_owned(),
            Self::Health => "health".to_owned(),
            Self::Drain => "drain".to_owned(),
            Self::Resume => "resume".to_owned(),
            Self::Standby => "standby".to_owned(),
            Self::Activate => "activate".to_owned(),
            Self::Lookup(request) => lookup(request),
            Self::Cache(search) => cache(search),
            Self::CacheDump => "dump".to_owned(),
            Self::CacheLoad => "load".to_owned(),
            Self::Log(search) => log(search),
            Self::Trace(search) => format!("trace{}", packets(search)),
            Self::Capture(search) => format!("capture{}", packets(search)),
            Self::Crashes => "crash".to_owned(),
            Self::Reload => "reload".to_owned(),
            Self::Upgrade => "upgrade".to_owned(),
            Self::Purge(order) => purge(order),
            Self::Views => "views".to_owned(),
            Self::Upstreams => "upstreams".to_owned(),
            Self::AddUpstream(NewUpstream { address, group }) => {
                format!("upstream add {address}{}", option("group", group.as_ref()))
            }
            Self::SetUpstream(address, state) => upstream_state(address, *state),
            Self::RemoveUpstream(address) => format!("upstream remove {address}"),
            Self::Lists => "lists".to_owned(),
            Self::RefreshList(name) => format!("refresh {name}"),
            Self::AddList(new) => list(new),
            Self::RemoveList(name) => format!("list remove {name}"),
            Self::Config => "config".to_owned(),
            Self::ConfigDiff => "config diff".to_owned(),
            Self::Entries(page) => format!("entries{}", option("after", page.after.as_ref())),
            Self::AddEntries(entries) => format!("{} entries", entries.len()),
            Self::RemoveEntry(choice) => {
                format!("unblock {}{}", choice.name, option("view", choice.view.as_ref()))
            }
            Self::Records(page) => format!("local list{}", option("after", page.after.as_ref())),
            Self::AddRecords(records) => format!("{} records", records.len()),
            Self::RemoveRecords(RecordChoice { name, r#type }) => {
                format!("local remove {name} {}", r#type.as_deref().unwrap_or_default())
            }
            Self::Clients(page) => format!("client list{}", option("after", page.after.as_ref())),
            Self::FindClient(address) => format!("client show {address}"),
            Self::ChangeClients(changes) => {
                let first = changes.first().map(|change| match &change.view {
                    Some(view) => format!("client set {} {view}", change.prefix),
                    None => format!("client remove {}", change.prefix),
                });
                let more = changes.len().saturating_sub(1);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                first.unwrap_or_else(|| "client set".to_owned()) + &more
            }
            Self::RemoveClient(prefix) => format!("client remove {prefix}"),
            Self::Hitters(query) => format!("hitters {} {} {}", query.what, query.window, query.n),
            Self::Floods => "floods".to_owned(),
            Self::Limits => "limits".to_owned(),
            Self::Limit(LimitOrder { zone, rate, seconds }) => {
                let seconds = seconds.map(|seconds| format!(" {seconds}")).unwrap_or_default();
                format!("limit {zone} {rate}{seconds}")
            }
            Self::Unlimit(zone) => format!("unlimit {zone}"),
        }
    }
}

fn lookup(request: &LookupRequest) -> String {
    let LookupRequest { name, r#type, client } = request;
    format!("lookup {name}{}{}", option("type", r#type.as_ref()), option("client", client.as_ref()))
}

fn purge(order: &PurgeOrder) -> String {
    let PurgeOrder { name, suffix, r#type } = order;
    format!("purge {name}{}{}", flag("suffix", *suffix), option("type", r#type.as_ref()))
}

fn cache(search: &CacheSearch) -> String {
    let CacheSearch { name, r#type, limit } = search;
    format!(
        "cache limit {limit}{}{}",
        option("name", name.as_ref()),
        option("type", r#type.as_ref())
    )
}

fn log(search: &LogSearch) -> String {
    [
        "log".to_owned(),
        option("name", search.name.as_ref()),
        option("client", search.client.as_ref()),
        option("type", search.record_type.as_ref()),
        option("rcode", search.rcode.as_ref()),
        option("blocked", search.blocked),
        option("limit", search.limit),
    ]
    .concat()
}

fn entry(EntryRequest { name, kind, scope, action, views }: &EntryRequest) -> String {
    let what = match kind {
        EntryKind::Block => format!("block {name} {action}"),
        EntryKind::Allow => format!("allow {name}"),
    };
    what + &flag("suffix", *scope == EntryScope::Suffix) + &each("view", views)
}

fn record(RecordRequest { name, r#type, ttl, data }: &RecordRequest) -> String {
    format!("local add {name} {} {ttl} {data}", r#type)
}

fn packets(search: &PacketSearch) -> String {
    [
        option("port", search.port.as_ref()),
        option("stage", search.stage.as_ref()),
        option("reason", search.reason.as_ref()),
        option("client", search.client.as_ref()),
        option("name", search.name.as_ref()),
        option("count", search.count),
        flag("answers", search.answers),
    ]
    .concat()
}

fn upstream_state(address: &str, UpstreamState { drained, weight }: UpstreamState) -> String {
    let state = drained.map(|drained| if drained { "drain" } else { "resume" });
    let weight = weight.map(|weight| format!("weight {address} {weight}"));
    let state = state.map(|state| format!("{state} {address}"));
    let both: Vec<String> = state.into_iter().chain(weight).collect();
    format!("upstream {}", both.join(", "))
}

fn list(NewList { name, url, address, refresh_seconds, views }: &NewList) -> String {
    format!(
        "list add {name} {url}{}{}{}",
        option("address", address.as_ref()),
        option("refresh", *refresh_seconds),
        each("view", views)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientChange, RuleAction};

    #[test]
    fn a_call_is_told_as_a_line_with_all_that_it_says() {
        let address = || "192.0.2.1:53".to_owned();
        let set = |drained, weight| Call::SetUpstream(address(), UpstreamState { drained, weight });
        let list = NewList {
            name: "ads".into(),
            url: "https://a.example/l".into(),
            address: "::1".parse().ok(),
            refresh_seconds: Some(60),
            views: vec!["kids".into()],
        };
        let order = |seconds| LimitOrder { zone: "a.example".into(), rate: 50, seconds };
        for (call, line) in [
            (set(Some(true), None), "upstream drain 192.0.2.1:53"),
            (set(Some(false), Some(7)), "upstream resume 192.0.2.1:53, weight 192.0.2.1:53 7"),
            (
                Call::AddUpstream(NewUpstream { address: address(), group: Some("corp".into()) }),
                "upstream add 192.0.2.1:53 group corp",
            ),
            (Call::RemoveUpstream(address()), "upstream remove 192.0.2.1:53"),
            (
                Call::AddList(list),
                "list add ads https://a.example/l address ::1 refresh 60 view kids",
            ),
            (Call::RemoveList("ads".into()), "list remove ads"),
            (Call::RefreshList("ads".into()), "refresh ads"),
            (Call::Limit(order(Some(600))), "limit a.example 50 600"),
            (Call::Limit(order(None)), "limit a.example 50"),
            (Call::Unlimit("a.example".into()), "unlimit a.example"),
            (Call::RemoveClient("192.0.2.0/24".into()), "client remove 192.0.2.0/24"),
        ] {
            assert_eq!(call.spelled(), [line]);
        }
        let record = RecordRequest {
            name: "p.lan".into(),
            r#type: "TXT".into(),
            ttl: 60,
            data: "\"a  b\"".into(),
        };
        assert_eq!(Call::AddRecords(vec![record]).spelled(), ["local add p.lan TXT 60 \"a  b\""]);
    }

    #[test]
    fn each_name_has_a_line_and_many_clients_have_one() {
        let entry = |name: &str, kind, scope, views: &[&str]| EntryRequest {
            name: name.into(),
            kind,
            scope,
            action: RuleAction::Nxdomain,
            views: views.iter().map(|view| (*view).to_owned()).collect(),
        };
        let both = Call::AddEntries(vec![
            entry("a.example", EntryKind::Block, EntryScope::Exact, &[]),
            entry("b.example", EntryKind::Allow, EntryScope::Suffix, &["kids", "lab"]),
        ]);
        let lines = ["block a.example nxdomain", "allow b.example suffix view kids view lab"];
        assert_eq!(both.spelled(), lines);
        let change = |prefix: &str| ClientChange { prefix: prefix.into(), view: None };
        let clients = Call::ChangeClients(vec![change("192.0.2.7"), change("192.0.2.8")]);
        assert_eq!(clients.spelled(), ["client remove 192.0.2.7 and 1 more"]);
    }
}
