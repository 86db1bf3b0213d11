//! Queries that are not like nearly all: with options, about classes and types that are no data, or wrong.
//!
//! Reading them is kept apart so that the rest pays nothing for it. An option we do not know is not there, as far
//! as we are concerned (RFC 6891 section 6.1.2). The client's subnet (RFC 7871) is one of them, unless the operator
//! wants it passed on.

use pmdns_nics::stream::{AnswerOption, note_request};

use super::{Parse, first_name_len};
use crate::Stage;
use crate::answer::Answer;
use crate::cookie::{Checked, SentCookie};
use crate::packet::Packet;
use crate::step::{Reason, Step};
use crate::wire::be16;
use crate::wire::checksum::Sum;
use crate::wire::dns::{CLASS_CH, CLASS_NONE, HEADER_LEN, Rcode, flag, header, question_len};
use crate::wire::edns::Requested;
use crate::wire::ip::{UDP_LEN, udp};
use crate::wire::layout::Flags;
use crate::wire::query::ParsedQuery;
use crate::wire::subnet::{SUBNET_LEN, Subnet};

impl Parse {
    /// Reads a query whose frame has been found right, unless the access list drops its client. A client that is dropped has
    /// no other way to more work than a hit is.
    #[cold]
    #[inline(never)]
    pub(super) fn read_unusual(&mut self, packet: &mut Packet, seconds: u32) -> Step {
        if self.dropped.has(packet.layout.client(packet.frame.bytes())) {
            return Step::drop(Reason::AclDrop);
        }
        let message = message_of(packet);
        let dns = usize::from(packet.layout.l4) + UDP_LEN;
        let name_len = match packet.layout.name_len {
            // It has not been read, or there is none. Then it is read twice, and nothing else at all.
            0 => first_name_len(packet, dns),
            known => known,
        };
        let asked = ParsedQuery::read_any(message, name_len);
        let (question, behind) = message[HEADER_LEN..].split_at(question_len(asked.name_len));
        // So far it is the sum of both. The shorter one is read again.
        let question_sum = match behind.len() < question.len() {
            true => {
                let both = Sum::default().add16(packet.question_sum);
                both.take_away_at(question.len(), Sum::default().add_bytes(behind))
            }
            false => Sum::default().add_bytes(question),
        };
        let flags = be16(message, header::FLAGS).unwrap_or(0);
        self.note(packet, dns, flags, asked, question_sum);
        if let Some(rcode) = asked.error {
            packet.answer = self.decide(packet, rcode);
        } else if flags & flag::RD == 0 {
            // What is ours is found by name and type. No answer of the cache has this class, so that lookup need not
            // ask of every hit whether recursion is desired.
            packet.layout.qclass = CLASS_NONE;
        }
        if let Some(edns) = &asked.edns
            && edns.version == 0
        {
            self.heed(packet, &edns.requested, seconds);
        }
        Self::CONTINUE
    }

    /// What to answer a query that cannot go on: with the rcode, unless it asks who we are.
    fn decide(&self, packet: &Packet, rcode: Rcode) -> Answer {
        let fixed = match &self.fixed {
            Some(fixed) if rcode == Rcode::REFUSED && packet.layout.qclass == CLASS_CH => {
                fixed.chaos(packet.query().name(), packet.layout.qtype)
            }
            _ => None,
        };
        fixed.unwrap_or(Answer::Rcode(rcode))
    }

    /// Notes what the options ask for, which may change the answer that has been decided on.
    fn heed(&mut self, packet: &mut Packet, requested: &Requested, seconds: u32) {
        let message = message_of(packet);
        let cookie = requested.cookie.map(|place| place.of(message));
        let subnet = requested.subnet.filter(|_| self.reads_subnets);
        let subnet = subnet.map(|place| kept_subnet(place.of(message)));
        if let (Some(cookies), Some(cookie)) = (&self.cookies, cookie) {
            let client = packet.layout.client(packet.frame.bytes());
            let asks_nothing = message[header::QDCOUNT..header::ARCOUNT] == [0; 6];
            match cookies.check(cookie, client, seconds) {
                Some(checked) => {
                    // Over a stream the client is where it says (RFC 7873 section 5.2.3).
                    let is_required = cookies.is_required() && !packet.layout.is_stream();
                    take_cookie(packet, &checked, is_required, asks_nothing);
                    let is_refused = packet.answer == Answer::Rcode(Rcode::BADCOOKIE);
                    self.cookie_counts.count(checked.sent, is_refused);
                }
                None => packet.answer = Answer::Rcode(Rcode::FORMERR),
            }
        }
        match subnet {
            Some(Some(data)) => keep(packet, &data, Flags::SUBNET),
            Some(None) => packet.answer = Answer::Rcode(Rcode::FORMERR),
            None => {}
        }
        if requested.nsid {
            packet.layout.flags.set(Flags::NSID);
        }
        if packet.layout.is_stream() {
            let wanted = [
                (requested.keepalive, AnswerOption::Keepalive),
                (requested.padding, AnswerOption::Padding),
            ];
            for (_, request) in wanted.into_iter().filter(|(is_wanted, _)| *is_wanted) {
                note_request(packet.frame.bytes_mut(), request);
            }
        }
    }
}

/// The DNS message in a frame of which UDP has been read.
fn message_of(packet: &Packet) -> &[u8] {
    let datagram = &packet.frame.bytes()[usize::from(packet.layout.l4)..];
    let len = be16(datagram, udp::LEN).map_or(0, usize::from);
    datagram.get(UDP_LEN..len).unwrap_or_default()
}

/// Acts on a cookie. `asks_nothing`: the query has no question.
fn take_cookie(packet: &mut Packet, checked: &Checked, is_required: bool, asks_nothing: bool) {
    keep(packet, &checked.answer, Flags::COOKIE);
    if checked.sent == SentCookie::Right {
        packet.layout.flags.set(Flags::RIGHT_COOKIE);
    }
    let rcode = match (packet.answer, checked.sent) {
        // RFC 7873 section 5.4: nothing but the cookie is asked about.
        (Answer::Rcode(Rcode::FORMERR), SentCookie::Wrong) if asks_nothing => Rcode::BADCOOKIE,
        (Answer::Rcode(Rcode::FORMERR), _) if asks_nothing => Rcode::NOERROR,
        (Answer::None, SentCookie::ClientCookie | SentCookie::Wrong) if is_required => {
            Rcode::BADCOOKIE
        }
        _ => return,
    };
    packet.answer = Answer::Rcode(rcode);
}

/// The part of a subnet option's data that is kept; `None`: it is malformed, or has a scope, which only answers have (RFC 7871
/// section 6).
fn kept_subnet(data: &[u8]) -> Option<[u8; SUBNET_LEN]> {
    let (_, scope) = Subnet::read(data)?;
    let mut kept = [0; SUBNET_LEN];
    kept.get_mut(..data.len())?.copy_from_slice(data);
    (scope == 0).then_some(kept)
}

/// Puts what an option of the answer will have behind the question, where it stays until encode: the OPT record has
/// been read. First the cookie, then the subnet.
fn keep(packet: &mut Packet, data: &[u8], fact: Flags) {
    let start = packet.layout.kept_end();
    if packet.frame.resize(start + data.len()).is_ok() {
        packet.frame.bytes_mut()[start..].copy_from_slice(data);
        packet.layout.flags.set(fact);
    }
}
