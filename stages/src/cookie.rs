//! DNS cookies, by which a client shows that it is at the address it sends from (RFC 7873). They are made
//! so that servers of other makes behind the same address know each other's (RFC 9018).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use siphasher::sip::SipHasher24;

use crate::wire::be32;
use crate::wire::edns::{CLIENT_COOKIE_LEN as CLIENT_LEN, COOKIE_LEN};

/// Bytes of a client's address.
const IPV4_LEN: usize = 4;
const IPV6_LEN: usize = 16;
/// Where the hash stands in a whole cookie.
const HASH_AT: usize = COOKIE_LEN - 8;
/// Client and server cookies of any version (RFC 7873 section 4.2).
const WHOLE_LENS: std::ops::RangeInclusive<usize> = CLIENT_LEN + 8..=CLIENT_LEN + 32;
/// The version made here.
const VERSION: u8 = 1;
/// A cookie of the future is wrong, but for clocks that differ (RFC 9018 section 4.3), in seconds.
const MAX_AHEAD: i32 = 300;
/// The oldest cookie that is right, in seconds.
const MAX_AGE: i32 = 3600;
/// An older one is answered with a new one, in seconds.
const RENEWAL_AGE: i32 = 1800;

/// Makes server cookies and knows them again.
#[derive(Clone, Debug)]
pub struct Cookies {
    /// Keyed with the secret that cookies are made with.
    making: SipHasher24,
    /// Keyed with another one whose cookies are right as well, while secrets change (RFC 9018 section 5).
    accepted: Option<SipHasher24>,
    /// Whether a client that sends a cookie gets its answer only for a right one.
    is_required: bool,
    calendar: Calendar,
}

/// The verdict on a client's cookie, and the cookie to answer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The cookie of the answer.
    pub answer: [u8; COOKIE_LEN],
    /// The cookie that the client sent.
    pub sent: SentCookie,
}

/// The kinds of cookies that clients send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentCookie {
    /// Its own part only: it has none of ours yet.
    ClientCookie,
    /// A server cookie made for this client and address not long ago.
    Right,
    /// A server cookie that was not.
    Wrong,
}

/// The counts of clients' cookies so far, and of BADCOOKIE answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CookieCounts {
    /// Of [`SentCookie::Right`].
    pub right: u64,
    /// Of [`SentCookie::Wrong`].
    pub wrong: u64,
    /// Of [`SentCookie::ClientCookie`].
    pub new: u64,
    /// Answers that refuse a client for want of a right one.
    pub refused: u64,
}

impl Cookies {
    /// Cookies made with `secret`; those made with `accepted` are right as well.
    pub fn new(
        secret: [u8; 16],
        accepted: Option<[u8; 16]>,
        is_required: bool,
        calendar: Calendar,
    ) -> Self {
        let keyed = |secret: [u8; 16]| SipHasher24::new_with_key(&secret);
        Self { making: keyed(secret), accepted: accepted.map(keyed), is_required, calendar }
    }

    /// Whether clients that send a cookie must send a right one.
    pub fn is_required(&self) -> bool {
        self.is_required
    }

    /// Checks the data of a COOKIE option that came from `client`, an address of 4 or 16 bytes, `seconds` after
    /// the start of the process. `None`: its length is one that no cookie has (RFC 7873 section 5.2.2).
    pub fn check(&self, cookie: &[u8], client: &[u8], seconds: u32) -> Option<Checked> {
        let now = self.calendar.unix(seconds);
        let own: [u8; CLIENT_LEN] = *cookie.first_chunk()?;
        if cookie.len() == CLIENT_LEN {
            return Some(Checked {
                answer: self.make(own, client, now),
                sent: SentCookie::ClientCookie,
            });
        }
        if !WHOLE_LENS.contains(&cookie.len()) {
            return None;
        }
        Some(match self.age(cookie, client, now) {
            Some((age, whole)) if age <= RENEWAL_AGE => {
                Checked { answer: whole, sent: SentCookie::Right }
            }
            Some(_) => Checked { answer: self.make(own, client, now), sent: SentCookie::Right },
            None => Checked { answer: self.make(own, client, now), sent: SentCookie::Wrong },
        })
    }

    /// The age of a right cookie, in seconds, and the cookie. One made with the other secret is taken for one
    /// that has to be renewed.
    fn age(&self, cookie: &[u8], client: &[u8], now: u32) -> Option<(i32, [u8; COOKIE_LEN])> {
        let whole: [u8; COOKIE_LEN] = cookie.try_into().ok()?;
        // Serial numbers (RFC 1982): the difference is right whatever the century.
        let age = now.wrapping_sub(be32(&whole, CLIENT_LEN + 4)?).cast_signed();
        if whole[CLIENT_LEN] != VERSION || !(-MAX_AHEAD..=MAX_AGE).contains(&age) {
            return None;
        }
        let is_of = |hasher: &SipHasher24| whole[HASH_AT..] == hash(hasher, &whole, client);
        if is_of(&self.making) {
            return Some((age, whole));
        }
        self.accepted.as_ref().is_some_and(is_of).then_some((MAX_AGE, whole))
    }

