//! The routes: each makes one call.

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::openapi::OpenApi as Description;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::body::{Json, Parameters, Part};
use super::guard::By;
use super::problem::Problem;
use crate::answers::{
    Configuration, Difference, Done, EntryPage, Lists, RecordPage, State as RunState, Upstreams,
    Views,
};
use crate::call::MAX_PAGE;
use crate::{
    Call, Door, EntryRequest, Page, PurgeOrder, RecordChoice, RecordRequest, Refusal, Reply,
};

/// How long the main thread may take for what it knows.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it may take for a reload or a purge.
const WORK_PATIENCE: Duration = Duration::from_secs(300);
/// The most entries or records of one request.
const MAX_ADDED: usize = 1000;

#[derive(OpenApi)]
#[openapi(
    info(title = "pmdns", description = "See, change and explain a running instance."),
    modifiers(&Tokens),
    security(("token" = []))
)]
struct Api;

struct Tokens;

impl Modify for Tokens {
    fn modify(&self, description: &mut Description) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = description.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

/// Every route, with its description.
pub(super) fn all() -> OpenApiRouter<Door> {
    OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(openapi))
        .routes(routes!(state))
        .routes(routes!(stats))
        .routes(routes!(reload))
        .routes(routes!(purge))
        .routes(routes!(views))
        .routes(routes!(upstreams))
        .routes(routes!(lists))
        .routes(routes!(config))
        .routes(routes!(config_diff))
        .routes(routes!(entries, add_entries))
        .routes(routes!(remove_entry))
        .routes(routes!(records, add_records, remove_records))
}

/// The description of the API (OpenAPI 3.1).
pub fn description() -> Description {
    all().to_openapi()
}

/// An answer to a call.
struct Answer(Reply);

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let json = match self.0 {
            Reply::Json(json) => json,
            Reply::Done(done) => serde_json::json!({ "done": done }).to_string(),
            Reply::Refused(refusal, why) => return Problem::from((refusal, why)).into_response(),
        };
        ([(CONTENT_TYPE, "application/json")], json).into_response()
    }
}

/// Names to block or to allow.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewEntries {
    /// Each replaces what was said of its name before. Either all are taken, or none.
    #[schema(min_items = 1, max_items = 1000)]
    entries: Vec<EntryRequest>,
}

/// Local records to add.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewRecords {
    /// Either all are taken, or none.
    #[schema(min_items = 1, max_items = 1000)]
    records: Vec<RecordRequest>,
}

/// The description of this API
#[utoipa::path(get, path = "/api/openapi.json", tag = "instance", responses((status = 200, body = Object), Refusals))]
async fn openapi() -> Response {
    let json = description().to_json().unwrap_or_default();
    ([(CONTENT_TYPE, "application/json")], json).into_response()
}

/// What runs, and since when
#[utoipa::path(get, path = "/api/v1/state", tag = "instance", responses((status = 200, body = RunState), Refusals))]
async fn state(State(door): State<Door>, Extension(by): Extension<By>) -> Answer {
    Answer(door.ask(Call::State, &by.0, PATIENCE).await)
}

/// Every counter, as docs/counters.md describes them
#[utoipa::path(get, path = "/api/v1/stats", tag = "instance", responses((status = 200, body = Object), Refusals))]
async fn stats(State(door): State<Door>, Extension(by): Extension<By>) -> Answer {
    Answer(door.ask(Call::Stats, &by.0, PATIENCE).await)
}

/// Read the rules anew from the file
#[utoipa::path(post, path = "/api/v1/reload", tag = "instance", responses((status = 200, body = Done), Refusals))]
async fn reload(State(door): State<Door>, Extension(by): Extension<By>) -> Answer {
    Answer(door.ask(Call::Reload, &by.0, WORK_PATIENCE).await)
}

/// Take answers out of the cache
#[utoipa::path(
    post, path = "/api/v1/purge", tag = "cache", request_body = PurgeOrder,
    responses((status = 200, body = Done), Refusals)
)]
async fn purge(
    State(door): State<Door>,
    Extension(by): Extension<By>,
    Json(order): Json<PurgeOrder>,
) -> Answer {
    Answer(door.ask(Call::Purge(order), &by.0, WORK_PATIENCE).await)
}

/// The groups of clients
#[utoipa::path(get, path = "/api/v1/views", tag = "instance", responses((status = 200, body = Views), Refusals))]
async fn views(State(door): State<Door>, Extension(by): Extension<By>) -> Answer {
    Answer(door.ask(Call::Views, &by.0, PATIENCE).await)
}

/// The resolvers that are asked
#[utoipa::path(
    get, path = "/api/v1/upstreams", tag = "instance",
    responses((status = 200, body = Upstreams), Refusals)
)]
async fn upstreams(State(door): State<Door>, Extension(by): Extension<By>) -> Answer {
    Answer(door.ask(Call::Upstreams, &by.0, PATIENCE).await)
}

/// The block lists
#[utoipa::path(get, path = "/api/v1/lists", tag = "names", responses((status = 200, body = Lists), Refusals))]
async fn lists(State(door): State<Door>, Extension(by): Extension<By>) -> Answer {
    Answer(door.ask(Call::Lists, &by.0, PATIENCE).await)
}

/// The configuration in use, without secrets
#[utoipa::path(
    get, path = "/api/v1/config", tag = "instance",
    responses((status = 200, body = Configuration), Refusals)
)]
async fn config(State(door): State<Door>, Extension(by): Extension<By>) -> Answer {
    Answer(door.ask(Call::Config, &by.0, PATIENCE).await)
}

