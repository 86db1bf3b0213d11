//! Fuzz target: configurations of other servers. The first byte says the format, the rest is the file and all that it includes.

use std::io;
use std::path::{Path, PathBuf};

use crate::input::Input;
use pmdns_config::Config;
use pmdns_import::{Files, ServerKind, import};

/// The file, and one that it may include.
struct Fuzzed<'d>(&'d [u8]);

impl Files for Fuzzed<'_> {
    fn read(&self, path: &Path, _limit: u64) -> io::Result<Vec<u8>> {
        match path.file_name().is_some_and(|name| name == "a" || name == "b") {
            true => Ok(self.0.to_vec()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn read_included(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        self.read(path, limit)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(vec![folder.join("a"), folder.join("b")])
    }
}

/// One input.
pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let format = match input.byte() % 4 {
        0 => Some(ServerKind::Unbound),
        1 => Some(ServerKind::Dnsdist),
        2 => Some(ServerKind::Named),
        _ => None,
    };
    match import(Path::new("a"), format, &Fuzzed(input.rest())) {
        Ok(made) => {
            Config::from_toml(&made.toml).expect("what was made loads");
        }
        Err(error) => assert!(format.is_none(), "{error}"),
    }
}
