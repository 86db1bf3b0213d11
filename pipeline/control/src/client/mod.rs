//! Asking an instance: over its control socket, or over TLS by its API.

mod connection;
mod request;
#[cfg(test)]
mod tests;

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use http_body_util::channel::Channel;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::Response;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use crate::answers::Done;
use crate::api::{DONE, ProblemDetails, media_type};
use crate::audit::put_plain;
use crate::{Ask, Call};

use connection::Server;
pub use connection::is_running;
use request::request;

/// How long an answer may take beyond what the instance may take for it: data cores may poll on every CPU.
const EXTRA_PATIENCE: Duration = Duration::from_secs(5);
/// How long an answer about what is known may take, for who asks again and again.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How often the caller looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes of the longest answer that is kept in memory.
const MAX_ANSWER: usize = 64 << 20;
/// Bytes of a file that are sent at a time.
const PART: usize = 64 << 10;
/// Parts that wait to be sent.
const WAITING: usize = 4;

/// Why an instance could not be asked, or what it says.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answers there.
    #[error(
        "no running instance answers at {at}: {source}; {}",
        if source.kind() == io::ErrorKind::TimedOut {
            "it is there, and does not work"
        } else {
            "start one, or name its socket with --socket"
        }
    )]
    Ask {
        /// Where.
        at: String,
        /// Why.
        source: io::Error,
    },
    /// No API answers there.
    #[error("no API answers at {at}: {source}")]
    Unreached {
        /// Where.
        at: String,
        /// Why.
        source: io::Error,
    },
    /// Somebody answers there, but not to us.
    #[error(
        "permission denied at {0}: ask as root, as the instance's own user, or as a member of its `control.group`"
    )]
    Denied(PathBuf),
    /// It answers, but not to who shows this token.
    #[error("{at} refuses the token: {detail}")]
    Token {
        /// Where.
        at: String,
        /// What it says.
        detail: String,
    },
    /// It does not do what is asked.
    #[error("{0}")]
    Refused(String),
    /// Its answer ends too early.
    #[error("the answer of {at} ended too early; its log has the reason")]
    CutOff {
        /// Where.
        at: String,
    },
    /// What it sends is no answer.
    #[error("{at} sent no answer that this pmdns can read: {why}; is it the same version?")]
    Answer {
        /// Where.
        at: String,
        /// Why.
        why: String,
    },
    /// The server is written wrong, or its certificate cannot be checked.
    #[error("{0}")]
    Server(String),
    /// The answer cannot be written, or the file not be read.
    #[error(transparent)]
    File(#[from] io::Error),
}

/// Who asks an instance.
#[derive(Clone, Debug)]
pub struct ApiClient {
    server: Server,
    /// Whether changes of run time end with the process.
    until_restart: bool,
}

impl ApiClient {
    /// Asks the instance whose control socket this is.
    pub fn at_socket(path: &Path) -> Self {
        Self { server: Server::Socket(path.to_owned()), until_restart: false }
    }

    /// Asks the instance whose API is at this URL, with this token. Its certificate is one of `ca_file`, or of the system's
    /// authorities.
    ///
    /// # Errors
    ///
    /// The URL is none, or the certificates cannot be read.
    pub fn at_url(url: &str, token: String, ca_file: Option<&Path>) -> Result<Self, ClientError> {
        Ok(Self { server: Server::at_url(url, token, ca_file)?, until_restart: false })
    }

    /// The same, whose changes of run time end with the process if it is so wanted.
    pub fn until_restart(self, until_restart: bool) -> Self {
        Self { until_restart, ..self }
    }

    /// Makes a call. Returns the JSON of its reply.
    ///
    /// # Errors
    ///
    /// There is no answer, or it is a refusal.
    pub fn ask(&self, call: &Call) -> Result<String, ClientError> {
        self.ask_within(call, call.patience() + EXTRA_PATIENCE)
    }

    /// The same, for who waits no longer than this.
    ///
    /// # Errors
    ///
    /// As of [`Self::ask`].
    pub fn ask_within(&self, call: &Call, patience: Duration) -> Result<String, ClientError> {
        self.run(async {
            let asked = async { self.text(self.send(call, Body::empty()).await?).await };
            self.in_time(patience, asked).await
        })
    }

