//! Listings, for people: a line for each, and the number of all at the end.

use std::fmt;

use crate::answers::{
    AddedRecord, BlockLists, ClientAnswer, ClientEntry, ClientPage, EntryPage, ListAnswer,
    NameEntry, RecordPage, UpstreamAnswer, UpstreamTable,
};
use crate::date::date;
use crate::entries::{EntryKind, EntryRequest, EntryScope, RecordRequest, views_of};

/// Whose change it is, since when, and for how long.
pub(crate) fn whose(by: &str, since: u64, until_restart: bool) -> String {
    let end = if until_restart { ", until a restart" } else { "" };
    format!("{by}, {}Z{end}", date(since))
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
        for ClientEntry { prefix, view } in &self.clients {
            writeln!(f, "{prefix} {view}")?;
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

impl fmt::Display for UpstreamTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for UpstreamAnswer { address, group, weight, drained, counters, .. } in &self.upstreams {
            let count = |name: &str| counters.get(name).and_then(|value| value.as_u64());
            let counted = ["queries", "replies", "timeouts"]
                .map(|name| format!("{} {name}", count(name).unwrap_or_default()));
            let drained = if *drained { ", drained" } else { "" };
            writeln!(
                f,
                "{address} in group {group}, weight {weight}{drained}: {}",
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
            let ListAnswer { failing, last_error, .. } = list;
            match names {
                Some(names) => write!(f, "{file}: {names} names in {}", views_of(views))?,
                None => write!(f, "{file}: not read yet, for {}", views_of(views))?,
            }
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
            writeln!(f)?;
        }
        end(f, self.lists.len(), None, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RuleAction;

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
        let client = ClientEntry { prefix: "192.0.2.7/32".into(), view: "kids".into() };
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
}
