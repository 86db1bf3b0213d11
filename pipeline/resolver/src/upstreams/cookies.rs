//! DNS cookies towards an upstream (RFC 7873). A query carries 64 bits that only the upstream sees, and its reply must
//! repeat them. A forger who does not see our queries has to guess them, beside port, id and letter case.
//!
//! An upstream that has sent a cookie is expected to send one in every reply. A reply without one may come from
//! anybody, so the question is asked over TCP (section 5.3). If the reply over TCP has none either, the upstream has
//! stopped using cookies, and they are not required for a while.
//!
//! Pure; the secret and time are arguments.

use std::hash::Hasher as _;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use arrayvec::ArrayVec;
use pmdns_config::limits::MAX_QUERY_SOURCES;
use pmdns_stages::wire::edns::{option, option_in};
use siphasher::sip::SipHasher24;

/// A client cookie (RFC 7873 section 4.1).
const CLIENT_LEN: usize = 8;
/// Server cookies (section 4.2).
const SERVER_LENS: RangeInclusive<usize> = 8..=32;
/// The longest data of the option.
pub(crate) const MAX_COOKIE: usize = CLIENT_LEN + *SERVER_LENS.end();
/// After so long without a cookie, an upstream is no longer expected to send one.
const MEMORY: Duration = Duration::from_secs(24 * 3600);
/// The most addresses of ours with a cookie at one upstream: the query sources of a port, and one of the kernel.
const MAX_STATES: usize = MAX_QUERY_SOURCES + 1;
/// How long cookies are not required after one was missing over TCP.
const LENIENCE: Duration = Duration::from_secs(3600);

/// The client cookie (RFC 7873 section 4.1). It differs for each upstream and each local address.
pub(crate) type ClientCookie = [u8; CLIENT_LEN];
/// The server cookie, made by the upstream.
pub(crate) type ServerCookie = ArrayVec<u8, { *SERVER_LENS.end() }>;

/// Makes client cookies.
#[derive(Clone, Debug)]
pub(crate) struct CookieSecret(SipHasher24);

impl CookieSecret {
    /// Its cookies cannot be predicted without `secret`.
    pub(crate) fn new(secret: [u8; 16]) -> Self {
        Self(SipHasher24::new_with_key(&secret))
    }

    /// The cookie for this upstream and source address (RFC 9018 section 3).
    pub(crate) fn cookie(&self, upstream: SocketAddr, source: IpAddr) -> ClientCookie {
        let mut hasher = self.0;
        for address in [upstream.ip(), source] {
            match address {
                IpAddr::V4(address) => hasher.write(&address.octets()),
                IpAddr::V6(address) => hasher.write(&address.octets()),
            }
        }
        hasher.write(&upstream.port().to_be_bytes());
        hasher.finish().to_be_bytes()
    }
}

/// The cookies of one upstream, by the client cookie. Each of our addresses has one of its own, and so has the address
/// that the kernel chooses.
#[derive(Clone, Debug, Default)]
pub(crate) struct CookieJar {
    states: ArrayVec<CookieState, MAX_STATES>,
    /// The client cookies that have been made, by the address they are for.
    clients: ArrayVec<(IpAddr, ClientCookie), MAX_STATES>,
    /// The state that makes room next.
    oldest: usize,
    lenient_until: Duration,
}

/// The state of the cookies from one of our addresses.
#[derive(Clone, Debug, Default)]
struct CookieState {
    /// The client cookie that `server` came for.
    client: ClientCookie,
    server: ServerCookie,
    /// When a reply last had one.
    seen: Duration,
}

/// The cookie of a query.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    client: ClientCookie,
    /// The data of the option.
    pub(crate) data: ArrayVec<u8, MAX_COOKIE>,
    /// Whether the reply must have a cookie.
    pub(crate) is_expected: bool,
}

/// The cookies for the next queries, from a reply with the cookie of its query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Learnt {
    client: ClientCookie,
    server: ServerCookie,
}

/// The cookie of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The query's.
    Right(Learnt),
    /// Another, or one that is malformed.
    Wrong,
    /// None.
    Missing,
}

impl CookieJar {
    /// The client cookie for an address of ours. It is made once.
    pub(crate) fn client(
        &mut self,
        source: IpAddr,
        make: impl FnOnce() -> ClientCookie,
    ) -> ClientCookie {
        let known = self.clients.iter().find(|(address, _)| *address == source);
        if let Some((_, client)) = known {
            return *client;
        }
        let client = make();
        // An address that finds no room has its cookie made for each query.
        let _ = self.clients.try_push((source, client));
        client
    }

    /// The cookie of a query that leaves now.
    pub(crate) fn take(&self, client: ClientCookie, now: Duration) -> Sent {
        let is_known = |state: &&CookieState| {
            state.client == client && now.saturating_sub(state.seen) < MEMORY
        };
        let known = self.states.iter().find(is_known);
        let server = known.map_or(&[][..], |state| &state.server);
        let mut data = ArrayVec::new();
        let both = [&client, server].map(|part| data.try_extend_from_slice(part));
        debug_assert!(both.iter().all(Result::is_ok), "there is room for both");
        Sent { client, data, is_expected: known.is_some() && now >= self.lenient_until }
    }

    /// A reply had the cookie of its query.
    pub(crate) fn learn(&mut self, Learnt { client, server }: Learnt, now: Duration) {
        let state = CookieState { client, server, seen: now };
        match self.states.iter().position(|known| known.client == client) {
            Some(known) => self.states[known] = state,
            None if !self.states.is_full() => self.states.push(state),
            None => {
                self.states[self.oldest] = state;
                self.oldest = (self.oldest + 1) % MAX_STATES;
            }
        }
    }

