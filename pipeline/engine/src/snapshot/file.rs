//! The file of a snapshot: blocks, each with its length and a checksum. The first block has the time of writing, the
//! last one the number of entries. So a truncated file is always detected.
//!
//! ```text
//! block   length of the payload (32 bits), CRC-32 of kind and payload, kind, payload
//! 'P'     "pmdns", format, Unix time when the process's seconds began, Unix time of writing (64 bits each),
//!         names of views and their scopes, as text
//! 'E'     entries, 64-bit word by word
//! 'Z'     number of entries (64 bits)
//! ```
//!
//! All numbers are little-endian. A file is written under a temporary name and renamed when it is complete.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};

use pmdns_config::files::WholeFile;
use pmdns_config::narrow::to_u32;
use pmdns_stages::cache::Head;
use pmdns_stages::wire::name::word;

use super::Loaded;

/// The begin of the first block: a name, and the number of the format.
const MAGIC: &[u8; 8] = b"pmdns\0\0\x01";
/// The longest payload that is read.
const MAX_PAYLOAD: usize = 16 << 20;
/// Bytes before a payload.
const HEAD: usize = 9;

/// Why a snapshot could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// It cannot be written.
    #[error(
        "cannot write the snapshot {path}: {source}; is there room, and may this user write there?"
    )]
    Write {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be read.
    #[error("cannot read the snapshot {path}: {source}")]
    Read {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is damaged.
    #[error("the snapshot {path} is damaged ({what}); it is not used at all")]
    Damaged {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// It has come to a part that is damaged or missing.
    #[error(
        "what comes from its sender ends too early or is damaged ({why}); {loaded} before that"
    )]
    CutOff {
        /// What was taken in of it.
        loaded: Loaded,
        /// What is wrong.
        why: &'static str,
    },
    /// A reload has changed what its keys mean, while it was written.
    #[error("a reload has changed the views meanwhile; write it again")]
    OtherViews,
    /// The slow path has ended.
    #[error("the slow path has ended")]
    Ended,
    /// Another job does not end.
    #[error("another purge, dump or load has not ended for a minute: does its disk hang?")]
    Busy,
}

impl SnapshotError {
    /// It has come after so much was taken in.
    pub(super) fn after(self, loaded: Loaded) -> Self {
        match self {
            Self::Damaged { what: why, .. } => Self::CutOff { loaded, why },
            Self::Read { .. } => Self::CutOff { loaded, why: "its sender does not go on" },
            other => other,
        }
    }

    /// Whether there is no such file.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// When a snapshot was written, in Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    /// The second 0 of its entries.
    pub(super) start: u64,
    pub(super) written: u64,
}

/// Creates a file for a snapshot. It shows which names clients ask for, so only its owner may read it.
///
/// # Errors
///
/// The error of the system.
pub fn create(path: &Path) -> io::Result<WholeFile> {
    WholeFile::create(path, 0o600)
}

/// A snapshot that is being written.
#[derive(Debug)]
pub(super) struct SnapshotWriter<W> {
    out: W,
    path: PathBuf,
    entries: u64,
}

impl<W: Write> SnapshotWriter<W> {
    /// Begins a snapshot in a file; `path` is its name for errors.
    pub(super) fn begin(
        out: W,
        path: &Path,
        times: Times,
        scopes: &str,
    ) -> Result<Self, SnapshotError> {
        let mut writer = Self { out, path: path.to_owned(), entries: 0 };
        let mut payload = MAGIC.to_vec();
        payload.extend_from_slice(&times.start.to_le_bytes());
        payload.extend_from_slice(&times.written.to_le_bytes());
        payload.extend_from_slice(scopes.as_bytes());
        writer.block(b'P', &payload)?;
        Ok(writer)
    }

    /// Writes entries, word by word.
    pub(super) fn entries(&mut self, words: &[u64]) -> Result<(), SnapshotError> {
        self.entries += split(words).count() as u64;
        let payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.block(b'E', &payload)
    }

    /// Ends the snapshot, and returns the number of its entries.
    pub(super) fn finish(mut self) -> Result<(W, u64), SnapshotError> {
        self.block(b'Z', &self.entries.to_le_bytes())?;
        Ok((self.out, self.entries))
    }

    fn block(&mut self, kind: u8, payload: &[u8]) -> Result<(), SnapshotError> {
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&to_u32(payload.len()).to_le_bytes());
        head[4..8].copy_from_slice(&checksum(kind, payload).to_le_bytes());
        head[8] = kind;
        let written = self.out.write_all(&head).and_then(|()| self.out.write_all(payload));
        written.map_err(|source| SnapshotError::Write { path: self.path.clone(), source })
    }
}

