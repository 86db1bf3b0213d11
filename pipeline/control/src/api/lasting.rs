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
use crate::call::UNTIL_RESTART;

/// The paths below which changes are kept.
const KEPT: [&str; 6] = ["entries", "local", "clients", "upstreams", "lists", "limits"];

/// Whether this is a change that is kept unless it is said otherwise.
pub(crate) fn is_kept(method: &Method, path: &str) -> bool {
    let rest = path.strip_prefix("/api/v1/").unwrap_or_default();
    let first = rest.split('/').next().unwrap_or_default();
    *method != Method::GET && KEPT.contains(&first) && !rest.ends_with("/refresh")
}

/// Takes the parameter off a request: whether its change is to end with the process.
pub(super) fn take(request: &mut Request) -> Result<bool, ProblemDetails> {
    let path = request.extensions().get::<MatchedPath>();
    if !path.is_some_and(|path| is_kept(request.method(), path.as_str())) {
        return Ok(false);
    }
    let query = request.uri().query().unwrap_or_default();
    let name = |part: &&str| part.split('=').next() == Some(UNTIL_RESTART);
    let (ours, rest): (Vec<&str>, Vec<&str>) = query.split('&').partition(name);
    let until_restart = match *ours {
        [] => return Ok(false),
        [one] => one.split_once('=').and_then(|(_, value)| value.parse().ok()),
        _ => None,
    };
    let detail = format!("the parameters: `{UNTIL_RESTART}` is once `true` or `false`");
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
    use super::*;
    use crate::Call;

    #[test]
    fn what_is_no_change_of_run_time_is_not_kept() {
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
}
