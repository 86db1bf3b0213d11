//! Files that come and go through a pipe, while the instance makes or reads them.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, TRAILER};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use http_body_util::channel::Channel;
use http_body_util::{BodyExt as _, Limited};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::answer::CallResponse;
use super::guard::By;
use crate::sender::Enclosed;
use crate::{Call, CallReply, CallSender, Refusal};

/// The trailer of a file that has come whole: a sentence about it.
pub const DONE: &str = "pmdns-done";
/// Bytes that are read at a time.
const PART: usize = 16 << 10;
/// Parts that wait for the client.
const WAITING: usize = 4;
/// Bytes of a body that nobody wants, and how long they are read for.
const MAX_DISCARDED: usize = 64 << 20;
const DISCARD_PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of a body that says by its end when to end. Who sends more has no end to tell.
const MAX_OPEN_BODY: usize = 64 << 10;

/// Watches the body of a request. A client that sends one says with its end that it wants no more; one without says nothing.
pub(super) struct EndOfBody {
    has_come: Arc<AtomicBool>,
    _task: JoinSet<()>,
}

impl EndOfBody {
    pub(super) fn watch(body: Body) -> Self {
        let (has_come, mut task) = (Arc::<AtomicBool>::default(), JoinSet::new());
        if !body.is_end_stream() {
            let has_come = Arc::clone(&has_come);
            task.spawn(async move {
                let _ = Limited::new(body, MAX_OPEN_BODY).collect().await;
                has_come.store(true, Ordering::Relaxed);
            });
        }
        Self { has_come, _task: task }
    }

    /// Whether it has come: set then.
    pub(super) fn has_come(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_come)
    }
}

/// Makes a call that writes into a pipe, and sends its client what comes out, as a file of this type and name. The call is given
/// up when the client leaves. A capture ends when the body of its `request` does.
pub(super) async fn download(
    calls: CallSender,
    call: Call,
    by: By,
    request: Body,
    [media_type, name]: [&'static str; 2],
) -> Response {
    let (mut reader, writer) = match pipe() {
        Ok(ends) => ends,
        Err(error) => return CallResponse(no_pipe(&error)).into_response(),
    };
    let watch = EndOfBody::watch(request);
    let enclosed =
        Enclosed { file: Some(writer), has_left: watch.has_come(), until_restart: false };
    let mut asked = Box::pin(async move { calls.ask_with(call, &by.name, enclosed).await });
    // What is refused is refused before anything is written.
    let mut part = Vec::with_capacity(PART);
    let reply = tokio::select! {
        biased;
        Ok(1..) = reader.read_buf(&mut part) => None,
        reply = &mut asked => Some(reply),
    };
    if let Some(refused @ CallReply::Refused(..)) = reply {
        return CallResponse(refused).into_response();
    }
    let (mut give, body) = Channel::<Bytes, io::Error>::new(WAITING);
    let mut task = JoinSet::new();
    task.spawn(async move {
        let _held = watch;
        loop {
            if !part.is_empty() && give.send_data(part.into()).await.is_err() {
                return;
            }
            part = Vec::with_capacity(PART);
            if !matches!(reader.read_buf(&mut part).await, Ok(1..)) {
                break;
            }
        }
        let ended = match reply {
            Some(reply) => reply,
            None => asked.await,
        };
        match ended {
            // The client has to see that it is not whole.
            CallReply::Refused(_, why) => give.abort(io::Error::other(why)),
            CallReply::Done(done) => {
                let done = HeaderValue::try_from(done).map(|done| (DONE.parse(), done));
                if let Ok((Ok(name), done)) = done {
                    let _ = give.send_trailers(HeaderMap::from_iter([(name, done)])).await;
                }
            }
            _ => {}
        }
    });
    let disposition = format!("attachment; filename=\"{name}\"");
    let headers = [
        (CONTENT_TYPE, media_type.to_owned()),
        (CONTENT_DISPOSITION, disposition),
        (TRAILER, DONE.to_owned()),
    ];
    // The body is dropped when the client leaves, and the task with it: it may wait for a packet that never comes.
    let body = body.map_frame(move |frame| {
        let _held = &task;
        frame
    });
    (headers, Body::new(body)).into_response()
}

/// Makes a call that reads from a pipe, into which the body of the `request` goes. An instance that wants no more of it has
/// replied.
pub(super) async fn upload(calls: CallSender, call: Call, by: By, request: Body) -> CallResponse {
    let (reader, writer) = match io::pipe().and_then(|(reader, writer)| {
        let writer = pipe::Sender::from_owned_fd(writer.into())?;
        Ok((File::from(OwnedFd::from(reader)), writer))
    }) {
        Ok(ends) => ends,
        Err(error) => return CallResponse(no_pipe(&error)),
    };
    let enclosed = Enclosed { file: Some(reader), ..Enclosed::default() };
    let mut asked = Box::pin(async move { calls.ask_with(call, &by.name, enclosed).await });
    let mut request = request;
    let copied = async {
        // It is closed at the end of this.
        let mut writer = writer;
        while let Some(Ok(frame)) = request.frame().await {
            let Ok(data) = frame.into_data() else { continue };
            if writer.write_all(&data).await.is_err() {
                break;
            }
        }
    };
    let early = tokio::select! {
        reply = &mut asked => Some(reply),
        () = copied => None,
    };
    let reply = match early {
        Some(reply) => reply,
        None => asked.await,
    };
    discard(request).await;
    CallResponse(reply)
}

/// Reads what else comes of a body that nobody wants, for a while. A client that still sends would not read its answer.
pub(super) async fn discard(body: Body) {
    let rest = Limited::new(body, MAX_DISCARDED).collect();
    let _ = timeout(DISCARD_PATIENCE, rest).await;
}

fn no_pipe(error: &io::Error) -> CallReply {
    CallReply::Refused(Refusal::Unable, format!("there is no pipe to be had: {error}"))
}

fn pipe() -> io::Result<(pipe::Receiver, File)> {
    let (reader, writer) = io::pipe()?;
    Ok((pipe::Receiver::from_owned_fd(reader.into())?, File::from(OwnedFd::from(writer))))
}
