//! Routes that explain: the answer a client would get, the answers clients got, the packets that pass.

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Answer, wrong};
use super::body::Parameters;
use super::download::download;
use super::guard::By;
use crate::cache::{CachePage, CacheSearch, MAX_SHOWN};
use crate::lookup::{LookupReport, LookupRequest};
use crate::query_log::{LogPage, LogSearch, MAX_FOUND};
use crate::trace::{MAX_SECONDS, PacketSearch, TraceReport};
use crate::{Call, Door, Reply};

/// The most packets of a trace.
const MAX_TRACED: u32 = 1000;
/// The most packets of a capture, and as many as come without a wish.
const MAX_CAPTURED: u32 = 1_000_000;
const CAPTURED: u32 = 1000;
/// The latest time of an entry: the database has signed numbers.
const LATEST_US: u64 = i64::MAX.cast_unsigned();
/// How long a lookup may read block lists.
pub(super) const LOOKUP_PATIENCE: Duration = Duration::from_secs(60);
/// How long a search in the query log may take.
pub(super) const LOG_PATIENCE: Duration = Duration::from_secs(20);
/// How long a dump may take. It is longer than a connection lasts, so that no dump that has come whole is called late.
const DUMP_PATIENCE: Duration = Duration::from_secs(900);
/// How long packets take to their end, once no more are taken in.
const LINGER: Duration = Duration::from_secs(20);

pub(super) fn routes() -> OpenApiRouter<Door> {
    OpenApiRouter::default()
        .routes(routes!(lookup))
        .routes(routes!(log))
        .routes(routes!(trace))
        .routes(routes!(capture))
        .routes(routes!(cache))
        .routes(routes!(cache_dump))
}

/// The answer that a client would get, and why
///
/// No upstream is asked, and nothing is counted.
#[utoipa::path(
    get, path = "/api/v1/lookup", tag = "explain", params(LookupRequest),
    responses((status = 200, body = LookupReport))
)]
async fn lookup(
    State(door): State<Door>,
    Extension(by): Extension<By>,
    Parameters(request): Parameters<LookupRequest>,
) -> Answer {
    Answer(door.ask(Call::Lookup(request), &by.0, LOOKUP_PATIENCE).await)
}

/// Entries of the query log, the newest first
///
/// It needs `query_log.sqlite`; the status is 404 without.
#[utoipa::path(
    get, path = "/api/v1/log", tag = "explain", params(LogSearch),
    responses((status = 200, body = LogPage))
)]
async fn log(
    State(door): State<Door>,
    Extension(by): Extension<By>,
    Parameters(search): Parameters<LogSearch>,
) -> Answer {
    if [search.since_us, search.until_us].into_iter().flatten().any(|time| time > LATEST_US) {
        return Answer(wrong(format!(
            "a time is beyond {LATEST_US}; write microseconds since 1970"
        )));
    }
    Answer(match within("limit", search.limit, MAX_FOUND) {
        Ok(()) => door.ask(Call::Log(search), &by.0, LOG_PATIENCE).await,
        Err(refused) => refused,
    })
}

/// Packets as they pass, stage by stage
///
/// The answer comes when there are as many as wanted, or after the time.
#[utoipa::path(
    get, path = "/api/v1/trace", tag = "explain", params(PacketSearch),
    responses((status = 200, body = TraceReport))
)]
async fn trace(
    State(door): State<Door>,
    Extension(by): Extension<By>,
    Parameters(search): Parameters<PacketSearch>,
) -> Answer {
    Answer(match bounded(&search, MAX_TRACED) {
        Ok(patience) => door.ask(Call::Trace(search), &by.0, patience).await,
        Err(refused) => refused,
    })
}

/// Packets as they pass, as a capture (pcapng)
///
/// It ends when there are as many as wanted, after the time, or when the client leaves.
#[utoipa::path(
    get, path = "/api/v1/capture", tag = "explain", params(PacketSearch),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/x-pcapng"))
)]
async fn capture(
    State(door): State<Door>,
    Extension(By(by)): Extension<By>,
    Parameters(mut search): Parameters<PacketSearch>,
) -> Response {
    let patience = match bounded(&search, MAX_CAPTURED) {
        Ok(patience) => patience,
        Err(refused) => return Answer(refused).into_response(),
    };
    search.count.get_or_insert(CAPTURED);
    let kind = ["application/x-pcapng", "pmdns.pcapng"];
    download(door, Call::Capture(search), by, patience, kind).await
}

/// Answers in the cache
#[utoipa::path(
    get, path = "/api/v1/cache", tag = "cache", params(CacheSearch),
    responses((status = 200, body = CachePage))
)]
async fn cache(
    State(door): State<Door>,
    Extension(by): Extension<By>,
    Parameters(search): Parameters<CacheSearch>,
) -> Answer {
    Answer(match within("limit", Some(search.limit), MAX_SHOWN) {
        Ok(()) => door.ask(Call::Cache(search), &by.0, LOOKUP_PATIENCE).await,
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
async fn cache_dump(State(door): State<Door>, Extension(By(by)): Extension<By>) -> Response {
    let kind = ["application/octet-stream", "pmdns.cache"];
    download(door, Call::CacheDump, by, DUMP_PATIENCE, kind).await
}

/// How long an answer may take, if the search is within its bounds.
fn bounded(search: &PacketSearch, most: u32) -> Result<Duration, Reply> {
    within("count", search.count, most)?;
    within("seconds", Some(search.seconds), MAX_SECONDS)?;
    Ok(Duration::from_secs(search.seconds.into()) + LINGER)
}

fn within(what: &str, number: Option<u32>, most: u32) -> Result<(), Reply> {
    match number {
        Some(number) if !(1..=most).contains(&number) => {
            Err(wrong(format!("{what} is {number}; allowed: 1 to {most}")))
        }
        _ => Ok(()),
    }
}
