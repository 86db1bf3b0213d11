//! The way to the thread that answers calls.

use std::fmt;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::audit::Audit;
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

    /// Makes a call, and waits for the reply. Changes, and calls that show what clients ask, have their line of the audit.
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
        let audit = call.is_logged().then(|| Audit::begin(by, call.spelled()));
        let (answer, answered) = oneshot::channel();
        let asked = Asked { call, by: by.to_owned(), file, answer };
        let answered = match self.ask.try_send(asked) {
            Ok(()) => {
                (self.wake)();
                timeout(patience, answered).await
            }
            Err(mpsc::error::TrySendError::Full(_)) => {
                let why = "too much is asked at once".to_owned();
                return ended(audit, Reply::Refused(Refusal::Busy, why));
            }
            Err(mpsc::error::TrySendError::Closed(_)) => return ended(audit, stopping()),
        };
        match answered {
            Ok(reply) => ended(audit, reply.unwrap_or_else(|_| stopping())),
            Err(_) => {
                let why =
                    "there is no result yet, though the work goes on; ask for the state later";
                audit.into_iter().for_each(|audit| audit.leave(why));
                Reply::Refused(Refusal::Busy, why.to_owned())
            }
        }
    }
}

/// The reply, which the audit has.
fn ended(audit: Option<Audit>, reply: Reply) -> Reply {
    audit.into_iter().for_each(|audit| audit.end(&reply));
    reply
}

fn stopping() -> Reply {
    Reply::Refused(Refusal::Stopping, "the instance stops".to_owned())
}
