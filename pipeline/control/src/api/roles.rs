//! The role that each route needs. A route without a row needs the highest one, and a test finds it.

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use pmdns_config::Role;
use utoipa::openapi::OpenApi as Description;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{Operation, PathItem};

/// The name of the extension that has a route's role in the description.
const EXTENSION: &str = "x-role";

/// A method, a path, and the role.
type Row = (&'static str, &'static str, Role);

/// Counters and facts about the node: no name that clients ask for, and no address of theirs.
const FIGURES: [Row; 7] = [
    ("get", "/api/openapi.json", Role::Figures),
    ("get", "/api/v1/me", Role::Figures),
    ("get", "/api/v1/state", Role::Figures),
    ("get", "/api/v1/stats", Role::Figures),
    ("get", "/api/v1/health", Role::Figures),
    ("get", "/api/v1/upstreams", Role::Figures),
    ("get", "/api/v1/lists", Role::Figures),
];

/// Names, clients, and what is configured of them.
const READ: [Row; 16] = [
    ("get", "/api/v1/views", Role::Read),
    ("get", "/api/v1/config", Role::Read),
    ("get", "/api/v1/config/diff", Role::Read),
    ("get", "/api/v1/entries", Role::Read),
    ("get", "/api/v1/local", Role::Read),
    ("get", "/api/v1/clients", Role::Read),
    ("get", "/api/v1/clients/{address}", Role::Read),
    ("get", "/api/v1/lookup", Role::Read),
    ("get", "/api/v1/log", Role::Read),
    ("get", "/api/v1/trace", Role::Read),
    ("get", "/api/v1/capture", Role::Read),
    ("get", "/api/v1/cache", Role::Read),
    ("get", "/api/v1/cache/dump", Role::Read),
    ("get", "/api/v1/top", Role::Read),
    ("get", "/api/v1/floods", Role::Read),
    ("get", "/api/v1/limits", Role::Read),
];

/// Changes.
const OPERATE: [Row; 18] = [
    ("post", "/api/v1/reload", Role::Operate),
    ("post", "/api/v1/purge", Role::Operate),
    ("post", "/api/v1/drain", Role::Operate),
    ("post", "/api/v1/resume", Role::Operate),
    ("post", "/api/v1/upstreams", Role::Operate),
    ("patch", "/api/v1/upstreams/{address}", Role::Operate),
    ("delete", "/api/v1/upstreams/{address}", Role::Operate),
    ("post", "/api/v1/lists", Role::Operate),
    ("delete", "/api/v1/lists/{name}", Role::Operate),
    ("post", "/api/v1/lists/{name}/refresh", Role::Operate),
    ("post", "/api/v1/entries", Role::Operate),
    ("delete", "/api/v1/entries/{name}", Role::Operate),
    ("post", "/api/v1/local", Role::Operate),
    ("delete", "/api/v1/local", Role::Operate),
    ("post", "/api/v1/clients", Role::Operate),
    ("delete", "/api/v1/clients", Role::Operate),
    ("post", "/api/v1/limits", Role::Operate),
    ("delete", "/api/v1/limits/{zone}", Role::Operate),
];

/// Every row.
fn rows() -> impl Iterator<Item = Row> {
    FIGURES.into_iter().chain(READ).chain(OPERATE)
}

/// The role that a route needs.
pub(super) fn of(method: &str, path: &str) -> Role {
    let row = rows().find(|(one, at, _)| one.eq_ignore_ascii_case(method) && *at == path);
    row.map_or(Role::Operate, |(.., role)| role)
}

/// The role that a request needs. Where there is nothing, any role is told so.
pub(super) fn needed(request: &Request) -> Role {
    let method = match *request.method() {
        Method::HEAD => "get",
        ref method => method.as_str(),
    };
    let path = request.extensions().get::<MatchedPath>();
    path.map_or(Role::Figures, |path| of(method, path.as_str()))
}

/// The operations of a path, with their methods.
pub(super) fn operations(
    item: &mut PathItem,
) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let operations = [
        ("get", item.get.as_mut()),
        ("post", item.post.as_mut()),
        ("patch", item.patch.as_mut()),
        ("put", item.put.as_mut()),
        ("delete", item.delete.as_mut()),
    ];
    operations.into_iter().filter_map(|(method, operation)| Some((method, operation?)))
}

/// Writes the roles into the description.
pub(super) fn describe(description: &mut Description) {
    for (path, item) in &mut description.paths.paths {
        for (method, operation) in operations(item) {
            let role = of(method, path).to_string();
            operation.extensions = Some(ExtensionsBuilder::new().add(EXTENSION, role).build());
        }
    }
}

#[cfg(test)]
pub(super) fn table() -> Vec<Row> {
    rows().collect()
}
