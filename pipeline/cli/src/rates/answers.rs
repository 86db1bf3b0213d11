//! Rates of answers by rcode and type, and the state of the cache.

use pmdns_control::report::{Named, Report, count};

use super::span::Span;

/// Answers of one kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerRate {
    /// The kind: an rcode or a type.
    pub kind: String,
    /// Answers in a second.
    pub rate: f64,
    /// Their share of all answers.
    pub share: f64,
}

/// The cache, over all shards.
#[derive(Clone, Debug, Default)]
pub(crate) struct CacheLoad {
    /// Answers in the index, expired ones among them.
    pub entries: u64,
    /// The share of its bytes that is in use.
    pub fill: f64,
    /// Answers inserted in a second.
    pub inserted: f64,
    /// Answers evicted in a second.
    pub evicted: f64,
    /// Clients in a second that got an expired answer.
    pub stale: f64,
}

impl Span<'_> {
    /// Answers by rcode, the most frequent first, without those that nobody got.
    pub(super) fn rcodes(&self) -> Vec<AnswerRate> {
        self.kinds(&self.earlier.answers.rcodes, &self.later.answers.rcodes)
    }

    /// Answers by type, likewise.
    pub(super) fn qtypes(&self) -> Vec<AnswerRate> {
        self.kinds(&self.earlier.answers.qtypes, &self.later.answers.qtypes)
    }

    fn kinds(&self, earlier: &Named, later: &Named) -> Vec<AnswerRate> {
        let rates = later.iter().map(|(kind, answers)| {
            let rate = self.per_second(count(earlier, kind), *answers);
            AnswerRate { kind: kind.clone(), rate, share: 0.0 }
        });
        let mut rates: Vec<_> = rates.filter(|one| one.rate > 0.0).collect();
        let all: f64 = rates.iter().map(|one| one.rate).sum();
        rates.iter_mut().for_each(|one| one.share = one.rate / all);
        rates.sort_by(|one, other| other.rate.total_cmp(&one.rate));
        rates
    }

    pub(super) fn cache(&self) -> CacheLoad {
        let (earlier, later) = (&self.earlier.cache, &self.later.cache);
        let sum = |tables: &[Named], name| tables.iter().map(|one| count(one, name)).sum::<u64>();
        let rate = |name| self.per_second(sum(earlier, name), sum(later, name));
        let stale = |report: &Report| sum(&report.slow_path, "stale");
        let size = sum(later, "bytes_total").max(1);
        CacheLoad {
            entries: sum(later, "entries"),
            fill: sum(later, "bytes_used") as f64 / size as f64,
            inserted: rate("inserted"),
            evicted: rate("evicted") + rate("index_evicted"),
            stale: self.per_second(stale(self.earlier), stale(self.later)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::rates::Rates;
    use pmdns_control::testing as fixture;

    #[test]
    fn kinds_of_answers_have_shares_and_the_most_frequent_comes_first() {
        let (earlier, later) = fixture::reports();
        let rates = Rates::between(&earlier, &later);
        let kinds: Vec<_> =
            rates.qtypes.iter().map(|one| (&*one.kind, one.rate, one.share)).collect();
        assert_eq!(kinds, [("a", 250e3, 0.5), ("aaaa", 125e3, 0.25), ("https", 125e3, 0.25)]);
        let rcodes: Vec<_> = rates.rcodes.iter().map(|one| &*one.kind).collect();
        assert_eq!(rcodes, ["noerror", "nxdomain"], "nobody got SERVFAIL");
    }

    #[test]
    fn the_cache_is_the_sum_of_its_shards() {
        let (earlier, mut later) = fixture::reports();
        let mut shard = later.cache[0].clone();
        shard.extend(
            [("bytes_used", 1 << 26), ("evicted", 30), ("index_evicted", 10)]
                .map(|(name, value)| (name.to_owned(), value)),
        );
        later.cache.push(shard);
        later.slow_path[0].insert("stale".to_owned(), 8);
        let cache = Rates::between(&earlier, &later).cache;
        assert_eq!((cache.entries, cache.fill), (20_000, 0.625));
        assert_eq!((cache.evicted, cache.stale), (20.0, 4.0));
    }
}
