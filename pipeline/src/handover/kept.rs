//! What a crash leaves: descriptors that a keeper keeps for the next process (sd_notify(3), `FDSTORE`).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::process;

use pmdns_handover::{MAX_PASSED, Passed};
use pmdns_nics::Tap;
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use serde::{Deserialize, Serialize};

use super::passed::check;
use crate::runtime::unix_time;
use crate::sockets::OpenSockets;
use crate::supervisor::{CACHE, EMPTY, has_keeper, notify};

/// The first descriptor that comes with a process (sd_listen_fds(3)).
pub(crate) const FIRST: i32 = 3;
/// Bytes of a list. One that names every descriptor is shorter.
const MAX_LIST: u64 = 64 * 1024;

/// What the descriptors under a name are. It is in the first one of them that is a file in memory.
#[derive(Debug, Serialize, Deserialize)]
struct KeptList {
    /// Seconds since 1970, and how often its process has kept something before. The latest one counts.
    kept: (u64, u64),
    /// Each descriptor, by the file that it is of.
    passed: Vec<(FileId, Passed)>,
}

/// What this process has kept.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    version: u64,
    /// The names of what is kept no longer, once there is something else.
    names: Vec<String>,
    /// What was left to this process, and is held until then.
    held: Vec<OwnedFd>,
}

/// What a crash has left to this process.
#[derive(Debug)]
pub struct LeftByCrash {
    /// Sockets, and the cache.
    sockets: OpenSockets,
    /// What is not in the list: the interface of a TAP is there as long as a queue of it is open.
    others: Vec<OwnedFd>,
    /// The names under which all of it is kept.
    names: Vec<String>,
}

impl Kept {
    /// Has these kept, in the place of those before, by a keeper: nobody else counts crashes, and so would give a cache on that
    /// is their cause. `holders`: queues of TAPs.
    pub(crate) fn keep(
        &mut self,
        sockets: &OpenSockets,
        holders: Vec<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        if !has_keeper() {
            return Ok(());
        }
        let (passed, descriptors) = sockets.passed();
        check_room(descriptors.len(), holders.len())?;
        let ids = descriptors.iter().map(file_id);
        let ids = ids.collect::<io::Result<Vec<_>>>()?;
        self.version += 1;
        let passed = ids.into_iter().zip(passed).collect();
        let list = KeptList { kept: (unix_time(), self.version), passed }.written()?;
        let name = format!("pmdns.{}.{}", process::id(), self.version);
        let kept: Vec<_> = [list.as_fd()].into_iter().chain(descriptors).chain(holders).collect();
        notify(&format!("FDSTORE=1\nFDNAME={name}"), &kept)?;
        self.held.clear();
        self.names.push(name);
        while let [before, _, ..] = self.names.as_slice() {
            forget(before)?;
            self.names.remove(0);
        }
        Ok(())
    }

    /// Nothing of this process is kept any more.
    pub(crate) fn forget(&mut self) {
        let forgotten = self.names.drain(..).try_for_each(|name| forget(&name));
        forgotten.unwrap_or_else(|error| tracing::debug!("the keeper was not told: {error}"));
    }
}

/// The device and the inode, which name a file together.
type FileId = (u64, u64);

