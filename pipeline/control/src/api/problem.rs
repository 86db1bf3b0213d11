//! Errors, as problem details (RFC 9457).

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Refusal;

/// Why a request is not answered as it was meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemDetails {
    /// The kind of problem: no more than the status says.
    #[schema(example = "about:blank")]
    pub r#type: String,
    /// The name of the status.
    #[schema(example = "Unprocessable Entity")]
    pub title: String,
    /// The status.
    #[schema(minimum = 400, maximum = 599, example = 422)]
    pub status: u16,
    /// The problem, and its remedy.
    pub detail: String,
}

/// A request was refused before it became a call, which would have its line of the audit.
#[derive(Clone, Debug)]
pub(super) struct Unasked(pub(super) String);

impl ProblemDetails {
    /// A problem with this status.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or_default().to_owned();
        let r#type = "about:blank".to_owned();
        Self { r#type, title, status: status.as_u16(), detail: detail.into() }
    }
}

impl Refusal {
    fn status(self) -> StatusCode {
        match self {
            Self::Wrong => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Unknown => StatusCode::NOT_FOUND,
            Self::Unable => StatusCode::CONFLICT,
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::Stopping => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl From<(Refusal, String)> for ProblemDetails {
    fn from((refusal, why): (Refusal, String)) -> Self {
        Self::new(refusal.status(), why)
    }
}

impl IntoResponse for ProblemDetails {
    fn into_response(self) -> Response {
        let why = Unasked(self.detail.clone());
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        response.extensions_mut().insert(why);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

pub(super) async fn no_such_path(uri: Uri) -> ProblemDetails {
    let path: String = uri.path().chars().take(100).collect();
    let detail = format!("there is nothing at {path}; /api/openapi.json lists what there is");
    ProblemDetails::new(StatusCode::NOT_FOUND, detail)
}

pub(super) async fn no_such_method(method: Method) -> ProblemDetails {
    let detail = format!("{method} means nothing here; the header Allow lists what does");
    ProblemDetails::new(StatusCode::METHOD_NOT_ALLOWED, detail)
}