/// A snapshot that is read.
#[derive(Debug)]
pub(super) struct Snapshot<R> {
    file: BufReader<R>,
    path: PathBuf,
    origin: Origin,
}

/// Where a snapshot comes from.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) times: Times,
    /// The meaning of the scopes in its keys.
    pub(super) scopes: String,
}

/// Reads a file to its end, and goes back to its beginning: it is complete. `path` is its name for errors.
pub fn check(mut file: &File, path: &Path) -> Result<(), SnapshotError> {
    let failed = |source| SnapshotError::Read { path: path.to_owned(), source };
    let mut snapshot = Snapshot::begin(file, path)?;
    let mut entries = 0;
    while let Some(words) = snapshot.next_entries(entries)? {
        entries += split(&words).count() as u64;
    }
    file.rewind().map_err(failed)
}

impl Snapshot<File> {
    /// Begins to read a file that is complete.
    pub(super) fn read(file: File, path: &Path) -> Result<Self, SnapshotError> {
        check(&file, path)?;
        Self::begin(file, path)
    }
}

impl<R: Read> Snapshot<R> {
    /// Begins to read what may end too early; `path` is its name for errors.
    pub(super) fn begin(file: R, path: &Path) -> Result<Self, SnapshotError> {
        let (file, path) = (BufReader::new(file), path.to_owned());
        let times = Times { start: 0, written: 0 };
        let mut snapshot = Self { file, path, origin: Origin { times, scopes: String::new() } };
        snapshot.origin = snapshot.read_origin()?;
        Ok(snapshot)
    }

    /// Where it comes from.
    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The words of the next entries; `None` at the end, which must come after `before` entries.
    pub(super) fn next_entries(&mut self, before: u64) -> Result<Option<Vec<u64>>, SnapshotError> {
        let (kind, payload) = self.block()?;
        let (words, rest) = payload.as_chunks::<8>();
        match (kind, words) {
            (b'E', words) if rest.is_empty() => {
                Ok(Some(words.iter().map(|word| u64::from_le_bytes(*word)).collect()))
            }
            (b'Z', [count]) if u64::from_le_bytes(*count) == before => {
                let mut more = [0];
                match self.file.read(&mut more) {
                    Ok(0) => Ok(None),
                    Ok(_) => self.damaged("it goes on behind its end"),
                    Err(source) => Err(SnapshotError::Read { path: self.path.clone(), source }),
                }
            }
            (b'Z', _) => self.damaged("entries are missing"),
            _ => self.damaged("it has blocks of another kind"),
        }
    }

    fn read_origin(&mut self) -> Result<Origin, SnapshotError> {
        let (kind, payload) = self.block()?;
        let fixed = payload.split_first_chunk::<{ 3 * 8 }>();
        let [magic, start, written] = match fixed {
            Some((fixed, _)) if kind == b'P' => std::array::from_fn(|at| word(fixed, 8 * at)),
            _ => [0; 3],
        };
        let scopes = fixed.and_then(|(_, rest)| std::str::from_utf8(rest).ok());
        match scopes {
            Some(scopes) if magic == u64::from_le_bytes(*MAGIC) => {
                Ok(Origin { times: Times { start, written }, scopes: scopes.to_owned() })
            }
            _ => self.damaged("it is no snapshot, or one of another version"),
        }
    }

    fn block(&mut self) -> Result<(u8, Vec<u8>), SnapshotError> {
        let mut head = [0; HEAD];
        self.fill(&mut head)?;
        let [len @ .., _, _, _, _, kind] = head;
        let sum = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let len = u32::from_le_bytes(len) as usize;
        if len > MAX_PAYLOAD {
            return self.damaged("a block is too long");
        }
        let mut payload = vec![0; len];
        self.fill(&mut payload)?;
        match checksum(kind, &payload) == sum {
            true => Ok((kind, payload)),
            false => self.damaged("a checksum is wrong"),
        }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), SnapshotError> {
        match self.file.read_exact(bytes) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.damaged("it was cut off")
            }
            Err(source) => Err(SnapshotError::Read { path: self.path.clone(), source }),
        }
    }

    fn damaged<T>(&self, what: &'static str) -> Result<T, SnapshotError> {
        Err(SnapshotError::Damaged { path: self.path.clone(), what })
    }
}

/// The entries in a block, split by the length that each contains. A wrong length ends the block.
pub(super) fn split(mut words: &[u64]) -> impl Iterator<Item = &[u64]> {
    std::iter::from_fn(move || {
        let len = Head::read(&words).words();
        let (entry, rest) = words.split_at_checked(len).filter(|(entry, _)| !entry.is_empty())?;
        words = rest;
        Some(entry)
    })
}

fn checksum(kind: u8, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[kind]);
    hasher.update(payload);
    hasher.finalize()
}
