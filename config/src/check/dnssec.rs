//! The rules of `[dnssec]`.

use super::{Verdict, at_most, broken};
use crate::limits::MAX_NEGATIVE_ANCHORS;
use crate::name::wire_name;
use crate::problem::Problem;
use crate::settings::Dnssec;

pub(super) fn check(dnssec: &Dnssec) -> Verdict {
    if dnssec.trust_anchor.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
        let fix = "the path of a file, or leave it out";
        return broken("dnssec.trust_anchor", Problem::Empty(fix));
    }
    let names = &dnssec.negative_trust_anchors;
    at_most("dnssec.negative_trust_anchors", "names", names.len(), MAX_NEGATIVE_ANCHORS)?;
    for (index, name) in names.iter().enumerate() {
        if let Err(error) = wire_name(name) {
            let key = format!("dnssec.negative_trust_anchors[{index}]");
            return broken(key, Problem::NegativeAnchor(error));
        }
    }
    Ok(())
}
