//! The routes of heavy hitters, floods and limits on zones.

use axum::Extension;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{CallResponse, wrong};
use super::body::{Json, Parameters, PathPart};
use super::guard::By;
use crate::hitters::{HittersQuery, LimitOrder, MAX_ROWS};
use crate::{Call, CallSender};

/// Each of them, with its description.
pub(super) fn all() -> OpenApiRouter<CallSender> {
    OpenApiRouter::new()
        .routes(routes!(top))
        .routes(routes!(floods))
        .routes(routes!(limits, limit))
        .routes(routes!(unlimit))
}

/// Names, clients and zones that come most
#[utoipa::path(get, path = "/api/v1/top", tag = "traffic", params(HittersQuery))]
async fn top(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    Parameters(query): Parameters<HittersQuery>,
) -> CallResponse {
    CallResponse(match (1..=MAX_ROWS).contains(&query.n) {
        true => calls.ask(Call::Hitters(query), &by.name).await,
        false => wrong(format!("n is {}; allowed: 1 to {MAX_ROWS}", query.n)),
    })
}

/// Zones that are flooded with random names
#[utoipa::path(get, path = "/api/v1/floods", tag = "traffic")]
async fn floods(State(calls): State<CallSender>, Extension(by): Extension<By>) -> CallResponse {
    CallResponse(calls.ask(Call::Floods, &by.name).await)
}

/// Limits on misses by zone
#[utoipa::path(get, path = "/api/v1/limits", tag = "traffic")]
async fn limits(State(calls): State<CallSender>, Extension(by): Extension<By>) -> CallResponse {
    CallResponse(calls.ask(Call::Limits, &by.name).await)
}

/// Limit the misses of a zone
#[utoipa::path(post, path = "/api/v1/limits", tag = "traffic", request_body = LimitOrder)]
async fn limit(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    Json(order): Json<LimitOrder>,
) -> CallResponse {
    CallResponse(by.change(&calls, Call::Limit(order)).await)
}

/// Lift the limit of a zone
#[utoipa::path(
    delete, path = "/api/v1/limits/{zone}", tag = "traffic",
    params(("zone" = String, Path, description = "The zone"))
)]
async fn unlimit(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    PathPart(zone): PathPart,
) -> CallResponse {
    CallResponse(by.change(&calls, Call::Unlimit(zone)).await)
}
