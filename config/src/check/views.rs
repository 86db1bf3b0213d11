//! The rules of `[[view]]`, and of the key `views` of other tables.

use std::collections::HashMap;

use super::groups::has_members;
use super::rules::{Checked, Mistakes, at_most, broken, in_range, plain_name, unlike_earlier};
use crate::limits::{MAX_CLIENTS, MAX_VIEWS};
use crate::nearest::nearest;
use crate::prefix::Prefix;
use crate::problem::BrokenRule;
use crate::reserved::DEFAULT_VIEW;
use crate::settings::{Config, View};
use crate::views::{number_of, view_names};

pub(super) fn check(config: &Config, found: &mut Mistakes) {
    found.note(at_most("view", "views", config.views.len(), MAX_VIEWS));
    let mut claimed = HashMap::new();
    let has_table = config.clients.max_entries > 0;
    for (index, view) in config.views.iter().enumerate() {
        found.note(check_name(&config.views, index));
        found.note(check_clients(
            &format!("view[{index}].clients"),
            index,
            (view, has_table),
            &mut claimed,
        ));
        if view.queries_per_second.is_some_and(|rate| rate > 0) && view.burst == Some(0) {
            let problem = BrokenRule::NoBurst("queries_per_second");
            found.note(broken(format!("view[{index}].burst"), problem));
        }
        if let Some(group) = &view.group {
            found.note(has_members(config, &format!("view[{index}].group"), group));
        }
    }
    let tables = tables(config);
    for (table, names) in &tables {
        found.note(check_names(&format!("{table}.views"), names, &config.views));
    }
    let canary = &config.policy.doh_canary;
    found.note(check_names("policy.doh_canary", canary, &config.views));
    for (index, view) in config.views.iter().enumerate() {
        let mut lists = tables.iter().map(|(_, names)| *names).chain([canary.as_slice()]);
        // A table for the view `default` alone makes this one differ as well.
        let differs =
            lists.any(|names| names.iter().any(|name| *name == view.name || name == DEFAULT_VIEW));
        let has_limit = view.queries_per_second.is_some() || view.burst.is_some();
        if view.group.is_none() && !differs && !has_limit {
            let key = format!("view[{index}].name");
            found.note(broken(key, BrokenRule::IdleView(view.name.clone())));
        }
    }
}

/// The rules of `[clients]`.
pub(super) fn check_table(config: &Config, found: &mut Mistakes) {
    let clients = &config.clients;
    let files = [("clients.file", &clients.file), ("clients.journal", &clients.journal)];
    for (key, path) in files {
        if path.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            found.note(broken(key, BrokenRule::Empty("the path of a file, or leave it out")));
        }
    }
    if let (Some(journal), Some(entries)) = (&clients.journal, &config.control.entries)
        && journal == entries
    {
        let (value, other) = (journal.display().to_string(), "control.entries".to_owned());
        let fix = "each has a file of its own";
        found.note(broken("clients.journal", BrokenRule::Twice { value, other, fix }));
    }
    let least = u32::from(files.iter().any(|(_, path)| path.is_some()));
    found.note(in_range("clients.max_entries", clients.max_entries, least, MAX_CLIENTS));
}

fn check_name(views: &[View], index: usize) -> Checked {
    let (key, name) = (format!("view[{index}].name"), &views[index].name);
    plain_name(&key, name)?;
    if name == DEFAULT_VIEW {
        return broken(key, BrokenRule::DefaultView);
    }
    let (same, path) = (|other: &View| other.name == *name, |at| format!("view[{at}].name"));
    unlike_earlier(views, index, same, path, format!("`{name}`"), "give each view its own name")
}

/// Whether a view has clients, and none of another; `claimed` has the prefixes of those before it.
fn check_clients(
    key: &str,
    index: usize,
    (view, has_table): (&View, bool),
    claimed: &mut HashMap<Prefix, (usize, usize)>,
) -> Checked {
    if view.clients.is_empty() && !has_table {
        return broken(key, BrokenRule::Empty("the clients' prefixes, as in [\"192.0.2.0/24\"]"));
    }
    for (place, prefix) in view.clients.iter().enumerate() {
        let (first, there) = *claimed.entry(*prefix).or_insert((index, place));
        if first != index {
            let (prefix, other) = (prefix.to_string(), format!("view[{first}].clients[{there}]"));
            return broken(format!("{key}[{place}]"), BrokenRule::TwoViews { prefix, other });
        }
    }
    Ok(())
}

/// Whether these are names of views.
fn check_names(key: &str, names: &[String], views: &[View]) -> Checked {
    for (place, name) in names.iter().enumerate() {
        if number_of(name, views).is_none() {
            let nearest = nearest(name, view_names(views)).map(str::to_owned);
            let allowed = view_names(views).map(str::to_owned).collect();
            let problem = BrokenRule::NoView { name: name.clone(), nearest, allowed };
            return broken(format!("{key}[{place}]"), problem);
        }
    }
    Ok(())
}

/// The tables that can be of some views only, with the names they give.
fn tables(config: &Config) -> Vec<(String, &[String])> {
    fn rows<'c, T>(
        table: &'static str,
        rows: &'c [T],
        views: fn(&T) -> &[String],
    ) -> impl Iterator<Item = (String, &'c [String])> {
        let row = move |(index, row)| (format!("{table}[{index}]"), views(row));
        rows.iter().enumerate().map(row)
    }
    rows("forward", &config.forwards, |one| &one.views)
        .chain(rows("local", &config.local, |one| &one.views))
        .chain(rows("zone", &config.zones, |one| &one.views))
        .chain(rows("blocklist", &config.blocklists, |one| &one.views))
        .chain(rows("rpz", &config.rpz, |one| &one.views))
        .chain(rows("dns64", &config.dns64, |one| &one.views))
        .chain(rows("redirect", &config.redirects, |one| &one.views))
        .chain(rows("rebinding", &config.rebindings, |one| &one.views))
        .filter(|(_, names)| !names.is_empty())
        .collect()
}
