//! Calls as requests over HTTP: the opposite of the routes of the [API](crate::api).

use axum::body::{Body, HttpBody as _};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, TE, TRANSFER_ENCODING};
use axum::http::{self, Request};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::{Value, json};

use crate::Call;
use crate::call::UNTIL_RESTART;
use crate::entries::EntryView;

/// What the request of a call says besides its route.
#[derive(Debug, Default)]
struct RequestParts {
    /// The value for the part of the path in braces.
    part: Option<String>,
    /// The parameters behind the path.
    query: String,
    /// The body.
    json: Option<Value>,
}

impl RequestParts {
    fn part(part: &str) -> Self {
        Self { part: Some(part.to_owned()), ..Self::default() }
    }

    /// These have neither maps nor lists in them, so there is always a text.
    fn query(query: impl Serialize) -> Self {
        Self { query: serde_urlencoded::to_string(query).unwrap_or_default(), ..Self::default() }
    }

    fn json(json: Value) -> Self {
        Self { json: Some(json), ..Self::default() }
    }
}

/// The request of a call, to the server of this name, with the token if one is needed. A change of run time may be one that ends
/// with the process. `body` is for a call without words of its
/// own in the body.
pub(crate) fn request(
    call: &Call,
    until_restart: bool,
    server: (&str, Option<&str>),
    body: Body,
) -> http::Result<Request<Body>> {
    let (host, token) = server;
    let (route, RequestParts { part, mut query, json }) = (call.route(), words(call));
    if until_restart && route.is_kept {
        let end = if query.is_empty() { "" } else { "&" };
        query += &format!("{end}{UNTIL_RESTART}=true");
    }
    let mut target = String::new();
    for piece in route.path.split_inclusive(['{', '}']) {
        match (piece.strip_suffix('{'), piece.strip_suffix('}')) {
            (Some(before), _) => target += before,
            (_, Some(_)) => {
                let part = part.as_deref().unwrap_or_default();
                target.extend(utf8_percent_encode(part, NON_ALPHANUMERIC));
            }
            _ => target += piece,
        }
    }
    if !query.is_empty() {
        target = format!("{target}?{query}");
    }
    let mut request = Request::builder().method(route.method).uri(target);
    request = request.header(HOST, host).header(TE, "trailers");
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    match json {
        None if body.is_end_stream() => request.body(body),
        // Of a `GET` nothing would be sent otherwise.
        None => request.header(TRANSFER_ENCODING, "chunked").body(body),
        Some(json) => {
            request.header(CONTENT_TYPE, "application/json").body(json.to_string().into())
        }
    }
}

fn words(call: &Call) -> RequestParts {
    match call {
        Call::State
        | Call::Stats
        | Call::Health
        | Call::Drain
        | Call::Resume
        | Call::Standby
        | Call::Activate
        | Call::Reload
        | Call::Upgrade
        | Call::Config
        | Call::ConfigDiff
        | Call::Views
        | Call::Upstreams
        | Call::Lists
        | Call::Crashes
        | Call::CacheDump
        | Call::CacheLoad
        | Call::Floods
        | Call::Limits => RequestParts::default(),
        Call::RemoveUpstream(part)
        | Call::RefreshList(part)
        | Call::RemoveList(part)
        | Call::FindClient(part)
        | Call::Unlimit(part) => RequestParts::part(part),
        Call::RemoveEntry(choice) => {
            let view = RequestParts::query(EntryView { view: choice.view.clone() });
            RequestParts { part: Some(choice.name.clone()), ..view }
        }
        Call::SetUpstream(address, state) => {
            RequestParts { part: Some(address.clone()), ..RequestParts::json(json!(state)) }
        }
        Call::RemoveClient(prefix) => RequestParts::query([("prefix", prefix)]),
        Call::Entries(page) | Call::Records(page) | Call::Clients(page) => {
            RequestParts::query(page)
        }
        Call::RemoveRecords(choice) => RequestParts::query(choice),
        Call::Lookup(search) => RequestParts::query(search),
        Call::Log(search) => RequestParts::query(search),
        Call::Trace(search) | Call::Capture(search) => RequestParts::query(search),
        Call::Cache(search) => RequestParts::query(search),
        Call::Hitters(query) => RequestParts::query(query),
        Call::AddUpstream(new) => RequestParts::json(json!(new)),
        Call::AddList(new) => RequestParts::json(json!(new)),
        Call::AddEntries(entries) => RequestParts::json(json!({ "entries": entries })),
        Call::AddRecords(records) => RequestParts::json(json!({ "records": records })),
        Call::ChangeClients(clients) => RequestParts::json(json!({ "clients": clients })),
        Call::Purge(order) => RequestParts::json(json!(order)),
        Call::Limit(order) => RequestParts::json(json!(order)),
    }
}
