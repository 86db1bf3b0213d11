//! The memory that a crash is written into: a memfd whose length is sealed.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use memmap2::MmapOptions;
use pmdns_config::narrow::to_u32;
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};

use super::in_hand::InHand;
use super::record::{CrashRecord, SIZE, read, written};
use super::signals::{Watch, install};

/// The length stays, and so do the seals.
pub(super) const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Bytes that are written at a time.
const PAGE: usize = 4096;

/// Why memory of another process has no crashes to read.
#[derive(Debug, thiserror::Error)]
pub enum BadCrashMemory {
    /// It is another file, or its length may change.
    #[error("it is no memfd whose length is sealed")]
    NotSealed,
    /// It is of another version, or something else.
    #[error("it is laid out otherwise than this version does it")]
    OtherLayout,
    /// The kernel does not let this process read it.
    #[error("it cannot be read ({0})")]
    NotRead(#[from] io::Error),
}

/// Memory with the crashes of the processes before, and room for one of this process.
#[derive(Debug)]
pub struct CrashMemory {
    file: File,
    place: usize,
}

impl CrashMemory {
    /// Memory that begins with these crashes, of which the newest are kept.
    pub fn new(before: &[CrashRecord]) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("pmdns-crash", flags)?);
        ftruncate(&file, SIZE as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        let (bytes, place) = written(before);
        // What is not written is zero, and takes no memory.
        for (chunk, at) in bytes.chunks(PAGE).zip((0..).step_by(PAGE)) {
            if chunk.iter().any(|byte| *byte != 0) {
                file.write_all_at(chunk, at)?;
            }
        }
        Ok(Self { file, place })
    }

    /// What the next process reads it by.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The crashes in the memory of another process, the newest one last, and how many of them that process has found there.
    pub fn read(descriptor: OwnedFd) -> Result<(Vec<CrashRecord>, usize), BadCrashMemory> {
        // What is no memfd has no seals to ask for.
        if !fcntl_get_seals(&descriptor).is_ok_and(|seals| seals.contains(SEALS)) {
            return Err(BadCrashMemory::NotSealed);
        }
        let bytes = fstat(&descriptor).map_err(io::Error::from)?.st_size;
        if usize::try_from(bytes) != Ok(SIZE) {
            return Err(BadCrashMemory::OtherLayout);
        }
        let mut bytes = vec![0; SIZE];
        File::from(descriptor).read_exact_at(&mut bytes, 0)?;
        read(&bytes).ok_or(BadCrashMemory::OtherLayout)
    }

    /// From now on a signal that ends this process, which has so many ports, leaves there what these cores have in hand. It is
    /// called once.
    pub fn watch(
        &self,
        hands: Vec<Arc<InHand>>,
        version: &'static str,
        wires: usize,
    ) -> io::Result<()> {
        let mapping = MmapOptions::new().len(SIZE).map_raw(&self.file)?;
        install(Watch::new(mapping, self.place, hands, (version, to_u32(wires))))
    }
}
