//! A file that is either as it was or whole, whenever the machine stops.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that is being written, under its name with `.part` behind it. Unless it is finished, nothing is left of it.
#[derive(Debug)]
pub struct WholeFile {
    out: BufWriter<File>,
    path: PathBuf,
    temporary: PathBuf,
    is_finished: bool,
}

impl WholeFile {
    /// Begins to write what `path` will be.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn create(path: &Path, mode: u32) -> io::Result<Self> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".part");
        let temporary = PathBuf::from(temporary);
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(mode).open(&temporary)?;
        let out = BufWriter::new(file);
        Ok(Self { out, path: path.to_owned(), temporary, is_finished: false })
    }

    /// The name that it will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its name.
    ///
    /// # Errors
    ///
    /// What the system says; a file of that name is then as it was.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()?;
        self.out.get_ref().sync_all()?;
        std::fs::rename(&self.temporary, &self.path)?;
        self.is_finished = true;
        // The name lasts as the contents do.
        match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
            _ => File::open(".")?.sync_all(),
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}