    /// A reply over a connection had none, and cannot be forged. `true`: cookies were expected until now.
    pub(crate) fn miss(&mut self, now: Duration) -> bool {
        let is_news = !self.states.is_empty();
        if is_news {
            self.states.clear();
            self.lenient_until = now + LENIENCE;
        }
        is_news
    }
}

impl Sent {
    /// The cookie in the reply to this query.
    pub(crate) fn shown_in(&self, reply: &[u8]) -> Shown {
        let Some(data) = option_in(reply, option::COOKIE) else { return Shown::Missing };
        match data.split_first_chunk::<CLIENT_LEN>() {
            // Some servers only repeat the client cookie, which is as hard to guess.
            Some((client, server))
                if *client == self.client
                    && (server.is_empty() || SERVER_LENS.contains(&server.len())) =>
            {
                Shown::Right(Learnt { client: *client, server: server.iter().copied().collect() })
            }
            _ => Shown::Wrong,
        }
    }
}

#[cfg(test)]
mod tests {
    use pmdns_stages::testing::query;

    use super::*;

    const START: Duration = Duration::from_secs(1000);
    const CLIENT: ClientCookie = *b"clientck";

    fn server(len: usize) -> ServerCookie {
        std::iter::repeat_n(7, len).collect()
    }

    fn learnt(len: usize) -> Learnt {
        Learnt { client: CLIENT, server: server(len) }
    }

    fn cookie(cookie_secret: &CookieSecret, upstream: &str, source: &str) -> ClientCookie {
        cookie_secret.cookie(upstream.parse().unwrap(), source.parse().unwrap())
    }

    /// What the reply with this option shows to a query with `CLIENT`.
    fn shown(data: &[u8]) -> Shown {
        let reply = query("www.example. A").edns(1232, false).option(option::COOKIE, data);
        CookieJar::default().take(CLIENT, START).shown_in(&reply.message())
    }

    #[test]
    fn a_client_cookie_is_for_one_upstream_and_one_of_our_addresses() {
        let cookie_secret = CookieSecret::new([1; 16]);
        let upstreams = ["192.0.2.1:53", "192.0.2.2:53", "192.0.2.1:54", "[2001:db8::1]:53"];
        let sources = ["192.0.2.9", "192.0.2.8", "2001:db8::9"];
        let mut cookies = std::collections::HashSet::new();
        for upstream in upstreams {
            for source in sources {
                cookies.insert(cookie(&cookie_secret, upstream, source));
            }
        }
        assert_eq!(cookies.len(), upstreams.len() * sources.len());
        let [same, other] = [1, 2].map(|secret| CookieSecret::new([secret; 16]));
        let of = |cookie_secret| cookie(cookie_secret, upstreams[0], sources[0]);
        assert_eq!(of(&cookie_secret), of(&same));
        assert_ne!(of(&cookie_secret), of(&other));
    }

    #[test]
    fn a_reply_shows_the_query_s_cookie_another_or_none() {
        for len in [8, 16, 32] {
            assert_eq!(shown(&[&CLIENT[..], &server(len)].concat()), Shown::Right(learnt(len)));
        }
        assert_eq!(shown(&CLIENT), Shown::Right(learnt(0)));
        for len in [1, 7, 33, 40] {
            assert_eq!(shown(&[&CLIENT[..], &vec![7; len]].concat()), Shown::Wrong, "{len}");
        }
        for bit in 0..64 {
            let mut other = CLIENT;
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(shown(&[&other[..], &server(8)].concat()), Shown::Wrong, "one bit");
        }
        assert_eq!(shown(&[]), Shown::Wrong);
        assert_eq!(shown(&CLIENT[..7]), Shown::Wrong);
        let without = query("www.example. A").edns(1232, false).message();
        assert_eq!(CookieJar::default().take(CLIENT, START).shown_in(&without), Shown::Missing);
    }

    #[test]
    fn who_has_shown_a_cookie_is_sent_it_back_and_expected_to_go_on() {
        let mut cookies = CookieJar::default();
        let first = cookies.take(CLIENT, START);
        assert!(first.data[..] == CLIENT && !first.is_expected);
        cookies.learn(learnt(16), START);
        let next = cookies.take(CLIENT, START + MEMORY / 2);
        assert_eq!(next.data[..], [&CLIENT[..], &server(16)].concat());
        assert!(next.is_expected);
        assert!(!cookies.take(*b"elsewher", START).is_expected, "asked from another address");
        let late = cookies.take(CLIENT, START + MEMORY);
        assert!(late.data[..] == CLIENT && !late.is_expected, "it may have been changed");
    }

    #[test]
    fn who_leaves_cookies_off_over_tcp_is_not_held_to_them_for_a_while() {
        let mut cookies = CookieJar::default();
        assert!(!cookies.miss(START), "nobody expected one");
        cookies.learn(learnt(8), START);
        assert!(cookies.miss(START) && !cookies.miss(START));
        assert!(!cookies.take(CLIENT, START).is_expected);
        cookies.learn(learnt(8), START);
        let soon = cookies.take(CLIENT, START + LENIENCE / 2);
        assert!(!soon.is_expected && soon.data.len() == 16, "it is sent all the same");
        assert!(cookies.take(CLIENT, START + LENIENCE).is_expected);
    }
}
