//! Routes about the node: whether it is fit to serve, and whether clients shall come to it.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Answer, PATIENCE};
use super::guard::By;
use super::problem::Problem;
use crate::answers::Done;
use crate::health::{Health, State as NodeState};
use crate::{Call, Door, Reply};

pub(super) fn routes() -> OpenApiRouter<Door> {
    OpenApiRouter::default().routes(routes!(health)).routes(routes!(drain)).routes(routes!(resume))
}

/// Whether this node is fit to serve
///
/// The status is 503 if it is not, or if it is drained.
#[utoipa::path(
    get, path = "/api/v1/health", tag = "instance",
    responses(
        (status = 200, body = Health),
        (status = 503, description = "It is not fit, or is drained; as a problem: the instance stops.", content(
            (Health = "application/json"),
            (Problem = "application/problem+json"),
        )),
    )
)]
async fn health(State(door): State<Door>, Extension(by): Extension<By>) -> Response {
    let reply = door.ask(Call::Health, &by.0, PATIENCE).await;
    let is_unfit = match &reply {
        Reply::Json(json) => serde_json::from_str(json).is_ok_and(|health: Health| !health.healthy),
        _ => false,
    };
    match is_unfit {
        true => (StatusCode::SERVICE_UNAVAILABLE, Answer(reply)).into_response(),
        false => Answer(reply).into_response(),
    }
}

/// Have clients sent to other nodes
///
/// Queries that come are answered as before. The health is 503, so that routes are withdrawn.
#[utoipa::path(post, path = "/api/v1/drain", tag = "instance", responses((status = 200, body = Done)))]
async fn drain(State(door): State<Door>, Extension(by): Extension<By>) -> Answer {
    Answer(door.ask(Call::SetState(NodeState::Drained), &by.0, PATIENCE).await)
}

/// Have clients come again
#[utoipa::path(post, path = "/api/v1/resume", tag = "instance", responses((status = 200, body = Done)))]
async fn resume(State(door): State<Door>, Extension(by): Extension<By>) -> Answer {
    Answer(door.ask(Call::SetState(NodeState::Serving), &by.0, PATIENCE).await)
}
