//! One question put to the upstreams, until one of them answers, the plan gives up, or nobody waits for
//! the answer any more.

use std::time::Duration;

use pmdns_config::Upstream;
use pmdns_stages::Tick;
use pmdns_stages::cache::Entry;
use pmdns_stages::wire::dns::Rcode;
use tokio::time::{sleep, timeout};

use super::counters::{UpstreamCounters, count};
use super::desk::Desk;
use super::plan::{Attempt, Next, Plan, Setback, Transport};
use super::query::{Face, Query, Question};
use super::udp::Lost;
use super::{tcp, udp};

/// How an exchange ends.
#[derive(Debug)]
pub(super) enum Outcome {
    /// With an answer.
    Answer(Entry),
    /// Without one.
    Failure,
}

/// Asks the upstreams.
///
/// It goes on as long as somebody waits, each with a deadline of its own, and the plan has tries left.
/// When the last one has gone it stops, and does not wait for a reply just to have it in the cache: an
/// upstream that found the answer late has it in its own cache for the next time, and here a table
/// full of questions nobody waits for is how forwarders come to refuse all others (unbound#227).
pub(super) async fn ask(desk: &Desk, question: &Question) -> Outcome {
    let order = desk.health.borrow_mut().order(desk.uptime());
    let mut plan = Plan::new(order);
    while let Some(left) = time_left(desk, question) {
        match plan.next() {
            Next::Try(attempt) => match try_once(desk, question, attempt, left).await {
                Ok(entry) => return Outcome::Answer(entry),
                Err(setback) => plan.learn(attempt, setback),
            },
            Next::Pause(pause) => sleep(pause.min(left)).await,
            Next::GiveUp => break,
        }
    }
    Outcome::Failure
}

/// Until the last deadline of those who wait; `None`: nobody waits.
fn time_left(desk: &Desk, question: &Question) -> Option<Duration> {
    let now: Tick = desk.clock.now();
    let deadline = desk.pending.borrow().latest_deadline(question)?;
    (deadline > now).then(|| desk.clock.duration_of(deadline - now))
}

/// Asks one upstream once.
async fn try_once(
    desk: &Desk,
    question: &Question,
    attempt: Attempt,
    left: Duration,
) -> Result<Entry, Setback> {
    let upstream = &desk.upstreams[attempt.upstream];
    let counters = &desk.upstream_counters[attempt.upstream];
    let permit = async {
        match attempt.transport {
            Transport::Udp => desk.sockets.permit_udp().await,
            Transport::Tcp => desk.sockets.permit_tcp().await,
        }
    };
    let Ok(_permit) = timeout(left, permit).await else { return Err(Setback::Silent) };
    let Some(left) = time_left(desk, question) else { return Err(Setback::Silent) };
    let patience = Duration::from_millis(upstream.timeout_ms);
    let sent = desk.uptime();
    let conversation = converse(upstream, counters, question, attempt);
    let reply = timeout(patience.min(left), conversation).await;
    let now = desk.uptime();
    match reply {
        Ok(Ok(reply)) => {
            count(&counters.replies);
            desk.note_reply(attempt.upstream, now.saturating_sub(sent), now);
            read(desk, question, attempt, counters, &reply)
        }
        Ok(Err(Lost::Flooded)) => Err(Setback::NeedsTcp),
        Ok(Err(Lost::NotSent(error))) => {
            desk.note_socket_error(&error);
            Err(Setback::Unreachable)
        }
        Ok(Err(Lost::Broken(error))) => {
            tracing::debug!("upstream {}: {error}", upstream.address);
            count(&counters.errors);
            desk.note_failure(attempt.upstream, sent, now);
            Err(Setback::Unreachable)
        }
        Err(_) => {
            count(&counters.timeouts);
            // An upstream is not to blame for a try that our clients' deadlines cut short.
            if left >= patience {
                desk.note_failure(attempt.upstream, sent, now);
            }
            Err(Setback::Silent)
        }
    }
}

/// Sends the query and returns the reply to it.
async fn converse(
    upstream: &Upstream,
    counters: &UpstreamCounters,
    question: &Question,
    attempt: Attempt,
) -> Result<Vec<u8>, Lost> {
    let id = udp::random().map_err(Lost::NotSent)? as u16;
    let query = Query::new(question, id, attempt.edns);
    match attempt.transport {
        Transport::Udp => {
            count(&counters.queries);
            udp::exchange(upstream.address, upstream.source, &query, &counters.mismatched).await
        }
        Transport::Tcp => {
            count(&counters.tcp);
            tcp::exchange(upstream.address, upstream.source, &query).await
        }
    }
}

/// Makes an entry of a reply that is known to belong to its query.
///
/// An upstream's SERVFAIL, REFUSED and the like say that *it* has no answer: the next one is asked, and
/// if none has any, the client gets SERVFAIL, as from other forwarders. To pass on REFUSED would tell the
/// client that we refuse to serve it.
fn read(
    desk: &Desk,
    question: &Question,
    attempt: Attempt,
    counters: &UpstreamCounters,
    reply: &[u8],
) -> Result<Entry, Setback> {
    match Face::of(reply) {
        Face::Answer => {
            let seconds = desk.context().seconds;
            let (key, hash) = (question.key(), question.hash());
            let Ok(entry) = Entry::from_reply(reply, key, hash, seconds, &desk.lifetimes) else {
                count(&counters.malformed);
                return Err(Setback::NeedsTcp);
            };
            // BADVERS and its like show in the OPT record only (RFC 6891 section 6.1.3).
            if !matches!(entry.head().rcode, Rcode::NOERROR | Rcode::NXDOMAIN) {
                count(&counters.rcode_failures);
                return Err(Setback::Refused);
            }
            Ok(entry)
        }
        Face::Truncated => Err(Setback::NeedsTcp),
        Face::FormatError if attempt.edns => {
            count(&counters.rcode_failures);
            Err(Setback::NeedsPlainDns)
        }
        Face::FormatError | Face::Failure => {
            count(&counters.rcode_failures);
            Err(Setback::Refused)
        }
    }
}
