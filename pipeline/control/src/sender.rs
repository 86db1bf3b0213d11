//! The way to the thread that answers calls.

use std::fmt;
use std::fs::File;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::answers::Done;
use crate::audit::Audit;
use crate::{Call, CallReply, Refusal, Refused, Reply};

/// Calls that wait for the main thread, which takes them all at once.
pub const MAX_CALLS: usize = 64;

/// Who makes a call, and waits for a reply of the type `R`.
#[derive(Debug)]
pub struct Caller<R = Done> {
    /// Its name, for people.
    pub by: String,
    /// Whether its change is to end with the process.
    pub until_restart: bool,
    /// The pipe that came with the call.
    pub file: Option<File>,
    has_left: Arc<AtomicBool>,
    reply: oneshot::Sender<CallReply>,
    wants: PhantomData<fn(R)>,
}

/// The reply to any call.
#[derive(Debug)]
pub enum AnyReply {}

/// The caller of any call. [`Call::with`] says which type of reply it waits for.
pub type AnyCaller = Caller<AnyReply>;

impl<R> Caller<R> {
    /// A caller of this name, and where its reply comes out.
    pub fn new(by: &str) -> (Self, oneshot::Receiver<CallReply>) {
        let (reply, replied) = oneshot::channel();
        let by = by.to_owned();
        let has_left = Arc::default();
        let wants = PhantomData;
        (Self { by, until_restart: false, file: None, has_left, reply, wants }, replied)
    }

    /// Who waits for no reply.
    pub fn of_nobody(by: &str) -> Self {
        Self::new(by).0
    }

    /// Replies that it is not done, and why. Never waits.
    pub fn refuse(self, refusal: Refusal, why: impl Into<String>) {
        self.send(CallReply::Refused(refusal, why.into()));
    }

    /// Sends a reply of whatever type. A caller that has left needs none.
    fn send(self, reply: CallReply) {
        let _ = self.reply.send(reply);
    }

    /// The same caller, who waits for a reply of this type.
    pub(crate) fn of_call<T>(self) -> Caller<T> {
        let Self { by, until_restart, file, has_left, reply, .. } = self;
        Caller { by, until_restart, file, has_left, reply, wants: PhantomData }
    }

    /// Whether it wants no more, or has left. That ends what it has asked for, if it takes long.
    pub fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed) || self.reply.is_closed()
    }

    /// Resolves when it has left.
    #[cfg(test)]
    pub(crate) async fn left(&mut self) {
        self.reply.closed().await;
    }
}

impl<R: Reply> Caller<R> {
    /// Replies, and never waits.
    pub fn reply(self, reply: Result<R, Refused>) {
        self.prepare(reply).send();
    }

    /// A reply that is sent later.
    pub fn prepare(self, reply: Result<R, Refused>) -> PreparedReply {
        let reply = match reply {
            Ok(value) => value.into_reply(),
            Err((refusal, why)) => CallReply::Refused(refusal, why),
        };
        PreparedReply { caller: self.of_call(), reply }
    }
}

impl Caller {
    /// Replies with a sentence about what is done.
    pub fn done(self, done: impl Into<String>) {
        self.reply(Ok(Done { done: done.into() }));
    }
}

impl AnyCaller {
    /// Replies for a stand-in of the instance, which does not look at the call.
    pub fn reply(self, reply: CallReply) {
        self.send(reply);
    }
}

/// A reply that is sent when what it says holds.
#[derive(Debug)]
pub struct PreparedReply {
    caller: AnyCaller,
    reply: CallReply,
}

impl PreparedReply {
    /// Sends it.
    pub fn send(self) {
        self.caller.send(self.reply);
    }

    /// Replies otherwise: that it is not done.
    pub fn refuse(self, (refusal, why): Refused) {
        self.caller.refuse(refusal, why);
    }
}

/// What a call comes with, besides its words.
#[derive(Debug, Default)]
pub(crate) struct Enclosed {
    /// A pipe, which is written to or read.
    pub(crate) file: Option<File>,
    /// Set when its caller wants no more.
    pub(crate) has_left: Arc<AtomicBool>,
    /// Whether its change is to end with the process.
    pub(crate) until_restart: bool,
}

/// Where calls go in. Clones lead to the same thread.
#[derive(Clone)]
pub struct CallSender {
    calls: mpsc::Sender<(Call, AnyCaller)>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

/// Where calls come out.
pub type CallReceiver = mpsc::Receiver<(Call, AnyCaller)>;

impl fmt::Debug for CallSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallSender")
    }
}

impl CallSender {
    /// A sender, and the end at which calls come out. After each call the sender calls `wake`.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> (Self, CallReceiver) {
        let (calls, receiver) = mpsc::channel(MAX_CALLS);
        (Self { calls, wake: Arc::new(wake) }, receiver)
    }

    /// Makes a call, and waits for the reply. Changes, and calls that show what clients ask, have their line of the audit.
    pub async fn ask(&self, call: Call, by: &str) -> CallReply {
        self.ask_with(call, by, Enclosed::default()).await
    }

    /// The same for a call that comes with more than its words.
    pub(crate) async fn ask_with(&self, call: Call, by: &str, enclosed: Enclosed) -> CallReply {
        let Enclosed { file, has_left, until_restart } = enclosed;
        let lasting = if until_restart { " until-restart" } else { "" };
        let spelled = || call.spelled().into_iter().map(|line| line + lasting).collect();
        let audit = call.is_logged().then(|| Audit::begin(by, spelled()));
        let patience = call.patience();
        let (caller, replied) = Caller::new(by);
        let caller = Caller { file, has_left, until_restart, ..caller };
        let replied = match self.calls.try_send((call, caller)) {
            Ok(()) => {
                (self.wake)();
                timeout(patience, replied).await
            }
            Err(mpsc::error::TrySendError::Full(_)) => {
                let why = "too much is asked at once; try again".to_owned();
                return ended(audit, CallReply::Refused(Refusal::Busy, why));
            }
            Err(mpsc::error::TrySendError::Closed(_)) => return ended(audit, stopping()),
        };
        match replied {
            Ok(reply) => ended(audit, reply.unwrap_or_else(|_| stopping())),
            Err(_) => {
                let why =
                    "there is no result yet, though the work goes on; ask for the state later";
                audit.into_iter().for_each(|audit| audit.leave(why));
                CallReply::Refused(Refusal::Busy, why.to_owned())
            }
        }
    }
}

/// The reply, which the audit has.
fn ended(audit: Option<Audit>, reply: CallReply) -> CallReply {
    audit.into_iter().for_each(|audit| audit.end(&reply));
    reply
}

fn stopping() -> CallReply {
    CallReply::Refused(Refusal::Stopping, "the instance stops".to_owned())
}
