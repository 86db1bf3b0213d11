//! Names that operators block, allow or answer at run time.

mod entries;
mod old;
mod table;

pub(crate) use old::{OldChange, read_old};
pub use table::NameTable;
