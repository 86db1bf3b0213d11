//! The action of a policy zone's rule.

use pmdns_config::narrow::to_u32;

use super::error::RpzError;
use crate::policy::zone::{LocalZone, text};
use crate::wire::name::suffixes;

/// The action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::policy) enum Action {
    /// No other rule counts.
    Passthru,
    /// NXDOMAIN.
    Nxdomain,
    /// NOERROR without records.
    Nodata,
    /// Nothing is answered.
    Drop,
    /// TC=1: come back over TCP.
    TcpOnly,
    /// SERVFAIL: the rules are not here yet. No zone can say so.
    NotReady,
    /// The records of the rule, by the number of its node.
    Local(u32),
}

/// The numbers of the actions without records; then follow the nodes.
const ACTIONS: [Action; 6] = [
    Action::Passthru,
    Action::Nxdomain,
    Action::Nodata,
    Action::Drop,
    Action::TcpOnly,
    Action::NotReady,
];

/// No rule.
pub(super) const NONE: u32 = u32::MAX;

/// A rule about addresses: the length of its prefix, and the number of its action.
pub(super) type Ranked = (u8, u32);

impl Action {
    pub(super) fn number(self) -> u32 {
        match self {
            Self::Local(node) => to_u32(ACTIONS.len()) + node,
            fixed => to_u32(ACTIONS.iter().position(|one| *one == fixed).unwrap_or_default()),
        }
    }

    pub(super) fn of(number: u32) -> Option<Self> {
        match ACTIONS.get(number as usize) {
            Some(action) => Some(*action),
            None if number == NONE => None,
            None => Some(Self::Local(number - to_u32(ACTIONS.len()))),
        }
    }
}

/// The action that an owner's CNAME record says; `None`: its records are what is answered.
pub(super) fn fixed_action(zone: &LocalZone<'_>, owner: &[u8]) -> Result<Option<Action>, RpzError> {
    let Some(target) = zone.alias(owner) else { return Ok(None) };
    let action = match target.as_slice() {
        b"\0" => Action::Nxdomain,
        b"\x01*\0" => Action::Nodata,
        b"\x0crpz-passthru\0" => Action::Passthru,
        b"\x08rpz-drop\0" => Action::Drop,
        b"\x0crpz-tcp-only\0" => Action::TcpOnly,
        // The oldest way to write it: the name leads to itself.
        target if target == owner => Action::Passthru,
        target if is_reserved(target) => {
            return Err(RpzError::Action { name: text(owner), action: text(target) });
        }
        _ => return Ok(None),
    };
    Ok(Some(action))
}

/// A single label that begins with `rpz-`: actions that are none of ours.
fn is_reserved(target: &[u8]) -> bool {
    suffixes(target).count() == 2 && target[1..].starts_with(b"rpz-")
}
