//! The input of a request: its body and the parameters of its address.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::problem::ProblemDetails;

/// The most bytes of a request's body: a thousand entries with long names.
pub const MAX_BODY: usize = 1 << 20;

/// How long a body may take to come.
const BODY_PATIENCE: Duration = Duration::from_secs(5);

/// The type of a body, without its parameters (RFC 9110 section 8.3.1).
pub fn media_type(headers: &HeaderMap) -> &str {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

/// A body of JSON.
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = ProblemDetails;

    async fn from_request(request: Request, state: &S) -> Result<Self, ProblemDetails> {
        let kind = media_type(request.headers());
        if !kind.eq_ignore_ascii_case("application/json") {
            let detail = "the body has to be JSON; send Content-Type: application/json";
            return Err(ProblemDetails::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
        }
        let bytes = match timeout(BODY_PATIENCE, Bytes::from_request(request, state)).await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(rejection)) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                let detail =
                    format!("the body has more than {MAX_BODY} bytes; send several requests");
                return Err(ProblemDetails::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
            }
            Ok(Err(_)) => {
                let detail = "the body could not be read to its end";
                return Err(ProblemDetails::new(StatusCode::BAD_REQUEST, detail));
            }
            Err(_) => {
                let detail = "the body did not come in time";
                return Err(ProblemDetails::new(StatusCode::REQUEST_TIMEOUT, detail));
            }
        };
        serde_json::from_slice(&bytes).map(Self).map_err(|error| {
            let status = match error.is_data() {
                true => StatusCode::UNPROCESSABLE_ENTITY,
                false => StatusCode::BAD_REQUEST,
            };
            ProblemDetails::new(status, format!("the body: {error}"))
        })
    }
}

/// The parameters behind the question mark.
pub(super) struct Parameters<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = ProblemDetails;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ProblemDetails> {
        let query = Query::from_request_parts(parts, state).await;
        query.map(|Query(parameters)| Self(parameters)).map_err(|rejection| {
            let detail = format!("the parameters: {}", rejection.body_text());
            ProblemDetails::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
        })
    }
}

/// A part of the path.
pub(super) struct PathPart(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for PathPart {
    type Rejection = ProblemDetails;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ProblemDetails> {
        let path = Path::from_request_parts(parts, state).await;
        path.map(|Path(part)| Self(part)).map_err(|rejection| {
            let detail = format!("the path: {}", rejection.body_text());
            ProblemDetails::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
        })
    }
}