/// Where the file differs from the configuration in use
#[utoipa::path(
    get, path = "/api/v1/config/diff", tag = "instance",
    responses((status = 200, body = Difference), Refusals)
)]
async fn config_diff(State(door): State<Door>, Extension(by): Extension<By>) -> Answer {
    Answer(door.ask(Call::ConfigDiff, &by.0, PATIENCE).await)
}

/// Names that are blocked or allowed at run time
#[utoipa::path(
    get, path = "/api/v1/entries", tag = "names", params(Page),
    responses((status = 200, body = EntryPage), Refusals)
)]
async fn entries(
    State(door): State<Door>,
    Extension(by): Extension<By>,
    Parameters(page): Parameters<Page>,
) -> Answer {
    Answer(match checked(page) {
        Ok(page) => door.ask(Call::Entries(page), &by.0, PATIENCE).await,
        Err(refused) => refused,
    })
}

/// Block or allow names
#[utoipa::path(
    post, path = "/api/v1/entries", tag = "names", request_body = NewEntries,
    responses((status = 200, body = Done), Refusals)
)]
async fn add_entries(
    State(door): State<Door>,
    Extension(by): Extension<By>,
    Json(new): Json<NewEntries>,
) -> Answer {
    Answer(match bounded(new.entries) {
        Ok(entries) => door.ask(Call::AddEntries(entries), &by.0, PATIENCE).await,
        Err(refused) => refused,
    })
}

/// Forget what was said of a name
#[utoipa::path(
    delete, path = "/api/v1/entries/{name}", tag = "names",
    params(("name" = String, Path, description = "The name")),
    responses((status = 200, body = Done), Refusals)
)]
async fn remove_entry(
    State(door): State<Door>,
    Extension(by): Extension<By>,
    Part(name): Part,
) -> Answer {
    Answer(door.ask(Call::RemoveEntry(name), &by.0, PATIENCE).await)
}

/// Local records of run time
#[utoipa::path(
    get, path = "/api/v1/local", tag = "names", params(Page),
    responses((status = 200, body = RecordPage), Refusals)
)]
async fn records(
    State(door): State<Door>,
    Extension(by): Extension<By>,
    Parameters(page): Parameters<Page>,
) -> Answer {
    Answer(match checked(page) {
        Ok(page) => door.ask(Call::Records(page), &by.0, PATIENCE).await,
        Err(refused) => refused,
    })
}

/// Add local records
#[utoipa::path(
    post, path = "/api/v1/local", tag = "names", request_body = NewRecords,
    responses((status = 200, body = Done), Refusals)
)]
async fn add_records(
    State(door): State<Door>,
    Extension(by): Extension<By>,
    Json(new): Json<NewRecords>,
) -> Answer {
    Answer(match bounded(new.records) {
        Ok(records) => door.ask(Call::AddRecords(records), &by.0, PATIENCE).await,
        Err(refused) => refused,
    })
}

/// Remove local records
#[utoipa::path(
    delete, path = "/api/v1/local", tag = "names", params(RecordChoice),
    responses((status = 200, body = Done), Refusals)
)]
async fn remove_records(
    State(door): State<Door>,
    Extension(by): Extension<By>,
    Parameters(choice): Parameters<RecordChoice>,
) -> Answer {
    Answer(door.ask(Call::RemoveRecords(choice), &by.0, PATIENCE).await)
}

/// How every request may end that is not answered as it was meant.
#[derive(utoipa::IntoResponses)]
#[expect(dead_code, reason = "only described, and never made")]
enum Refusals {
    /// The request is malformed.
    #[response(status = 400, content_type = "application/problem+json")]
    BadRequest(Problem),
    /// There is no token that counts.
    #[response(status = 401, content_type = "application/problem+json")]
    Unauthorized(Problem),
    /// The token's role does not allow it.
    #[response(status = 403, content_type = "application/problem+json")]
    Forbidden(Problem),
    /// There is no such thing.
    #[response(status = 404, content_type = "application/problem+json")]
    NotFound(Problem),
    /// The body did not come in time.
    #[response(status = 408, content_type = "application/problem+json")]
    RequestTimeout(Problem),
    /// It cannot be done as things are.
    #[response(status = 409, content_type = "application/problem+json")]
    Conflict(Problem),
    /// The body is too long.
    #[response(status = 413, content_type = "application/problem+json")]
    PayloadTooLarge(Problem),
    /// The body is no JSON.
    #[response(status = 415, content_type = "application/problem+json")]
    UnsupportedMediaType(Problem),
    /// The Host header names another server.
    #[response(status = 421, content_type = "application/problem+json")]
    MisdirectedRequest(Problem),
    /// What is asked means nothing here.
    #[response(status = 422, content_type = "application/problem+json")]
    UnprocessableEntity(Problem),
    /// Too much is asked.
    #[response(status = 429, content_type = "application/problem+json")]
    TooManyRequests(Problem),
    /// The instance stops.
    #[response(status = 503, content_type = "application/problem+json")]
    ServiceUnavailable(Problem),
}

fn checked(page: Page) -> Result<Page, Reply> {
    match (1..=MAX_PAGE).contains(&page.limit) {
        true => Ok(page),
        false => Err(wrong(format!("limit is {}; allowed: 1 to {MAX_PAGE}", page.limit))),
    }
}

fn bounded<T>(added: Vec<T>) -> Result<Vec<T>, Reply> {
    match (1..=MAX_ADDED).contains(&added.len()) {
        true => Ok(added),
        false => {
            Err(wrong(format!("there are {} of them; allowed: 1 to {MAX_ADDED}", added.len())))
        }
    }
}

fn wrong(why: String) -> Reply {
    Reply::Refused(Refusal::Wrong, why)
}