    /// Makes a call, and reads its reply.
    ///
    /// # Errors
    ///
    /// As of [`Self::ask`].
    pub fn get<A: Ask>(&self, asked: A) -> Result<A::Reply, ClientError> {
        self.read(&self.ask(&asked.into())?)
    }

    /// The same, for who waits no longer than this.
    ///
    /// # Errors
    ///
    /// As of [`Self::ask`].
    pub fn get_within<A: Ask>(
        &self,
        asked: A,
        patience: Duration,
    ) -> Result<A::Reply, ClientError> {
        self.read(&self.ask_within(&asked.into(), patience)?)
    }

    /// Makes a call that changes something. Returns the sentence that says what was done.
    ///
    /// # Errors
    ///
    /// As of [`Self::ask`].
    pub fn done<A: Ask<Reply: Into<Done>>>(&self, asked: A) -> Result<String, ClientError> {
        Ok(done_text(self.get(asked)?))
    }

    /// Makes a call that takes long. When `has_ended`, the instance is told to come to an end, and its answer is awaited.
    ///
    /// # Errors
    ///
    /// As of [`Self::ask`].
    pub fn ask_until(
        &self,
        call: &Call,
        has_ended: impl Fn() -> bool,
    ) -> Result<String, ClientError> {
        self.run(async {
            let (body, over) = open_until(has_ended);
            let asked = async { self.text(self.send(call, body).await?).await };
            self.until(over, call, asked).await
        })
    }

    /// Makes a call whose reply is a file, and writes that as it comes. Returns the sentence that says what came. When
    /// `has_ended`, the instance is told to come to an end.
    ///
    /// # Errors
    ///
    /// As of [`Self::ask`]; or the file cannot be written.
    pub fn download(
        &self,
        call: &Call,
        out: &mut impl Write,
        has_ended: impl Fn() -> bool,
    ) -> Result<String, ClientError> {
        self.run(async {
            let (body, over) = open_until(has_ended);
            let asked = async {
                let mut response = self.checked(self.send(call, body).await?).await?;
                let mut done = None;
                while let Some(frame) = response.body_mut().frame().await {
                    let frame = frame.map_err(|_| self.cut_off())?;
                    match frame.into_data() {
                        Ok(data) => out.write_all(&data).and_then(|()| out.flush())?,
                        Err(frame) => {
                            let trailers = frame.into_trailers().unwrap_or_default();
                            done = trailers
                                .get(DONE)
                                .and_then(|one| one.to_str().ok())
                                .map(str::to_owned);
                        }
                    }
                }
                done.map(|done| printable(&done)).ok_or_else(|| self.cut_off())
            };
            self.until(over, call, asked).await
        })
    }

    /// Makes a call that takes in a file. Returns the sentence that says what was done.
    ///
    /// # Errors
    ///
    /// As of [`Self::ask`]; or the file cannot be read.
    pub fn upload<A: Ask<Reply: Into<Done>>>(
        &self,
        asked: A,
        file: &mut impl Read,
    ) -> Result<String, ClientError> {
        let call: Call = asked.into();
        let text = self.run(async {
            let (mut give, body) = Channel::<Bytes, io::Error>::new(WAITING);
            let sent = async {
                loop {
                    let mut part = vec![0; PART];
                    let count = file.read(&mut part)?;
                    part.truncate(count);
                    // Who wants no more has an answer.
                    if count == 0 || give.send_data(part.into()).await.is_err() {
                        drop(give);
                        return Ok::<_, ClientError>(());
                    }
                }
            };
            let asked = async { self.text(self.send(&call, Body::new(body)).await?).await };
            let both = async { tokio::try_join!(asked, sent) };
            let (text, ()) = self.in_time(call.patience() + EXTRA_PATIENCE, both).await?;
            Ok(text)
        })?;
        Ok(done_text(self.read::<A::Reply>(&text)?))
    }

    /// Runs an exchange on the calling thread.
    fn run<T>(
        &self,
        exchange: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let done = runtime.block_on(exchange);
        // The system's resolver may still look for a name.
        runtime.shutdown_background();
        done
    }

