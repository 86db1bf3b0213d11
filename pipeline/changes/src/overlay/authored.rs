//! Changes of lists and upstreams that hold.

use std::path::PathBuf;

use pmdns_config::Blocklist;
use pmdns_control::NewList;

use crate::upstream_override::UpstreamOverride;
use crate::{Author, JournalLine, OperatorChange, What};

/// A change that holds, and whose it is.
#[derive(Clone, Debug)]
pub(super) struct AuthoredChange<T> {
    pub(super) what: T,
    pub(super) author: Author,
}

/// A list that was added. No two have the same name.
#[derive(Clone, Debug)]
pub(super) struct AddedList {
    pub(super) new: NewList,
    pub(super) list: Box<Blocklist>,
}

impl AddedList {
    pub(super) fn file(&self) -> &PathBuf {
        &self.list.file
    }
}

impl From<&AuthoredChange<UpstreamOverride>> for OperatorChange {
    fn from(AuthoredChange { what, author }: &AuthoredChange<UpstreamOverride>) -> Self {
        Self { what: What::Upstream(what.clone()), author: author.clone() }
    }
}

impl From<&AuthoredChange<AddedList>> for OperatorChange {
    fn from(AuthoredChange { what, author }: &AuthoredChange<AddedList>) -> Self {
        Self { what: What::List(what.new.clone()), author: author.clone() }
    }
}

/// The line that keeps a change.
pub(super) fn line_of(change: impl Into<OperatorChange>) -> JournalLine {
    JournalLine::Set(Box::new(change.into()))
}
