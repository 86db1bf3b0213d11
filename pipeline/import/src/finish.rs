//! From a draft to a configuration that loads. Missing values get placeholders, and unlawful ones are listed instead.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use pmdns_config::limits::{MAX_UPSTREAMS, MAX_VIEWS};
use pmdns_config::{BrokenRule, Config, ConfigError, DEFAULT_GROUP, DEFAULT_VIEW};

use crate::clients::{ByClient, SettingValue};
use crate::draft::{Draft, DraftTable, Line, Remark, Value};
use crate::limits::MAX_ROUNDS;
use crate::source::{Origin, Sources, shown};
use crate::{Import, ImportError};

/// Addresses for documentation (RFC 5737), which stand for those of the operator.
const OUR_PLACEHOLDERS: [&str; 3] = ["192.0.2.53/24", "198.51.100.53/24", "203.0.113.53/24"];
const UPSTREAM_PLACEHOLDERS: [&str; 3] = ["192.0.2.1:53", "198.51.100.1:53", "203.0.113.1:53"];

/// Tables that decide who may ask, what they are told by who they are, or whom we ask.
const DECISIVE: [&str; 9] =
    ["acl", "view", "upstream", "forward", "zone", "rpz", "tsig", "client_subnet", "rebinding"];

/// Completes the draft, and takes out of it what keeps it from loading.
pub(crate) fn finish(
    mut draft: Draft,
    sources: &Sources<'_>,
    format: &str,
) -> Result<Import, ImportError> {
    draft.list_unread();
    bound_views(&mut draft);
    for _ in 0..MAX_ROUNDS {
        prune(&mut draft);
        complete(&mut draft);
        let (body, lines) = draft.write(sources);
        let Err(error) = Config::from_toml(&body) else {
            return Ok(compose(&draft, &body, sources, format));
        };
        if !remove(&mut draft, &lines, &error) {
            return Err(ImportError::Unlawful(Box::new(error)));
        }
    }
    Err(ImportError::TooManyMistakes)
}

/// With too many views nobody may ask: clients of those that are left out would get what others get.
fn bound_views(draft: &mut Draft) {
    let Some(excess) = draft.all("view").nth(MAX_VIEWS) else { return };
    let origin = excess.origin.clone().unwrap_or_default();
    draft.tables.retain(|table| table.name != "acl");
    draft.decisive(
        &origin,
        format!("there are at most {MAX_VIEWS} views, so all clients are refused"),
    );
}

/// Adds what a configuration cannot be without.
fn complete(draft: &mut Draft) {
    let port = draft.port();
    if port.values("addresses").next().is_none() {
        let taken = addresses(draft);
        let is_free = |ours: &&str| taken.iter().all(|text| !is_at(text, ours));
        let ours = OUR_PLACEHOLDERS.into_iter().find(is_free).unwrap_or(OUR_PLACEHOLDERS[0]);
        draft.port().push("addresses", ours, None);
        let why = "there is no address to listen at; the one in `port.addresses` is a placeholder";
        draft.unmapped(&Origin::default(), why);
    }
    let has_default = draft.all("upstream").any(|table| group_of(table) == DEFAULT_GROUP);
    if !has_default && asks_default(draft) {
        // An upstream with that address would make the placeholder the second one, which is taken out again.
        let taken = addresses(draft);
        let is_free = |address: &&str| taken.iter().all(|text| !is_at(text, address));
        let Some(address) = UPSTREAM_PLACEHOLDERS.into_iter().find(is_free) else { return };
        // The last ones are taken out if there are too many.
        let most = draft.all("upstream").count().saturating_sub(MAX_UPSTREAMS - 1);
        keep_upstreams(draft, most);
        let upstream = draft.add("upstream", None);
        upstream.note =
            "Write a resolver for all other names here: pmdns does not resolve from the root."
                .to_owned();
        upstream.set("address", address, None);
        let why =
            "there is no forwarder for all names; the address in `[[upstream]]` is a placeholder";
        draft.unmapped(&Origin::default(), why);
    }
}

