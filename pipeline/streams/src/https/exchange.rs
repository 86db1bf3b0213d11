//! One request and its response (RFC 8484 sections 4 and 5).

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Body;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER,
};
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::timeout;

use super::Site;
use super::freshness::max_age;
use crate::client::{AnswerPart, Client, Unanswered};
use crate::framing::MAX_QUERY;

/// The media type of queries and answers (section 6).
const MEDIA_TYPE: &str = "application/dns-message";

/// The response to a request. A DNS message is an answer whatever its rcode: then the status is 200 (section 4.2.1).
pub(super) async fn respond<B>(
    request: Request<B>,
    site: &Site,
    client: &Arc<Client>,
) -> Response<Full<Bytes>>
where
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static>,
{
    match answer(request, site, client).await {
        Ok(response) => response,
        Err(status) => refusal(status),
    }
}

async fn answer<B>(
    request: Request<B>,
    site: &Site,
    client: &Arc<Client>,
) -> Result<Response<Full<Bytes>>, StatusCode>
where
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static>,
{
    let is_head = request.method() == Method::HEAD;
    let query = query(request, site, client).await?;
    let answer = client.ask(&query).await.map_err(status)?;
    let age = max_age(&answer);
    let body = client.send(answer, AnswerPart::Message).ok_or(StatusCode::SERVICE_UNAVAILABLE)?;
    let length = body.len();
    // RFC 9110 section 9.3.2: the headers that GET would have, and no body.
    let mut response = Response::new(if is_head { Full::default() } else { Full::new(body) });
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    let age = HeaderValue::try_from(format!("max-age={age}")).expect("a number is a lawful value");
    headers.insert(CACHE_CONTROL, age);
    Ok(response)
}

/// The DNS message in a request.
async fn query<B>(request: Request<B>, site: &Site, client: &Client) -> Result<Vec<u8>, StatusCode>
where
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static>,
{
    if normal(request.uri().path()) != normal(&site.path) {
        return Err(StatusCode::NOT_FOUND);
    }
    match *request.method() {
        Method::GET | Method::HEAD => in_parameter(request.uri().query().unwrap_or_default()),
        Method::POST => in_body(request, client).await,
        _ => Err(StatusCode::METHOD_NOT_ALLOWED),
    }
}

