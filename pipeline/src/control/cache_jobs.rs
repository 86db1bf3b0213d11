//! Jobs on the whole cache, which operators ask for.

use std::fs::File;
use std::io::BufWriter;

use pmdns_config::{subtree_name, without_wildcard};
use pmdns_control::answers::Done;
use pmdns_control::cache::{CachePage, CacheSearch};
use pmdns_control::jobs::Jobs;
use pmdns_control::{Caller, PendingCall, PurgeOrder, Refusal, Refused};
use pmdns_engine::snapshot::{CacheJobs, SnapshotError};
use pmdns_stages::cache::Purge;

use super::cache_list::show;
use crate::lookup::record_type;
use pmdns_insight::capture::Pipe;

/// The most jobs at a time. They wait for each other anyway.
const MAX_JOBS: usize = 4;
/// The most dumps, and the most loads, at a time. Each goes over the whole cache.
const MAX_PIPED: usize = 1;

/// Runs jobs on the cache, each in a thread of its own.
#[derive(Clone, Debug)]
pub struct ClientJobs {
    cache_jobs: CacheJobs,
    jobs: Jobs,
    sent: Jobs,
    received: Jobs,
}

impl ClientJobs {
    /// Runs jobs on this cache.
    pub fn new(cache_jobs: CacheJobs) -> Self {
        let [sent, received] = [Jobs::new(MAX_PIPED), Jobs::new(MAX_PIPED)];
        Self { cache_jobs, jobs: Jobs::new(MAX_JOBS), sent, received }
    }

    /// Answers a call about the cache, when its job is done.
    pub fn answer(&self, call: PendingCall) {
        match call {
            PendingCall::Cache(search, caller) => match search.try_into() {
                Ok(list) => self.list(list, caller),
                Err(why) => caller.refuse(Refusal::Wrong, why),
            },
            PendingCall::Purge(order, caller) => match order.try_into() {
                Ok(job) => self.run(job, caller),
                Err(why) => caller.refuse(Refusal::Wrong, why),
            },
            PendingCall::CacheDump(caller) => self.run(CacheJob::Send, caller),
            PendingCall::CacheLoad(caller) => self.run(CacheJob::Receive, caller),
            other => other.refuse(Refusal::Unable, "this is no call about the cache"),
        }
    }

    fn run(&self, job: CacheJob, caller: Caller) {
        let own = self.clone();
        let (jobs, name) = match job {
            CacheJob::Send => (&self.sent, "cache_dump"),
            CacheJob::Receive => (&self.received, "cache_load"),
            _ => (&self.jobs, "cache_job"),
        };
        jobs.start(name, caller, move |caller| {
            let done = own.carry_out(&job, caller.file.take()).map_err(unable)?;
            Ok(Done { done })
        });
    }

    fn list(&self, list: CacheList, caller: Caller<CachePage>) {
        let own = self.clone();
        self.jobs.start("cache_job", caller, move |_| show(&own.cache_jobs, &list).map_err(unable));
    }

    fn carry_out(&self, job: &CacheJob, file: Option<File>) -> Result<String, SnapshotError> {
        let pipe = || {
            let path = "through a pipe".into();
            Pipe::new(file).map_err(|source| SnapshotError::Read { path, source })
        };
        match job {
            CacheJob::Purge(purge) => {
                self.cache_jobs.purge(purge).map(|count| format!("{count} answers purged"))
            }
            CacheJob::Send => self
                .cache_jobs
                .send(BufWriter::new(pipe()?))
                .map(|count| format!("{count} answers written")),
            CacheJob::Receive => self.cache_jobs.receive(pipe()?).map(|loaded| loaded.to_string()),
        }
    }
}

fn unable(error: SnapshotError) -> Refused {
    (Refusal::Unable, error.to_string())
}

/// A job on the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheJob {
    /// Lose some answers.
    Purge(Purge),
    /// Write all of them into the pipe of the caller.
    Send,
    /// Take in those that come out of it.
    Receive,
}

/// Which answers are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheList {
    /// Only those for this name and names below it, in wire format.
    pub name: Option<Box<[u8]>>,
    /// Only those of this record type.
    pub qtype: Option<u16>,
    /// How many at most.
    pub limit: u32,
}

impl TryFrom<CacheSearch> for CacheList {
    type Error = String;

    fn try_from(CacheSearch { name, r#type, limit }: CacheSearch) -> Result<Self, String> {
        let name = name.as_deref().map(subtree_name).transpose();
        let name = name.map_err(|error| error.to_string())?;
        let qtype = r#type.as_deref().map(record_type).transpose()?;
        Ok(Self { name, qtype, limit })
    }
}

/// A name may stand with all below it: `*.example.com`.
impl TryFrom<PurgeOrder> for CacheJob {
    type Error = String;

    fn try_from(PurgeOrder { name, suffix, r#type }: PurgeOrder) -> Result<Self, String> {
        let below = suffix || without_wildcard(&name).1;
        let name = subtree_name(&name).map_err(|error| error.to_string())?;
        let qtype = r#type.as_deref().map(record_type).transpose()?;
        Ok(Self::Purge(Purge { name, below, qtype }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_is_checked_and_mistakes_are_named() {
        let purge = |name: &str, suffix, r#type: Option<&str>| {
            let r#type = r#type.map(str::to_owned);
            CacheJob::try_from(PurgeOrder { name: name.to_owned(), suffix, r#type })
        };
        let name: Box<[u8]> = (*b"\x07example\x03com\0").into();
        let plain = Purge { name, below: false, qtype: None };
        assert_eq!(purge("Example.com.", false, None), Ok(CacheJob::Purge(plain.clone())));
        let below = CacheJob::Purge(Purge { below: true, qtype: Some(28), ..plain });
        assert_eq!(purge("example.com", true, Some("AAAA")), Ok(below.clone()));
        assert_eq!(purge("*.example.com", false, Some("TYPE28")), Ok(below));
        for (wrong, part) in [
            (purge("", false, None), "a name is empty"),
            (purge("a..b", false, None), "not a domain name"),
            (purge("a.example suffix", false, None), "has ' ' in it"),
            (purge("a", false, Some("")), "no record type ``"),
        ] {
            let error = wrong.unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
