//! The web console: files in this program, which a browser fetches without a token. What they show they ask of the API,
//! with the token that the operator types in. `pipeline/control/console/` has the files.

use axum::Router;
use axum::http::Uri;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

use super::body::PathPart;
use super::problem;

/// What the page may do: run these files and ask this server. No text becomes markup, whatever a script does
/// (`require-trusted-types-for`).
pub(super) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// The page itself.
const PAGE: &str = "index.html";

/// Name, type and text of every file.
macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../console/", $name)))),*]
    };
}

const FILES: &[(&str, &str)] = files![
    "index.html" "style.css" "icon.svg" "theme.js"
    "main.js" "api.js" "chart.js" "clients.js" "dom.js" "format.js" "history.js" "keys.js" "log.js" "login.js"
    "lists.js" "lookup.js" "names.js" "overview.js" "rates.js" "settings.js" "tables.js" "top.js" "upstreams.js" "views.js"
];

/// The files of the console, below `/console/`.
pub(super) fn router() -> Router {
    let to_page = || async { Redirect::temporary("/console/") };
    Router::new()
        .route("/", get(to_page))
        .route("/console", get(to_page))
        .route("/console/", get(|uri| file(PathPart(PAGE.to_owned()), uri)))
        .route("/console/{name}", get(file))
        .method_not_allowed_fallback(problem::no_such_method)
}

async fn file(PathPart(name): PathPart, uri: Uri) -> Response {
    match FILES.iter().find(|(file, _)| *file == name) {
        Some((file, text)) => ([(CONTENT_TYPE, kind(file))], *text).into_response(),
        None => problem::no_such_path(uri).await.into_response(),
    }
}

