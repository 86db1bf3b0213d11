//! Answers in the cache, as people and programs read them.

use domain::base::iana::Rcode;
use pmdns_config::{readable, type_name};
use pmdns_control::cache::{CachePage, CachedAnswer};
use pmdns_engine::snapshot::{CacheJobs, SnapshotError};
use pmdns_stages::cache::{Entry, Key, NameBuffer};
use pmdns_stages::wire::name::suffixes;

use super::cache_jobs::CacheList;
use crate::lookup::record_texts;

/// Bytes of records that are shown at most.
const MAX_BYTES: usize = 8 << 20;

/// The answers that are asked for. Other jobs on the cache wait meanwhile, so nothing is written before it ends.
pub(super) fn show(cache_jobs: &CacheJobs, list: &CacheList) -> Result<CachePage, SnapshotError> {
    let (mut page, mut bytes) = (CachePage::default(), 0);
    cache_jobs.each(|entry| {
        let mut buffer = NameBuffer::default();
        let key = entry.key(&mut buffer);
        if !is_wanted(list, key) {
            return true;
        }
        page.has_more = page.answers.len() == list.limit as usize || bytes > MAX_BYTES;
        if !page.has_more {
            let answer = shown(entry, key);
            bytes += answer.records.iter().map(String::len).sum::<usize>();
            page.answers.push(answer);
        }
        !page.has_more
    })?;
    Ok(page)
}

fn is_wanted(list: &CacheList, key: Key<'_>) -> bool {
    let is_type = list.qtype.is_none_or(|qtype| qtype == key.qtype);
    let wanted = list.name.as_deref();
    is_type && wanted.is_none_or(|name| suffixes(key.name).any(|suffix| suffix == name))
}

/// An entry that was learnt now: its times have been counted down.
fn shown(entry: &Entry, key: Key<'_>) -> CachedAnswer {
    let head = entry.head();
    CachedAnswer {
        name: readable(key.name),
        record_type: type_name(key.qtype),
        scope: key.scope().into(),
        rcode: Rcode::masked_from_int(head.rcode.0).to_string(),
        ttl_left_seconds: head.expires.saturating_sub(head.learnt),
        records: record_texts(&entry.message()),
    }
}