    /// A cookie with a new server cookie.
    fn make(&self, own: [u8; CLIENT_LEN], client: &[u8], now: u32) -> [u8; COOKIE_LEN] {
        let mut cookie = [0; COOKIE_LEN];
        cookie[..CLIENT_LEN].copy_from_slice(&own);
        cookie[CLIENT_LEN] = VERSION;
        cookie[CLIENT_LEN + 4..HASH_AT].copy_from_slice(&now.to_be_bytes());
        let hash = hash(&self.making, &cookie, client);
        cookie[HASH_AT..].copy_from_slice(&hash);
        cookie
    }
}

impl CookieCounts {
    /// Counts a cookie, and whether the client is refused for want of a right one.
    pub(crate) fn count(&mut self, sent: SentCookie, is_refused: bool) {
        let kind = match sent {
            SentCookie::Right => &mut self.right,
            SentCookie::Wrong => &mut self.wrong,
            SentCookie::ClientCookie => &mut self.new,
        };
        *kind += 1;
        self.refused += u64::from(is_refused);
    }
}

/// The hash of everything before it and the client's address (RFC 9018 section 4.4).
fn hash(keyed: &SipHasher24, cookie: &[u8; COOKIE_LEN], client: &[u8]) -> [u8; 8] {
    // Of bytes in one piece, whose number the compiler knows, the hash takes half the time.
    let mut bytes = [0; HASH_AT + IPV6_LEN];
    bytes[..HASH_AT].copy_from_slice(&cookie[..HASH_AT]);
    let hash = match <[u8; IPV4_LEN]>::try_from(client) {
        Ok(client) => {
            bytes[HASH_AT..HASH_AT + IPV4_LEN].copy_from_slice(&client);
            keyed.hash(&bytes[..HASH_AT + IPV4_LEN])
        }
        Err(_) => {
            bytes[HASH_AT..].copy_from_slice(client);
            keyed.hash(&bytes)
        }
    };
    hash.to_le_bytes()
}

/// The time for people: seconds since 1970, modulo 2^32.
///
/// The stages' clock counts from the start of the process and is a little fast or slow. A thread that reads
/// the system's clock now and then keeps the calendar right. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct Calendar {
    /// Unix time when the stages' clock showed zero.
    start: Arc<AtomicU32>,
}

impl Calendar {
    /// Says that it is `unix` now, `seconds` after the start of the process.
    pub fn set(&self, unix: u32, seconds: u32) {
        let start = unix.wrapping_sub(seconds);
        if self.start.load(Ordering::Relaxed) != start {
            self.start.store(start, Ordering::Relaxed);
        }
    }

