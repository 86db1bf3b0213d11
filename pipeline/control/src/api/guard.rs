//! Who may make which request, and how many.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use pmdns_config::Role;

use super::body::MAX_BODY;
use super::console;
use super::host::is_ours;
use super::lasting;
use super::limit::{Limit, Rate};
use super::problem::{ProblemDetails, Unasked};
use super::roles;
use super::tokens::Tokens;
use super::transfer::discard;
use crate::audit::Audit;
use crate::sender::Enclosed;
use crate::trace::{MAX_SECONDS, MAX_SECONDS_OF_USERS};
use crate::{Call, CallReply, CallSender};

/// Wrong tokens that one address may show in a second; twice as many at once.
const WRONG_TOKENS: Rate = Rate(5);

/// Wrong tokens that all addresses together may show in a second; twice as many at once.
const WRONG_TOKENS_IN_ALL: Rate = Rate(200);

/// Lines about refused requests in a second; twice as many at once. A flood from many addresses does not fill the log.
const LINES: Rate = Rate(5);

/// Files of the console that one address may fetch in a second; twice as many at once. A page has some fifteen.
const FILES: Rate = Rate(50);

/// What a page may do whose address is an answer of the API: nothing.
const API_POLICY: &str = "default-src 'none'; frame-ancestors 'none'";
/// Headers of every answer: nothing is kept, guessed or framed.
const HEADERS: [(HeaderName, &str); 4] = [
    (CACHE_CONTROL, "no-store"),
    (REFERRER_POLICY, "no-referrer"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
];

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// Over TCP.
    Address(IpAddr),
    /// A user of this machine over the unix socket, who may do everything.
    User(u32),
}

/// What a server does when a request over its connection has shown a token: it puts this into the extensions of the request.
#[derive(Clone)]
pub struct Admitted(Arc<dyn Fn() + Send + Sync>);

impl Admitted {
    /// Calls `note`.
    pub fn new(note: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(note))
    }
}

/// Who makes a request.
#[derive(Clone, Debug)]
pub(super) struct By {
    /// Its name, for the log and for entries.
    pub(super) name: String,
    /// The most seconds for which it may watch packets.
    pub(super) longest_watch: u32,
    /// Whether the change that it asks for is to end with the process.
    until_restart: bool,
}

impl By {
    fn new(name: String, longest_watch: u32) -> Self {
        Self { name, longest_watch, until_restart: false }
    }

    /// Makes a change of run time.
    pub(super) async fn change(&self, calls: &CallSender, call: Call) -> CallReply {
        let enclosed = Enclosed { until_restart: self.until_restart, ..Enclosed::default() };
        calls.ask_with(call, &self.name, enclosed).await
    }
}

/// The lines about refusals.
#[derive(Debug)]
struct Lines {
    limit: Limit<()>,
    left_out: u64,
}

impl Lines {
    /// How many lines were left out before this one; `None`: so is this one.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if !self.limit.admit((), now) {
            self.left_out += 1;
            return None;
        }
        Some(std::mem::take(&mut self.left_out))
    }
}

/// The guard before every request.
#[derive(Debug)]
pub struct Guard {
    /// Names by which this instance is asked, besides its addresses.
    hosts: Vec<String>,
    tokens: Mutex<Arc<Tokens>>,
    wrong: Mutex<Limit<IpAddr>>,
    wrong_in_all: Mutex<Limit<()>>,
    lines: Mutex<Lines>,
    bearers: Mutex<Limit<String>>,
    files: Mutex<Limit<IpAddr>>,
}

impl Guard {
    /// A guard that knows these names and tokens. Each token may ask at this rate.
    pub fn new(hosts: Vec<String>, tokens: Tokens, rate: Rate) -> Self {
        Self {
            hosts,
            tokens: Mutex::new(Arc::new(tokens)),
            wrong: Mutex::new(Limit::new(WRONG_TOKENS)),
            wrong_in_all: Mutex::new(Limit::new(WRONG_TOKENS_IN_ALL)),
            lines: Mutex::new(Lines { limit: Limit::new(LINES), left_out: 0 }),
            bearers: Mutex::new(Limit::new(rate)),
            files: Mutex::new(Limit::new(FILES)),
        }
    }

