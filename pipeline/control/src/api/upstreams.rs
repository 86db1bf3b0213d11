//! The routes of upstreams.

use axum::Extension;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Answer, PATIENCE, WORK_PATIENCE};
use super::body::{Json, Part};
use super::guard::By;
use crate::answers::{Done, Upstreams};
use crate::{Call, Door, NewUpstream, UpstreamChange, UpstreamState};

/// Each of them, with its description.
pub(super) fn all() -> OpenApiRouter<Door> {
    OpenApiRouter::new()
        .routes(routes!(upstreams, add_upstream))
        .routes(routes!(set_upstream, remove_upstream))
}

/// The resolvers that are asked
#[utoipa::path(
    get, path = "/api/v1/upstreams", tag = "upstreams",
    responses((status = 200, body = Upstreams))
)]
async fn upstreams(State(door): State<Door>, Extension(by): Extension<By>) -> Answer {
    Answer(door.ask(Call::Upstreams, &by.0, PATIENCE).await)
}

/// Ask one more resolver, until the instance stops
///
/// One of the file that was removed comes back as the file has it.
#[utoipa::path(
    post, path = "/api/v1/upstreams", tag = "upstreams", request_body = NewUpstream,
    responses((status = 200, body = Done))
)]
async fn add_upstream(
    State(door): State<Door>,
    Extension(by): Extension<By>,
    Json(new): Json<NewUpstream>,
) -> Answer {
    change(&door, &by, UpstreamChange::Add(new)).await
}

/// Drain a resolver, ask it again, or give it another share of the questions
#[utoipa::path(
    patch, path = "/api/v1/upstreams/{address}", tag = "upstreams", request_body = UpstreamState,
    params(("address" = String, Path, description = "Its address, as it is configured")),
    responses((status = 200, body = Done))
)]
async fn set_upstream(
    State(door): State<Door>,
    Extension(by): Extension<By>,
    Part(address): Part,
    Json(state): Json<UpstreamState>,
) -> Answer {
    change(&door, &by, UpstreamChange::Set(address, state)).await
}

/// Ask a resolver no more, until the instance stops
#[utoipa::path(
    delete, path = "/api/v1/upstreams/{address}", tag = "upstreams",
    params(("address" = String, Path, description = "Its address, as it is configured")),
    responses((status = 200, body = Done))
)]
async fn remove_upstream(
    State(door): State<Door>,
    Extension(by): Extension<By>,
    Part(address): Part,
) -> Answer {
    change(&door, &by, UpstreamChange::Remove(address)).await
}

async fn change(door: &Door, by: &By, change: UpstreamChange) -> Answer {
    Answer(door.ask(Call::ChangeUpstream(change), &by.0, WORK_PATIENCE).await)
}
