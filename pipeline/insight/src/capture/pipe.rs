//! The pipe that comes with a call: a capture or the cache is written into it, or the cache is read from it. Nobody at its other
//! end keeps the thread for ever.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use crate::sinks::{wait_until, write_until};

/// How long the other end may take to read or write some.
const PATIENCE: Duration = Duration::from_secs(5);

/// One end of a pipe.
#[derive(Debug)]
pub struct Pipe(File);

impl Pipe {
    /// The pipe that came with a call.
    pub fn new(file: Option<File>) -> io::Result<Self> {
        file.map(Self).ok_or_else(|| io::Error::other("no pipe came with the call"))
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = write_until(self.0.as_fd(), bytes, Instant::now() + PATIENCE);
        written.map_err(|error| late(error, "the reader of the pipe does not read"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Pipe {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let ready = wait_until(&self.0, PollFlags::IN, Instant::now() + PATIENCE);
        ready.map_err(|error| late(error, "the writer of the pipe does not write"))?;
        self.0.read(bytes)
    }
}

fn late(error: io::Error, why: &str) -> io::Error {
    match error.kind() {
        io::ErrorKind::TimedOut => io::Error::new(error.kind(), why),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;

    #[test]
    fn a_pipe_gets_everything_and_an_error_when_its_reader_is_gone() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut pipe = Pipe::new(Some(File::from(OwnedFd::from(writer)))).unwrap();
        let bytes = vec![7; 200_000];
        let copied = std::thread::spawn(move || {
            let mut read = vec![0; 200_000];
            reader.read_exact(&mut read).map(|()| read)
        });
        pipe.write_all(&bytes).unwrap();
        assert_eq!(copied.join().unwrap().unwrap(), bytes);
        let error = pipe.write_all(&bytes).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        assert!(Pipe::new(None).is_err());
    }

    #[test]
    fn a_pipe_is_read_to_its_end() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut pipe = Pipe::new(Some(File::from(OwnedFd::from(reader)))).unwrap();
        writer.write_all(b"answers").unwrap();
        drop(writer);
        let mut text = String::new();
        pipe.read_to_string(&mut text).unwrap();
        assert_eq!(text, "answers");
    }
}
