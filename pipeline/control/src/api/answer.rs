//! How requests end: with the answer to a call, or as a problem.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::problem::{ProblemDetails, Unasked};
use crate::{CallReply, Refusal};

/// An answer to a call.
pub(super) struct Answer(pub(super) CallReply);

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let json = match self.0 {
            CallReply::Json(json) => json,
            CallReply::Done(done) => serde_json::json!({ "done": done }).to_string(),
            CallReply::Entries(done) => return Self(CallReply::of(&done)).into_response(),
            CallReply::Health(health) => {
                let status = match health.healthy {
                    true => StatusCode::OK,
                    false => StatusCode::SERVICE_UNAVAILABLE,
                };
                return (status, Self(CallReply::of(&health))).into_response();
            }
            CallReply::Refused(refusal, why) => {
                let mut response = ProblemDetails::from((refusal, why)).into_response();
                response.extensions_mut().remove::<Unasked>();
                return response;
            }
        };
        ([(CONTENT_TYPE, "application/json")], json).into_response()
    }
}

pub(super) fn wrong(why: String) -> CallReply {
    CallReply::Refused(Refusal::Wrong, why)
}
