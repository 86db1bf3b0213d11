//! Where a capture or the cache is written: a file or a pipe that the client has opened. No reader of a pipe keeps the thread for
//! ever.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::time::{Duration, Instant};

use crate::sinks::write_until;

/// How long a reader of a pipe may take to read.
const PATIENCE: Duration = Duration::from_secs(5);

/// An open file that may be a pipe.
#[derive(Debug)]
pub(crate) struct Sink {
    file: File,
    is_pipe: bool,
}

impl Sink {
    /// The file that came with a request.
    pub(crate) fn new(file: Option<File>) -> Result<Self, String> {
        let file = file.ok_or("the file has to come with the request, opened by who asks")?;
        let kind = file.metadata().map_err(|error| error.to_string())?.file_type();
        match kind.is_file() || kind.is_fifo() {
            true => Ok(Self { file, is_pipe: kind.is_fifo() }),
            false => Err("it is neither a regular file nor a pipe; name a file, or `-`".to_owned()),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_pipe {
            return self.file.write(bytes);
        }
        let written = write_until(self.file.as_fd(), bytes, Instant::now() + PATIENCE);
        written.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => {
                io::Error::new(error.kind(), "the reader of the pipe does not read")
            }
            _ => error,
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::OwnedFd;

    use super::*;

    #[test]
    fn a_pipe_gets_everything_and_an_error_when_its_reader_is_gone() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut sink = Sink::new(Some(File::from(OwnedFd::from(writer)))).unwrap();
        let bytes = vec![7; 200_000];
        let copied = std::thread::spawn(move || {
            let mut read = vec![0; 200_000];
            reader.read_exact(&mut read).map(|()| read)
        });
        sink.write_all(&bytes).unwrap();
        assert_eq!(copied.join().unwrap().unwrap(), bytes);
        let error = sink.write_all(&bytes).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn other_things_than_files_and_pipes_are_refused() {
        assert!(Sink::new(None).unwrap_err().contains("has to come with the request"));
        let null = File::open("/dev/null").unwrap();
        assert!(Sink::new(Some(null)).unwrap_err().contains("neither a regular file nor a pipe"));
    }
}