/// Whether some view asks the default group, for it has neither a group of its own nor a forwarder for all names.
fn asks_default(draft: &Draft) -> bool {
    let roots: Vec<Vec<String>> = draft
        .all("forward")
        .filter(|table| table.text("zone") == Some("."))
        .map(|table| table.texts("views"))
        .collect();
    let has_root = |view: &str| {
        roots.iter().any(|views| views.is_empty() || views.iter().any(|one| one == view))
    };
    let views = draft.all("view").filter(|table| table.text("group").is_none());
    let mut views = views.filter_map(|table| table.text("name")).chain([DEFAULT_VIEW]);
    views.any(|view| !has_root(view))
}

/// All addresses of ours and of upstreams, as they are written.
fn addresses(draft: &Draft) -> Vec<String> {
    let of = |table: &DraftTable| [table.texts("address"), table.texts("addresses")].concat();
    draft.tables.iter().flat_map(of).collect()
}

/// Whether a text has the address of another one, which a port or a length follows.
fn is_at(text: &str, other: &str) -> bool {
    let address = other.split([':', '/']).next().unwrap_or_default();
    let bare = text.rsplit("//").next().unwrap_or_default();
    bare.strip_prefix(address)
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
}

/// Takes out the last upstreams, so many of them.
fn keep_upstreams(draft: &mut Draft, excess: usize) {
    for _ in 0..excess {
        let Some(last) = draft.tables.iter().rposition(|table| table.name == "upstream") else {
            return;
        };
        let origin = draft.tables.remove(last).origin.unwrap_or_default();
        draft.decisive(&origin, format!("there are at most {MAX_UPSTREAMS} upstreams"));
    }
}

fn group_of(upstream: &DraftTable) -> &str {
    upstream.text("group").unwrap_or(DEFAULT_GROUP)
}

/// Takes out tables that lead nowhere, and upstreams and views that nothing uses.
fn prune(draft: &mut Draft) {
    let texts = |draft: &Draft, name: &'static str, key: &str| -> BTreeSet<String> {
        let values = draft.all(name).flat_map(|table| table.values(key));
        let text = |value: &Value| match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        };
        values.filter_map(text).collect()
    };
    let has: BTreeSet<String> =
        draft.all("upstream").map(|table| group_of(table).to_owned()).collect();
    let empty = |table: &DraftTable, key: &str| {
        table.text(key).is_some_and(|group| group != DEFAULT_GROUP && !has.contains(group))
    };
    take_out(draft, |table| {
        let is_empty = match table.name {
            "forward" => empty(table, "group"),
            "group" => table.text("name").is_none_or(|name| !has.contains(name)),
            _ => false,
        };
        is_empty.then_some(("no server of it could be taken over", table.name == "forward"))
    });
    let Draft { tables, unmapped, .. } = &mut *draft;
    for table in tables.iter_mut().filter(|table| table.name == "view" && empty(table, "group")) {
        table.entries.retain(|entry| entry.key != "group");
        let why = "no server of its group could be taken over, so these clients' queries go where others' do";
        let origin = table.origin.clone().unwrap_or_default();
        unmapped.push(Remark { origin, why: why.to_owned(), is_decisive: true });
    }
    let mut named: BTreeSet<String> = BTreeSet::new();
    for table in ["local", "zone", "rpz", "dns64", "rebinding", "forward"] {
        named.extend(texts(draft, table, "views"));
    }
    let is_idle = |table: &DraftTable| {
        // Tables for all others alone make it differ from them.
        let is_used = table.text("group").is_some()
            || named.contains(DEFAULT_GROUP)
            || table.text("name").is_some_and(|name| named.contains(name));
        table.name == "view" && !is_used
    };
    cut_idle(draft, &is_idle);
    take_out(draft, |table| {
        let why = "nothing that was taken over holds for these clients alone";
        is_idle(table).then_some((why, false))
    });
    let views = texts(draft, "view", "name");
    let mut asked = texts(draft, "forward", "group");
    asked.extend(texts(draft, "view", "group"));
    take_out(draft, |table| {
        let is_idle = table.name == "upstream"
            && group_of(table) != DEFAULT_GROUP
            && !asked.contains(group_of(table));
        let is_lost = table.values("views").any(
            |value| matches!(value, Value::Text(view) if view != "default" && !views.contains(view)),
        );
        match (is_idle, is_lost) {
            (true, _) => Some(("nothing that was taken over asks this group of servers", false)),
            (_, true) => Some(("its view could not be taken over", true)),
            _ => None,
        }
    });
}

