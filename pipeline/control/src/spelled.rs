//! Calls as lines of words, for the audit: as the control socket takes them, where it does.

use std::fmt::Display;

use crate::call::{Call, PurgeOrder, RecordChoice};
use crate::entries::{EntryKind, EntryRequest, EntryScope, RecordRequest};
use crate::health::State;
use crate::hitters::LimitOrder;
use crate::lists::{ListChange, NewList};
use crate::trace::PacketSearch;
use crate::upstreams::{NewUpstream, UpstreamChange, UpstreamState};

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
            Self::SetState(State::Drained) => "drain".to_owned(),
            Self::SetState(State::Serving) => "resume".to_owned(),
            Self::Lookup(request) => format!(
                "lookup {}{}{}",
                request.name,
                option("type", request.r#type.as_ref()),
                option("client", request.client.as_ref())
            ),
            Self::Cache(search) => format!(
                "cache limit {}{}{}",
                search.limit,
                option("name", search.name.as_ref()),
                option("type", search.r#type.as_ref())
            ),
            Self::CacheDump => "dump".to_owned(),
            Self::Log(search) => format!(
                "log{}{}{}{}{}{}",
                option("name", search.name.as_ref()),
                option("client", search.client.as_ref()),
                option("type", search.record_type.as_ref()),
                option("rcode", search.rcode.as_ref()),
                option("blocked", search.blocked),
                option("limit", search.limit)
            ),
            Self::Trace(search) => format!("trace{}", packets(search)),
            Self::Capture(search) => format!("capture{}", packets(search)),
            Self::Reload => "reload".to_owned(),
            Self::Purge(PurgeOrder { name, suffix, r#type }) => {
                format!(
                    "purge {name}{}{}",
                    flag("suffix", *suffix),
                    option("type", r#type.as_ref())
                )
            }
            Self::Views => "views".to_owned(),
            Self::Upstreams => "upstreams".to_owned(),
            Self::ChangeUpstream(change) => upstream(change),
            Self::Lists => "lists".to_owned(),
            Self::RefreshList(name) => format!("refresh {name}"),
            Self::ChangeList(change) => list(change),
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

fn upstream(change: &UpstreamChange) -> String {
    match change {
        UpstreamChange::Add(NewUpstream { address, group }) => {
            format!("upstream add {address} {}", group.as_deref().unwrap_or_default())
        }
        UpstreamChange::Remove(address) => format!("upstream remove {address}"),
        UpstreamChange::Set(address, UpstreamState { drained, weight }) => {
            let state = drained.map(|drained| if drained { "drain" } else { "resume" });
            let weight = weight.map(|weight| format!("weight {address} {weight}"));
            let state = state.map(|state| format!("{state} {address}"));
            let both: Vec<String> = state.into_iter().chain(weight).collect();
            format!("upstream {}", both.join(", "))
        }
    }
}

fn list(change: &ListChange) -> String {
    match change {
        ListChange::Add(NewList { name, url, address, refresh_seconds, views }) => format!(
            "list add {name} {url}{}{}{}",
            option("address", address.as_ref()),
            option("refresh", *refresh_seconds),
            each("view", views)
        ),
        ListChange::Remove(name) => format!("list remove {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClientChange;

    #[test]
    fn a_line_of_words_is_the_call_again() {
        for line in [
            "block a.example null suffix view kids view lab",
            "allow a.example suffix",
            "unblock a.example view kids",
            "unblock a.example",
            "local add p.lan TXT 60 \"a  b\"",
            "local remove p.lan A",
            "client set 192.0.2.0/24 kids",
            "client remove 192.0.2.0/24",
            "upstream add 192.0.2.1:53 corp",
            "upstream drain 192.0.2.1:53",
            "upstream weight 192.0.2.1:53 7",
            "upstream remove 192.0.2.1:53",
            "list add ads https://a.example/l address ::1 refresh 60 view kids",
            "list remove ads",
            "refresh ads",
            "limit a.example 50 600",
            "unlimit a.example",
        ] {
            let call = Call::from_words(line).unwrap().unwrap();
            assert_eq!(call.spelled(), [line]);
        }
    }

    #[test]
    fn each_name_has_a_line_and_many_clients_have_one() {
        let call = |line: &str| Call::from_words(line).unwrap().unwrap();
        let (Call::AddEntries(one), Call::AddEntries(other)) =
            (call("block a.example"), call("allow b.example"))
        else {
            panic!("both are entries");
        };
        let both = Call::AddEntries([one, other].concat());
        assert_eq!(both.spelled(), ["block a.example nxdomain", "allow b.example"]);
        let change = |prefix: &str| ClientChange { prefix: prefix.into(), view: None };
        let clients = Call::ChangeClients(vec![change("192.0.2.7"), change("192.0.2.8")]);
        assert_eq!(clients.spelled(), ["client remove 192.0.2.7 and 1 more"]);
    }
}
