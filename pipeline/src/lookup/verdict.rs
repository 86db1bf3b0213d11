//! The verdict on a query, read from the packet that has gone down the line.

use pmdns_control::lookup::DecidedBy;
use pmdns_engine::lookup_line::message;
use pmdns_stages::answer::{Answer, Fixed};
use pmdns_stages::policy::{ListNumber, RuleSource};
use pmdns_stages::wire::be16;
use pmdns_stages::wire::dns::{Rcode, flag, header};
use pmdns_stages::wire::edns::ExtendedError;
use pmdns_stages::{Packet, Reason, Step};

/// What a client gets, and which part decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The part that decides; `None`: a rule about names that stands in no list.
    pub by: Option<DecidedBy>,
    /// The list with the rule, if one decides.
    pub list: Option<ListNumber>,
    /// The rcode of the answer; `None`: there is none, or not yet.
    pub rcode: Option<Rcode>,
    /// Whether the answer has TC=1.
    pub truncated: bool,
}

impl Verdict {
    /// The verdict on a packet that has gone down the line.
    pub fn of(packet: &Packet) -> Self {
        let list = packet.extended_error.and_then(ListNumber::of_reason);
        let flags = message(packet).and_then(|message| be16(message, header::FLAGS));
        Self {
            by: list.map(of_list).or_else(|| decided_by(packet)),
            list,
            rcode: flags.map(|flags| Rcode(flags.to_be_bytes()[1] & 0xf)),
            truncated: flags.is_some_and(|flags| flags & flag::TC != 0),
        }
    }

    /// Whether rules about names or answers decide.
    pub(super) fn is_by_rules(&self) -> bool {
        self.by.is_none() || self.list.is_some()
    }

    /// The part that decides. If it is a rule that stands in no list, it is of this kind.
    pub(super) fn decided_by(&self, rule: RuleSource) -> DecidedBy {
        self.by.unwrap_or(match rule {
            RuleSource::RunTime => DecidedBy::RunTime,
            RuleSource::Local => DecidedBy::LocalRecords,
            RuleSource::PolicyZone { .. } => DecidedBy::PolicyZone,
            RuleSource::Blocked => DecidedBy::BlockList,
        })
    }
}

fn of_list(list: ListNumber) -> DecidedBy {
    match list {
        ListNumber::Runtime => DecidedBy::RunTime,
        ListNumber::Block | ListNumber::Canary | ListNumber::List(_) => DecidedBy::BlockList,
        ListNumber::Zone(_) => DecidedBy::PolicyZone,
        ListNumber::Redirect(_) => DecidedBy::Redirect,
    }
}

/// The part that decides if no list does. There are no limits on this way.
fn decided_by(packet: &Packet) -> Option<DecidedBy> {
    match (packet.answer, packet.extended_error) {
        (Answer::Cached(_), _) => Some(DecidedBy::Cache),
        (Answer::Fixed(Fixed::Any), _) => Some(DecidedBy::MinimalAny),
        (Answer::None, _) if packet.step == Step::SLOW_PATH => Some(DecidedBy::Upstreams),
        (Answer::Rcode(_), Some(ExtendedError::PROHIBITED)) => Some(DecidedBy::AccessList),
        // An entry that the line was given.
        (Answer::None, _) if packet.step == Step::TRANSMIT => Some(DecidedBy::Cache),
        _ if packet.step == Step::drop(Reason::AclDrop) => Some(DecidedBy::AccessList),
        _ => None,
    }
}
