//! An arena as a memfd (memfd_create(2)), so that another process can go on with its contents.
//!
//! Seals keep its length for good: in a mapping beyond the end of its file a load would kill the process (SIGBUS).
//!
//! One process at a time may write, and a lock says which. Such a lock (flock(2)) belongs to the open file description. A
//! descriptor that is passed on over a socket refers to the same description. Who gets it would hold the lock too, beyond the
//! death of its owner. So each process opens the file anew for its lock, and passes that on to nobody.

use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, ftruncate,
    memfd_create,
};

/// The length stays, and so do the seals.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Why what another process handed over is no memory of an arena.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// It is another file, or its length may change.
    #[error("what another process handed over as its cache is no memfd whose length is sealed")]
    NotSealed,

    /// Its length is not that of an arena.
    #[error(
        "the cache that another process handed over has {bytes} bytes, which is no number of pages"
    )]
    NotPages {
        /// Its length.
        bytes: usize,
    },

    /// The kernel does not let this process use it.
    #[error("the cache that another process handed over cannot be mapped ({0})")]
    NotMapped(#[from] io::Error),
}

/// The memory of an arena as a file without a name.
#[derive(Debug)]
pub(super) struct Memfd {
    /// To be passed on.
    passed: OwnedFd,
    /// The same file, opened anew: it bears the lock.
    own: File,
    /// Its length.
    pub(super) bytes: usize,
}

impl Memfd {
    /// A file of so many bytes; `pages` says on which pages, if not on normal ones. None is in place yet.
    pub(super) fn new(bytes: usize, pages: MemfdFlags) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | pages;
        let file = memfd_create("pmdns-arena", flags)?;
        ftruncate(&file, bytes as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        Self::of(file, bytes)
    }

    /// The file that another process has made, and the bytes of one of its pages.
    pub(super) fn adopt(descriptor: OwnedFd) -> Result<(Self, usize), AdoptError> {
        // What is no memfd has no seals to ask for.
        if !fcntl_get_seals(&descriptor).is_ok_and(|seals| seals.contains(SEALS)) {
            return Err(AdoptError::NotSealed);
        }
        let len = fstat(&descriptor).map_err(io::Error::from)?.st_size;
        let page_bytes = fstatfs(&descriptor).map_err(io::Error::from)?.f_bsize;
        let [bytes, page_bytes] = [len, page_bytes].map(|size| usize::try_from(size).unwrap_or(0));
        if bytes == 0 || !bytes.is_multiple_of(page_bytes) {
            return Err(AdoptError::NotPages { bytes });
        }
        Ok((Self::of(descriptor, bytes)?, page_bytes))
    }

    fn of(passed: OwnedFd, bytes: usize) -> io::Result<Self> {
        let path = format!("/proc/self/fd/{}", passed.as_raw_fd());
        let own = File::options().read(true).write(true).open(path)?;
        Ok(Self { passed, own, bytes })
    }

    /// The file, to be mapped.
    pub(super) fn file(&self) -> &File {
        &self.own
    }

