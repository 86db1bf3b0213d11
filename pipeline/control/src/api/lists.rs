//! The routes of block lists.

use axum::Extension;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::CallResponse;
use super::body::{Json, PathPart};
use super::guard::By;
use crate::{Call, CallSender, NewList};

/// Each of them, with its description.
pub(super) fn all() -> OpenApiRouter<CallSender> {
    OpenApiRouter::new()
        .routes(routes!(lists, add_list))
        .routes(routes!(remove_list))
        .routes(routes!(refresh_list))
}

/// The block lists
#[utoipa::path(get, path = "/api/v1/lists", tag = "names")]
async fn lists(State(calls): State<CallSender>, Extension(by): Extension<By>) -> CallResponse {
    CallResponse(calls.ask(Call::Lists, &by.name).await)
}

/// Fetch a list now
///
/// The answer comes when the list is there. The rules follow.
#[utoipa::path(
    post, path = "/api/v1/lists/{name}/refresh", tag = "names",
    params(("name" = String, Path, description = "The last part of the name of its file"))
)]
async fn refresh_list(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    PathPart(name): PathPart,
) -> CallResponse {
    CallResponse(calls.ask(Call::RefreshList(name), &by.name).await)
}

/// Block the names of one more list
///
/// It is fetched when the answer has come. Its file is in the folder `control.lists`.
#[utoipa::path(post, path = "/api/v1/lists", tag = "names", request_body = NewList)]
async fn add_list(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    Json(new): Json<NewList>,
) -> CallResponse {
    CallResponse(by.change(&calls, Call::AddList(new)).await)
}

/// Remove a list that was added at run time
#[utoipa::path(
    delete, path = "/api/v1/lists/{name}", tag = "names",
    params(("name" = String, Path, description = "Its name"))
)]
async fn remove_list(
    State(calls): State<CallSender>,
    Extension(by): Extension<By>,
    PathPart(name): PathPart,
) -> CallResponse {
    CallResponse(by.change(&calls, Call::RemoveList(name)).await)
}
