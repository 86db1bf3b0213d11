//! Why lists and policy zones deny names, as clients are told (RFC 8914).
//!
//! A packet has the number of the list that decides. It is the place of its list in the configuration, so rulesets that
//! differ in what is in the files have the same numbers.

use pmdns_config::limits::MAX_BLOCKLISTS;
use pmdns_config::{Config, ListReason, Redirect};

use super::list_number::ListNumber;
use crate::wire::edns::{ExtendedError, MAX_REASONS};

const _: () = assert!(ListNumber::COUNT <= MAX_REASONS, "each list has a number");

/// One reason: its INFO-CODE, and a text for people.
type Reason = (ExtendedError, Box<str>);

/// The text about an address that is given for a name that does not exist.
const NO_SUCH_NAME: &str = "the name does not exist";

/// The reasons, by the number of the list.
#[derive(Debug)]
pub(super) struct Reasons(Box<[Option<Reason>]>);

impl Reasons {
    pub(super) fn of(config: &Config) -> Self {
        let of_lists = config.blocklists.iter();
        let of_lists = of_lists.map(|list| reason(list.extended_error, list.text.as_deref()));
        let of_zones = config.rpz.iter();
        let of_zones = of_zones.map(|rpz| reason(rpz.extended_error, rpz.text.as_deref()));
        let mut all = vec![None; ListNumber::FIRST_LIST];
        all.extend(of_lists.take(MAX_BLOCKLISTS));
        all.resize(ListNumber::FIRST_ZONE, None);
        all.extend(of_zones);
        all.resize(ListNumber::FIRST_REDIRECT, None);
        let text = |redirect: &Redirect| redirect.text.as_deref().unwrap_or(NO_SUCH_NAME).into();
        let of_redirects = config.redirects.iter();
        all.extend(of_redirects.map(|one| Some((ExtendedError::FORGED_ANSWER, text(one)))));
        Self(all.into())
    }

    /// The code of an extended error, and its text. A list without a reason of its own denies with 15, and says nothing in other
    /// answers.
    pub(super) fn extended_error(
        &self,
        error: ExtendedError,
        is_denial: bool,
    ) -> Option<(ExtendedError, &str)> {
        let Some(number) = error.rule() else { return Some((error, "")) };
        match self.0.get(usize::from(number)) {
            Some(Some((code, text))) => Some((*code, text)),
            _ => is_denial.then_some((ExtendedError::BLOCKED, "")),
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