/// The message of a GET request: the parameter `dns` in base64url without padding (section 6).
fn in_parameter(query: &str) -> Result<Vec<u8>, StatusCode> {
    let query = normal(query);
    let value = query.split('&').find_map(|pair| pair.strip_prefix("dns="));
    let value = value.ok_or(StatusCode::BAD_REQUEST)?;
    let message = BASE64_URL_SAFE_NO_PAD.decode(value).map_err(|_| StatusCode::BAD_REQUEST)?;
    if message.len() > MAX_QUERY {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    Ok(message)
}

/// A part of a URI without needless escapes: `%41` is a way to write `A` (RFC 3986 section 6.2.2.2).
fn normal(part: &str) -> String {
    let mut normal = String::with_capacity(part.len());
    let mut rest = part;
    while let Some((before, escape)) = rest.split_once('%') {
        normal.push_str(before);
        let digits =
            escape.get(..2).filter(|digits| digits.bytes().all(|one| one.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte.filter(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(byte)) {
            Some(byte) => {
                normal.push(char::from(byte));
                rest = &escape[2..];
            }
            None => {
                normal.push('%');
                rest = escape;
            }
        }
    }
    normal + rest
}

/// The message of a POST request, which is its body.
async fn in_body<B>(request: Request<B>, client: &Client) -> Result<Vec<u8>, StatusCode>
where
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static>,
{
    if !is_dns_message(request.headers()) {
        return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    let announced = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if announced.and_then(|text| text.parse().ok()).is_some_and(|length: usize| length > MAX_QUERY)
    {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    let body = Limited::new(request.into_body(), MAX_QUERY).collect();
    match timeout(client.service.limits.io_timeout, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes().to_vec()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(StatusCode::PAYLOAD_TOO_LARGE),
        Ok(Err(_)) => Err(StatusCode::BAD_REQUEST),
        Err(_) => Err(StatusCode::REQUEST_TIMEOUT),
    }
}

/// Whether a body is of the media type, which may have parameters and letters of either case (RFC 9110 section 8.3.1).
#[must_use]
pub fn is_dns_message(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = value.and_then(|value| value.split(';').next());
    media_type.is_some_and(|one| one.trim().eq_ignore_ascii_case(MEDIA_TYPE))
}

fn status(unanswered: Unanswered) -> StatusCode {
    match unanswered {
        Unanswered::Malformed => StatusCode::BAD_REQUEST,
        Unanswered::Full | Unanswered::Dropped => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// A response without a DNS message.
fn refusal(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    let header = match status {
        StatusCode::METHOD_NOT_ALLOWED => Some((ALLOW, "GET, HEAD, POST")),
        StatusCode::SERVICE_UNAVAILABLE => Some((RETRY_AFTER, "1")),
        _ => None,
    };
    if let Some((name, value)) = header {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use hyper::header::ACCEPT;

    use super::*;
    use crate::query_sender::Transport;
    use crate::stub::{Line, QUERY, answer as answer_to};

    fn site() -> Site {
        Site { path: "/dns-query".into() }
    }

    fn post(body: &[u8]) -> Request<Full<Bytes>> {
        let request = Request::post("/dns-query").header(CONTENT_TYPE, MEDIA_TYPE);
        request.body(Full::new(Bytes::copy_from_slice(body))).unwrap()
    }

    fn get(uri: &str) -> Request<Full<Bytes>> {
        Request::get(uri).header(ACCEPT, MEDIA_TYPE).body(Full::default()).unwrap()
    }

    fn get_message(message: &[u8]) -> Request<Full<Bytes>> {
        get(&format!("/dns-query?a=b&dns={}", BASE64_URL_SAFE_NO_PAD.encode(message)))
    }

    fn get_query() -> Request<Full<Bytes>> {
        get_message(QUERY)
    }

    async fn status_of(request: Request<Full<Bytes>>) -> u16 {
        let line = Line::new("", |query| Some(answer_to(query, 60)));
        respond(request, &site(), &line.client(Transport::Https)).await.status().as_u16()
    }

    #[tokio::test(start_paused = true)]
    async fn get_and_post_are_answered_alike() {
        for request in [post(QUERY), get_query()] {
            let line = Line::new("", |query| Some(answer_to(query, 17)));
            let client = line.client(Transport::Https);
            let response = respond(request, &site(), &client).await;
            assert_eq!(response.status(), StatusCode::OK);
            assert_eq!(response.headers()[CONTENT_TYPE], MEDIA_TYPE);
            assert_eq!(response.headers()[CACHE_CONTROL], "max-age=17");
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, answer_to(QUERY, 17));
            assert_eq!(*line.asked.lock().unwrap(), [(Transport::Https, QUERY.to_vec())]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_of_dns_is_no_error_of_http() {
        for rcode in [2, 3, 5] {
            let line = Line::new("", move |query| {
                let mut answer = query.to_vec();
                (answer[2], answer[3]) = (0x81, 0x80 | rcode);
                Some(answer)
            });
            let client = line.client(Transport::Https);
            let response = respond(post(QUERY), &site(), &client).await;
            assert_eq!(response.status(), StatusCode::OK, "rcode {rcode}");
            assert_eq!(response.headers()[CACHE_CONTROL], "max-age=0");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_wrong_with_a_request_is_said_by_its_status() {
        assert_eq!(status_of(get("/")).await, 404);
        assert_eq!(status_of(get("/dns-query/more?dns=AAAA")).await, 404);
        assert_eq!(status_of(get("/dns-query")).await, 400, "no parameter");
        assert_eq!(status_of(get("/dns-query?dns=")).await, 400, "no message");
        assert_eq!(status_of(get("/dns-query?dns=AAAB")).await, 400, "less than a header");
        for wrong in ["AA==", "A", "%41", "+/+/", "AA.A"] {
            assert_eq!(status_of(get(&format!("/dns-query?dns={wrong}"))).await, 400, "{wrong}");
        }
        assert_eq!(status_of(post(&QUERY[..11])).await, 400);
        for request in [post, get_message] {
            assert_eq!(status_of(request(&[0; MAX_QUERY])).await, 200);
            assert_eq!(status_of(request(&[0; MAX_QUERY + 1])).await, 413);
        }
        let mut long = post(QUERY);
        long.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("4097"));
        assert_eq!(status_of(long).await, 413, "announced");
        let mut other = post(QUERY);
        other.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        assert_eq!(status_of(other).await, 415);
        let mut none = post(QUERY);
        none.headers_mut().remove(CONTENT_TYPE);
        assert_eq!(status_of(none).await, 415);
        let mut same = post(QUERY);
        let value = HeaderValue::from_static("Application/DNS-Message; x=y");
        same.headers_mut().insert(CONTENT_TYPE, value);
        assert_eq!(status_of(same).await, 200);
        let mut put = post(QUERY);
        *put.method_mut() = Method::PUT;
        let client = Line::full().client(Transport::Https);
        let response = respond(put, &site(), &client).await;
        assert_eq!(response.status(), 405);
        assert_eq!(response.headers()[ALLOW], "GET, HEAD, POST");
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_request_gets_the_headers_of_its_get_request() {
        let line = Line::new("", |query| Some(answer_to(query, 17)));
        let client = line.client(Transport::Https);
        let mut head = get_query();
        *head.method_mut() = Method::HEAD;
        let [got, headed] =
            [respond(get_query(), &site(), &client).await, respond(head, &site(), &client).await];
        assert_eq!((headed.status(), headed.headers()), (got.status(), got.headers()));
        let length = answer_to(QUERY, 17).len();
        assert_eq!(headed.headers()[CONTENT_LENGTH], length.to_string());
        assert!(headed.into_body().collect().await.unwrap().to_bytes().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn escapes_that_nobody_needs_are_letters() {
        let escaped =
            |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
        let message = BASE64_URL_SAFE_NO_PAD.encode(QUERY);
        let mixed = format!("%2D{}%5f", &message[1..message.len() - 1]);
        assert_eq!(status_of(get(&format!("/dns-query?dns={}", escaped(&message)))).await, 200);
        assert_eq!(status_of(get(&format!("/dns%2Dquery?%64ns={message}"))).await, 200);
        assert_eq!(normal(&mixed), format!("-{}_", &message[1..message.len() - 1]));
        for wrong in ["%", "%4", "%zz", "%2B%2F", "%3D"] {
            assert_eq!(normal(wrong), wrong);
            assert_eq!(status_of(get(&format!("/dns-query?dns={message}{wrong}"))).await, 400);
        }
        assert_eq!(status_of(get(&format!("/dns-query%2F?dns={message}"))).await, 404);
    }

    #[tokio::test(start_paused = true)]
    async fn without_an_answer_the_client_may_come_again() {
        let client = Line::new("", |_| None).client(Transport::Https);
        let response = respond(get_query(), &site(), &client).await;
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[RETRY_AFTER], "1");
    }

    #[tokio::test(start_paused = true)]
    async fn without_room_the_client_gets_servfail() {
        let client = Line::full().client(Transport::Https);
        let response = respond(get_query(), &site(), &client).await;
        assert_eq!(response.status(), StatusCode::OK);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body[3] & 0x0f, 2);
        assert_eq!(body[12..], QUERY[12..]);
    }
}