    /// Only these tokens count from now on.
    pub fn set_tokens(&self, tokens: Tokens) {
        *lock(&self.tokens) = Arc::new(tokens);
    }

    /// Who makes the request, and what it may do, if it may be made.
    fn admit(&self, request: &Request, now: Instant) -> Result<(By, Role), ProblemDetails> {
        let address = match request.extensions().get::<Peer>() {
            Some(Peer::User(user)) => {
                let name = format!("user {user}");
                return Ok((By::new(name, MAX_SECONDS_OF_USERS), Role::Operate));
            }
            Some(Peer::Address(address)) => *address,
            None => {
                return Err(ProblemDetails::new(StatusCode::FORBIDDEN, "nobody knows who asks"));
            }
        };
        self.check_host(request)?;
        let tokens = Arc::clone(&lock(&self.tokens));
        let bearer = secret_of(request.headers()).and_then(|secret| tokens.find(secret));
        let Some(bearer) = bearer else {
            // Who has a token pays nothing for others at the same address: programs of one host all have 127.0.0.1.
            if !lock(&self.wrong).admit(network_of(address), now) {
                return Err(too_many("this address"));
            }
            if !lock(&self.wrong_in_all).admit((), now) {
                return Err(too_many("who has no token"));
            }
            self.warn(&format!("{address} is refused: it has no token that counts"), now);
            let detail = "send a token of the configuration: Authorization: Bearer TOKEN";
            return Err(ProblemDetails::new(StatusCode::UNAUTHORIZED, detail));
        };
        if !lock(&self.bearers).admit(bearer.name.clone(), now) {
            return Err(too_many("this token"));
        }
        if let Some(Admitted(note)) = request.extensions().get() {
            note();
        }
        let name = format!("token {} from {address}", bearer.name);
        let needed = roles::needed(request);
        if bearer.role < needed {
            let (token, role) = (&bearer.name, bearer.role);
            let detail = format!("token {token} has the role {role}; this needs the role {needed}");
            Audit::refuse(&name, line_of(request), &detail);
            return Err(ProblemDetails::new(StatusCode::FORBIDDEN, detail));
        }
        Ok((By::new(name, MAX_SECONDS), bearer.role))
    }

    /// Whether a file of the console may be fetched. It needs no token and is not secret. Over the unix socket there is no
    /// console: without tokens nothing would stop a foreign page in the same browser.
    fn admit_to_console(&self, request: &Request, now: Instant) -> Result<(), ProblemDetails> {
        let Some(Peer::Address(address)) = request.extensions().get::<Peer>() else {
            let detail = "the console is served over TCP only: ask at `api.listen`";
            return Err(ProblemDetails::new(StatusCode::NOT_FOUND, detail));
        };
        self.check_host(request)?;
        match lock(&self.files).admit(network_of(*address), now) {
            true => Ok(()),
            false => Err(ProblemDetails::new(
                StatusCode::TOO_MANY_REQUESTS,
                "this address fetches the console too often; wait a second",
            )),
        }
    }

    /// Writes a line about a refusal, if there were few.
    fn warn(&self, line: &str, now: Instant) {
        if let Some(left_out) = lock(&self.lines).admit(now) {
            match left_out {
                0 => tracing::warn!("api: {line}"),
                _ => tracing::warn!("api: {line}; {left_out} more were refused before it"),
            }
        }
    }

    fn check_host(&self, request: &Request) -> Result<(), ProblemDetails> {
        match is_ours(request, &self.hosts) {
            true => Ok(()),
            false => Err(ProblemDetails::new(
                StatusCode::MISDIRECTED_REQUEST,
                "the Host header has to name an address of this server, localhost, or one of `api.hosts`",
            )),
        }
    }
}

