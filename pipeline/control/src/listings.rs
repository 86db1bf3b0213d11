//! Listings, for people: a line for each, and the number of all at the end.

use std::fmt;

use crate::answers::{
    AddedRecord, BlockLists, ClientAnswer, ClientEntry, ClientPage, EntryPage, ListAnswer,
    NameEntry, RecordPage, UpstreamAnswer, UpstreamTable, ViewAnswer, Views,
};
use crate::date::date;
use crate::entries::{EntryKind, EntryRequest, EntryScope, RecordRequest, views_of};

/// Whose change it is, since when, and for how long.
pub(crate) fn whose(by: &str, since: u64, until_restart: bool) -> String {
    format!("{by}, {}Z{}", date(since), until_restart_mark(until_restart))
}

/// Behind what ends with the process.
pub(crate) fn until_restart_mark(until_restart: bool) -> &'static str {
    if until_restart { ", until a restart" } else { "" }
}

/// The number of all, and the command for the next part.
fn end(f: &mut fmt::Formatter<'_>, total: usize, next: Option<&str>, more: &str) -> fmt::Result {
    match next {
        Some(next) => writeln!(f, "{total} in all; more: {more} {next}"),
        None => writeln!(f, "{total} in all"),
    }
}

impl fmt::Display for EntryPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for NameEntry { entry, by, since, until_restart } in &self.entries {
            let EntryRequest { name, kind, scope, action, views } = entry;
            let what = match kind {
                EntryKind::Block => format!("block {action}"),
                EntryKind::Allow => "allow".to_owned(),
            };
            let below = if *scope == EntryScope::Suffix { " with names below" } else { "" };
            let (views, whose) = (views_of(views), whose(by, *since, *until_restart));
            writeln!(f, "{what:<14} {name}{below}, {views} ({whose})")?;
        }
        end(f, self.total, self.next.as_deref(), "pmdns entries")
    }
}

impl fmt::Display for RecordPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for AddedRecord { record, by, since, until_restart } in &self.records {
            let RecordRequest { name, r#type, ttl, data } = record;
            let whose = whose(by, *since, *until_restart);
            writeln!(f, "{name} {ttl} {type} {data} ({whose})")?;
        }
        end(f, self.total, self.next.as_deref(), "pmdns local list")
    }
}

impl fmt::Display for ClientPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ClientEntry { prefix, view, until_restart } in &self.clients {
            writeln!(f, "{prefix} {view}{}", until_restart_mark(*until_restart))?;
        }
        end(f, self.total, self.next.as_deref(), "pmdns client list")
    }
}

impl fmt::Display for ClientAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, view, prefix, decided_by } = self;
        write!(f, "{address} is in the view {view}")?;
        let place = match decided_by.as_deref() {
            Some("clients") => "the client table",
            Some("view") => "the configuration",
            Some(other) => other,
            None => return writeln!(f, ": no prefix has it"),
        };
        writeln!(f, ": {} in {place} decides", prefix.as_deref().unwrap_or("a prefix"))
    }
}

impl fmt::Display for Views {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ViewAnswer { name, clients, group, queries_per_second, lists } in &self.views {
            let clients = match clients.is_empty() {
                true => "all other clients".to_owned(),
                false => clients.join(", "),
            };
            write!(f, "{name}: {clients}; group {group}")?;
            match queries_per_second {
                Some(0) => f.write_str("; no limit of queries")?,
                Some(rate) => write!(f, "; {rate} queries a second")?,
                None => {}
            }
            if !lists.is_empty() {
                write!(f, "; lists {}", lists.join(", "))?;
            }
            writeln!(f)?;
        }
        end(f, self.views.len(), None, "")
    }
}

impl fmt::Display for UpstreamTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for upstream in &self.upstreams {
            let UpstreamAnswer { address, group, weight, drained, counters, .. } = upstream;
            let count = |name: &str| counters.get(name).and_then(|value| value.as_u64());
            let counted = ["queries", "replies", "timeouts"]
                .map(|name| format!("{} {name}", count(name).unwrap_or_default()));
            let drained = if *drained { ", drained" } else { "" };
            let end = until_restart_mark(upstream.until_restart);
            writeln!(
                f,
                "{address} in group {group}, weight {weight}{drained}{end}: {}",
                counted.join(", ")
            )?;
        }
        end(f, self.upstreams.len(), None, "")
    }
}