fn kind(file: &str) -> &'static str {
    match file.rsplit_once('.') {
        Some((_, "js")) => "text/javascript; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "svg")) => "image/svg+xml",
        _ => "text/html; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use axum::body::Body;
    use axum::http::header::{CONTENT_SECURITY_POLICY, HOST, LOCATION};
    use axum::http::{HeaderMap, Request};
    use http_body_util::BodyExt as _;
    use pmdns_config::StageName;

    use super::*;
    use crate::CallSender;
    use crate::api::{Guard, Peer, Rate, Tokens, respond};
    use crate::call::{KNOWN, LOGGED, SEARCHED, WORK};

    const LOCAL: Peer = Peer::Address(IpAddr::V4(Ipv4Addr::LOCALHOST));

    fn api(has_console: bool) -> Router {
        let (calls, _) = CallSender::new(|| ());
        let guard = Guard::new(Vec::new(), Tokens::default(), Rate(1));
        crate::api::router(calls, Arc::new(guard), has_console)
    }

    /// What somebody without a token gets.
    async fn fetch(
        api: &Router,
        peer: Peer,
        method: &str,
        path: &str,
        host: &str,
    ) -> (u16, HeaderMap, String) {
        let request = Request::builder().method(method).uri(path).header(HOST, host);
        let (parts, body) =
            respond(api.clone(), peer, request.body(Body::empty()).unwrap()).await.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        (parts.status.as_u16(), parts.headers, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn files_need_no_token_and_come_with_their_policy() {
        let api = api(true);
        for (path, status, kind) in [
            ("/console/", 200, "text/html; charset=utf-8"),
            ("/console/main.js", 200, "text/javascript; charset=utf-8"),
            ("/console/style.css", 200, "text/css; charset=utf-8"),
            ("/console/icon.svg", 200, "image/svg+xml"),
            ("/console/nothing.js", 404, "application/problem+json"),
            ("/console/..%2Findex.html", 404, "application/problem+json"),
            ("/console/%ff", 422, "application/problem+json"),
            ("/api/v1/state", 401, "application/problem+json"),
        ] {
            let (got, headers, body) = fetch(&api, LOCAL, "GET", path, "localhost").await;
            assert_eq!(
                (got, headers[CONTENT_TYPE].to_str().unwrap()),
                (status, kind),
                "{path}: {body}"
            );
            let policy = headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"));
            for part in [
                "script-src 'self'",
                "base-uri 'none'",
                "form-action 'none'",
                "require-trusted-types-for 'script'",
            ] {
                assert!(status != 200 || policy.contains(part), "{path}: {policy}");
            }
            for (name, value) in [
                ("x-content-type-options", "nosniff"),
                ("referrer-policy", "no-referrer"),
                ("x-frame-options", "DENY"),
            ] {
                assert_eq!(headers[name], value, "{path}");
            }
        }
        let (status, headers, _) = fetch(&api, LOCAL, "GET", "/", "localhost").await;
        assert_eq!((status, headers[LOCATION].to_str().unwrap()), (307, "/console/"));
        assert_eq!(fetch(&api, LOCAL, "POST", "/console/", "localhost").await.0, 405);
    }

    #[tokio::test]
    async fn other_names_the_unix_socket_and_haste_get_no_console() {
        let api = api(true);
        assert_eq!(fetch(&api, LOCAL, "GET", "/console/", "rebind.example").await.0, 421);
        assert_eq!(fetch(&api, Peer::User(0), "GET", "/console/", "localhost").await.0, 404);
        let mut last = 200;
        for _ in 0..300 {
            last = fetch(&api, LOCAL, "GET", "/console/", "localhost").await.0;
        }
        assert_eq!(last, 429);
        assert_eq!(fetch(&self::api(false), LOCAL, "GET", "/console/", "localhost").await.0, 401);
    }

    #[test]
    fn every_file_of_the_folder_is_served_and_every_file_named_is_there() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/console");
        let there = std::fs::read_dir(folder).unwrap();
        let there: BTreeSet<String> =
            there.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        let served: BTreeSet<String> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(there, served);
        let mut named = 0;
        for (file, text) in FILES {
            let quoted = text.split('"').filter(|part| !part.contains(char::is_whitespace));
            for name in quoted.map(|part| part.trim_start_matches("./")) {
                if [".js", ".css", ".svg"].iter().any(|end| name.ends_with(end)) {
                    named += 1;
                    assert!(served.contains(name), "{file} names {name}");
                }
            }
        }
        assert!(named > 20, "only {named} names were found");
    }

    #[test]
    fn the_page_waits_as_long_as_the_server() {
        let file = FILES.iter().find(|(name, _)| *name == "api.js").unwrap().1;
        let times = [("known", KNOWN), ("log", LOGGED), ("lookup", SEARCHED), ("work", WORK)];
        let times = times.map(|(name, time)| format!("{name}: {}", time.as_secs())).join(", ");
        assert!(file.contains(&format!("{{ {times} }}")), "api.js does not have {times}");
    }

    #[test]
    fn the_page_has_the_stages_in_the_order_of_the_line() {
        let file = FILES.iter().find(|(name, _)| *name == "rates.js").unwrap().1;
        let stages = StageName::ALL.map(|stage| format!("\"{stage}\"")).join(", ");
        let list = format!("const STAGES = [\"receive\", {stages}, \"transmit\"];");
        assert!(file.contains(&list), "rates.js does not have {list}");
    }

    /// What comes from clients is text. The policy would stop the rest, and these tell why nothing is seen then.
    #[test]
    fn no_file_makes_markup_of_text_or_asks_others() {
        for (file, text) in FILES {
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "DOMParser",
                "srcdoc",
                "javascript:",
                "cssText",
                "<style",
                " style=",
            ] {
                assert!(!text.contains(word), "{file} has {word}");
            }
            let others =
                text.matches("://").count() - text.matches("http://www.w3.org/2000/svg").count();
            assert_eq!(others, 0, "{file} names another host");
        }
        let page = FILES.iter().find(|(file, _)| *file == PAGE).unwrap().1;
        assert!(
            !page.contains(" on")
                && page.matches("<script").count() == page.matches("<script src=\"").count() + 1
        );
    }
}
