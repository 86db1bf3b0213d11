//! How requests end: with the answer to a call, or as a problem.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::problem::{Problem, Unasked};
use crate::{Refusal, Reply};

/// An answer to a call.
pub(super) struct Answer(pub(super) Reply);

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let json = match self.0 {
            Reply::Json(json) => json,
            Reply::Done(done) => serde_json::json!({ "done": done }).to_string(),
            Reply::Entries(done) => return Self(Reply::of(&done)).into_response(),
            Reply::Health(health) => {
                let status = match health.healthy {
                    true => StatusCode::OK,
                    false => StatusCode::SERVICE_UNAVAILABLE,
                };
                return (status, Self(Reply::of(&health))).into_response();
            }
            Reply::Refused(refusal, why) => {
                let mut response = Problem::from((refusal, why)).into_response();
                response.extensions_mut().remove::<Unasked>();
                return response;
            }
        };
        ([(CONTENT_TYPE, "application/json")], json).into_response()
    }
}

pub(super) fn wrong(why: String) -> Reply {
    Reply::Refused(Refusal::Wrong, why)
}