impl fmt::Display for BlockLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for list in &self.lists {
            let ListAnswer { file, url, names, unknown_lines, age_seconds, views, .. } = list;
            let ListAnswer { failing, last_error, until_restart, left_out, .. } = list;
            match (names, left_out) {
                (Some(names), _) => write!(f, "{file}: {names} names in {}", views_of(views))?,
                (None, None) => write!(f, "{file}: not read yet, for {}", views_of(views))?,
                (None, Some(_)) => write!(f, "{file}: NOT IN USE, for {}", views_of(views))?,
            }
            f.write_str(until_restart_mark(*until_restart))?;
            if *unknown_lines > 0 {
                write!(f, ", {unknown_lines} lines left out")?;
            }
            if let Some(age) = age_seconds {
                write!(f, ", {age} s old")?;
            }
            if let Some(url) = url {
                write!(f, ", from {url}")?;
            }
            if let Some(error) = last_error {
                write!(f, "; NOT FETCHED {failing} times: {error}")?;
            }
            if let Some(why) = left_out {
                write!(f, "; left out until the next start: {why}")?;
            }
            writeln!(f)?;
        }
        end(f, self.lists.len(), None, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RuleAction;
    use crate::hitters::{LimitRow, LimitTable};

    #[test]
    fn listings_are_lines_and_a_number() {
        let entry = EntryRequest {
            name: "ads.example".into(),
            kind: EntryKind::Block,
            scope: EntryScope::Suffix,
            action: RuleAction::Null,
            views: vec!["kids".into()],
        };
        let entries = vec![NameEntry {
            entry,
            by: "user 0".into(),
            since: 951_827_696,
            until_restart: false,
        }];
        let page = EntryPage { entries, total: 7, next: Some("ads.example".into()) };
        assert_eq!(
            page.to_string(),
            "block null     ads.example with names below, view kids (user 0, 2000-02-29T12:34:56Z)\n\
             7 in all; more: pmdns entries ads.example\n"
        );
        assert_eq!(EntryPage::default().to_string(), "0 in all\n");
        let (prefix, view) = ("192.0.2.7/32".into(), "kids".into());
        let client = ClientEntry { prefix, view, until_restart: false };
        let clients = ClientPage { clients: vec![client], total: 1, next: None };
        assert_eq!(clients.to_string(), "192.0.2.7/32 kids\n1 in all\n");
        let found = ClientAnswer {
            address: "192.0.2.7".into(),
            view: "kids".into(),
            prefix: Some("192.0.2.7/32".into()),
            decided_by: Some("clients".into()),
        };
        assert_eq!(
            found.to_string(),
            "192.0.2.7 is in the view kids: 192.0.2.7/32 in the client table decides\n"
        );
    }

    #[test]
    fn views_have_their_clients_upstreams_rates_and_lists() {
        let view = |name: &str, clients: &[&str], queries_per_second, lists: &[&str]| ViewAnswer {
            name: name.to_owned(),
            clients: clients.iter().map(ToString::to_string).collect(),
            group: "default".to_owned(),
            queries_per_second,
            lists: lists.iter().map(ToString::to_string).collect(),
        };
        let views = vec![
            view("default", &[], None, &[]),
            view("kids", &["192.0.2.0/24", "2001:db8::/56"], Some(50), &["/l/ads", "/l/games"]),
            view("servers", &["198.51.100.0/24"], Some(0), &[]),
        ];
        assert_eq!(
            Views { views }.to_string(),
            "default: all other clients; group default\n\
             kids: 192.0.2.0/24, 2001:db8::/56; group default; 50 queries a second; lists /l/ads, /l/games\n\
             servers: 198.51.100.0/24; group default; no limit of queries\n\
             3 in all\n"
        );
    }

    #[test]
    fn what_ends_with_the_process_and_what_is_left_out_is_marked() {
        let (address, group, until_restart) = ("192.0.2.1:53".into(), "default".into(), true);
        let counters = serde_json::Map::new();
        let (weight, weighted, drained) = (1, false, true);
        let one =
            UpstreamAnswer { address, group, weight, weighted, drained, until_restart, counters };
        let upstreams = UpstreamTable { upstreams: vec![one] }.to_string();
        assert!(upstreams.contains("weight 1, drained, until a restart: 0 queries"), "{upstreams}");
        let (prefix, view) = ("192.0.2.7/32".into(), "kids".into());
        let clients = vec![ClientEntry { prefix, view, until_restart }];
        let clients = ClientPage { clients, total: 1, next: None }.to_string();
        assert!(clients.starts_with("192.0.2.7/32 kids, until a restart\n"), "{clients}");
        let limit =
            LimitRow { zone: "z.example".into(), by: "user 0".into(), ..Default::default() };
        let limits = vec![limit.clone(), LimitRow { until_restart, ..limit }];
        let limits = LimitTable { limits }.to_string();
        assert!(limits.contains("z.example (user 0)\n"), "{limits}");
        assert!(limits.contains("z.example (user 0, until a restart)\n"), "{limits}");
        let list = ListAnswer { file: "/l/ads".into(), names: Some(3), ..Default::default() };
        let left_out = Some("/l/games: cannot be read".to_owned());
        let games = ListAnswer { file: "/l/games".into(), left_out, ..Default::default() };
        let lists = vec![ListAnswer { until_restart, ..list }, games];
        let lists = BlockLists { lists, addable: true }.to_string();
        assert_eq!(
            lists,
            "/l/ads: 3 names in all views, until a restart\n\
             /l/games: NOT IN USE, for all views; left out until the next start: /l/games: cannot be read\n\
             2 in all\n"
        );
    }
}