/// Cuts the clients of idle views out of those of others: without their view they are in none.
fn cut_idle(draft: &mut Draft, is_idle: &impl Fn(&DraftTable) -> bool) {
    let mut clients = ByClient::all(SettingValue::by_default(None));
    for (at, table) in draft.tables.iter().enumerate().filter(|(_, table)| table.name == "view") {
        let value = Some(at).filter(|_| !is_idle(table));
        let items = table.entries.iter().filter(|entry| entry.key == "clients");
        for item in items.flat_map(|entry| &entry.items) {
            if let Value::Text(text) = &item.value
                && let Ok(network) = text.parse()
            {
                clients.set(network, SettingValue { value, origin: item.origin.clone() });
            }
        }
    }
    if !draft.tables.iter().any(is_idle) {
        return;
    }
    let Some(pieces) = clients.without(|said| said.value.is_none()) else { return };
    for table in draft.tables.iter_mut().filter(|table| table.name == "view" && !is_idle(table)) {
        table.entries.retain(|entry| entry.key != "clients");
    }
    for (network, SettingValue { value, origin }) in pieces {
        if let Some(table) = value.and_then(|at| draft.tables.get_mut(at)) {
            table.push("clients", network.to_string(), origin.clone());
        }
    }
}

/// Takes out the tables that `why` has a reason against, and lists them. With the reason: whether access or privacy depends
/// on them.
fn take_out(draft: &mut Draft, why: impl Fn(&DraftTable) -> Option<(&'static str, bool)>) {
    let Draft { tables, unmapped, .. } = draft;
    tables.retain(|table| match why(table) {
        Some((why, is_decisive)) => {
            // A group's strategy, and what the importer made up, has no line of its own.
            if let Some(origin) = table.origin.clone() {
                unmapped.push(Remark { origin, why: why.to_owned(), is_decisive });
            }
            false
        }
        None => true,
    });
}

/// A table of the draft, or one of its entries, or one element of that entry's list.
type DraftPart = (usize, Option<(usize, Option<usize>)>);

/// Takes out what the mistakes are about. Whether there was anything.
fn remove(draft: &mut Draft, lines: &[Line], error: &ConfigError) -> bool {
    // From the end, so that places before stay as they are.
    let mut taken: BTreeSet<DraftPart> = BTreeSet::new();
    let mut told = Vec::new();
    for mistake in error.mistakes() {
        let line = mistake
            .place()
            .and_then(|place| place.line)
            .and_then(|line| lines.get(usize::try_from(line).ok()?.checked_sub(1)?).copied());
        let excess = match mistake {
            ConfigError::Unlawful { problem, key, .. } => match **problem {
                BrokenRule::TooMany { count, max, .. } => Some((key.clone(), count - max)),
                _ => None,
            },
            _ => None,
        };
        let mut places = Vec::new();
        match (excess, line) {
            (Some((key, excess)), None | Some(Line::Other | Line::Table(_)))
                if draft.tables.iter().any(|table| table.name == key) =>
            {
                let of_name = draft.tables.iter().enumerate();
                let of_name = of_name.filter(|(_, table)| table.name == key);
                places.extend(of_name.rev().take(excess).map(|(at, _)| (at, None)));
            }
            (Some((_, excess)), Some(Line::Item(table, entry, _))) => {
                let len = draft.tables[table].entries[entry].items.len();
                let rest = (0..len).rev().take(excess);
                places.extend(rest.map(|item| (table, Some((entry, Some(item))))));
            }
            (_, Some(Line::Table(table))) => places.push((table, None)),
            (_, Some(Line::Item(table, entry, item))) => {
                places.push((table, Some((entry, Some(item)))));
            }
            _ => {}
        }
        for place in places {
            if taken.insert(place) && !matches!(mistake, ConfigError::MissingKey { .. }) {
                let is_decisive = DECISIVE.contains(&draft.tables[place.0].name);
                told.push(Remark {
                    origin: origin_of(draft, place),
                    why: why(mistake),
                    is_decisive,
                });
            }
        }
    }
    draft.unmapped.extend(told);
    for (table, rest) in taken.iter().rev() {
        match rest {
            None => {
                draft.tables.remove(*table);
            }
            Some((entry, item)) => {
                let entries = &mut draft.tables[*table].entries;
                let items = &mut entries[*entry].items;
                match item {
                    Some(item) if items.len() > 1 => {
                        items.remove(*item);
                    }
                    _ => {
                        entries.remove(*entry);
                    }
                }
            }
        }
    }
    !taken.is_empty()
}

/// The setting that a part of the draft was made of.
fn origin_of(draft: &Draft, (table, rest): DraftPart) -> Origin {
    let table = &draft.tables[table];
    let own = rest.and_then(|(entry, item)| {
        table.entries[entry].items.get(item.unwrap_or_default())?.origin.clone()
    });
    own.or_else(|| table.origin.clone()).unwrap_or_default()
}

/// The mistake without its place, which is one in a text that nobody has seen.
fn why(mistake: &ConfigError) -> String {
    let told = mistake.to_string();
    match mistake.place().map(ToString::to_string) {
        Some(place) => told.strip_prefix(&place).unwrap_or(&told).to_owned(),
        None => told,
    }
}

/// The whole file, and the lists for people.
fn compose(draft: &Draft, body: &str, sources: &Sources<'_>, format: &str) -> Import {
    let place = |origin: &Origin| match origin.place.line {
        0 => String::new(),
        _ => format!("{}: ", sources.show(origin.place)),
    };
    let shown = |Remark { origin, why, .. }: &Remark| match &*origin.text {
        "" => format!("{}{}", place(origin), plain(why)),
        text => format!("{}`{text}`: {}", place(origin), plain(why)),
    };
    // A setting that stands for many may be told many times.
    let told = |is_decisive: bool| -> Vec<String> {
        let remarks = draft.unmapped.iter().filter(|one| one.is_decisive == is_decisive);
        let mut seen = BTreeSet::new();
        remarks.map(shown).filter(|line| seen.insert(line.clone())).collect()
    };
    let (decisive, others) = (told(true), told(false));
    let mut toml = format!(
        "# Imported by `pmdns import` from a configuration of {format}. Comments name the lines that settings come from.\n\
         # Read it, fill in the device, and check it: pmdns check -c FILE\n{body}"
    );
    for (lines, title) in [
        (&decisive, "Not taken over, and decisive for access or privacy"),
        (&others, "Not taken over, or different"),
    ] {
        if !lines.is_empty() {
            let _ = writeln!(toml, "\n# {title} ({}):", lines.len());
            lines.iter().for_each(|line| toml.push_str(&format!("# {line}\n")));
        }
    }
    if !draft.unneeded.is_empty() {
        let _ = writeln!(toml, "\n# pmdns needs nothing for these ({}):", draft.unneeded.len());
        for origin in &draft.unneeded {
            let _ = writeln!(toml, "# {}{}", place(origin), origin.text);
        }
    }
    let unmapped = decisive.iter().chain(&others).cloned().collect();
    Import { toml, unmapped, decisive, unneeded: draft.unneeded.len() }
}

/// A reason on one line. It may quote names and data of a file.
fn plain(why: &str) -> String {
    why.lines().map(shown_whole).collect::<Vec<_>>().join(" ")
}

/// Without control characters, which no comment of TOML may have.
fn shown_whole(line: &str) -> String {
    match line.chars().any(char::is_control) {
        true => shown(line),
        false => line.to_owned(),
    }
}