/// Lets a request pass, or answers it.
pub(super) async fn pass(
    State(guard): State<Arc<Guard>>,
    mut request: Request,
    next: Next,
) -> Response {
    let response = match guard.admit(&request, Instant::now()) {
        Ok((mut by, role)) => {
            let change = (roles::needed(&request) == Role::Operate).then(|| line_of(&request));
            match lasting::take(&mut request) {
                Ok(until_restart) => by.until_restart = until_restart,
                Err(problem) => {
                    discard(request.into_body()).await;
                    Audit::refuse(&by.name, change.unwrap_or_default(), &problem.detail);
                    return protected(problem.into_response(), API_POLICY);
                }
            }
            request.extensions_mut().insert(by.clone());
            request.extensions_mut().insert(role);
            let limited = DefaultBodyLimit::max(MAX_BODY);
            limited.apply(&mut request);
            let mut response = next.run(request).await;
            let unasked = response.extensions_mut().remove::<Unasked>();
            if let (Some(change), Some(Unasked(why))) = (change, unasked) {
                Audit::refuse(&by.name, change, &why);
            }
            response
        }
        Err(problem) => {
            discard(request.into_body()).await;
            let is_unknown = problem.status == StatusCode::UNAUTHORIZED.as_u16();
            let mut response = problem.into_response();
            if is_unknown {
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            response
        }
    };
    protected(response, API_POLICY)
}

/// Lets a request for a file of the console pass, or answers it.
pub(super) async fn pass_to_console(
    State(guard): State<Arc<Guard>>,
    request: Request,
    next: Next,
) -> Response {
    match guard.admit_to_console(&request, Instant::now()) {
        Ok(()) => protected(next.run(request).await, console::POLICY),
        Err(problem) => protected(problem.into_response(), API_POLICY),
    }
}

/// The answer with the headers that protect it in a browser.
fn protected(mut response: Response, policy: &'static str) -> Response {
    let headers = response.headers_mut();
    for (name, value) in HEADERS.into_iter().chain([(CONTENT_SECURITY_POLICY, policy)]) {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A request that became no call, for the audit.
fn line_of(request: &Request) -> String {
    format!("{} {}", request.method(), request.uri().path())
}

fn too_many(who: &str) -> ProblemDetails {
    let detail = format!("{who} asks too often; wait a second, or raise `api.requests_per_second`");
    ProblemDetails::new(StatusCode::TOO_MANY_REQUESTS, detail)
}

/// The token that a request shows (RFC 6750 section 2.1).
fn secret_of(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, secret) = headers.get(AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| secret.trim_ascii())
}

/// An IPv6 requester has a whole network of addresses: a site has a /48 (RFC 6177).
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 80 << 80).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn attack_n_a_flood_of_wrong_tokens_from_many_addresses_has_few_lines_and_an_end() {
        let guard = Guard::new(vec![], Tokens::default(), Rate(1));
        let start = Instant::now();
        let refused = |number: u32, at: Instant| {
            let mut request = Request::new(axum::body::Body::empty());
            request.headers_mut().insert("host", HeaderValue::from_static("127.0.0.1"));
            request.extensions_mut().insert(Peer::Address(IpAddr::from(number.to_be_bytes())));
            guard.admit(&request, at).unwrap_err().status
        };
        let answers: Vec<u16> = (0..40_000).map(|number| refused(number << 8, start)).collect();
        assert_eq!(answers.iter().filter(|status| **status == 401).count(), 400);
        assert_eq!(lock(&guard.lines).left_out, 390, "ten lines at once");
        let later = start + Duration::from_secs(1);
        assert_eq!(lock(&guard.lines).admit(later), Some(390));
    }

    #[test]
    fn attack_n_a_site_of_ipv6_is_one_requester() {
        let network = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(network("2001:db8:1:2::3"), network("2001:db8:1:ffff::4"));
        assert_ne!(network("2001:db8:1::1"), network("2001:db8:2::1"));
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
    }
}
