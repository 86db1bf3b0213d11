//! What the options of a client's OPT record ask for.
//!
//! An option we do not know is not there, as far as we are concerned (RFC 6891 section 6.1.2). The client's
//! subnet (RFC 7871) is one of them: it is never passed on, so that answers are everybody's.

use super::Parse;
use crate::StageName;
use crate::cookie::{COOKIE_LEN, Checked, Sent};
use crate::packet::{Answer, Flags, Packet};
use crate::step::Step;
use crate::wire::be16;
use crate::wire::dns::{Rcode, header, options_of};
use crate::wire::edns::option;
use crate::wire::ip::{UDP_LEN, udp};

impl Parse {
    /// Notes what the options ask for, which may change the answer that has been decided on.
    #[cold]
    #[inline(never)]
    pub(super) fn read_options(&self, packet: &mut Packet, seconds: u32) -> Step {
        let layout = packet.layout;
        let datagram = &packet.frame.bytes()[usize::from(layout.l4)..];
        let end = be16(datagram, udp::LEN).map_or(0, usize::from);
        let message = datagram.get(UDP_LEN..end).unwrap_or_default();
        let mut cookie = None;
        for (code, data) in options_of(message, layout.name_len) {
            match code {
                option::NSID => packet.layout.flags.set(Flags::NSID),
                // RFC 7873 section 5.2: of several, the first counts.
                option::COOKIE => cookie = cookie.or(Some(data)),
                _ => {}
            }
        }
        if let (Some(cookies), Some(cookie)) = (&self.cookies, cookie) {
            let client = layout.client(packet.frame.bytes());
            let asks_nothing = message.get(header::QDCOUNT..header::ARCOUNT) == Some(&[0; 6]);
            match cookies.check(cookie, client, seconds) {
                Some(checked) => take_cookie(packet, &checked, cookies.is_required(), asks_nothing),
                None => packet.answer = Answer::Rcode(Rcode::FORMERR),
            }
        }
        Step::at(StageName::Acl)
    }
}

/// Acts on a cookie. `asks_nothing`: the query has no question.
fn take_cookie(packet: &mut Packet, checked: &Checked, is_required: bool, asks_nothing: bool) {
    keep_cookie(packet, &checked.answer);
    if checked.sent == Sent::Right {
        packet.layout.flags.set(Flags::RIGHT_COOKIE);
    }
    let rcode = match (packet.answer, checked.sent) {
        // RFC 7873 section 5.4: nothing but the cookie is asked about.
        (Answer::Rcode(Rcode::FORMERR), Sent::Wrong) if asks_nothing => Rcode::BADCOOKIE,
        (Answer::Rcode(Rcode::FORMERR), _) if asks_nothing => Rcode::NOERROR,
        (Answer::None, Sent::ClientCookie | Sent::Wrong) if is_required => Rcode::BADCOOKIE,
        _ => return,
    };
    packet.answer = Answer::Rcode(rcode);
}

/// Puts the answer's cookie behind the question, where it stays until encode: the OPT record has been read.
fn keep_cookie(packet: &mut Packet, cookie: &[u8; COOKIE_LEN]) {
    let start = packet.layout.question_end();
    if packet.frame.resize(start + COOKIE_LEN).is_ok() {
        packet.frame.bytes_mut()[start..].copy_from_slice(cookie);
        packet.layout.flags.set(Flags::COOKIE);
    }
}
