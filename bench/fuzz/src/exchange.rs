//! One question from client to upstream and back. A miss gets the upstream's message, which becomes an entry. The
//! client gets the answer, and then the same answer from the cache.

use pmdns_nics::Verified;
use pmdns_stages::cache::{Entry, Lifetimes, Unusable};
use pmdns_stages::testing::QueryFrame;
use pmdns_stages::{Answer, Context, Step};

use crate::check;
use crate::forwarder::Forwarder;

/// Has the line ask `query`, replies with `upstream`, and checks what the client gets `later` seconds after.
///
/// `None`: the line does not ask such things. An error: the message is no answer.
pub(crate) fn exchange(
    forwarder: &mut Forwarder,
    query: &QueryFrame,
    upstream: &[u8],
    lifetimes: &Lifetimes,
    later: u32,
) -> Option<Result<(), Unusable>> {
    let asked = query.frame_bytes();
    let miss = forwarder.hand(&asked, Verified::NOTHING).misses.pop()?;
    let now = forwarder.seconds();
    let slow_path = &mut forwarder.rig.slow_path[0];
    let key = miss.key();
    let hash = key.hash(slow_path.resolver.cache.seed(), miss.key);
    let entry = match Entry::from_reply(upstream, key, hash, now, lifetimes) {
        Ok(entry) => entry,
        Err(unusable) => return Some(Err(unusable)),
    };
    let mut packet = miss.packet(&slow_path.resolver.pool, Answer::None)?;
    let context = Context { now: 0, seconds: now + later };
    let step = slow_path.resolver.encode.answer_with(&mut packet, &entry, &context);
    assert_eq!(step, Step::TRANSMIT, "what fits the entry fits a frame");
    let fresh = packet.frame.bytes().to_vec();
    drop(packet);
    check::answers(&asked, &fresh);
    let answer = check::message(&fresh)?;
    check::own_records(upstream, answer, lifetimes, later);
    // The cached one must be the same. A second or two may pass meanwhile.
    slow_path.resolver.writer.insert(&entry);
    if entry.head().expires > now + 5 {
        let cached =
            forwarder.hand(&asked, Verified::NOTHING).sent.pop().expect("it is in the cache");
        let cached = check::message(&cached).expect("a whole answer");
        assert!(check::same_but_for_ttls(answer, cached), "fresh and cached answers differ");
    }
    forwarder.rig.slow_path[0].resolver.writer.remove(hash);
    Some(Ok(()))
}
