//! Why lists and policy zones deny names, as clients are told (RFC 8914).
//!
//! A packet has the number of a reason. It is the place of its list in the configuration, so rulesets that differ in what
//! is in the files have the same numbers.

use pmdns_config::limits::{MAX_BLOCKLISTS, MAX_RPZ};
use pmdns_config::narrow::to_u8;
use pmdns_config::{Config, ListReason};

use super::lists::FIRST_LIST;
use crate::wire::edns::{ExtendedError, MAX_REASONS};

const _: () = assert!(MAX_BLOCKLISTS + MAX_RPZ <= MAX_REASONS, "each has a number");

/// One reason: its INFO-CODE, and a text for people.
type Reason = (ExtendedError, Box<str>);

/// The reasons, by number: of all lists, and then of all policy zones.
#[derive(Debug)]
pub(super) struct Reasons(Box<[Option<Reason>]>);

impl Reasons {
    pub(super) fn of(config: &Config) -> Self {
        let mut all = vec![None; MAX_BLOCKLISTS];
        for (place, list) in all.iter_mut().zip(&config.blocklists) {
            *place = reason(list.extended_error, list.text.as_deref());
        }
        all.extend(config.rpz.iter().map(|rpz| reason(rpz.extended_error, rpz.text.as_deref())));
        Self(all.into())
    }

    /// What a list says, by its number. `[block]` and the canary say nothing.
    pub(super) fn of_list(&self, number: u8) -> Option<ExtendedError> {
        self.at(usize::from(number.checked_sub(FIRST_LIST)?))
    }

    /// What a policy zone says, by its place in the configuration.
    pub(super) fn of_zone(&self, place: usize) -> Option<ExtendedError> {
        self.at(MAX_BLOCKLISTS + place)
    }

    fn at(&self, number: usize) -> Option<ExtendedError> {
        self.0.get(number)?.as_ref()?;
        Some(ExtendedError::of_rule(to_u8(number)))
    }

    /// The code of an extended error, and its text. The list may have none any more in these rules.
    pub(super) fn told(&self, error: ExtendedError) -> (ExtendedError, &str) {
        let Some(number) = error.rule() else { return (error, "") };
        match self.0.get(usize::from(number)) {
            Some(Some((code, text))) => (*code, text),
            _ => (ExtendedError::BLOCKED, ""),
        }
    }
}

fn reason(code: Option<ListReason>, text: Option<&str>) -> Option<Reason> {
    if code.is_none() && text.is_none() {
        return None;
    }
    let code = match code.unwrap_or_default() {
        ListReason::Blocked => ExtendedError::BLOCKED,
        ListReason::Censored => ExtendedError::CENSORED,
        ListReason::Filtered => ExtendedError::FILTERED,
        ListReason::Prohibited => ExtendedError::PROHIBITED,
    };
    Some((code, text.unwrap_or_default().into()))
}
