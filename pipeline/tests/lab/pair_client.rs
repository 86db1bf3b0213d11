//! A client of two nodes with one address. It asks all the time, and knows which node answers.

use std::collections::HashSet;
use std::fmt;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::messages::{id, wire_name};
use crate::pmdns::TAP_V4;

/// A node has its own `answers.identity`, which it says for this name.
const NAME: &str = "id.server";
/// How often it asks.
const PAUSE: Duration = Duration::from_millis(1);
/// How long one that asks once waits.
const MOMENT: Duration = Duration::from_millis(100);
/// It waits no longer for answers when it has asked enough, and none has come for so long.
const PATIENCE: Duration = Duration::from_secs(2);

/// The answers that a client got, in their order.
#[derive(Default)]
pub(crate) struct Answers {
    asked: usize,
    answers: Vec<(Instant, String)>,
}

/// Asks while `body` runs. Returns the answers, and its result.
pub(crate) fn ask_beside<T>(body: impl FnOnce() -> T) -> (Answers, T) {
    let is_over = AtomicBool::new(false);
    thread::scope(|threads| {
        let client = threads.spawn(|| Answers::of(&is_over));
        let ends = Ends(&is_over);
        let result = body();
        drop(ends);
        (client.join().unwrap(), result)
    })
}

/// The node that answers now; `None`: none does.
pub(crate) fn who_answers() -> Option<String> {
    let client = client();
    client.set_read_timeout(Some(MOMENT)).unwrap();
    client.send(&question(0)).ok()?;
    let mut reply = [0; 512];
    let length = client.recv(&mut reply).ok()?;
    Some(node(&reply[..length]))
}

/// The client ends too when the lab fails.
struct Ends<'o>(&'o AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Answers {
    fn of(is_over: &AtomicBool) -> Self {
        let client = client();
        client.set_nonblocking(true).unwrap();
        let (mut seen, mut waiting, mut number) = (Self::default(), HashSet::new(), 0_u16);
        while !is_over.load(Ordering::Relaxed) {
            // Without a node the kernel may refuse to send.
            let _ = client.send(&question(number));
            seen.asked += 1;
            waiting.insert(number);
            number = number.wrapping_add(1);
            thread::sleep(PAUSE);
            seen.take(&client, &mut waiting);
        }
        let ended = Instant::now();
        while !waiting.is_empty()
            && seen.last().max(Some(ended)).is_some_and(|last| last.elapsed() < PATIENCE)
        {
            thread::sleep(PAUSE);
            seen.take(&client, &mut waiting);
        }
        seen
    }

    /// Takes the answers that have come.
    fn take(&mut self, client: &UdpSocket, waiting: &mut HashSet<u16>) {
        let mut reply = [0; 512];
        loop {
            match client.recv(&mut reply) {
                Ok(length) if waiting.remove(&id(&reply)) => {
                    self.answers.push((Instant::now(), node(&reply[..length])));
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // Another host says that nobody is there.
                Err(_) => {}
            }
        }
    }

    /// When the last answer came.
    fn last(&self) -> Option<Instant> {
        self.answers.last().map(|(at, _)| *at)
    }

    /// Questions without an answer.
    pub(crate) fn lost(&self) -> usize {
        self.asked - self.answers.len()
    }

    /// The nodes that answered, one after another.
    pub(crate) fn nodes(&self) -> Vec<&str> {
        let mut nodes: Vec<&str> = self.answers.iter().map(|(_, node)| node.as_str()).collect();
        nodes.dedup();
        nodes
    }

    /// The longest time without an answer.
    pub(crate) fn dark(&self) -> Duration {
        let pairs = self.answers.windows(2).map(|pair| pair[1].0 - pair[0].0);
        pairs.max().unwrap_or_default()
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lost, asked, dark) = (self.lost(), self.asked, self.dark());
        let nodes = self.nodes().join(", ");
        write!(
            f,
            "{lost} of {asked} lost; no answer for {} ms; answered by {nodes}",
            dark.as_millis()
        )
    }
}

fn client() -> UdpSocket {
    let client = UdpSocket::bind("10.97.0.1:0").unwrap();
    client.connect((TAP_V4, 53)).unwrap();
    client
}

/// The name of a node is three letters long, and the last thing in its reply.
fn node(reply: &[u8]) -> String {
    String::from_utf8_lossy(&reply[reply.len() - 3..]).into_owned()
}

/// Asks a node who it is: type TXT, class CH (RFC 4892).
fn question(number: u16) -> Vec<u8> {
    let mut query = Vec::new();
    for field in [number, 0, 1, 0, 0, 0] {
        query.extend(field.to_be_bytes());
    }
    query.extend(wire_name(NAME));
    query.extend([0, 16, 0, 3]);
    query
}
