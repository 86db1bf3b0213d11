//! The HTTP API. `/api/openapi.json` describes it, made from the types that requests and answers have.
//!
//! A request passes the check of its Host header, then the limit of its address. Then come its token, the limit of the
//! token, and the role that its route needs. At last a route makes a [`Call`](crate::Call) of it.

mod answer;
mod body;
mod console;
mod explain;
mod guard;
mod hitters;
mod host;
mod lasting;
mod limit;
mod lists;
mod me;
mod node;
mod problem;
mod refusals;
mod roles;
mod routes;
#[cfg(test)]
mod tests;
mod tokens;
mod transfer;
mod upstreams;

use std::sync::Arc;

use axum::body::{Bytes, HttpBody};
use axum::http::{Request, Response};
use axum::middleware::from_fn_with_state;
use tower::ServiceExt as _;

use crate::CallSender;

pub use axum::Router;
pub use axum::body::Body;
pub use body::{MAX_BODY, media_type};
pub use guard::{Admitted, Guard, Peer};
pub use limit::Rate;
pub use problem::ProblemDetails;
pub use routes::description;
pub use tokens::{Tokens, TokensError};
pub use transfer::DONE;

/// The API behind `guard`, whose calls go to `calls`, and the web console if it is wanted. Every request needs a
/// [`Peer`] among its extensions.
pub fn router(calls: CallSender, guard: Arc<Guard>, has_console: bool) -> Router {
    let (routes, _) = routes::all().split_for_parts();
    let api = routes
        .fallback(problem::no_such_path)
        .method_not_allowed_fallback(problem::no_such_method)
        .with_state(calls)
        .layer(from_fn_with_state(Arc::clone(&guard), guard::pass));
    match has_console {
        true => {
            api.merge(console::router().layer(from_fn_with_state(guard, guard::pass_to_console)))
        }
        false => api,
    }
}

/// The answer to a request of `peer`.
pub async fn respond<B>(router: Router, peer: Peer, mut request: Request<B>) -> Response<Body>
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    request.extensions_mut().insert(peer);
    let answered = router.oneshot(request.map(Body::new)).await;
    answered.unwrap_or_else(|never| match never {})
}
