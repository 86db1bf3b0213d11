//! What the options of a client's OPT record ask for.
//!
//! An option we do not know is not there, as far as we are concerned (RFC 6891 section 6.1.2). The client's
//! subnet (RFC 7871) is one of them: it is never passed on, so that answers are everybody's.

use super::Parse;
use crate::cookie::{COOKIE_LEN, Sent};
use crate::packet::{Flags, Packet};
use crate::wire::dns::{Rcode, header};
use crate::wire::edns::{Edns, Options, option};

impl Parse {
    /// Notes what the options ask for, and says with which error the query ends, which was `error` without them.
    #[cold]
    #[inline(never)]
    pub(super) fn read_options(
        &self,
        packet: &mut Packet,
        edns: Edns,
        error: Option<Rcode>,
        seconds: u32,
    ) -> Option<Rcode> {
        let message = &packet.frame.bytes()[usize::from(packet.layout.dns)..];
        let start = usize::from(edns.options_at);
        let data = message.get(start..start + usize::from(edns.options_len)).unwrap_or_default();
        let mut cookie = None;
        for (code, data) in Options::new(data) {
            match code {
                option::NSID => packet.layout.flags.set(Flags::NSID),
                // RFC 7873 section 5.2: of several, the first counts.
                option::COOKIE => cookie = cookie.or(Some(data)),
                _ => {}
            }
        }
        let (Some(cookies), Some(cookie)) = (&self.cookies, cookie) else { return error };
        let client = packet.layout.client(packet.frame.bytes());
        let Some(checked) = cookies.check(cookie, client, seconds) else {
            return Some(Rcode::FORMERR);
        };
        let asks_for_cookie_only = message[header::QDCOUNT..header::ARCOUNT] == [0; 6];
        keep_cookie(packet, &checked.answer);
        if checked.sent == Sent::Right {
            packet.layout.flags.set(Flags::RIGHT_COOKIE);
        }
        match (error, checked.sent) {
            // RFC 7873 section 5.4: nothing but the cookie is asked about.
            (Some(Rcode::FORMERR), Sent::Wrong) if asks_for_cookie_only => Some(Rcode::BADCOOKIE),
            (Some(Rcode::FORMERR), _) if asks_for_cookie_only => Some(Rcode::NOERROR),
            (None, Sent::ClientCookie | Sent::Wrong) if cookies.is_required() => {
                Some(Rcode::BADCOOKIE)
            }
            _ => error,
        }
    }
}

/// Puts the answer's cookie behind the question, where it stays until encode: the OPT record has been read.
fn keep_cookie(packet: &mut Packet, cookie: &[u8; COOKIE_LEN]) {
    let start = packet.layout.question_end();
    if packet.frame.resize(start + COOKIE_LEN).is_ok() {
        packet.frame.bytes_mut()[start..].copy_from_slice(cookie);
        packet.layout.flags.set(Flags::COOKIE);
    }
}
