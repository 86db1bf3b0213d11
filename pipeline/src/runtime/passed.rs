//! Changes of operators on their way to the next process: in memory that nobody can change any more.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek as _};
use std::os::fd::OwnedFd;

use pmdns_changes::{KeptChanges, MAX_PASSED_BYTES, OperatorChange, PassedText, read_passed};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};

/// With these nobody can change memory.
const SEALS: SealFlags =
    SealFlags::WRITE.union(SealFlags::GROW).union(SealFlags::SHRINK).union(SealFlags::SEAL);

/// What this process passes.
#[derive(Debug)]
pub struct ChangesForNext {
    text: PassedText<BufWriter<File>>,
    /// Whether those of clients are in it.
    pub has_clients: bool,
}

/// What the process before has passed.
#[derive(Debug)]
pub struct PassedChanges {
    /// All that holds, also what ends with a restart. No file need have it.
    pub holds: KeptChanges,
    /// Whether those of clients are in it. If not, those hold that files have.
    pub has_clients: bool,
}

impl ChangesForNext {
    /// There is none yet.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub fn begin(has_clients: bool) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = File::from(memfd_create("pmdns-changes", flags)?);
        Ok(Self { text: PassedText::begin(BufWriter::new(memory))?, has_clients })
    }

    /// More of them.
    ///
    /// # Errors
    ///
    /// There is no memory, or they are too many.
    pub fn add(&mut self, mut changes: impl Iterator<Item = OperatorChange>) -> io::Result<()> {
        changes.try_for_each(|change| self.text.add(change))
    }

    /// All of it is there.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub fn sealed(self) -> io::Result<OwnedFd> {
        let memory = self.text.end()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        fcntl_add_seals(&memory, SEALS)?;
        Ok(memory.into())
    }
}

impl PassedChanges {
    /// Reads them.
    ///
    /// # Errors
    ///
    /// It is no such memory, or it is damaged.
    pub fn read(memory: OwnedFd, has_clients: bool) -> Result<Self, String> {
        let read = || -> Result<KeptChanges, String> {
            let seals = fcntl_get_seals(&memory).map_err(|error| error.to_string())?;
            if !seals.contains(SEALS) {
                return Err("they are in memory that may change".to_owned());
            }
            let failed = |error: io::Error| error.to_string();
            let mut file = File::from(memory.try_clone().map_err(failed)?);
            if file.metadata().map_err(failed)?.len() > MAX_PASSED_BYTES {
                return Err(format!("they have more than {MAX_PASSED_BYTES} bytes"));
            }
            // Who has written it shares the place where reading begins.
            file.rewind().map_err(failed)?;
            read_passed(BufReader::new(file))
        };
        let refused = |why| format!("changes at run time that it has passed cannot be read: {why}");
        Ok(Self { holds: read().map_err(refused)?, has_clients })
    }
}

#[cfg(test)]
mod tests {
    use pmdns_changes::{Author, What, ZoneLimitKept};
    use rustix::fs::ftruncate;

    use super::*;

    fn change() -> OperatorChange {
        let what = ZoneLimitKept { zone: "a.example".to_owned(), rate: 1, until: None };
        let author = Author { by: "user 0".to_owned(), since: 7, until_restart: true };
        OperatorChange { what: What::Limit(what), author }
    }

    fn refused(memory: impl Into<OwnedFd>) -> String {
        PassedChanges::read(memory.into(), true).unwrap_err()
    }

    #[test]
    fn what_has_passed_cannot_be_changed_and_is_read() {
        let mut changes = ChangesForNext::begin(true).unwrap();
        changes.add([change()].into_iter()).unwrap();
        let memory = changes.sealed().unwrap();
        assert!(rustix::io::write(&memory, b"more").is_err());
        let passed = PassedChanges::read(memory, true).unwrap();
        assert!(passed.holds.iter().eq([&change()]) && passed.has_clients);
    }

    #[test]
    fn memory_that_may_change_or_is_too_large_is_refused() {
        let memory = || memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        assert!(refused(memory()).ends_with("they are in memory that may change"));
        let large = memory();
        ftruncate(&large, MAX_PASSED_BYTES + 1).unwrap();
        fcntl_add_seals(&large, SEALS).unwrap();
        assert!(refused(large).ends_with("they have more than 268435456 bytes"));
        let empty = memory();
        fcntl_add_seals(&empty, SEALS).unwrap();
        assert!(refused(empty).ends_with("the end is missing"));
        let file = File::open("/dev/null").unwrap();
        assert!(refused(file).starts_with("changes at run time that it has passed cannot be read"));
    }
}
