//! The thread that validates: the library's validator, and how it asks for keys.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use crossbeam_channel::Sender;
use domain::base::name::ToName as _;
use domain::base::{Message, Name, Rtype};
use domain::dnssec::validator::context::{Config, ValidationContext, ValidationState};
use domain::net::client::request::{
    ComposeRequest as _, Error, GetResponse, RequestMessage, SendRequest,
};
use pmdns_stages::wire::edns::ExtendedError;
use slab::Slab;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::message::{self, Signatures};
use super::{Anchors, MAX_UNDER_WAY, Report, Sound, Standing, Verdict, Work};

/// Zones whose keys are remembered.
const MAX_ZONES: u64 = 10_000;
/// How long they are, at most. A zone that was found bogus is so for no longer either (RFC 9520 section 3.2).
const MAX_ZONE_VALIDITY: Duration = Duration::from_secs(300);
/// The same where keys could not be had at all.
const MAX_FAILURE_VALIDITY: Duration = Duration::from_secs(1);
/// Results of signature checks that the library remembers. It would do so beyond their expiration: none.
const NO_SIGNATURES: u64 = 1;
/// NSEC3 iterations above which a proof counts as none, and the zone as unsigned (RFC 9276 section 3.2).
const MAX_NSEC3_ITERATIONS: u16 = 100;

type Validator = ValidationContext<Fetcher>;

/// Judges replies until nobody can send any.
pub(super) async fn serve(
    anchors: Anchors,
    patience: Duration,
    mut work: mpsc::Receiver<Work>,
    reports: Sender<Report>,
) {
    let fetches: Rc<RefCell<Slab<oneshot::Sender<Bytes>>>> = Rc::default();
    let fetcher = Fetcher { fetches: Rc::clone(&fetches), reports: reports.clone() };
    let context = ValidationContext::with_config(anchors.trusted(), fetcher, limits());
    let (context, anchors) = (Rc::new(context), Rc::new(anchors));
    while let Some(work) = work.recv().await {
        match work {
            Work::Validate { slot, reply, dnssec_ok } => {
                let (context, anchors) = (Rc::clone(&context), Rc::clone(&anchors));
                let reports = reports.clone();
                tokio::task::spawn_local(async move {
                    let judged = timeout(patience, judge(&context, &anchors, reply, dnssec_ok));
                    let verdict = judged.await.unwrap_or(Verdict::Late);
                    // There is room for every report; who asked may have ended.
                    let _ = reports.try_send(Report::Verdict { slot, verdict });
                });
            }
            Work::Fetched { fetch, reply } => {
                let waiting = fetches.borrow_mut().try_remove(fetch);
                if let (Some(waiting), Some(reply)) = (waiting, reply) {
                    // Who waited may have run out of time.
                    let _ = waiting.send(reply.into());
                }
            }
        }
    }
}

/// What one reply may cost; the library's own limits stand against many signatures, keys and hashes
/// (CVE-2023-50387, CVE-2023-50868).
fn limits() -> Config {
    let mut limits = Config::new();
    limits.set_max_node_cache(MAX_ZONES);
    limits.set_max_validity(MAX_ZONE_VALIDITY);
    limits.set_max_bogus_validity(MAX_FAILURE_VALIDITY);
    limits.set_max_isig_cache(NO_SIGNATURES);
    limits.set_max_usig_cache(NO_SIGNATURES);
    limits.set_nsec3_iter_insecure(MAX_NSEC3_ITERATIONS);
    limits
}

async fn judge(context: &Validator, anchors: &Anchors, reply: Vec<u8>, dnssec_ok: bool) -> Verdict {
    let Ok(message) = Message::from_octets(&*reply) else {
        return Verdict::Bogus(ExtendedError::DNSSEC_BOGUS);
    };
    let Some(signatures) = Signatures::of(&message) else {
        return Verdict::Bogus(ExtendedError::DNSSEC_BOGUS);
    };
    let evidence = message::evidence(&message, |name| anchors.spare(name));
    let (state, why) = match evidence {
        None => (ValidationState::Insecure, None),
        Some((mut evidence, is_whole)) => {
            match context.validate_msg::<_, Vec<u8>>(&mut evidence).await {
                Ok((ValidationState::Secure, _)) if !is_whole => (ValidationState::Insecure, None),
                Ok((state, why)) => (state, why),
                Err(error) => {
                    tracing::debug!("a reply cannot be validated: {error}");
                    (ValidationState::Bogus, None)
                }
            }
        }
    };
    let standing = match state {
        // What the library remembers of a signature outlives it.
        ValidationState::Secure if signatures.lapsed.is_none() => Standing::Secure,
        ValidationState::Secure | ValidationState::Bogus => {
            tracing::debug!("{:?} is bogus: {why:?}", message.sole_question().ok());
            return Verdict::Bogus(signatures.why_bogus());
        }
        ValidationState::Insecure => Standing::Insecure,
        ValidationState::Indeterminate => Standing::Indeterminate,
    };
    let is_secure = standing == Standing::Secure;
    // RFC 4035 section 5.3.3.
    let max_ttl = if is_secure { signatures.max_ttl } else { u32::MAX };
    match message::passed_on(&message, is_secure, dnssec_ok) {
        Some(reply) => Verdict::Sound(Sound { standing, reply, max_ttl }),
        None => Verdict::Bogus(ExtendedError::DNSSEC_BOGUS),
    }
}

/// Asks for keys by way of the desk.
struct Fetcher {
    fetches: Rc<RefCell<Slab<oneshot::Sender<Bytes>>>>,
    reports: Sender<Report>,
}

impl SendRequest<RequestMessage<Vec<u8>>> for Fetcher {
    fn send_request(&self, request: RequestMessage<Vec<u8>>) -> Box<dyn GetResponse + Send + Sync> {
        Box::new(Fetch(self.fetch(&request)))
    }
}

impl Fetcher {
    /// `None`: too much is under way, or this is no question.
    fn fetch(&self, request: &RequestMessage<Vec<u8>>) -> Option<oneshot::Receiver<Bytes>> {
        let message = request.to_message().ok()?;
        let question = message.sole_question().ok()?;
        let (name, qtype): (Name<Vec<u8>>, Rtype) = (question.qname().to_name(), question.qtype());
        let mut fetches = self.fetches.borrow_mut();
        if fetches.len() >= MAX_UNDER_WAY {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        let fetch = fetches.insert(sender);
        let name = name.as_slice().to_ascii_lowercase().into();
        let report = Report::Fetch { fetch, name, qtype: qtype.to_int() };
        if self.reports.try_send(report).is_err() {
            fetches.remove(fetch);
            return None;
        }
        Some(receiver)
    }
}

/// A question to the upstreams that is under way.
#[derive(Debug)]
struct Fetch(Option<oneshot::Receiver<Bytes>>);

impl GetResponse for Fetch {
    fn get_response(
        &mut self,
    ) -> Pin<Box<dyn Future<Output = Result<Message<Bytes>, Error>> + Send + Sync + '_>> {
        Box::pin(async {
            let receiver = self.0.as_mut().ok_or(Error::ConnectionClosed)?;
            let reply = receiver.await.map_err(|_| Error::ConnectionClosed)?;
            Message::from_octets(reply).map_err(|_| Error::ShortMessage)
        })
    }
}
