//! Requests that take long. Each has a thread of its own, because the main thread has to notice signals.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::request::CacheJob;
use super::socket::Client;
use crate::snapshot::{CacheOrders, SnapshotError};

/// The most jobs at a time. They wait for each other anyway.
const MAX_JOBS: usize = 4;

/// Runs jobs on the cache, each in a thread of its own.
#[derive(Clone, Debug)]
pub struct CacheJobs {
    orders: CacheOrders,
    /// Every job under way holds a reference, so the number of references counts the jobs.
    count: Arc<()>,
}

impl CacheJobs {
    /// Runs jobs on this cache.
    pub fn new(orders: CacheOrders) -> Self {
        Self { orders, count: Arc::default() }
    }

    /// Runs a job and sends the client its result.
    pub fn run(&self, job: CacheJob, mut client: Client) {
        if Arc::strong_count(&self.count) > MAX_JOBS {
            return client.answer("error: too much is under way; try again\n");
        }
        let own = self.clone();
        let body = move || {
            let file = client.file.take();
            let answer = match own.carry_out(&job, file) {
                Ok(done) => format!("ok {done}\n"),
                Err(error) => format!("error: {error}\n"),
            };
            client.answer(&answer);
        };
        if let Err(error) = std::thread::Builder::new().name("cache_job".to_owned()).spawn(body) {
            tracing::warn!("cannot start a thread for a request: {error}");
        }
    }

    fn carry_out(&self, job: &CacheJob, file: Option<File>) -> Result<String, SnapshotError> {
        let file = |path: &Path| handed_over(path, file);
        match job {
            CacheJob::Purge(purge) => {
                self.orders.purge(purge).map(|count| format!("{count} answers purged"))
            }
            CacheJob::Dump(path) => self
                .orders
                .dump_into(file(path)?, path)
                .map(|count| format!("{count} answers written")),
            CacheJob::Load(path) => {
                self.orders.load_from(file(path)?, path).map(|loaded| loaded.to_string())
            }
        }
    }
}

/// The file that the client has opened with its own rights. The instance opens no files for clients.
fn handed_over(path: &Path, file: Option<File>) -> Result<File, SnapshotError> {
    let failed = |why: &str| {
        let (path, source) = (path.to_owned(), io::Error::other(why.to_owned()));
        SnapshotError::Read { path, source }
    };
    let file = file.ok_or_else(|| {
        failed("it has to come with the request, opened, as `pmdns dump` and `load` do")
    })?;
    match file.metadata().is_ok_and(|facts| facts.is_file()) {
        true => Ok(file),
        false => Err(failed("it is no regular file; name one")),
    }
}
