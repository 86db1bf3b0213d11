//! The thread that talks to clients. No client can delay the main thread, which takes requests from a bounded queue and
//! never writes to a connection itself.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pmdns_control::audit::Audit;
use pmdns_control::{Refusal, Reply};
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{ControlSocket, DENIED, SocketError, handover};
use crate::admission::{Bounds, ConnectionSnapshot, Gate, Pass};
use crate::control::request::Request;
use crate::service::Service;

/// Connections at a time, in all and of one user.
const BOUNDS: Bounds = Bounds { places: 32, per_peer: 8, grace: Duration::from_secs(1) };
/// Requests that wait for the main thread, which takes them all at once.
const MAX_REQUESTS: usize = 16;
/// How long a request may take to come. A client that sends nothing in this time gets the report.
const REQUEST_PATIENCE: Duration = Duration::from_millis(100);
/// How long an answer may take to be read, all in all.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of the longest request: a path, and a word.
const MAX_REQUEST: usize = 4096 + 16;
/// A pause after an accept that failed: too many open files, for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A client that waits for an answer.
#[derive(Debug)]
pub struct Client {
    answer: oneshot::Sender<Reply>,
    /// The file that came with the request.
    pub(crate) file: Option<File>,
    left: Arc<AtomicBool>,
    /// Who asks, for people.
    pub(crate) by: String,
}

impl Client {
    /// A client that came by another way.
    pub(crate) fn new(answer: oneshot::Sender<Reply>, by: String, file: Option<File>) -> Self {
        Self { answer, file, left: Arc::default(), by }
    }

    /// One who waits for no answer.
    pub fn of_nobody(by: &str) -> Self {
        Self::new(oneshot::channel().0, by.to_owned(), None)
    }

    /// Answers, and never waits. A client that has closed its connection needs no answer.
    pub fn answer(self, text: &str) {
        self.reply(Reply::of_text(text));
    }

    /// The same, with more than a text.
    pub fn reply(self, reply: Reply) {
        let _ = self.answer.send(reply);
    }

    /// Whether it says nothing more, or has closed its connection. That ends what it has asked for, if it takes long.
    pub(crate) fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed) || self.answer.is_closed()
    }
}

/// The running thread. Dropping it ends it.
#[derive(Debug)]
pub struct ControlServer {
    requests: mpsc::Receiver<(Request, Client)>,
    service: Service,
}

impl ControlSocket {
    /// Serves, on a thread pinned to the CPU `core` if one is given.
    pub fn serve(self, core: Option<usize>) -> Result<ControlServer, SocketError> {
        let (ask, requests) = mpsc::channel(MAX_REQUESTS);
        let ask = Ask { requests: ask, main: std::thread::current() };
        let serve = |gate| async move { accept(&self, gate, ask).await };
        let service = Service::start("control", core, BOUNDS, serve);
        let service = service.map_err(SocketError::Thread)?;
        Ok(ControlServer { requests, service })
    }
}

impl ControlServer {
    /// Passes on the requests that have come since the last call, each with its client. Never waits.
    pub fn take(&mut self, mut answer: impl FnMut(Request, Client)) {
        for _ in 0..MAX_REQUESTS {
            let Ok((request, client)) = self.requests.try_recv() else { break };
            answer(request, client);
        }
    }

    /// The counts of connections.
    pub fn counters(&self) -> ConnectionSnapshot {
        self.service.counters()
    }
}

/// The peer of a connection.
#[derive(Clone, Copy, Debug)]
struct Peer {
    user: u32,
    process: i32,
}

/// The way to the main thread.
#[derive(Clone)]
struct Ask {
    requests: mpsc::Sender<(Request, Client)>,
    /// The thread that serves, which takes requests. It is woken, so that nobody waits until it looks.
    main: std::thread::Thread,
}

