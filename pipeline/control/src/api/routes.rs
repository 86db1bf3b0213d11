//! The routes: each makes one call.

use axum::Extension;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{OpenApi as Description, RefOr, Schema};
use utoipa::{IntoParams, Modify, OpenApi, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{CallResponse, wrong};
use super::body::{Json, Parameters, PathPart};
use super::guard::By;
use super::problem::ProblemDetails;
use super::{answer, explain, hitters, lasting, lists, node, refusals, roles, upstreams};
use crate::entries::EntryView;
use crate::{
    Call, CallReply, CallSender, ClientChange, EntryChoice, EntryRequest, MAX_PAGE, Page,
    PurgeOrder, RecordChoice, RecordRequest, Refusal,
};

/// The most entries or records of one request.
const MAX_ADDED: usize = 1000;
/// The most changes of clients of one request.
const MAX_CLIENTS: usize = 10_000;

#[derive(OpenApi)]
#[openapi(
    info(title = "pmdns", description = "See, change and explain a running instance."),
    modifiers(&Tokens),
    components(schemas(ProblemDetails)),
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
pub(super) fn all() -> OpenApiRouter<CallSender> {
    OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(openapi))
        .routes(routes!(super::me::me))
        .routes(routes!(state))
        .routes(routes!(stats))
        .routes(routes!(reload))
        .routes(routes!(upgrade))
        .routes(routes!(purge))
        .routes(routes!(views))
        .merge(upstreams::all())
        .merge(lists::all())
        .routes(routes!(config))
        .routes(routes!(config_diff))
        .routes(routes!(entries, add_entries))
        .routes(routes!(remove_entry))
        .routes(routes!(records, add_records, remove_records))
        .merge(node::routes())
        .merge(explain::routes())
        .routes(routes!(clients, change_clients, remove_client))
        .routes(routes!(find_client))
        .merge(hitters::all())
}

/// The description of the API (OpenAPI 3.1).
pub fn description() -> Description {
    let mut description = all().to_openapi();
    answer::describe(&mut description);
    open_answers(&mut description);
    roles::describe(&mut description);
    lasting::describe(&mut description);
    refusals::describe(&mut description);
    description
}

/// An entry has more properties than the request that it came from, which allows no others.
fn open_answers(description: &mut Description) {
    let Some(components) = &mut description.components else { return };
    for (answer, request) in [("Entry", "EntryRequest"), ("Record", "RecordRequest")] {
        let Some(RefOr::T(Schema::Object(request))) = components.schemas.get(request) else {
            continue;
        };
        let mut open = request.clone();
        open.additional_properties = None;
        if let Some(RefOr::T(Schema::AllOf(parts))) = components.schemas.get_mut(answer) {
            let refers = |part: &&mut RefOr<Schema>| matches!(part, RefOr::Ref(_));
            parts.items.iter_mut().filter(refers).for_each(|part| *part = open.clone().into());
        }
    }
}

/// Names to block or to allow.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewEntries {
    /// Each replaces the entry of its name in the same view. Either all are taken, or none.
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

/// Prefixes to put into views, or to take out of the client table.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ClientChanges {
    /// Either all are made, or none.
    #[schema(min_items = 1, max_items = 10000)]
    clients: Vec<ClientChange>,
}

/// A prefix of the client table.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ClientChoice {
    /// The prefix, or an address.
    prefix: String,
}

/// The description of this API
#[utoipa::path(get, path = "/api/openapi.json", tag = "instance", responses((status = 200, body = Object)))]
async fn openapi() -> Response {
    let json = description().to_json().unwrap_or_default();
    ([(CONTENT_TYPE, "application/json")], json).into_response()
}

/// What runs, and since when
#[utoipa::path(get, path = "/api/v1/state", tag = "instance")]
async fn state(State(calls): State<CallSender>, Extension(by): Extension<By>) -> CallResponse {
    CallResponse(calls.ask(Call::State, &by.name).await)
}

/// Every counter, as docs/counters.md describes them
#[utoipa::path(get, path = "/api/v1/stats", tag = "instance")]
async fn stats(State(calls): State<CallSender>, Extension(by): Extension<By>) -> CallResponse {
    CallResponse(calls.ask(Call::Stats, &by.name).await)
}

/// Read the rules anew from the file
#[utoipa::path(post, path = "/api/v1/reload", tag = "instance")]
async fn reload(State(calls): State<CallSender>, Extension(by): Extension<By>) -> CallResponse {
    CallResponse(calls.ask(Call::Reload, &by.name).await)
}

/// Have the next process take over, with the program and the file as they are now
#[utoipa::path(post, path = "/api/v1/upgrade", tag = "instance")]
async fn upgrade(State(calls): State<CallSender>, Extension(by): Extension<By>) -> CallResponse {
    CallResponse(calls.ask(Call::Upgrade, &by.name).await)
}

/// Take answers out of the cache
#[utoipa::path(post, path = "/api/v1/purge", tag = "cache", request_body = PurgeOrder)]
async fn purge(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    Json(order): Json<PurgeOrder>,
) -> CallResponse {
    CallResponse(calls.ask(Call::Purge(order), &by.name).await)
}

