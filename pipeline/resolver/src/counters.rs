//! Counters of the slow path. Its threads write, anybody may read: relaxed atomics.

use std::sync::atomic::{AtomicU64, Ordering};

use pmdns_counters::counters;
use pmdns_stages::cache::CacheStats;

/// Counts one. Only the thread of these counters writes them, so this takes no locked instruction.
pub(crate) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

/// Counts so many.
pub(crate) fn add(counter: &AtomicU64, number: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(number), Ordering::Relaxed);
}

/// Lowers a gauge by one.
pub(crate) fn lower(gauge: &AtomicU64) {
    gauge.store(gauge.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
}

/// The same for counters that threads share, which are those of the upstreams.
pub(crate) mod shared {
    pub(crate) use pmdns_counters::{add, count};
}

counters! {
    /// The counters of one thread of the slow path, which alone writes them.
    Counters,
    /// The counters of the slow path, read at one time.
    CountersSnapshot {
        /// Misses taken from the data cores.
        misses: counter,
        /// Misses that the cache could answer when they arrived.
        answered_from_cache_late: counter,
        /// Misses that started a question to the upstreams.
        leaders: counter,
        /// Misses that joined a question already under way.
        coalesced: counter,
        /// Clients answered with an upstream's answer.
        answered: counter,
        /// Clients answered with an answer kept for their network only.
        answered_for_subnet: counter,
        /// Clients answered with an expired answer, because no upstream had a better one in time.
        stale: counter,
        /// Clients answered with NXDOMAIN, because a name above does not exist.
        nxdomain_cut: counter,
        /// Questions put to the upstreams over TCP, because NXDOMAIN for them came over UDP and would deny names below.
        nxdomain_confirmed: counter,
        /// Clients answered with SERVFAIL.
        servfail: counter,
        /// Clients that get no answer, because a rule about the content of answers says so.
        silenced: counter,
        /// Waiting clients whose deadline passed.
        deadline: counter,
        /// Answers with addresses made of those of IPv4 (DNS64).
        synthesised: counter,
        /// Misses answered with SERVFAIL because their question failed a moment ago.
        failed_recently: counter,
        /// Misses dropped because too many questions were pending.
        shed_pending: counter,
        /// Misses dropped because too many clients' queries were waiting.
        shed_waiting: counter,
        /// Misses dropped because too many queries of the same client were waiting.
        shed_client: counter,
        /// Misses dropped because too many queries of the same client prefix were waiting.
        shed_prefix: counter,
        /// Waiting queries dropped because a client prefix with fewer needed room.
        shed_displaced: counter,
        /// Waiting queries dropped because every upstream had too many queries of their client prefix.
        shed_upstream: counter,
        /// Clients told with SERVFAIL that their query was dropped for want of room; they are among the shed, and in `servfail`.
        told_busy: counter,
        /// Answers dropped because the frame pool was empty.
        shed_no_frame: counter,
        /// Answers dropped because the ring to the transmitting core was full.
        shed_ring_full: counter,
        /// Answers dropped because they did not fit the frame.
        shed_too_long: counter,
        /// Answers put into the cache.
        inserted: counter,
        /// Answers not put into the cache: their TTL is zero, or the cache refused them.
        not_cached: counter,
        /// Answers taken out of the cache after a reload: rules about their content had rewritten them, or would now.
        withdrawn: counter,
        /// Questions put to a second upstream because the first took longer than it usually does.
        hedged: counter,
        /// Queries whose answer was not needed, because another upstream's came first.
        wasted: counter,
        /// Popular answers asked for again before they expired.
        prefetched: counter,
        /// Popular answers not asked for again, because too many were planned or too much was pending.
        prefetch_shed: counter,
        /// Popular answers that expired before their turn to be asked for again.
        prefetch_late: counter,
        /// Answers planned to be asked for again that were not popular any more when their turn came.
        prefetch_dropped: counter,
        /// Replies whose signatures are right, along the whole chain from a trust anchor.
        secure: counter,
        /// Replies that are provably not signed, or excluded from validation.
        insecure: counter,
        /// Replies refused because they are forged, or their signatures are missing, wrong or expired.
        bogus: counter,
        /// Replies that could not be judged: no trust anchor is above them, or there was no time.
        indeterminate: counter,
        /// Questions put to the upstreams to validate replies to others.
        validation_queries: counter,
        /// Replies and questions of the validator that were refused. Too many were under way, in all or of one network
        /// or zone, or one network took too much of its time.
        validation_shed: counter,
        /// Replies refused because their validation costs more than the limit.
        validation_over_budget: counter,
        /// Replies that might cost less than others, because their zone had used up its budget.
        validation_frugal: counter,
        /// Queries sent over TCP because the same name and type was asked for over UDP in too many variants already.
        crowded: counter,
        /// Queries over ports that found no UDP port: all were in use, or the share of their client prefix was.
        no_udp_port: counter,
        /// Packets over ports that no query took: theirs had ended by then, or ICMP errors were too many in that second.
        unclaimed: counter,
        /// Sockets that could not be opened.
        socket_errors: counter,
        /// Answers kept for one network only, expired ones among them.
        subnet_answers: gauge,
        /// Questions pending now.
        pending: gauge,
        /// Clients' queries waiting now.
        waiting: gauge,
    }
}

counters! {
    /// The counters of one upstream. All threads share them.
    UpstreamCounters,
    /// The counters of one upstream, read at one time.
    UpstreamSnapshot {
        /// Queries sent over UDP.
        queries: counter,
        /// Queries sent over TCP.
        tcp: counter,
        /// Queries sent over an encrypted connection.
        encrypted: counter,
        /// Queries sent only to find out whether a resting upstream is back; they are among the others.
        probes: counter,
        /// Replies that belong to their query.
        replies: counter,
        /// Queries without a reply when the upstream's retry timeout passed. Their replies are still taken.
        late: counter,
        /// Queries without a reply in `timeout_ms`, or in the retry timeout if that is longer.
        timeouts: counter,
        /// Datagrams that did not match the query they came for; forged, or very late.
        mismatched: counter,
        /// Replies with the question in other letters than the query's, which then went over TCP; they are among the mismatched.
        case_mismatch: counter,
        /// Times such replies came one after the other, so that letters were left alone for an hour.
        case_mixing_paused: counter,
        /// Replies with the cookie of their query.
        cookies: counter,
        /// Replies over UDP without the cookie that the upstream shows else, which then went over TCP; they are among
        /// the mismatched.
        cookieless: counter,
        /// Times the upstream was found not to know EDNS, so that it was asked without for 15 minutes.
        without_edns: counter,
        /// Replies about another network than their query, or over UDP about none, which were not used.
        other_subnet: counter,
        /// Replies over UDP longer than the query allowed, which were not used.
        oversized: counter,
        /// Queries ended by an error of the network, for example "connection refused".
        errors: counter,
        /// Replies that belong to their query but cannot be understood.
        malformed: counter,
        /// Replies without a record about the question, which were not used.
        no_answer: counter,
        /// Records left out of replies because they are not about the question.
        scrubbed: counter,
        /// Replies with an rcode other than NOERROR, NXDOMAIN and YXDOMAIN.
        rcode_failures: counter,
        /// Queries not sent because too many to the same encrypted upstream or over ports were under way, or too many of their
        /// client prefix.
        shed: counter,
        /// Encrypted connections opened.
        connections: counter,
        /// Encrypted connections opened that resumed a session.
        resumed: counter,
        /// Encrypted connections that could not be opened.
        connect_failures: counter,
        /// Certificates refused: not for the name, not from a trusted root, or none of the pinned keys.
        untrusted: counter,
        /// Smoothed round-trip time in microseconds, of the thread that measured last.
        srtt_us: gauge,
        /// 0: well. 1: resting after failures, asked after the others.
        state: gauge,
        /// 1: it rests, and a probe of ours had no reply either, or SERVFAIL like ten before. Clients alone cannot make it so.
        dead: gauge,
    }
}

counters! {
    /// The counters of a shard of the cache. The thread that writes to it publishes them.
    CacheCounters,
    /// The counters of a shard of the cache, read at one time.
    CacheSnapshot {
        /// Answers in the index, including expired ones.
        entries: gauge,
        /// Bytes in use: the index, and the filled part of the log.
        bytes_used: gauge,
        /// Bytes of the shard.
        bytes_total: gauge,
        /// Answers inserted, including replacements.
        inserted: counter,
        /// Answers that another for the same question replaced.
        replaced: counter,
        /// Answers evicted at the end of the log, to make room.
        evicted: counter,
        /// Answers appended to the log again, because they were worth keeping.
        kept: counter,
        /// Answers evicted because both of their buckets in the index were full.
        index_evicted: counter,
        /// Answers refused because they were larger than the log.
        too_long: counter,
        /// Negative answers refused because their share of the shard is used up.
        negative_refused: counter,
        /// Long answers of which only the time is kept, because their share of the shard is used up.
        long_refused: counter,
    }
}

impl CacheCounters {
    /// Publishes what the writer of the shard has counted.
    pub(crate) fn publish(&self, stats: &CacheStats) {
        let values = [
            (&self.entries, stats.entries),
            (&self.bytes_used, stats.bytes_used),
            (&self.bytes_total, stats.bytes_total),
            (&self.inserted, stats.inserted),
            (&self.replaced, stats.replaced),
            (&self.evicted, stats.evicted),
            (&self.kept, stats.kept),
            (&self.index_evicted, stats.index_evicted),
            (&self.too_long, stats.too_long),
            (&self.negative_refused, stats.negative_refused),
            (&self.long_refused, stats.long_refused),
        ];
        for (counter, value) in values {
            counter.store(value, Ordering::Relaxed);
        }
    }
}

impl CountersSnapshot {
    /// How many misses have ended, one way or the other. With those still `waiting` they are all
    /// `misses`.
    pub fn ended(&self) -> u64 {
        self.answered_from_cache_late
            + self.answered
            + self.answered_for_subnet
            + self.stale
            + self.nxdomain_cut
            + self.silenced
            + self.servfail
            + self.shed_pending
            + self.shed_waiting
            + self.shed_client
            + self.shed_prefix
            + self.shed_displaced
            + self.shed_upstream
            + self.shed_no_frame
            + self.shed_ring_full
            + self.shed_too_long
            - self.told_busy
    }
}

/// Counts one more, and says whether it is one of the few to tell about: the first, second, third, fifth, ninth and so on.
pub(crate) fn counts_rarely(counter: &AtomicU64) -> bool {
    let before = counter.load(Ordering::Relaxed);
    count(counter);
    before == 0 || before.is_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_says_what_was_counted() {
        let counters = Counters::default();
        count(&counters.misses);
        count(&counters.misses);
        count(&counters.waiting);
        lower(&counters.waiting);
        let snapshot = counters.snapshot();
        assert_eq!(snapshot, CountersSnapshot { misses: 2, ..CountersSnapshot::default() });
    }
}
