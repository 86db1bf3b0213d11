//! How requests end: with the answer to a call, or as a problem.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::{OpenApi as Description, Ref, ResponseBuilder};

use super::problem::{ProblemDetails, Unasked};
use super::roles;
use crate::{Call, CallReply, Refusal};

const JSON: &str = "application/json";

/// Writes the replies that the table of calls names into the description. A route whose answer is a file has described it.
pub(super) fn describe(description: &mut Description) {
    for (method, path, schemas) in Call::replies() {
        let Some((name, _)) = schemas.last() else { continue };
        let schema = Ref::from_schema_name(name);
        let operations =
            description.paths.paths.get_mut(path).into_iter().flat_map(roles::operations);
        for (_, operation) in operations.filter(|(one, _)| *one == method) {
            let content = ContentBuilder::new().schema(Some(schema.clone())).build();
            let reply = ResponseBuilder::new().content(JSON, content).build();
            let described = operation.responses.responses.entry("200".to_owned());
            described.or_insert_with(|| reply.into());
        }
        description.components.get_or_insert_default().schemas.extend(schemas);
    }
}

/// An answer to a call.
pub(super) struct CallResponse(pub(super) CallReply);

impl IntoResponse for CallResponse {
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
        ([(CONTENT_TYPE, JSON)], json).into_response()
    }
}

pub(super) fn wrong(why: String) -> CallReply {
    CallReply::Refused(Refusal::Wrong, why)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::Call;
    use crate::api::description;

    /// The schemas that a part of the description refers to.
    fn references(part: &Value, found: &mut Vec<String>) {
        match part {
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            Value::Object(fields) => {
                let name = fields.get("$ref").and_then(Value::as_str);
                found.extend(name.map(|name| name.replace("#/components/schemas/", "")));
                fields.values().for_each(|field| references(field, found));
            }
            _ => {}
        }
    }

    #[test]
    fn answers_are_described_as_the_table_of_calls_has_them() {
        let description = serde_json::to_value(description()).unwrap();
        for (path, method, name) in [
            ("/api/v1/views", "get", "Views"),
            ("/api/v1/entries", "get", "EntryPage"),
            ("/api/v1/entries", "post", "EntriesDone"),
            ("/api/v1/limits/{zone}", "delete", "Done"),
            ("/api/v1/health", "get", "Health"),
        ] {
            let content = &description["paths"][path][method]["responses"]["200"]["content"];
            let mut found = Vec::new();
            references(&content["application/json"], &mut found);
            assert_eq!(found, [name], "{method} {path}");
        }
        let dump = &description["paths"]["/api/v1/cache/dump"]["get"]["responses"]["200"];
        let types: Vec<&String> = dump["content"].as_object().unwrap().keys().collect();
        assert_eq!(types, ["application/octet-stream"], "a file is no JSON");
        let mut found = Vec::new();
        references(&description, &mut found);
        assert!(found.len() > Call::ROUTES.len(), "{found:?}");
        for name in found {
            assert!(description["components"]["schemas"][&name].is_object(), "{name} is nowhere");
        }
    }
}