    async fn in_time<T>(
        &self,
        patience: Duration,
        exchange: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        timeout(patience, exchange).await.unwrap_or_else(|_| Err(self.late()))
    }

    /// The same for an exchange about a call that may be told to end.
    async fn until<T>(
        &self,
        over: impl Future<Output = ()>,
        call: &Call,
        exchange: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        tokio::select! {
            answer = self.in_time(call.patience() + EXTRA_PATIENCE, exchange) => answer,
            () = over => Err(self.late()),
        }
    }

    /// Sends the request of a call. Returns the answer as soon as it begins.
    async fn send(&self, call: &Call, body: Body) -> Result<Response<Incoming>, ClientError> {
        let stream = self.server.connect().await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream)
            .await
            .map_err(|error| self.lost(&error))?;
        tokio::spawn(connection);
        let server = (self.server.host(), self.server.token());
        let request = request(call, self.until_restart, server, body);
        let request = request.map_err(|error| ClientError::Server(error.to_string()))?;
        sender.send_request(request).await.map_err(|error| self.lost(&error))
    }

    /// The answer, if it is no refusal.
    async fn checked(
        &self,
        response: Response<Incoming>,
    ) -> Result<Response<Incoming>, ClientError> {
        let kind = media_type(response.headers());
        let (status, is_json) = (response.status(), kind == "application/json");
        // The health of a node that is not fit is an answer too.
        if status == StatusCode::OK || (status == StatusCode::SERVICE_UNAVAILABLE && is_json) {
            return Ok(response);
        }
        if kind != "application/problem+json" {
            return Err(self.unread(format!("status {status}")));
        }
        let ProblemDetails { detail, .. } = self.read(&self.whole(response).await?)?;
        let detail = printable(&detail);
        Err(match (status, &self.server) {
            (StatusCode::FORBIDDEN, Server::Socket(path)) => ClientError::Denied(path.clone()),
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, Server::Url(_)) => {
                ClientError::Token { at: self.server.to_string(), detail }
            }
            _ => ClientError::Refused(detail),
        })
    }

    async fn text(&self, response: Response<Incoming>) -> Result<String, ClientError> {
        let response = self.checked(response).await?;
        self.whole(response).await
    }

    async fn whole(&self, response: Response<Incoming>) -> Result<String, ClientError> {
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let bytes = match body {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => return Err(self.unread(error)),
            Err(_) => return Err(self.cut_off()),
        };
        String::from_utf8(bytes.into()).map_err(|error| self.unread(error))
    }

    fn read<R: DeserializeOwned>(&self, json: &str) -> Result<R, ClientError> {
        serde_json::from_str(json).map_err(|error| self.unread(error))
    }

    fn unread(&self, why: impl ToString) -> ClientError {
        ClientError::Answer { at: self.server.to_string(), why: printable(&why.to_string()) }
    }

    fn late(&self) -> ClientError {
        self.server.unreached(io::ErrorKind::TimedOut.into())
    }

    fn cut_off(&self) -> ClientError {
        ClientError::CutOff { at: self.server.to_string() }
    }

    /// A connection that gave no answer.
    fn lost(&self, error: &hyper::Error) -> ClientError {
        match error.is_parse() || error.is_user() {
            true => self.unread(error),
            false => self.cut_off(),
        }
    }
}

/// A body that is open until `has_ended`, and what resolves when the answer has not ended for long after that.
fn open_until(has_ended: impl Fn() -> bool) -> (Body, impl Future<Output = ()>) {
    let (open, body) = Channel::<Bytes, io::Error>::new(WAITING);
    let over = async move {
        while !has_ended() {
            sleep(LOOK).await;
        }
        drop(open);
        sleep(EXTRA_PATIENCE).await;
    };
    (Body::new(body), over)
}

/// The sentence about a change.
fn done_text(reply: impl Into<Done>) -> String {
    printable(&reply.into().done)
}

/// A text of an instance without characters that a terminal would obey: as in the audit, but for the ends of lines.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            c => put_plain(&mut out, c),
        }
    }
    out
}
