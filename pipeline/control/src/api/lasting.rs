//! How long changes hold. `until_restart=true` behind the path of a change of run time has it end with the process. It is the same
//! for all of these changes, so it is taken off before a route reads its own parameters.

use axum::extract::{MatchedPath, Request};
use axum::http::uri::PathAndQuery;
use axum::http::{Method, StatusCode, Uri};
use utoipa::openapi::path::{ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{OpenApi as Description, Required};

use super::problem::ProblemDetails;
use super::roles;
use crate::Call;
use crate::call::{CallRoute, UNTIL_RESTART};

/// Whether this is a change that is kept unless it is said otherwise.
fn is_kept(method: &Method, path: &str) -> bool {
    // Other methods are refused for being no call, whatever stands behind the path.
    let is_it = |row: &&CallRoute| row.method == *method && row.path == path;
    Call::ROUTES.iter().find(is_it).is_some_and(|row| row.is_kept)
}

/// Whether a route of such a change reads parameters of its own, and refuses others.
fn has_parameters(method: &Method, path: &str) -> bool {
    let paths = ["/api/v1/entries/{name}", "/api/v1/local", "/api/v1/clients"];
    *method == Method::DELETE && paths.contains(&path)
}

/// Takes the parameter off a request: whether its change is to end with the process.
pub(super) fn take(request: &mut Request) -> Result<bool, ProblemDetails> {
    let path = request.extensions().get::<MatchedPath>();
    let path = path.map(MatchedPath::as_str).filter(|path| is_kept(request.method(), path));
    let Some(path) = path else { return Ok(false) };
    let has_parameters = has_parameters(request.method(), path);
    let query = request.uri().query().unwrap_or_default();
    let name = |part: &&str| part.split('=').next() == Some(UNTIL_RESTART);
    let (ours, rest): (Vec<&str>, Vec<&str>) =
        query.split('&').filter(|part| !part.is_empty()).partition(name);
    let until_restart = match *ours {
        // What is misspelt must not make a change last.
        _ if !rest.is_empty() && !has_parameters => None,
        [] => return Ok(false),
        [one] => one.split_once('=').and_then(|(_, value)| value.parse().ok()),
        _ => None,
    };
    let others = if has_parameters { "" } else { ", and there is no other" };
    let detail = format!("the parameters: `{UNTIL_RESTART}` is once `true` or `false`{others}");
    let wrong = || ProblemDetails::new(StatusCode::UNPROCESSABLE_ENTITY, detail.clone());
    let until_restart = until_restart.ok_or_else(wrong)?;
    let mut target = request.uri().path().to_owned();
    if !rest.is_empty() {
        target = format!("{target}?{}", rest.join("&"));
    }
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(target).map_err(|_| wrong())?);
    *request.uri_mut() = Uri::from_parts(parts).map_err(|_| wrong())?;
    Ok(until_restart)
}

/// Writes the parameter into the description.
pub(super) fn describe(description: &mut Description) {
    let parameter = ParameterBuilder::new()
        .name(UNTIL_RESTART)
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .description(Some("Whether the change ends with the process; absent: it is kept."))
        .schema(Some(ObjectBuilder::new().schema_type(Type::Boolean)))
        .build();
    for (path, item) in &mut description.paths.paths {
        for (method, operation) in roles::operations(item) {
            if is_kept(&method, path) {
                operation.parameters.get_or_insert_default().push(parameter.clone().into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;

    use super::*;

    #[test]
    fn what_is_no_change_of_run_time_is_not_kept() {
        assert!(!is_kept(&Method::TRACE, "/api/v1/entries/{name}"), "it is no call");
        let kept: Vec<String> = Call::ROUTES
            .iter()
            .filter(|route| is_kept(&route.method, route.path))
            .map(|route| format!("{} {}", route.method, route.path.replace("/api/v1/", "")))
            .collect();
        assert_eq!(
            kept,
            [
                "POST upstreams",
                "PATCH upstreams/{address}",
                "DELETE upstreams/{address}",
                "POST lists",
                "DELETE lists/{name}",
                "POST entries",
                "DELETE entries/{name}",
                "POST local",
                "DELETE local",
                "POST clients",
                "DELETE clients",
                "POST limits",
                "DELETE limits/{zone}",
            ]
        );
    }

    #[tokio::test]
    async fn a_misspelt_parameter_is_refused_and_does_not_make_a_change_last() {
        let take_of = |mut request: Request| async move {
            let taken = take(&mut request).map_err(|problem| problem.status);
            format!("{taken:?} {}", request.uri()).into_response()
        };
        let routes = axum::Router::new()
            .route("/api/v1/entries", axum::routing::post(take_of))
            .route("/api/v1/local", axum::routing::delete(take_of));
        for (method, target, expected) in [
            ("POST", "entries", "Ok(false) /api/v1/entries"),
            ("POST", "entries?until_restart=true", "Ok(true) /api/v1/entries"),
            ("POST", "entries?until-restart=true", "Err(422) /api/v1/entries?until-restart=true"),
            ("POST", "entries?until%5Frestart=true", "Err(422) "),
            ("POST", "entries?until_restart=true&x=1", "Err(422) "),
            // This route refuses what it does not know.
            ("DELETE", "local?name=a&until_restart=true", "Ok(true) /api/v1/local?name=a"),
        ] {
            let request = Request::builder().method(method).uri(format!("/api/v1/{target}"));
            let request = request.body(axum::body::Body::empty()).unwrap();
            let answer = tower::ServiceExt::oneshot(routes.clone(), request).await.unwrap();
            let body = axum::body::to_bytes(answer.into_body(), 1000).await.unwrap();
            let said = String::from_utf8(body.to_vec()).unwrap();
            assert!(said.starts_with(expected), "{target}: {said}");
        }
    }
}