/// Accepts connections, for ever.
async fn accept(socket: &ControlSocket, gate: Gate<u32>, ask: Ask) {
    let listener = socket.listener.try_clone().and_then(UnixListener::from_std);
    let listener = match listener {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("the control socket cannot be served: {error}"),
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => enter(stream, socket.has_group, &gate, &ask),
            Err(error) => {
                tracing::debug!("a control client was lost: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
        // Existing connections get their turn before the next one is accepted.
        tokio::task::yield_now().await;
    }
}

fn enter(stream: UnixStream, has_group: bool, gate: &Gate<u32>, ask: &Ask) {
    let peer = match stream.peer_cred() {
        Ok(peer) => Peer { user: peer.uid(), process: peer.pid().unwrap_or(0) },
        Err(error) => return tracing::debug!("a control client went away: {error}"),
    };
    if !may_ask(peer.user, rustix::process::geteuid().as_raw(), has_group) {
        gate.refuse();
        tracing::warn!("control: user {} (process {}) is refused", peer.user, peer.process);
        // It fits into the socket's buffer, or is lost.
        let _ = stream.try_write(DENIED.as_bytes());
        return;
    }
    let Some((pass, told_to_go)) = gate.enter(peer.user) else { return };
    pass.vouch();
    let ask = ask.clone();
    tokio::spawn(async move {
        tokio::select! {
            served = serve(stream, peer, pass, ask) => if let Err(error) = served {
                tracing::debug!("a control client went away: {error}");
            },
            _ = told_to_go => tracing::debug!("a control client lost its place to another"),
        }
    });
}

/// Root and the instance's own user may always ask. Others may if a group is configured, because the kernel lets only
/// its members connect.
pub(in crate::control) fn may_ask(user: u32, own: u32, has_group: bool) -> bool {
    user == 0 || user == own || has_group
}

/// Answers one request.
async fn serve(mut stream: UnixStream, peer: Peer, pass: Pass<u32>, ask: Ask) -> io::Result<()> {
    let (line, file) = hear(&stream).await?;
    pass.waits();
    let Peer { user, process } = peer;
    let author = format!("user {user} (process {process})");
    let text = match line.parse::<Request>() {
        Err(error) => {
            Audit::refuse(&author, line, &error);
            format!("error: {error}\n")
        }
        Ok(request) => {
            let audit = request.is_logged().then(|| Audit::begin(&author, vec![line]));
            let (answer, answered) = oneshot::channel();
            let by = format!("user {user}");
            let left = Arc::<AtomicBool>::default();
            let client = Client { answer, file, left: Arc::clone(&left), by };
            let reply = match ask.requests.try_send((request, client)) {
                Ok(()) => {
                    ask.main.unpark();
                    wait(&stream, answered, &left).await.ok()
                }
                Err(_) => {
                    let why = "too much is asked at once; try again".to_owned();
                    Some(Reply::Refused(Refusal::Busy, why))
                }
            };
            // There is no answer if the instance stops meanwhile, and the audit says that nobody knows.
            if let (Some(audit), Some(reply)) = (audit, &reply) {
                audit.end(reply);
            }
            reply.map(|reply| reply.to_text()).unwrap_or_default()
        }
    };
    pass.reads();
    let written = async {
        stream.write_all(text.as_bytes()).await?;
        stream.shutdown().await
    };
    timeout(PATIENCE, written).await?
}

/// Waits for the answer, and notes if the client leaves meanwhile.
async fn wait(
    stream: &UnixStream,
    mut answered: oneshot::Receiver<Reply>,
    left: &AtomicBool,
) -> Result<Reply, oneshot::error::RecvError> {
    let mut rest = [0; 512];
    let leaves = async {
        loop {
            let read = stream.async_io(Interest::READABLE, || stream.try_read(&mut rest)).await;
            // What else it says is not heard.
            if !matches!(read, Ok(1..)) {
                break;
            }
        }
    };
    tokio::select! {
        answer = &mut answered => return answer,
        () = leaves => left.store(true, Ordering::Relaxed),
    }
    answered.await
}

/// Reads a request, up to the end of the line.
async fn hear(stream: &UnixStream) -> io::Result<(String, Option<File>)> {
    let deadline = Instant::now() + REQUEST_PATIENCE;
    let (mut request, mut file, mut part) = (Vec::new(), None, [0; 512]);
    while !request.contains(&b'\n') && request.len() < MAX_REQUEST {
        let read = stream.async_io(Interest::READABLE, || handover::receive(stream, &mut part));
        match timeout_at(deadline, read).await {
            Err(_) | Ok(Ok((0, None))) => break,
            Ok(Ok((count, received))) => {
                request.extend_from_slice(&part[..count]);
                file = received.or(file);
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(Err(error)) => return Err(error),
        }
    }
    let line = request.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok((String::from_utf8_lossy(line).into_owned(), file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_12_who_may_ask() {
        assert!(may_ask(0, 1000, false) && may_ask(1000, 1000, false));
        assert!(!may_ask(1001, 1000, false), "whatever the file's mode has become");
        assert!(may_ask(1001, 1000, true), "the file's group has let it in");
    }
}
