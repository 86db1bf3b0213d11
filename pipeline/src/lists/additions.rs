//! Clients that add lists. Each is answered when its list has been fetched for the first time, not when it is merely known.

use pmdns_control::Reply;
use tokio::sync::oneshot;

use super::Lists;
use crate::control::socket::Client;

/// Clients that wait.
#[derive(Debug, Default)]
pub struct Additions {
    waiting: Vec<Addition>,
}

#[derive(Debug)]
struct Addition {
    name: String,
    client: Client,
    reply: oneshot::Receiver<Reply>,
}

impl Additions {
    /// Has the client wait until its list is known. The result is the one to be answered then.
    pub fn wait_for(&mut self, name: String, client: Client) -> Client {
        let (answer, reply) = oneshot::channel();
        let known = Client::new(answer, client.by.clone(), None);
        self.waiting.push(Addition { name, client, reply });
        known
    }

    /// Whether a client waits.
    pub fn is_busy(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Has the clients whose lists are known wait for the first fetch, and answers those whose lists are refused.
    pub fn turn(&mut self, lists: &Lists) {
        for index in (0..self.waiting.len()).rev() {
            let reply = match self.waiting[index].reply.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => continue,
                Err(oneshot::error::TryRecvError::Closed) => None,
                Ok(reply) => Some(reply),
            };
            let Addition { name, client, .. } = self.waiting.swap_remove(index);
            match reply {
                Some(Reply::Done(_)) => lists.tell_first(name, client),
                Some(reply) => client.reply(reply),
                // The instance stops, and so does its client's connection.
                None => drop(client),
            }
        }
    }
}
