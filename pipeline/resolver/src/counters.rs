//! What the slow path counts. Its threads write, anybody may read: relaxed atomics.

use std::sync::atomic::{AtomicU64, Ordering};

use pmdns_stages::cache::CacheStats;

/// Declares a table of counters together with its plain image for reports.
#[macro_export]
macro_rules! counters {
    (
        $(#[doc = $live_text:literal])* $live:ident,
        $(#[doc = $plain_text:literal])* $plain:ident {
            $($(#[doc = $text:literal])* $name:ident,)*
        }
    ) => {
        $(#[doc = $live_text])*
        #[derive(Debug, Default)]
        pub struct $live { $($(#[doc = $text])* pub $name: ::std::sync::atomic::AtomicU64,)* }

        $(#[doc = $plain_text])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(default)]
        pub struct $plain { $($(#[doc = $text])* pub $name: u64,)* }

        impl $plain {
            /// The counters in order, with their names and meanings.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64, &'static str)> {
                [$((stringify!($name), self.$name, concat!($($text,)*)),)*].into_iter()
            }
        }

        impl $live {
            /// Reads every counter. They are read one after another, so sums of them are exact only
            /// while nothing is counted.
            pub fn snapshot(&self) -> $plain {
                $plain { $($name: self.$name.load(::std::sync::atomic::Ordering::Relaxed),)* }
            }
        }
    };
}
counters! {
    /// The counters of the slow path. Threads may share them.
    Counters,
    /// The counters of the slow path, read at one time.
    CountersSnapshot {
        /// Misses taken from the data cores.
        misses,
        /// Misses that the cache could answer by the time they came.
        answered_from_cache_late,
        /// Misses that started a question to the upstreams.
        leaders,
        /// Misses that joined a question already under way.
        coalesced,
        /// Clients answered with what an upstream said.
        answered,
        /// Clients answered with an answer kept for their network only.
        answered_for_subnet,
        /// Clients answered with an expired answer, because no upstream had a better one in time.
        stale,
        /// Clients answered with NXDOMAIN, because a name above does not exist.
        nxdomain_cut,
        /// Questions put to the upstreams over TCP, because NXDOMAIN for them came over UDP and would deny names below.
        nxdomain_confirmed,
        /// Clients answered with SERVFAIL.
        servfail,
        /// Clients that get no answer, because a rule about what is in it says so.
        silenced,
        /// Waiting clients whose deadline passed.
        deadline,
        /// Misses answered with SERVFAIL because their question failed a moment ago.
        failed_recently,
        /// Misses dropped because too many questions were pending.
        shed_pending,
        /// Misses dropped because too many clients' queries were waiting.
        shed_waiting,
        /// Misses dropped because too many queries of the same client were waiting.
        shed_client,
        /// Misses dropped because too many queries of the same client prefix were waiting.
        shed_prefix,
        /// Waiting queries dropped because a client prefix with fewer needed room.
        shed_displaced,
        /// Waiting queries dropped because every upstream had too many queries of their client prefix.
        shed_upstream,
        /// Clients told with SERVFAIL that their query was dropped for want of room; they are among the shed, and in `servfail`.
        told_busy,
        /// Answers dropped because the frame pool was empty.
        shed_no_frame,
        /// Answers dropped because the ring to the transmitting core was full.
        shed_ring_full,
        /// Answers dropped because they did not fit the frame.
        shed_too_long,
        /// Answers put into the cache.
        inserted,
        /// Answers not put into the cache: their TTL is zero, or the cache refused them.
        not_cached,
        /// Answers taken out of the cache after a reload: rules about what is in them had rewritten them, or would now.
        withdrawn,
        /// Questions put to a second upstream because the first took longer than it usually does.
        hedged,
        /// Queries whose answer was not needed, because another upstream's came first.
        wasted,
        /// Popular answers asked for again before they expired.
        prefetched,
        /// Popular answers not asked for again, because too many were planned or too much was pending.
        prefetch_shed,
        /// Popular answers that expired before their turn to be asked for again.
        prefetch_late,
        /// Answers planned to be asked for again that were not popular any more when their turn came.
        prefetch_dropped,
        /// Replies whose signatures are right, all the way from a trust anchor.
        secure,
        /// Replies that are provably not signed, or that nobody shall validate.
        insecure,
        /// Replies refused because they are forged, or their signatures are missing, wrong or expired.
        bogus,
        /// Replies that could not be judged: no trust anchor is above them, or there was no time.
        indeterminate,
        /// Questions put to the upstreams to validate replies to others.
        validation_queries,
        /// Replies and questions of the validator that were refused. Too many were under way, in all or of one network
        /// or zone, or one network took too much of its time.
        validation_shed,
        /// Replies refused because to validate them costs more than one may.
        validation_over_budget,
        /// Replies that might cost less than others, because their zone had used up its budget.
        validation_frugal,
        /// Queries sent over TCP because the same name and type was asked for over UDP in too many variants already.
        crowded,
        /// Sockets that could not be opened.
        socket_errors,
        /// Answers kept for one network only, expired ones among them.
        subnet_answers,
        /// Questions pending now.
        pending,
        /// Clients' queries waiting now.
        waiting,
    }
}

counters! {
    /// The counters of one upstream. All threads share them.
    UpstreamCounters,
    /// The counters of one upstream, read at one time.
    UpstreamSnapshot {
        /// Queries sent over UDP.
        queries,
        /// Queries sent over TCP.
        tcp,
        /// Queries sent over an encrypted connection.
        encrypted,
        /// Queries sent only to find out whether a resting upstream is back; they are among the others.
        probes,
        /// Replies that belong to their query.
        replies,
        /// Queries without a reply when the upstream's retry timeout passed. Their replies are still taken.
        late,
        /// Queries without a reply in `timeout_ms`, or in the retry timeout if that is longer.
        timeouts,
        /// Datagrams that did not match the query they came for; forged, or very late.
        mismatched,
        /// Replies with the question in other letters than the query's, which then went over TCP; they are among the mismatched.
        case_mismatch,
        /// Times such replies came one after the other, so that letters were left alone for an hour.
        case_mixing_paused,
        /// Replies with the cookie of their query.
        cookies,
        /// Replies over UDP without the cookie that the upstream shows else, which then went over TCP; they are among
        /// the mismatched.
        cookieless,
        /// Times the upstream was found not to know EDNS, so that it was asked without for 15 minutes.
        without_edns,
        /// Replies about another network than their query, or over UDP about none, which were not used.
        other_subnet,
        /// Replies over UDP longer than the query allowed, which were not used.
        oversized,
        /// Queries ended by an error of the network, for example "connection refused".
        errors,
        /// Replies that belong to their query but cannot be understood.
        malformed,
        /// Replies without a record about the question, which were not used.
        no_answer,
        /// Records left out of replies because they are not about the question.
        scrubbed,
        /// Replies with an rcode other than NOERROR and NXDOMAIN.
        rcode_failures,
        /// Queries not sent because too many to the same encrypted upstream were under way, or too many of their client prefix.
        shed,
        /// Encrypted connections opened.
        connections,
        /// Encrypted connections opened that resumed a session.
        resumed,
        /// Encrypted connections that could not be opened.
        connect_failures,
        /// Certificates refused: not for the name, not from a trusted root, or none of the pinned keys.
        untrusted,
        /// Smoothed round-trip time in microseconds, as the thread that measured last sees it.
        srtt_us,
        /// 0: well. 1: resting after failures, asked after the others.
        state,
    }
}

counters! {
    /// The counters of a shard of the cache. The thread that writes to it publishes them.
    CacheCounters,
    /// The counters of a shard of the cache, read at one time.
    CacheSnapshot {
        /// Answers that can be found, expired ones among them.
        entries,
        /// Bytes in use: index, and the log as far as it is filled.
        bytes_used,
        /// Bytes of the shard.
        bytes_total,
        /// Answers inserted, replacements among them.
        inserted,
        /// Answers that another for the same question replaced.
        replaced,
        /// Answers lost at the end of the log, to make room.
        evicted,
        /// Answers appended again there, because they were worth keeping.
        kept,
        /// Answers lost because both buckets they could be found by were full.
        index_evicted,
        /// Answers refused because they were larger than the log.
        too_long,
        /// Negative answers refused because those have their share of the shard already.
        negative_refused,
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

/// Counts one.
#[inline]
pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Counts so many.
#[inline]
pub fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

/// Lowers a gauge by one.
#[inline]
pub fn lower(gauge: &AtomicU64) {
    gauge.fetch_sub(1, Ordering::Relaxed);
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
