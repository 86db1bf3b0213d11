//! Calls about clients: their effects and their answers.

use std::net::IpAddr;

use pmdns_config::{Config, Prefix, View, view_name, view_number};
use pmdns_control::answers::{ClientAnswer, ClientEntry, ClientPage};
use pmdns_control::{Call, CallReply, ClientChange, Page, Refusal, named};

use pmdns_changes::Refused;

use super::book::{Book, Whose};

fn wrong(error: impl ToString) -> Refused {
    (Refusal::Wrong, error.to_string())
}

fn address_of(text: &str) -> Result<IpAddr, Refused> {
    text.parse()
        .map_err(|_| wrong(format!("`{text}` is no IP address; write for example 192.0.2.1")))
}

fn prefix_of(text: &str) -> Result<Prefix, Refused> {
    text.parse().map_err(|error: pmdns_config::PrefixError| wrong(error))
}

/// The prefix and the view of an address by the tables `[[view]]`.
pub(super) fn configured(address: &str, config: &Config) -> Option<(Prefix, u8)> {
    let address = address.parse().ok()?;
    let views = config.view_numbers().skip(1).zip(&config.views);
    let prefixes = views
        .flat_map(|(view, settings)| settings.clients.iter().map(move |prefix| (*prefix, view)));
    prefixes.filter(|(prefix, _)| prefix.contains(address)).max_by_key(|(prefix, _)| prefix.length)
}

/// Answers a call, and adds the changes that it made to `made`.
pub(super) fn serve(
    call: &Call,
    configured: Option<(Prefix, u8)>,
    (book, whose): (&mut Book, &Whose),
    views: &[View],
    made: &mut Vec<Prefix>,
) -> Result<CallReply, Refused> {
    match call {
        Call::Clients(page) => Ok(CallReply::of(&list(page, book, views)?)),
        Call::FindClient(address) => {
            let found = book.find(address_of(address)?);
            let said_by = match (found, configured) {
                (Some(_), _) => Some("clients"),
                (None, Some(_)) => Some("view"),
                (None, None) => None,
            };
            let decided = found.or(configured);
            Ok(CallReply::of(&ClientAnswer {
                address: address.clone(),
                view: view_name(decided.map_or(0, |(_, view)| view), views).to_owned(),
                prefix: decided.map(|(prefix, _)| prefix.to_string()),
                decided_by: said_by.map(str::to_owned),
            }))
        }
        Call::ChangeClients(changes) => change(changes, (book, whose), views, made),
        Call::RemoveClient(text) => {
            let prefix = prefix_of(text)?;
            // What is removed until the restart can be removed for good.
            let is_hidden = !whose.until_restart
                && book.kept_of(&prefix).is_some_and(|(view, _)| view.is_some());
            if book.view(&prefix).is_none() && !is_hidden {
                return Err((Refusal::Unknown, format!("`{prefix}` is not in the client table")));
            }
            book.say(prefix, None, whose);
            made.push(prefix);
            Ok(CallReply::Done(format!("{prefix} removed")))
        }
        _ => Err((Refusal::Unable, "this is no call about clients".to_owned())),
    }
}

/// Makes all changes, or none.
fn change(
    changes: &[ClientChange],
    (book, whose): (&mut Book, &Whose),
    views: &[View],
    made: &mut Vec<Prefix>,
) -> Result<CallReply, Refused> {
    let mut new = 0;
    let mut read = Vec::with_capacity(changes.len());
    for ClientChange { prefix, view } in changes {
        let prefix = prefix_of(prefix)?;
        let view = view.as_ref().map(|name| {
            let unknown = || {
                let there =
                    views.iter().filter(|view| !view.is_gone()).map(|view| view.name.clone());
                let there = named(["default".to_owned()].into_iter().chain(there));
                wrong(format!("there is no view `{name}`; {there}"))
            };
            view_number(name, views).ok_or_else(unknown)
        });
        let view = view.transpose()?;
        new += usize::from(view.is_some() && book.view(&prefix).is_none());
        read.push((prefix, view));
    }
    if new > book.room() {
        let why = format!(
            "{new} new prefixes have no room beside {}; raise `clients.max_entries`, which needs a restart",
            book.len()
        );
        return Err((Refusal::Unable, why));
    }
    for (prefix, view) in &read {
        let done = book.say(*prefix, *view, whose);
        debug_assert!(done, "there is room");
    }
    made.extend(read.iter().map(|(prefix, _)| *prefix));
    Ok(CallReply::Done(match changes {
        [ClientChange { prefix, view: Some(view) }] => format!("{prefix} is in the view {view}"),
        _ => format!("{} prefixes changed", changes.len()),
    }))
}

fn list(page: &Page, book: &Book, views: &[View]) -> Result<ClientPage, Refused> {
    let after = page.after.as_deref().map(prefix_of).transpose()?;
    let mut entries = book.after(after);
    let clients: Vec<_> = entries
        .by_ref()
        .take(page.limit)
        .map(|(prefix, view)| ClientEntry {
            prefix: prefix.to_string(),
            view: view_name(view, views).to_owned(),
            until_restart: book.is_passing(&prefix),
        })
        .collect();
    let next = entries.next().and_then(|_| clients.last()).map(|last| last.prefix.clone());
    Ok(ClientPage { clients, total: book.len(), next })
}
