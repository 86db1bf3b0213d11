//! Fuzz target: a request to the HTTP API. The first line is the method, the address and the token, what follows is the body.
//! Behind the API is an instance that says yes to everything.

use std::cell::OnceCell;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use pmdns_control::api::{Guard, Peer, Rate, Router, Tokens, respond, router};
use pmdns_control::{CallReply, CallSender};
use tokio::runtime::{Builder, Runtime};

thread_local! {
    static API: OnceCell<(Runtime, Router)> = const { OnceCell::new() };
}

/// The API, and what runs it.
fn api() -> (Runtime, Router) {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.expect("there is memory for one");
    let (calls, mut received) = CallSender::new(|| ());
    runtime.spawn(async move {
        while let Some((_, caller)) = received.recv().await {
            caller.reply(CallReply::Done("so be it".into()));
        }
    });
    let tokens = Tokens::load(&[]).expect("there are none");
    let guard = Guard::new(Vec::new(), tokens, Rate(u32::MAX));
    (runtime, router(calls, Arc::new(guard), true))
}

/// One input.
pub(crate) fn run(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (head, body) = (&data[..end], data.get(end + 1..).unwrap_or_default());
    let Ok(head) = std::str::from_utf8(head) else { return };
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    // With a token the request comes from afar, and no token counts.
    let peer = match words.next() {
        Some(_) => Peer::Address(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        None => Peer::User(0),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "127.0.0.1:8053")
        .header(AUTHORIZATION, "Bearer none")
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_vec()));
    let Ok(request) = request else { return };
    API.with(|cell| {
        let (runtime, router) = cell.get_or_init(api);
        runtime.block_on(async {
            let response = respond(router.clone(), peer, request).await;
            let (parts, body) = response.into_parts();
            let is_ours =
                !parts.status.is_server_error() || parts.status == StatusCode::SERVICE_UNAVAILABLE;
            assert!(is_ours, "{}", parts.status);
            let bytes = body.collect().await.expect("memory does not fail").to_bytes();
            let is_json = |kind: &str| kind == "application/json" || kind.ends_with("+json");
            let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
            if kind.is_some_and(is_json) && method != "HEAD" {
                let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&bytes);
                assert!(parsed.is_ok(), "no JSON: {bytes:?}");
            }
        });
    });
}
