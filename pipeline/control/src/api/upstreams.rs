//! The routes of upstreams.

use axum::Extension;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::CallResponse;
use super::body::{Json, PathPart};
use super::guard::By;
use crate::{Call, CallSender, NewUpstream, UpstreamState};

/// Each of them, with its description.
pub(super) fn all() -> OpenApiRouter<CallSender> {
    OpenApiRouter::new()
        .routes(routes!(upstreams, add_upstream))
        .routes(routes!(set_upstream, remove_upstream))
}

/// The resolvers that are asked
#[utoipa::path(get, path = "/api/v1/upstreams", tag = "upstreams")]
async fn upstreams(State(calls): State<CallSender>, Extension(by): Extension<By>) -> CallResponse {
    CallResponse(calls.ask(Call::Upstreams, &by.name).await)
}

/// Ask one more resolver
///
/// One of the file that was removed comes back as the file has it.
#[utoipa::path(post, path = "/api/v1/upstreams", tag = "upstreams", request_body = NewUpstream)]
async fn add_upstream(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    Json(new): Json<NewUpstream>,
) -> CallResponse {
    CallResponse(by.change(&calls, Call::AddUpstream(new)).await)
}

/// Drain a resolver, ask it again, or give it another share of the questions
#[utoipa::path(
    patch, path = "/api/v1/upstreams/{address}", tag = "upstreams", request_body = UpstreamState,
    params(("address" = String, Path, description = "Its address, as it is configured"))
)]
async fn set_upstream(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    PathPart(address): PathPart,
    Json(state): Json<UpstreamState>,
) -> CallResponse {
    CallResponse(by.change(&calls, Call::SetUpstream(address, state)).await)
}

/// Ask a resolver no more
#[utoipa::path(
    delete, path = "/api/v1/upstreams/{address}", tag = "upstreams",
    params(("address" = String, Path, description = "Its address, as it is configured"))
)]
async fn remove_upstream(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    PathPart(address): PathPart,
) -> CallResponse {
    CallResponse(by.change(&calls, Call::RemoveUpstream(address)).await)
}