    /// Unix time `seconds` after the start of the process.
    #[inline]
    pub fn unix(&self, seconds: u32) -> u32 {
        self.start.load(Ordering::Relaxed).wrapping_add(seconds)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use super::*;

    /// One of RFC 9018's examples.
    struct Example {
        secret: &'static str,
        client: &'static str,
        /// When the query came, in seconds since 1970.
        now: u32,
        query: &'static str,
        answer: &'static str,
        sent: SentCookie,
    }

    const FIRST_SECRET: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";
    const OLD_SECRET: &str = "dd3bdf9344b678b185a6f5cb60fca715";
    const NEW_SECRET: &str = "445536bcd2513298075a5d379663c962";
    const CLIENT_V6: &str = "2001:db8:220:1:59de:d0f4:8769:82b8";

    fn bytes(hex: &str) -> Vec<u8> {
        let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    fn secret(hex: &str) -> [u8; 16] {
        bytes(hex).try_into().unwrap()
    }

    fn cookies(made_with: &str, accepted: Option<&str>) -> Cookies {
        Cookies::new(secret(made_with), accepted.map(secret), false, Calendar::default())
    }

    fn octets(client: &str) -> Vec<u8> {
        match client.parse().unwrap() {
            IpAddr::V4(address) => Ipv4Addr::octets(&address).to_vec(),
            IpAddr::V6(address) => Ipv6Addr::octets(&address).to_vec(),
        }
    }

    #[test]
    fn the_examples_of_rfc_9018_appendix_a() {
        let examples = [
            Example {
                secret: FIRST_SECRET,
                client: "198.51.100.100",
                now: 1_559_731_985,
                query: "2464c4abcf10c957",
                answer: "2464c4abcf10c957010000005cf79f111f8130c3eee29480",
                sent: SentCookie::ClientCookie,
            },
            Example {
                secret: FIRST_SECRET,
                client: "198.51.100.100",
                now: 1_559_734_385,
                query: "2464c4abcf10c957010000005cf79f111f8130c3eee29480",
                answer: "2464c4abcf10c957010000005cf7a871d4a564a1442aca77",
                sent: SentCookie::Right,
            },
            // Nearly two hours old: by section 4.3 that is too old, whatever the example's server thinks.
            Example {
                secret: FIRST_SECRET,
                client: "203.0.113.203",
                now: 1_559_734_700,
                query: "fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5",
                answer: "fc93fc62807ddb86010000005cf7a9acf73a7810aca2381e",
                sent: SentCookie::Wrong,
            },
            Example {
                secret: NEW_SECRET,
                client: CLIENT_V6,
                now: 1_559_741_961,
                query: "22681ab97d52c298010000005cf7c57926556bd0934c72f8",
                answer: "22681ab97d52c298010000005cf7c609a6bb79d16625507a",
                sent: SentCookie::Right,
            },
        ];
        for example in examples {
            let cookies = cookies(example.secret, Some(OLD_SECRET));
            let client = octets(example.client);
            let checked = cookies.check(&bytes(example.query), &client, example.now).unwrap();
            assert_eq!(checked.answer.as_slice(), bytes(example.answer), "{}", example.query);
            assert_eq!(checked.sent, example.sent, "{}", example.query);
            let again = cookies.check(&checked.answer, &client, example.now).unwrap();
            assert_eq!(
                again,
                Checked { sent: SentCookie::Right, ..checked },
                "and comes back as it went"
            );
        }
    }

    #[test]
    fn reserved_bytes_are_hashed_as_they_came() {
        let cookies = cookies(FIRST_SECRET, None);
        let cookie = bytes("fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5");
        let checked = cookies.check(&cookie, &octets("203.0.113.203"), 1_559_727_985).unwrap();
        assert_eq!((checked.sent, checked.answer.as_slice()), (SentCookie::Right, &*cookie));
    }

    #[test]
    fn a_cookie_is_right_for_an_hour_and_for_one_address() {
        let cookies = cookies(FIRST_SECRET, None);
        let client = octets("198.51.100.100");
        let made_at = 1_000_000_000;
        let cookie = cookies.check(&[7; 8], &client, made_at).unwrap().answer;
        for (age, sent, is_same) in [
            (-301, SentCookie::Wrong, false),
            (-300, SentCookie::Right, true),
            (0, SentCookie::Right, true),
            (1800, SentCookie::Right, true),
            (1801, SentCookie::Right, false),
            (3600, SentCookie::Right, false),
            (3601, SentCookie::Wrong, false),
        ] {
            let now = made_at.wrapping_add_signed(age);
            let checked = cookies.check(&cookie, &client, now).unwrap();
            assert_eq!((checked.sent, checked.answer == cookie), (sent, is_same), "{age} s old");
            assert_eq!(
                cookies.check(&checked.answer, &client, now).unwrap().sent,
                SentCookie::Right
            );
        }
        let elsewhere = cookies.check(&cookie, &octets("198.51.100.101"), made_at).unwrap();
        assert_eq!(elsewhere.sent, SentCookie::Wrong);
        for bit in 0..8 * COOKIE_LEN {
            let mut changed = cookie;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                cookies.check(&changed, &client, made_at).unwrap().sent,
                SentCookie::Wrong,
                "{bit}"
            );
        }
    }

    #[test]
    fn secrets_change_without_a_client_noticing() {
        let (old, new) = (cookies(OLD_SECRET, None), cookies(NEW_SECRET, Some(OLD_SECRET)));
        let client = octets(CLIENT_V6);
        let cookie = old.check(&[1; 8], &client, 5000).unwrap().answer;
        let checked = new.check(&cookie, &client, 5001).unwrap();
        assert_eq!(checked.sent, SentCookie::Right);
        assert_ne!(checked.answer, cookie, "a cookie of the new secret");
        assert_eq!(old.check(&checked.answer, &client, 5002).unwrap().sent, SentCookie::Wrong);
    }

    #[test]
    fn lengths_that_no_cookie_has_are_malformed() {
        let cookies = cookies(FIRST_SECRET, None);
        for length in 0..50 {
            let checked = cookies.check(&vec![1; length], &[10, 0, 0, 1], 0);
            let is_whole = length == 8 || (16..=40).contains(&length);
            assert_eq!(checked.is_some(), is_whole, "{length} bytes");
        }
    }

    #[test]
    fn a_calendar_is_corrected_for_all_who_have_it() {
        let calendar = Calendar::default();
        let clone = calendar.clone();
        calendar.set(1_700_000_100, 100);
        assert_eq!(clone.unix(160), 1_700_000_160);
        calendar.set(1_700_000_199, 200);
        assert_eq!(clone.unix(200), 1_700_000_199);
        calendar.set(5, 10);
        assert_eq!(clone.unix(10), 5, "also across the turn of 2106");
    }
}