fn file_id(file: impl AsFd) -> io::Result<FileId> {
    let stat = fstat(file)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// One packet takes the list, and all descriptors.
fn check_room(came: usize, holders: usize) -> io::Result<()> {
    let most = (MAX_PASSED - 1).saturating_sub(holders);
    let why = || format!("{came} descriptors, where {most} are the most beside those of TAPs");
    if came > most { Err(io::Error::other(why())) } else { Ok(()) }
}

fn forget(name: &str) -> io::Result<()> {
    notify(&format!("FDSTOREREMOVE=1\nFDNAME={name}"), &[])
}

/// The descriptors that came with this process, with their names. It has to be asked before anything is opened.
pub(crate) fn inherited() -> Result<Vec<(String, OwnedFd)>, String> {
    let variable = |name| std::env::var(name).ok();
    let is_ours = match variable("LISTEN_PID") {
        Some(of) => of == process::id().to_string(),
        // A keeper does not know it before.
        None => has_keeper(),
    };
    let count = variable("LISTEN_FDS").filter(|_| is_ours);
    let Some(count) = count.and_then(|count| count.parse::<usize>().ok()) else {
        return Ok(Vec::new());
    };
    let names = variable("LISTEN_FDNAMES").unwrap_or_default();
    let names = names.split(':').map(str::to_owned).chain(std::iter::repeat(String::new()));
    let inherited = (FIRST..).zip(names).take(count.min(2 * MAX_PASSED)).map(|(number, name)| {
        fs::symlink_metadata(format!("/proc/self/fd/{number}"))?;
        // SAFETY: it is open. It came with the process, for nothing was opened before, so nobody else in this process has it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
        fcntl_setfd(&descriptor, FdFlags::CLOEXEC)?;
        Ok((name, descriptor))
    });
    let inherited = inherited.collect::<io::Result<Vec<_>>>();
    inherited.map_err(|error| format!("LISTEN_FDS={count}: {error}"))
}

impl KeptList {
    fn written(&self) -> io::Result<File> {
        let file = File::from(memfd_create("pmdns-kept", MemfdFlags::CLOEXEC)?);
        file.write_all_at(&serde_json::to_vec(self)?, 0)?;
        Ok(file)
    }

    /// `None`: it is no list.
    fn read(file: BorrowedFd<'_>) -> Option<Self> {
        let file = File::from(file.try_clone_to_owned().ok()?);
        let length = file.metadata().ok()?.len();
        let mut bytes = vec![0; usize::try_from(length).ok().filter(|_| length <= MAX_LIST)?];
        file.read_exact_at(&mut bytes, 0).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}

impl LeftByCrash {
    /// What came with this process from its keeper; `None`: nothing that has a list.
    pub fn of_environment() -> Result<Option<Self>, String> {
        let inherited = inherited()?;
        if !has_keeper() {
            return Ok(None);
        }
        // The keeper listens to this process alone.
        let is_ours = fcntl_setfd(std::io::stdin(), FdFlags::CLOEXEC);
        is_ours.map_err(|error| format!("standard input: {error}"))?;
        let is_without_cache = std::env::var_os(CACHE).is_some_and(|cache| cache == EMPTY);
        Self::of(inherited, is_without_cache)
    }

    /// The sockets, and the rest, which goes once other things are kept.
    pub(crate) fn into_parts(self) -> (OpenSockets, Kept) {
        let Self { sockets, others, names } = self;
        (sockets, Kept { version: 0, names, held: others })
    }

    /// Of several lists the latest one counts.
    fn of(
        inherited: Vec<(String, OwnedFd)>,
        is_without_cache: bool,
    ) -> Result<Option<Self>, String> {
        let mut groups = BTreeMap::<String, Vec<OwnedFd>>::new();
        for (name, descriptor) in inherited {
            groups.entry(name).or_default().push(descriptor);
        }
        let names = groups.keys().cloned().collect();
        let list_of =
            |group: &Vec<OwnedFd>| group.iter().find_map(|one| KeptList::read(one.as_fd()));
        let lists = groups.iter().filter_map(|(name, group)| Some((list_of(group)?, name.clone())));
        let latest = lists.max_by_key(|(list, _)| list.kept);
        let Some((list, name)) = latest else { return Ok(None) };
        let mut others = Vec::new();
        let mut sockets = (Vec::new(), Vec::new());
        for descriptor in groups.remove(&name).unwrap_or_default() {
            let id = file_id(&descriptor).ok();
            let is_it = |(of, passed): &&(FileId, Passed)| {
                let is_file = id == Some(*of);
                // All interfaces, and all queues of TAPs, are of one file.
                is_file && !matches!(passed, Passed::Tap(name) if !Tap::is(&descriptor, name))
            };
            match list.passed.iter().find(is_it) {
                Some((_, Passed::Cache(_))) if is_without_cache => {}
                Some((_, passed)) => {
                    sockets.0.push(passed.clone());
                    sockets.1.push(descriptor);
                }
                None => others.push(descriptor),
            }
        }
        others.extend(groups.into_values().flatten());
        check(&sockets.0, &sockets.1)?;
        Ok(Some(Self { sockets: OpenSockets::named(sockets.0, sockets.1), others, names }))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};

    use pmdns_handover::PassedCache;

    use super::*;

    fn cache() -> (Passed, OwnedFd) {
        let cache = PassedCache { layout: 1, seed: [1, 2], clock: [0, 1, 2], settings: 3 };
        (Passed::Cache(cache), memfd_create("cache", MemfdFlags::CLOEXEC).unwrap())
    }

    /// What a process would find that had these kept, and then others.
    fn list(kept: (u64, u64), of: &[(Passed, OwnedFd)]) -> Vec<OwnedFd> {
        let passed = of.iter().map(|(passed, one)| (file_id(one).unwrap(), passed.clone()));
        let list = KeptList { kept, passed: passed.collect() }.written().unwrap();
        let copies = of.iter().map(|(_, one)| one.try_clone().unwrap());
        // In no order: systemd keeps none.
        copies.chain([list.into()]).collect()
    }

    fn socket() -> (SocketAddr, (Passed, OwnedFd)) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (address, (Passed::Socket("streams.tcp".to_owned(), address), listener.into()))
    }

    fn named(name: &str, group: Vec<OwnedFd>) -> Vec<(String, OwnedFd)> {
        group.into_iter().map(|one| (name.to_owned(), one)).collect()
    }

    #[test]
    fn the_latest_list_says_what_each_descriptor_is() {
        let (first, second) = (socket(), socket());
        let queue: OwnedFd = File::open("/dev/null").unwrap().into();
        let mut inherited = named("pmdns.9.1", list((7, 2), &[second.1, cache()]));
        inherited.extend(named("pmdns.8.1", list((7, 1), &[first.1])));
        inherited.push(("pmdns.9.1".to_owned(), queue));
        let mut left = LeftByCrash::of(inherited, false).unwrap().unwrap();
        assert!(left.sockets.take("streams.tcp", first.0).is_none(), "an older list");
        assert!(left.sockets.take("streams.tcp", second.0).is_some());
        assert!(left.sockets.take_cache().is_some());
        assert_eq!(left.names, ["pmdns.8.1", "pmdns.9.1"]);
        // The queue, both lists, and the socket of the older one.
        assert_eq!(left.others.len(), 4);
    }

    #[test]
    fn all_that_is_kept_fits_one_packet() {
        let refused = check_room(252, 1).unwrap_err().to_string();
        assert!(refused.starts_with("252 descriptors, where 251 are"), "{refused}");
        check_room(252, 0).unwrap();
    }

    #[test]
    fn after_many_crashes_the_cache_is_left_out() {
        let (address, socket) = socket();
        let inherited = named("a", list((1, 1), &[socket, cache()]));
        let mut left = LeftByCrash::of(inherited, true).unwrap().unwrap();
        assert!(left.sockets.take_cache().is_none());
        assert!(left.sockets.take("streams.tcp", address).is_some());
    }

    #[test]
    fn without_a_list_there_was_no_crash_and_a_wrong_one_is_refused() {
        let (_, (_, socket)) = socket();
        assert!(LeftByCrash::of(named("", vec![socket]), false).unwrap().is_none());
        assert!(LeftByCrash::of(Vec::new(), false).unwrap().is_none());
        let (address, _) = self::socket();
        let (_, (_, other)) = self::socket();
        let wrong = (Passed::Socket("streams.tcp".to_owned(), address), other);
        assert!(LeftByCrash::of(named("a", list((1, 1), &[wrong])), false).is_err());
    }
}
