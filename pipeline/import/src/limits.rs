//! Bounds of what an import reads and makes.

/// Bytes of all files that an import reads.
pub(crate) const MAX_BYTES: u64 = 16 << 20;
/// Files that an import reads, and entries of a folder that it looks at.
pub(crate) const MAX_FILES: usize = 256;
/// Files that include each other.
pub(crate) const MAX_DEPTH: usize = 8;
/// Blocks, tables and calls in each other in an imported file.
pub(crate) const MAX_NESTING: usize = 32;
/// How often what an import makes is checked, and mistakes are taken out.
pub(crate) const MAX_ROUNDS: usize = 256;
