//! The way to the thread that answers calls.

use std::fmt;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::{Call, Refusal, Reply};

/// Calls that wait for the main thread, which takes them all at once.
pub const MAX_ASKED: usize = 64;

/// A call on its way.
#[derive(Debug)]
pub struct Asked {
    /// The call.
    pub call: Call,
    /// Who asks, for the log.
    pub by: String,
    /// The file that is written to.
    pub file: Option<File>,
    /// The way back.
    pub answer: oneshot::Sender<Reply>,
}

/// Where calls go in. Clones lead to the same thread.
#[derive(Clone)]
pub struct Door {
    ask: mpsc::Sender<Asked>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Door")
    }
}

impl Door {
    /// A door, and the end at which calls come out. After each call the door calls `wake`.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> (Self, mpsc::Receiver<Asked>) {
        let (ask, asked) = mpsc::channel(MAX_ASKED);
        (Self { ask, wake: Arc::new(wake) }, asked)
    }

    /// Makes a call, and waits for the reply. Changes are logged with the one who makes them.
    pub async fn ask(&self, call: Call, by: &str, patience: Duration) -> Reply {
        self.ask_with(call, by, None, patience).await
    }

    /// The same for a call that writes to a file or a pipe.
    pub async fn ask_with(
        &self,
        call: Call,
        by: &str,
        file: Option<File>,
        patience: Duration,
    ) -> Reply {
        if call.is_logged() {
            tracing::info!("api: {by} asks: {}", call.summary().escape_debug());
        }
        let (answer, answered) = oneshot::channel();
        let asked = Asked { call, by: by.to_owned(), file, answer };
        match self.ask.try_send(asked) {
            Ok(()) => (self.wake)(),
            Err(mpsc::error::TrySendError::Full(_)) => {
                return Reply::Refused(Refusal::Busy, "too much is asked at once".to_owned());
            }
            Err(mpsc::error::TrySendError::Closed(_)) => return stopping(),
        }
        match timeout(patience, answered).await {
            Ok(reply) => reply.unwrap_or_else(|_| stopping()),
            Err(_) => {
                let why =
                    "there is no result yet, though the work goes on; ask for the state later";
                Reply::Refused(Refusal::Busy, why.to_owned())
            }
        }
    }
}

fn stopping() -> Reply {
    Reply::Refused(Refusal::Stopping, "the instance stops".to_owned())
}
