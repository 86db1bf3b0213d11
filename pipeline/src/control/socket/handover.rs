//! Open files that are sent with a request (unix(7), `SCM_RIGHTS`). The client opens them with its own rights. So the
//! instance writes and reads only files that the client may use.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Sends `bytes`, and `file` with them. Returns how many bytes were sent.
pub(super) fn send(socket: impl AsFd, bytes: &[u8], file: Option<&File>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = file.map(AsFd::as_fd);
    if !control.push(SendAncillaryMessage::ScmRights(files.as_slice())) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Receives some bytes, and the file that came with them. Further files are closed.
pub(super) fn receive(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Option<File>)> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let got = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    let mut file = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = message {
            file = files.last().map(File::from).or(file);
        }
    }
    Ok((got.bytes, file))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn an_open_file_goes_with_the_bytes() {
        let path = std::env::temp_dir().join(format!("pmdns-handover-{}", std::process::id()));
        std::fs::write(&path, "contents").unwrap();
        let (one, other) = UnixStream::pair().unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(send(&one, b"dump", Some(&file)).unwrap(), 4);
        assert_eq!(send(&one, b" x", None).unwrap(), 2);
        let mut bytes = [0; 4];
        let (count, received) = receive(&other, &mut bytes).unwrap();
        assert_eq!(&bytes[..count], b"dump");
        let mut text = String::new();
        received.unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "contents");
        let (count, received) = receive(&other, &mut bytes).unwrap();
        assert_eq!((count, received.is_none()), (2, true));
        drop(one);
        assert_eq!(receive(&other, &mut bytes).unwrap().0, 0);
    }
}
