//! Routes about the node: whether it is fit to serve, and whether clients shall come to it.

use axum::Extension;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::CallResponse;
use super::guard::By;
use super::problem::ProblemDetails;
use crate::health::NodeHealth;
use crate::{Call, CallSender};

pub(super) fn routes() -> OpenApiRouter<CallSender> {
    OpenApiRouter::default()
        .routes(routes!(health))
        .routes(routes!(drain))
        .routes(routes!(resume))
        .routes(routes!(standby))
        .routes(routes!(activate))
}

/// Whether this node is fit to serve
///
/// The status is 503 if it is not, or if it is drained.
#[utoipa::path(
    get, path = "/api/v1/health", tag = "instance",
    responses((status = 503, description = "It is not fit, or is drained; as a problem: the instance stops.", content(
        (NodeHealth = "application/json"),
        (ProblemDetails = "application/problem+json"),
    )))
)]
async fn health(State(calls): State<CallSender>, Extension(by): Extension<By>) -> CallResponse {
    CallResponse(calls.ask(Call::Health, &by.name).await)
}

/// Have clients sent to other nodes
///
/// Queries that come are answered as before. The health is 503, so that routes are withdrawn.
#[utoipa::path(post, path = "/api/v1/drain", tag = "instance")]
async fn drain(State(calls): State<CallSender>, Extension(by): Extension<By>) -> CallResponse {
    CallResponse(calls.ask(Call::Drain, &by.name).await)
}

/// Have clients come again
#[utoipa::path(post, path = "/api/v1/resume", tag = "instance")]
async fn resume(State(calls): State<CallSender>, Extension(by): Extension<By>) -> CallResponse {
    CallResponse(calls.ask(Call::Resume, &by.name).await)
}

/// Claim the addresses of the ports no more
///
/// Neighbours that ask for them (ARP, neighbour discovery) get no answer. Queries that come are answered as before.
#[utoipa::path(post, path = "/api/v1/standby", tag = "instance")]
async fn standby(State(calls): State<CallSender>, Extension(by): Extension<By>) -> CallResponse {
    CallResponse(calls.ask(Call::Standby, &by.name).await)
}

/// Claim the addresses of the ports
///
/// They are announced at once on all ports and VLANs, each three times, also if they were claimed before.
#[utoipa::path(post, path = "/api/v1/activate", tag = "instance")]
async fn activate(State(calls): State<CallSender>, Extension(by): Extension<By>) -> CallResponse {
    CallResponse(calls.ask(Call::Activate, &by.name).await)
}
