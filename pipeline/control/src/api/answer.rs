//! How requests end: with the answer to a call, or as a problem.

use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::problem::{Problem, Unasked};
use crate::{Refusal, Reply};

/// How long the main thread may take for what it knows.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// How long it may take for a reload or a purge.
pub(super) const WORK_PATIENCE: Duration = Duration::from_secs(300);

/// An answer to a call.
pub(super) struct Answer(pub(super) Reply);

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let json = match self.0 {
            Reply::Json(json) => json,
            Reply::Done(done) => serde_json::json!({ "done": done }).to_string(),
            Reply::Entries(done) => return Self(Reply::of(&done)).into_response(),
            Reply::Refused(refusal, why) => {
                let mut response = Problem::from((refusal, why)).into_response();
                response.extensions_mut().remove::<Unasked>();
                return response;
            }
        };
        ([(CONTENT_TYPE, "application/json")], json).into_response()
    }
}

/// How every request may end that is not answered as it was meant.
#[derive(utoipa::IntoResponses)]
#[expect(dead_code, reason = "only described, and never made")]
pub(super) enum Refusals {
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

pub(super) fn wrong(why: String) -> Reply {
    Reply::Refused(Refusal::Wrong, why)
}