    /// What another process takes it over by.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.passed.as_fd()
    }

    /// Takes the lock, and says whether this process has it.
    pub(super) fn lock(&self) -> io::Result<bool> {
        match self.own.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Gives the lock up.
    pub(super) fn unlock(&self) -> io::Result<()> {
        self.own.unlock()
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use pmdns_config::Pages;

    use super::*;
    use crate::DESCRIPTORS;
    use crate::hugepage::{Arena, ArenaError, ArenaReport, PageKind};
    use crate::sync::Ordering;

    /// Tells the program of this test that it is the other process.
    const IS_OTHER: &str = "PMDNS_TEST_OTHER_PROCESS";

    fn arena() -> (Arena, ArenaReport) {
        Arena::new(10_000, Pages::Normal, None).expect("there is so little memory")
    }

    /// What another process gets over a socket: another descriptor of the same open file.
    fn passed(arena: &Arena) -> OwnedFd {
        let descriptor = arena.descriptor().expect("this kernel has memfds");
        descriptor.try_clone_to_owned().expect("there is room for a descriptor")
    }

    #[test]
    fn what_one_writes_the_other_reads() {
        let (first, report) = arena();
        first.words()[7].store(1, Ordering::Relaxed);
        let (second, adopted) = Arena::adopt(passed(&first)).unwrap();
        assert_eq!(adopted, report);
        assert_eq!(second.words()[7].load(Ordering::Relaxed), 1);
        second.words()[1535].store(2, Ordering::Relaxed);
        assert_eq!(first.words()[1535].load(Ordering::Relaxed), 2);
        let descriptor = passed(&second);
        drop((first, second));
        let (third, _) = Arena::adopt(descriptor).unwrap();
        assert_eq!(third.words()[1535].load(Ordering::Relaxed), 2, "it outlives who made it");
    }

    #[test]
    fn huge_pages_stay_huge() {
        let (first, report) = Arena::new(2 << 20, Pages::Huge2M, None).unwrap();
        // Without reserved pages it may be memory that does not pass.
        let Some(descriptor) = first.descriptor() else {
            return assert_eq!(report.page, PageKind::Normal);
        };
        let (_second, adopted) = Arena::adopt(descriptor.try_clone_to_owned().unwrap()).unwrap();
        assert_eq!((adopted.bytes, adopted.page), (report.bytes, report.page));
    }

    #[test]
    fn only_sealed_memory_of_whole_pages_is_adopted() {
        let memfd = |bytes, seals| {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let file = memfd_create("test", flags).unwrap();
            ftruncate(&file, bytes).unwrap();
            fcntl_add_seals(&file, seals).unwrap();
            Arena::adopt(file).map(|_| ())
        };
        assert!(memfd(8192, SEALS).is_ok());
        for missing in [SealFlags::SHRINK, SealFlags::GROW, SealFlags::SEAL] {
            assert!(matches!(
                memfd(8192, SEALS - missing),
                Err(ArenaError::Adopt(AdoptError::NotSealed))
            ));
        }
        for bytes in [0, 5000] {
            let error = memfd(bytes, SEALS).unwrap_err();
            assert!(error.to_string().contains(&format!("{bytes} bytes")), "{error}");
        }
        let unwritable = memfd(8192, SEALS | SealFlags::WRITE).unwrap_err();
        assert!(matches!(unwritable, ArenaError::Adopt(AdoptError::NotMapped(_))), "{unwritable}");
        let pipe = OwnedFd::from(io::pipe().unwrap().0);
        assert!(matches!(Arena::adopt(pipe), Err(ArenaError::Adopt(AdoptError::NotSealed))));
        let (arena, _) = arena();
        assert!(
            ftruncate(passed(&arena), 0).is_err() && ftruncate(passed(&arena), 1 << 20).is_err()
        );
    }

    #[test]
    fn the_lock_has_one_owner() {
        let (first, _) = arena();
        let (second, _) = Arena::adopt(passed(&first)).unwrap();
        let (third, _) = Arena::adopt(passed(&second)).unwrap();
        assert!(first.lock().unwrap() && first.lock().unwrap(), "again is no matter");
        assert!(!second.lock().unwrap() && !third.lock().unwrap());
        first.unlock().unwrap();
        assert!(second.lock().unwrap() && !third.lock().unwrap());
        second.unlock().unwrap();
        assert!(third.lock().unwrap() && !first.lock().unwrap());
    }

    #[test]
    fn memory_without_a_descriptor_is_nobody_elses() {
        let arena = Arena::heap(10);
        assert!(arena.descriptor().is_none() && arena.lock().unwrap());
        arena.unlock().unwrap();
    }

    #[test]
    fn the_lock_of_a_process_falls_with_it_though_what_it_was_passed_is_open() {
        if std::env::var_os(IS_OTHER).is_some() {
            let input = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
            let (arena, _) = Arena::adopt(input).unwrap();
            arena.words()[0].store(u64::from(arena.lock().unwrap()), Ordering::Relaxed);
            println!("\nready");
            loop {
                std::thread::park();
            }
        }
        let (arena, _) = arena();
        let alone = DESCRIPTORS.lock();
        let mut other = Command::new(std::env::current_exe().unwrap())
            .args(["the_lock_of_a_process_falls_with_it", "--nocapture"])
            .env(IS_OTHER, "")
            .stdin(Stdio::from(passed(&arena)))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        drop(alone);
        let lines = BufReader::new(other.stdout.take().unwrap()).lines();
        let is_ready = lines.map(Result::unwrap).any(|line| line == "ready");
        let is_free = arena.lock().unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(is_ready && !is_free && arena.words()[0].load(Ordering::Relaxed) == 1);
        assert!(arena.lock().unwrap());
    }
}
