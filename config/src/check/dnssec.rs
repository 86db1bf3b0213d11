//! The rules of `[dnssec]`.

use super::rules::{Mistakes, at_most, broken};
use crate::limits::MAX_NEGATIVE_ANCHORS;
use crate::name::subtree_name;
use crate::problem::BrokenRule;
use crate::settings::Dnssec;

pub(super) fn check(dnssec: &Dnssec, found: &mut Mistakes) {
    if dnssec.trust_anchor.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
        let fix = "the path of a file, or leave it out";
        found.note(broken("dnssec.trust_anchor", BrokenRule::Empty(fix)));
    }
    let names = &dnssec.negative_trust_anchors;
    let key = "dnssec.negative_trust_anchors";
    found.note(at_most(key, "names", names.len(), MAX_NEGATIVE_ANCHORS));
    for (index, name) in names.iter().enumerate() {
        if let Err(error) = subtree_name(name) {
            found.note(broken(format!("{key}[{index}]"), BrokenRule::NegativeAnchor(error)));
        }
    }
}
