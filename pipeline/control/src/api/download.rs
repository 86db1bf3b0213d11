//! Answers that come through a pipe while they are made.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;
use http_body_util::channel::Channel;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::task::JoinSet;

use super::answer::Answer;
use crate::{Call, Door, Refusal, Reply};

/// Bytes that are read at a time.
const PART: usize = 16 << 10;
/// Parts that wait for the client.
const WAITING: usize = 4;

/// Makes a call that writes into a pipe, and sends its client what comes out, as a file of this type and name. The call is given
/// up when the client leaves.
pub(super) async fn download(
    door: Door,
    call: Call,
    by: String,
    patience: Duration,
    [media_type, name]: [&'static str; 2],
) -> Response {
    let (mut reader, writer) = match pipe() {
        Ok(ends) => ends,
        Err(error) => {
            let why = format!("there is no pipe to be had: {error}");
            return Answer(Reply::Refused(Refusal::Unable, why)).into_response();
        }
    };
    let mut asked = Box::pin(async move { door.ask_with(call, &by, Some(writer), patience).await });
    // What is refused is refused before anything is written.
    let mut part = Vec::with_capacity(PART);
    let reply = tokio::select! {
        biased;
        Ok(1..) = reader.read_buf(&mut part) => None,
        reply = &mut asked => Some(reply),
    };
    if let Some(refused @ Reply::Refused(..)) = reply {
        return Answer(refused).into_response();
    }
    let (mut give, body) = Channel::<Bytes, io::Error>::new(WAITING);
    let mut task = JoinSet::new();
    task.spawn(async move {
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
        if let Reply::Refused(_, why) = ended {
            // The client has to see that it is not whole.
            give.abort(io::Error::other(why));
        }
    });
    let disposition = format!("attachment; filename=\"{name}\"");
    let headers = [(CONTENT_TYPE, media_type.to_owned()), (CONTENT_DISPOSITION, disposition)];
    // The body is dropped when the client leaves, and the task with it: it may wait for a packet that never comes.
    let body = body.map_frame(move |frame| {
        let _held = &task;
        frame
    });
    (headers, Body::new(body)).into_response()
}

fn pipe() -> io::Result<(pipe::Receiver, File)> {
    let (reader, writer) = io::pipe()?;
    Ok((pipe::Receiver::from_owned_fd(reader.into())?, File::from(OwnedFd::from(writer))))
}