/// The groups of clients
#[utoipa::path(get, path = "/api/v1/views", tag = "instance")]
async fn views(State(calls): State<CallSender>, Extension(by): Extension<By>) -> CallResponse {
    CallResponse(calls.ask(Call::Views, &by.name).await)
}

/// The configuration in use, without secrets
#[utoipa::path(get, path = "/api/v1/config", tag = "instance")]
async fn config(State(calls): State<CallSender>, Extension(by): Extension<By>) -> CallResponse {
    CallResponse(calls.ask(Call::Config, &by.name).await)
}

/// Where the file differs from the configuration in use
#[utoipa::path(get, path = "/api/v1/config/diff", tag = "instance")]
async fn config_diff(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
) -> CallResponse {
    CallResponse(calls.ask(Call::ConfigDiff, &by.name).await)
}

/// Names that are blocked or allowed at run time
#[utoipa::path(get, path = "/api/v1/entries", tag = "names", params(Page))]
async fn entries(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    Parameters(page): Parameters<Page>,
) -> CallResponse {
    CallResponse(match checked(page) {
        Ok(page) => calls.ask(Call::Entries(page), &by.name).await,
        Err(refused) => refused,
    })
}

/// Block or allow names
#[utoipa::path(post, path = "/api/v1/entries", tag = "names", request_body = NewEntries)]
async fn add_entries(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    Json(new): Json<NewEntries>,
) -> Result<CallResponse, ProblemDetails> {
    let entries = bounded(new.entries)?;
    Ok(CallResponse(by.change(&calls, Call::AddEntries(entries)).await))
}

/// Remove the entry of a name in a view, or the one of all views
#[utoipa::path(
    delete, path = "/api/v1/entries/{name}", tag = "names",
    params(("name" = String, Path, description = "The name"), EntryView)
)]
async fn remove_entry(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    PathPart(name): PathPart,
    Parameters(EntryView { view }): Parameters<EntryView>,
) -> CallResponse {
    let choice = EntryChoice { name, view };
    CallResponse(by.change(&calls, Call::RemoveEntry(choice)).await)
}

/// Local records of run time
#[utoipa::path(get, path = "/api/v1/local", tag = "names", params(Page))]
async fn records(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    Parameters(page): Parameters<Page>,
) -> CallResponse {
    CallResponse(match checked(page) {
        Ok(page) => calls.ask(Call::Records(page), &by.name).await,
        Err(refused) => refused,
    })
}

/// Add local records
#[utoipa::path(post, path = "/api/v1/local", tag = "names", request_body = NewRecords)]
async fn add_records(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    Json(new): Json<NewRecords>,
) -> Result<CallResponse, ProblemDetails> {
    let records = bounded(new.records)?;
    Ok(CallResponse(by.change(&calls, Call::AddRecords(records)).await))
}

/// Remove local records
#[utoipa::path(delete, path = "/api/v1/local", tag = "names", params(RecordChoice))]
async fn remove_records(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    Parameters(choice): Parameters<RecordChoice>,
) -> CallResponse {
    CallResponse(by.change(&calls, Call::RemoveRecords(choice)).await)
}

/// Prefixes of the client table
#[utoipa::path(get, path = "/api/v1/clients", tag = "clients", params(Page))]
async fn clients(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    Parameters(page): Parameters<Page>,
) -> CallResponse {
    CallResponse(match checked(page) {
        Ok(page) => calls.ask(Call::Clients(page), &by.name).await,
        Err(refused) => refused,
    })
}

/// Put clients into views, or take them out of the client table
#[utoipa::path(post, path = "/api/v1/clients", tag = "clients", request_body = ClientChanges)]
async fn change_clients(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    Json(new): Json<ClientChanges>,
) -> Result<CallResponse, ProblemDetails> {
    let changes = at_most(new.clients, MAX_CLIENTS)?;
    Ok(CallResponse(by.change(&calls, Call::ChangeClients(changes)).await))
}

/// Take a prefix out of the client table
#[utoipa::path(delete, path = "/api/v1/clients", tag = "clients", params(ClientChoice))]
async fn remove_client(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    Parameters(ClientChoice { prefix }): Parameters<ClientChoice>,
) -> CallResponse {
    CallResponse(by.change(&calls, Call::RemoveClient(prefix)).await)
}

/// The view that a client is in, and the prefix that decides
#[utoipa::path(
    get, path = "/api/v1/clients/{address}", tag = "clients",
    params(("address" = String, Path, description = "The client's address"))
)]
async fn find_client(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    PathPart(address): PathPart,
) -> CallResponse {
    CallResponse(calls.ask(Call::FindClient(address), &by.name).await)
}

fn checked(page: Page) -> Result<Page, CallReply> {
    match (1..=MAX_PAGE).contains(&page.limit) {
        true => Ok(page),
        false => Err(wrong(format!("limit is {}; allowed: 1 to {MAX_PAGE}", page.limit))),
    }
}

fn bounded<T>(added: Vec<T>) -> Result<Vec<T>, ProblemDetails> {
    at_most(added, MAX_ADDED)
}

fn at_most<T>(added: Vec<T>, most: usize) -> Result<Vec<T>, ProblemDetails> {
    match (1..=most).contains(&added.len()) {
        true => Ok(added),
        false => {
            let why = format!("there are {} of them; allowed: 1 to {most}", added.len());
            Err((Refusal::Wrong, why).into())
        }
    }
}
