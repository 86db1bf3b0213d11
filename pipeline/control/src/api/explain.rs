//! Routes that explain: the answer a client would get, the answers clients got, the packets that pass.

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{CallResponse, wrong};
use super::body::Parameters;
use super::guard::By;
use super::transfer::{EndOfBody, download, upload};
use crate::cache::{CacheSearch, MAX_SHOWN};
use crate::lookup::LookupRequest;
use crate::query_log::{LogSearch, MAX_FOUND};
use crate::sender::Enclosed;
use crate::trace::PacketSearch;
use crate::{Call, CallReply, CallSender};

/// The most packets of a trace.
const MAX_TRACED: u32 = 1000;
/// As many packets as a capture has without a wish.
const CAPTURED: u32 = 1000;
/// The latest time of an entry: the database has signed numbers.
const LATEST_US: u64 = i64::MAX.cast_unsigned();

pub(super) fn routes() -> OpenApiRouter<CallSender> {
    OpenApiRouter::default()
        .routes(routes!(lookup))
        .routes(routes!(log))
        .routes(routes!(trace))
        .routes(routes!(capture))
        .routes(routes!(crashes))
        .routes(routes!(cache))
        .routes(routes!(cache_dump))
        .routes(routes!(cache_load))
}

/// The answer that a client would get, and why
///
/// No upstream is asked, and nothing is counted.
#[utoipa::path(get, path = "/api/v1/lookup", tag = "explain", params(LookupRequest))]
async fn lookup(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    Parameters(request): Parameters<LookupRequest>,
) -> CallResponse {
    CallResponse(calls.ask(Call::Lookup(request), &by.name).await)
}

/// Entries of the query log, the newest first
///
/// It needs `query_log.sqlite`; the status is 404 without.
#[utoipa::path(get, path = "/api/v1/log", tag = "explain", params(LogSearch))]
async fn log(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    Parameters(search): Parameters<LogSearch>,
) -> CallResponse {
    if [search.since_us, search.until_us].into_iter().flatten().any(|time| time > LATEST_US) {
        return CallResponse(wrong(format!(
            "a time is beyond {LATEST_US}; write microseconds since 1970"
        )));
    }
    CallResponse(match within("limit", search.limit, MAX_FOUND) {
        Ok(()) => calls.ask(Call::Log(search), &by.name).await,
        Err(refused) => refused,
    })
}

/// Packets as they pass, stage by stage
///
/// The answer comes when there are as many as wanted, or after the time.
#[utoipa::path(get, path = "/api/v1/trace", tag = "explain", params(PacketSearch))]
async fn trace(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    Parameters(search): Parameters<PacketSearch>,
    request: Body,
) -> CallResponse {
    CallResponse(match bounded(&search, MAX_TRACED, &by) {
        Ok(()) => {
            let watch = EndOfBody::watch(request);
            let enclosed = Enclosed { has_left: watch.has_come(), ..Enclosed::default() };
            calls.ask_with(Call::Trace(search), &by.name, enclosed).await
        }
        Err(refused) => refused,
    })
}

/// Packets as they pass, as a capture (pcapng)
///
/// It ends when there are as many as wanted, after the time, or when the client leaves. The trailer `pmdns-done` says how many
/// there were.
#[utoipa::path(
    get, path = "/api/v1/capture", tag = "explain", params(PacketSearch),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/x-pcapng"))
)]
async fn capture(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    Parameters(mut search): Parameters<PacketSearch>,
    request: Body,
) -> Response {
    if let Err(refused) = bounded(&search, u32::MAX, &by) {
        return CallResponse(refused).into_response();
    }
    search.count.get_or_insert(CAPTURED);
    let kind = ["application/x-pcapng", "pmdns.pcapng"];
    download(calls, Call::Capture(search), by, request, kind).await
}

/// What crashes have left: the packets that data cores had in hand
///
/// The newest crash comes first, and there are at most eight. Without a keeper there are none.
#[utoipa::path(get, path = "/api/v1/crashes", tag = "explain")]
async fn crashes(State(calls): State<CallSender>, Extension(by): Extension<By>) -> CallResponse {
    CallResponse(calls.ask(Call::Crashes, &by.name).await)
}

/// Answers in the cache
#[utoipa::path(get, path = "/api/v1/cache", tag = "cache", params(CacheSearch))]
async fn cache(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    Parameters(search): Parameters<CacheSearch>,
) -> CallResponse {
    CallResponse(match within("limit", Some(search.limit), MAX_SHOWN) {
        Ok(()) => calls.ask(Call::Cache(search), &by.name).await,
        Err(refused) => refused,
    })
}

/// Every answer in the cache, as a file that an instance can load
///
/// There is one dump at a time; the status is 429 meanwhile. It ends when the client leaves, or reads nothing for five seconds.
#[utoipa::path(
    get, path = "/api/v1/cache/dump", tag = "cache",
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream"))
)]
async fn cache_dump(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    request: Body,
) -> Response {
    let kind = ["application/octet-stream", "pmdns.cache"];
    download(calls, Call::CacheDump, by, request, kind).await
}

/// Take in the answers of a dump
///
/// They are taken in as they come. Expired ones are left out, and those of views that mean something else now.
#[utoipa::path(
    post, path = "/api/v1/cache/load", tag = "cache",
    request_body(content = Vec<u8>, content_type = "application/octet-stream")
)]
async fn cache_load(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    request: Body,
) -> CallResponse {
    upload(calls, Call::CacheLoad, by, request).await
}

fn bounded(search: &PacketSearch, most: u32, by: &By) -> Result<(), CallReply> {
    within("count", search.count, most)?;
    within("seconds", Some(search.seconds), by.longest_watch)
}

fn within(what: &str, number: Option<u32>, most: u32) -> Result<(), CallReply> {
    match number {
        Some(number) if !(1..=most).contains(&number) => {
            Err(wrong(format!("{what} is {number}; allowed: 1 to {most}")))
        }
        _ => Ok(()),
    }
}
