//! Jobs on the whole cache, which operators ask for.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use pmdns_control::{Refusal, Reply};
use pmdns_engine::snapshot::{CacheJobs, SnapshotError};

use super::cache_list::show;
use super::jobs::Jobs;
use super::request::CacheJob;
use super::socket::Client;
use crate::capture::Sink;

/// The most jobs at a time. They wait for each other anyway.
const MAX_JOBS: usize = 4;
/// The most dumps through pipes at a time. Each walks the whole cache.
const MAX_SENT: usize = 1;

/// Runs jobs on the cache, each in a thread of its own.
#[derive(Clone, Debug)]
pub struct ClientJobs {
    cache_jobs: CacheJobs,
    jobs: Jobs,
    sent: Jobs,
}

impl ClientJobs {
    /// Runs jobs on this cache.
    pub fn new(cache_jobs: CacheJobs) -> Self {
        Self { cache_jobs, jobs: Jobs::new(MAX_JOBS), sent: Jobs::new(MAX_SENT) }
    }

    /// Runs a job and sends the client its result.
    pub fn run(&self, job: CacheJob, client: Client) {
        let own = self.clone();
        let (jobs, name) = match job {
            CacheJob::Send => (&self.sent, "cache_dump"),
            _ => (&self.jobs, "cache_job"),
        };
        jobs.start(name, client, move |client| match own.carry_out(&job, client.file.take()) {
            Ok(reply) => reply,
            Err(error) => Reply::Refused(Refusal::Unable, error.to_string()),
        });
    }

    fn carry_out(&self, job: &CacheJob, file: Option<File>) -> Result<Reply, SnapshotError> {
        let done = match job {
            CacheJob::List(list) => return Ok(Reply::of(&show(&self.cache_jobs, list)?)),
            CacheJob::Purge(purge) => {
                self.cache_jobs.purge(purge).map(|count| format!("{count} answers purged"))
            }
            CacheJob::Dump(path) => self
                .cache_jobs
                .dump_into(handed_over(path, file)?, path)
                .map(|count| format!("{count} answers written")),
            CacheJob::Send => {
                let sink = Sink::new(file).map_err(|why| unusable(Path::new("to a pipe"), why))?;
                self.cache_jobs
                    .send(BufWriter::new(sink))
                    .map(|count| format!("{count} answers written"))
            }
            CacheJob::Load(path) => self
                .cache_jobs
                .load_from(handed_over(path, file)?, path)
                .map(|loaded| loaded.to_string()),
        };
        done.map(Reply::Done)
    }
}

/// The file that the client has opened with its own rights. The instance opens no files for clients.
fn handed_over(path: &Path, file: Option<File>) -> Result<File, SnapshotError> {
    let file =
        file.ok_or_else(|| unusable(path, "it has to come with the request, opened by who asks"))?;
    match file.metadata().is_ok_and(|facts| facts.is_file()) {
        true => Ok(file),
        false => Err(unusable(path, "it is no regular file; name one")),
    }
}

fn unusable(path: &Path, why: impl Into<Box<dyn Error + Send + Sync>>) -> SnapshotError {
    SnapshotError::Read { path: path.to_owned(), source: io::Error::other(why) }
}
