//! From a draft to a configuration that loads. Missing values get placeholders, and unlawful ones are listed instead.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::draft::{Draft, Line, Remark, Table, Value};
use super::source::{Origin, Sources, shown};
use super::{Import, ImportError};
use crate::error::ConfigError;
use crate::limits::MAX_IMPORT_ROUNDS;
use crate::problem::Problem;
use crate::reserved::DEFAULT_GROUP;
use crate::settings::Config;

/// Addresses for documentation (RFC 5737), which stand for those of the operator.
const OUR_PLACEHOLDER: &str = "192.0.2.53/24";
const UPSTREAM_PLACEHOLDER: &str = "192.0.2.1:53";

/// Completes the draft, and takes out of it what keeps it from loading.
pub(super) fn finish(
    mut draft: Draft,
    sources: &Sources<'_>,
    format: &str,
) -> Result<Import, ImportError> {
    for _ in 0..MAX_IMPORT_ROUNDS {
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

/// Adds what a configuration cannot be without.
fn complete(draft: &mut Draft) {
    let port = draft.port();
    if port.values("addresses").next().is_none() {
        port.push("addresses", OUR_PLACEHOLDER, None);
        let why = "there is no address to listen at; the one in `port.addresses` is a placeholder";
        draft.unmapped(&Origin::default(), why);
    }
    let serves_root =
        |table: &Table| table.text("zone") == Some(".") && table.values("views").next().is_none();
    let has_default = draft.all("upstream").any(|table| group_of(table) == DEFAULT_GROUP)
        || draft.all("forward").any(serves_root);
    if !has_default {
        let upstream = draft.add("upstream", None);
        upstream.note =
            "Write a resolver for all other names here: pmdns does not resolve from the root."
                .to_owned();
        upstream.set("address", UPSTREAM_PLACEHOLDER, None);
        let why =
            "there is no forwarder for all names; the address in `[[upstream]]` is a placeholder";
        draft.unmapped(&Origin::default(), why);
    }
}

fn group_of(upstream: &Table) -> &str {
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
    let empty = |table: &Table, key: &str| {
        table.text(key).is_some_and(|group| group != DEFAULT_GROUP && !has.contains(group))
    };
    take_out(draft, |table| {
        let is_empty = match table.name {
            "forward" => empty(table, "group"),
            "group" => table.text("name").is_none_or(|name| !has.contains(name)),
            _ => false,
        };
        is_empty.then_some("no server of it could be taken over")
    });
    for table in &mut draft.tables {
        if table.name == "view" && empty(table, "group") {
            table.entries.retain(|entry| entry.key != "group");
        }
    }
    let mut named: BTreeSet<String> = BTreeSet::new();
    for table in ["local", "zone", "rpz", "dns64", "forward"] {
        named.extend(texts(draft, table, "views"));
    }
    take_out(draft, |table| {
        let is_used = table.text("group").is_some()
            || table.text("name").is_some_and(|name| named.contains(name));
        let is_idle = table.name == "view" && !is_used;
        is_idle.then_some("nothing that was taken over holds for these clients alone")
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
            (true, _) => Some("nothing that was taken over asks this group of servers"),
            (_, true) => Some("its view could not be taken over"),
            _ => None,
        }
    });
}

/// Takes out the tables that `why` has a reason against, and lists them.
fn take_out(draft: &mut Draft, why: impl Fn(&Table) -> Option<&'static str>) {
    let Draft { tables, unmapped, .. } = draft;
    tables.retain(|table| match why(table) {
        Some(why) => {
            // A group's strategy, and what the importer made up, has no line of its own.
            if let Some(origin) = table.origin.clone() {
                unmapped.push(Remark { origin, why: why.to_owned() });
            }
            false
        }
        None => true,
    });
}

/// A table of the draft, or one of its entries, or one element of that entry's list.
type Part = (usize, Option<(usize, Option<usize>)>);

/// Takes out what the mistakes are about. Whether there was anything.
fn remove(draft: &mut Draft, lines: &[Line], error: &ConfigError) -> bool {
    // From the end, so that places before stay as they are.
    let mut taken: BTreeSet<Part> = BTreeSet::new();
    let mut told = Vec::new();
    for mistake in error.mistakes() {
        let line = mistake
            .place()
            .and_then(|place| place.line)
            .and_then(|line| lines.get(usize::try_from(line).ok()?.checked_sub(1)?).copied());
        let excess = match mistake {
            ConfigError::Unlawful { problem, key, .. } => match **problem {
                Problem::TooMany { count, max, .. } => Some((key.clone(), count - max)),
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
                told.push((origin_of(draft, place), why(mistake)));
            }
        }
    }
    for (origin, why) in told {
        draft.unmapped(&origin, why);
    }
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
fn origin_of(draft: &Draft, (table, rest): Part) -> Origin {
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
    let unmapped: Vec<String> = draft
        .unmapped
        .iter()
        .map(|Remark { origin, why }| match &*origin.text {
            "" => format!("{}{}", place(origin), plain(why)),
            text => format!("{}`{text}`: {}", place(origin), plain(why)),
        })
        .collect();
    let mut toml = format!(
        "# Imported by `pmdns import` from a configuration of {format}. Comments name the lines that settings come from.\n\
         # Read it, fill in the device, and check it: pmdns check -c FILE\n{body}"
    );
    if !unmapped.is_empty() {
        let _ = writeln!(toml, "\n# Not taken over, or different ({}):", unmapped.len());
        unmapped.iter().for_each(|line| toml.push_str(&format!("# {line}\n")));
    }
    if !draft.unneeded.is_empty() {
        let _ = writeln!(toml, "\n# pmdns needs nothing for these ({}):", draft.unneeded.len());
        for origin in &draft.unneeded {
            let _ = writeln!(toml, "# {}{}", place(origin), origin.text);
        }
    }
    Import { toml, unmapped, unneeded: draft.unneeded.len() }
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
