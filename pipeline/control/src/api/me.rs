//! The caller and its role: pages leave out actions that would be refused.

use axum::Extension;
use axum::Json;
use pmdns_config::Role;
use serde::Serialize;
use utoipa::ToSchema;

use super::guard::By;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct Me {
    /// The token or user, as the log names it.
    by: String,
    /// What it may do: see counters, names and clients too, or change what can be changed too.
    #[schema(pattern = "^(figures|read|operate)$")]
    role: String,
}

/// Who asks, and what it may do
#[utoipa::path(get, path = "/api/v1/me", tag = "instance", responses((status = 200, body = Me)))]
pub(super) async fn me(Extension(by): Extension<By>, Extension(role): Extension<Role>) -> Json<Me> {
    Json(Me { by: by.name, role: role.to_string() })
}
