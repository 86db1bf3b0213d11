//! The statuses of each operation that refuse, for the description: no more than it can really end with.
//!
//! Most follow from what is described: a role, a body, parameters, a part of the path. The two tables have the rest, which
//! the engine decides.

use axum::http::Method;
use utoipa::IntoResponses as _;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::{OpenApi as Description, RefOr};

use super::problem::ProblemDetails;
use super::roles;

/// A method and a path.
type Row = (&'static str, &'static str);

/// There may be no such thing (404), where the path has no part that says so.
const MISSING: [Row; 4] = [
    ("get", "/api/v1/log"),
    ("post", "/api/v1/lists"),
    ("delete", "/api/v1/local"),
    ("delete", "/api/v1/clients"),
];

/// What is well asked may be impossible as things are (409): for want of a setting, of room, or of a disk that works.
const UNABLE: [Row; 27] = [
    ("post", "/api/v1/reload"),
    ("post", "/api/v1/upgrade"),
    ("post", "/api/v1/purge"),
    ("get", "/api/v1/cache"),
    ("get", "/api/v1/cache/dump"),
    ("post", "/api/v1/cache/load"),
    ("get", "/api/v1/lookup"),
    ("get", "/api/v1/log"),
    ("get", "/api/v1/capture"),
    ("get", "/api/v1/top"),
    ("get", "/api/v1/floods"),
    ("post", "/api/v1/limits"),
    ("delete", "/api/v1/limits/{zone}"),
    ("post", "/api/v1/entries"),
    ("delete", "/api/v1/entries/{name}"),
    ("post", "/api/v1/local"),
    ("delete", "/api/v1/local"),
    ("get", "/api/v1/clients"),
    ("post", "/api/v1/clients"),
    ("delete", "/api/v1/clients"),
    ("get", "/api/v1/clients/{address}"),
    ("post", "/api/v1/lists"),
    ("delete", "/api/v1/lists/{name}"),
    ("post", "/api/v1/lists/{name}/refresh"),
    ("post", "/api/v1/upstreams"),
    ("patch", "/api/v1/upstreams/{address}"),
    ("delete", "/api/v1/upstreams/{address}"),
];

/// Answered without the engine, which may be stopping (503).
const WITHOUT_ENGINE: [Row; 2] = [("get", "/api/openapi.json"), ("get", "/api/v1/me")];

/// How a request may end that is not answered as it was meant.
#[derive(utoipa::IntoResponses)]
#[expect(dead_code, reason = "only described, and never made")]
enum Refusals {
    /// The request is malformed.
    #[response(status = 400, content_type = "application/problem+json")]
    BadRequest(ProblemDetails),
    /// There is no token that counts.
    #[response(status = 401, content_type = "application/problem+json")]
    Unauthorized(ProblemDetails),
    /// The token's role does not allow it.
    #[response(status = 403, content_type = "application/problem+json")]
    Forbidden(ProblemDetails),
    /// There is no such thing.
    #[response(status = 404, content_type = "application/problem+json")]
    NotFound(ProblemDetails),
    /// The body did not come in time.
    #[response(status = 408, content_type = "application/problem+json")]
    RequestTimeout(ProblemDetails),
    /// It cannot be done as things are.
    #[response(status = 409, content_type = "application/problem+json")]
    Conflict(ProblemDetails),
    /// The body is too long.
    #[response(status = 413, content_type = "application/problem+json")]
    PayloadTooLarge(ProblemDetails),
    /// The body is no JSON.
    #[response(status = 415, content_type = "application/problem+json")]
    UnsupportedMediaType(ProblemDetails),
    /// The Host header names another server.
    #[response(status = 421, content_type = "application/problem+json")]
    MisdirectedRequest(ProblemDetails),
    /// What is asked means nothing here.
    #[response(status = 422, content_type = "application/problem+json")]
    UnprocessableEntity(ProblemDetails),
    /// Too much is asked.
    #[response(status = 429, content_type = "application/problem+json")]
    TooManyRequests(ProblemDetails),
    /// The instance stops.
    #[response(status = 503, content_type = "application/problem+json")]
    ServiceUnavailable(ProblemDetails),
}

/// Writes the statuses into the description.
pub(super) fn describe(description: &mut Description) {
    let all = Refusals::responses();
    for (path, item) in &mut description.paths.paths {
        for (method, operation) in roles::operations(item) {
            for status in statuses(&method, path, operation) {
                let described = operation.responses.responses.entry(status.to_owned());
                described.or_insert_with(|| all[status].clone());
            }
        }
    }
}

/// The statuses of an operation that refuse.
fn statuses(method: &Method, path: &str, operation: &Operation) -> Vec<&'static str> {
    let named = method.as_str().to_ascii_lowercase();
    let is_in = |rows: &[Row]| rows.contains(&(&*named, path));
    let mut parameters = operation.parameters.iter().flatten();
    let has_part =
        parameters.any(|one| matches!(one, RefOr::T(one) if one.parameter_in == ParameterIn::Path));
    let has_body = operation.request_body.is_some();
    let has_input = has_body || operation.parameters.is_some();
    let needs_role = roles::of(method, path) > pmdns_config::Role::Figures;
    let mut statuses = vec!["401", "421", "429"];
    statuses.extend(needs_role.then_some("403"));
    statuses.extend((has_part || is_in(&MISSING)).then_some("404"));
    statuses.extend(is_in(&UNABLE).then_some("409"));
    statuses.extend(has_input.then_some("422"));
    statuses.extend((!is_in(&WITHOUT_ENGINE)).then_some("503"));
    if has_body {
        statuses.extend(["400", "408", "413", "415"]);
    }
    statuses
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::api::description;

    #[test]
    fn d27_each_operation_has_its_own_statuses() {
        let description = serde_json::to_value(description()).unwrap();
        let paths = description["paths"].as_object().unwrap();
        let of = |method: &str, path: &str| -> Vec<u16> {
            let responses = paths[path][method]["responses"].as_object();
            let responses = responses.unwrap_or_else(|| panic!("there is no {method} {path}"));
            responses.keys().map(|status| status.parse().unwrap()).collect()
        };
        for (method, path, statuses) in [
            ("get", "/api/v1/me", vec![200, 401, 421, 429]),
            ("get", "/api/v1/state", vec![200, 401, 421, 429, 503]),
            ("get", "/api/v1/views", vec![200, 401, 403, 421, 429, 503]),
            ("get", "/api/v1/entries", vec![200, 401, 403, 421, 422, 429, 503]),
            ("get", "/api/v1/log", vec![200, 401, 403, 404, 409, 421, 422, 429, 503]),
            ("post", "/api/v1/reload", vec![200, 401, 403, 409, 421, 429, 503]),
            ("delete", "/api/v1/limits/{zone}", vec![200, 401, 403, 404, 409, 421, 422, 429, 503]),
            (
                "post",
                "/api/v1/purge",
                vec![200, 400, 401, 403, 408, 409, 413, 415, 421, 422, 429, 503],
            ),
        ] {
            assert_eq!(of(method, path), statuses, "{method} {path}");
        }
        let rows = MISSING.iter().chain(&UNABLE).chain(&WITHOUT_ENGINE);
        for (method, path) in rows {
            of(method, path);
        }
        let methods = paths.values().flat_map(|methods| methods.as_object().unwrap().values());
        let sets: BTreeSet<Vec<&String>> = methods
            .map(|operation: &Value| operation["responses"].as_object().unwrap().keys().collect())
            .collect();
        assert!(sets.len() >= 9, "{sets:?}");
    }
}
