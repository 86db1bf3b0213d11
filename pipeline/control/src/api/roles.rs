//! The role that each route needs. A route without a row needs the highest one, and a test finds it.

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use pmdns_config::Role;
use utoipa::openapi::OpenApi as Description;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{Operation, PathItem};

use crate::Call;

/// The name of the extension that has a route's role in the description.
const EXTENSION: &str = "x-role";

/// A method, a path, and the role.
type Row = (Method, &'static str, Role);

/// What is no call.
const OTHERS: [Row; 2] =
    [(Method::GET, "/api/openapi.json", Role::Figures), (Method::GET, "/api/v1/me", Role::Figures)];

/// Every row.
pub(super) fn rows() -> impl Iterator<Item = Row> {
    let calls = Call::ROUTES.iter().map(|route| (route.method.clone(), route.path, route.role));
    OTHERS.into_iter().chain(calls)
}

/// The role that a route needs.
pub(super) fn of(method: &Method, path: &str) -> Role {
    let row = rows().find(|(one, at, _)| one == method && *at == path);
    row.map_or(Role::Operate, |(.., role)| role)
}

/// The role that a request needs. Where there is nothing, any role is told so.
pub(super) fn needed(request: &Request) -> Role {
    let method = match *request.method() {
        Method::HEAD => &Method::GET,
        ref method => method,
    };
    let path = request.extensions().get::<MatchedPath>();
    path.map_or(Role::Figures, |path| of(method, path.as_str()))
}

/// The operations of a path, with their methods.
pub(super) fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let operations = [
        (Method::GET, item.get.as_mut()),
        (Method::POST, item.post.as_mut()),
        (Method::PATCH, item.patch.as_mut()),
        (Method::PUT, item.put.as_mut()),
        (Method::DELETE, item.delete.as_mut()),
    ];
    operations.into_iter().filter_map(|(method, operation)| Some((method, operation?)))
}

/// Writes the roles into the description.
pub(super) fn describe(description: &mut Description) {
    for (path, item) in &mut description.paths.paths {
        for (method, operation) in operations(item) {
            let role = of(&method, path).to_string();
            operation.extensions = Some(ExtensionsBuilder::new().add(EXTENSION, role).build());
        }
    }
}
