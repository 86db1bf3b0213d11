//! Calls about clients: their effects and their answers.

use std::net::IpAddr;
use std::sync::atomic::Ordering;

use pmdns_changes::{lasting, not_kept};
use pmdns_config::{Config, Prefix, View, view_name, view_number};
use pmdns_control::answers::{ClientAnswer, ClientEntry, ClientPage};
use pmdns_control::{Caller, ClientChange, Page, PendingCall, Refusal, Refused, named};

use super::book::{Book, Whose};
use super::passing::passed;
use super::{ClientTableRequest, Thread, keeper};
use crate::runtime::author_of;

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

/// A change that is made, and whose caller waits for the disk.
struct Made {
    caller: Caller,
    done: String,
    is_change: bool,
}

impl Thread {
    /// Answers what asks. Makes the changes that were asked for, has the disk confirm all of them, and answers.
    pub(super) fn serve(&mut self, asked: Vec<ClientTableRequest>) {
        let (mut to_keep, mut done) = (Vec::new(), Vec::new());
        for asked in asked {
            match asked {
                ClientTableRequest::Changes(others, caller) => {
                    caller.reply(Ok(self.difference(*others)))
                }
                ClientTableRequest::Pass(tell) => {
                    let passed = passed(self.journal.as_ref(), &self.book, &self.views);
                    let _ = tell.send(passed);
                }
                ClientTableRequest::Call(PendingCall::Clients(page, caller), _) => {
                    caller.reply(self.noted(list(&page, &self.book, &self.views)));
                }
                ClientTableRequest::Call(PendingCall::FindClient(address, caller), configured) => {
                    let found = find(&address, configured, &self.book, &self.views);
                    caller.reply(self.noted(found));
                }
                ClientTableRequest::Call(PendingCall::ChangeClients(changes, caller), _) => {
                    done.extend(self.change(caller, &mut to_keep, |book, views, made| {
                        change(&changes, book, views, made)
                    }));
                }
                ClientTableRequest::Call(PendingCall::RemoveClient(prefix, caller), _) => {
                    done.extend(
                        self.change(caller, &mut to_keep, |book, _, made| {
                            remove(&prefix, book, made)
                        }),
                    );
                }
                ClientTableRequest::Call(other, _) => {
                    other.refuse(Refusal::Unable, "this is no call about clients");
                }
            }
        }
        let kept = match &mut self.journal {
            Some(journal) if !to_keep.is_empty() => journal.keep(&to_keep, &self.book, &self.views),
            _ => true,
        };
        if !kept {
            self.counters.failures.fetch_add(1, Ordering::Relaxed);
        }
        for Made { caller, done, is_change } in done {
            let until_restart = caller.until_restart;
            match is_change {
                true if !kept && !until_restart => caller.reply(Err(not_kept())),
                true => caller.done(done + lasting(self.journal.is_some(), until_restart)),
                false => caller.done(done),
            }
        }
    }

    /// Makes a change, and adds its prefixes to those that are to be kept. A refusal is told at once.
    fn change(
        &mut self,
        caller: Caller,
        to_keep: &mut Vec<Prefix>,
        make: impl FnOnce((&mut Book, &Whose), &[View], &mut Vec<Prefix>) -> Result<String, Refused>,
    ) -> Option<Made> {
        let (mut changed, whose) = (Vec::new(), keeper::whose(&author_of(&caller)));
        let made = make((&mut self.book, &whose), &self.views, &mut changed);
        match self.noted(made) {
            Ok(done) => {
                self.counters.changes.fetch_add(changed.len() as u64, Ordering::Relaxed);
                let is_change = !changed.is_empty();
                if !caller.until_restart {
                    to_keep.append(&mut changed);
                }
                Some(Made { caller, done, is_change })
            }
            Err((refusal, why)) => {
                caller.refuse(refusal, why);
                None
            }
        }
    }

    /// The reply to a call, whose refusal is counted.
    fn noted<R>(&self, reply: Result<R, Refused>) -> Result<R, Refused> {
        if reply.is_err() {
            self.counters.refused.fetch_add(1, Ordering::Relaxed);
        }
        reply
    }
}

/// The view of an address, which the configuration may decide.
fn find(
    address: &str,
    configured: Option<(Prefix, u8)>,
    book: &Book,
    views: &[View],
) -> Result<ClientAnswer, Refused> {
    let found = book.find(address_of(address)?);
    let said_by = match (found, configured) {
        (Some(_), _) => Some("clients"),
        (None, Some(_)) => Some("view"),
        (None, None) => None,
    };
    let decided = found.or(configured);
    Ok(ClientAnswer {
        address: address.to_owned(),
        view: view_name(decided.map_or(0, |(_, view)| view), views).to_owned(),
        prefix: decided.map(|(prefix, _)| prefix.to_string()),
        decided_by: said_by.map(str::to_owned),
    })
}

/// Takes a prefix out, and adds it to `made`.
fn remove(
    text: &str,
    (book, whose): (&mut Book, &Whose),
    made: &mut Vec<Prefix>,
) -> Result<String, Refused> {
    let prefix = prefix_of(text)?;
    // What is removed until the restart can be removed for good.
    let is_hidden =
        !whose.until_restart && book.kept_of(&prefix).is_some_and(|(view, _)| view.is_some());
    if book.view(&prefix).is_none() && !is_hidden {
        return Err((Refusal::Unknown, format!("`{prefix}` is not in the client table")));
    }
    book.say(prefix, None, whose);
    made.push(prefix);
    Ok(format!("{prefix} removed"))
}

/// Makes all changes, or none, and adds them to `made`.
fn change(
    changes: &[ClientChange],
    (book, whose): (&mut Book, &Whose),
    views: &[View],
    made: &mut Vec<Prefix>,
) -> Result<String, Refused> {
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
            "{new} new prefixes have no room beside {}; raise `clients.max_entries`, and reload",
            book.len()
        );
        return Err((Refusal::Unable, why));
    }
    for (prefix, view) in &read {
        let done = book.say(*prefix, *view, whose);
        debug_assert!(done, "there is room");
    }
    made.extend(read.iter().map(|(prefix, _)| *prefix));
    Ok(match changes {
        [ClientChange { prefix, view: Some(view) }] => format!("{prefix} is in the view {view}"),
        _ => format!("{} prefixes changed", changes.len()),
    })
}

/// A part of the table.
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
