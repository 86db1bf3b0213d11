//! Whether descriptors that have come are what the other process says of them.

use std::io;
use std::os::fd::OwnedFd;

use pmdns_handover::Passed;
use pmdns_nics::Tap;
use socket2::{Domain, Protocol, SockRef, Type};

use super::process::SOCKET;

/// Each of them takes in connections or packets at its address, or why nothing is taken over.
pub(super) fn check(passed: &[Passed], sockets: &[OwnedFd]) -> Result<(), String> {
    for (passed, socket) in passed.iter().zip(sockets) {
        let wrong = match difference(passed, socket) {
            Ok(None) => continue,
            Ok(Some(wrong)) => wrong.to_owned(),
            Err(error) => format!("another descriptor ({error})"),
        };
        let what = match passed {
            Passed::Socket(key, address) | Passed::Packets(key, address) => {
                format!("{key} at {address}")
            }
            Passed::LocalSocket(key, path) => format!("{key} at {}", path.display()),
            Passed::Cache(_) => "the cache".to_owned(),
            Passed::Crashes => "its crashes".to_owned(),
            Passed::Changes { .. } => "changes at run time".to_owned(),
            Passed::Tap(name) => format!("the tap {name}"),
            Passed::Relay(_) => "the way for frames".to_owned(),
            Passed::Answers(_) => "the way for answers".to_owned(),
        };
        return Err(format!("it has passed {wrong} as {what}; stop it, then start this one"));
    }
    Ok(())
}

/// In what a descriptor differs from what it is said to be.
fn difference(passed: &Passed, socket: &OwnedFd) -> io::Result<Option<&'static str>> {
    if let Passed::Tap(name) = passed {
        return Ok((!Tap::is(socket, name)).then_some("something else"));
    }
    let socket = SockRef::from(socket);
    let kind = match passed {
        Passed::Packets(..) => Type::DGRAM,
        Passed::LocalSocket(key, _) if key == SOCKET => Type::SEQPACKET,
        Passed::Relay(_) => Type::SEQPACKET,
        _ => Type::STREAM,
    };
    let is_there = match passed {
        Passed::Socket(_, wanted) | Passed::Packets(_, wanted) => socket
            .local_addr()?
            .as_socket()
            .is_some_and(|address| (address.ip(), address.port()) == (wanted.ip(), wanted.port())),
        Passed::LocalSocket(_, wanted) => socket.local_addr()?.as_pathname() == Some(wanted),
        Passed::Relay(_) | Passed::Answers(_) => socket.peer_addr()?.domain() == Domain::UNIX,
        // Memory is tried when it is mapped or read.
        Passed::Cache(_) | Passed::Crashes | Passed::Changes { .. } | Passed::Tap(_) => {
            return Ok(None);
        }
    };
    let listens = || match passed {
        Passed::Relay(_) | Passed::Answers(_) => Ok(true),
        // Whoever is connected gets packets of one sender.
        Passed::Packets(..) => {
            Ok(socket.protocol()? == Some(Protocol::UDP) && socket.peer_addr().is_err())
        }
        _ => socket.is_listener(),
    };
    Ok(match () {
        () if socket.r#type()? != kind => Some("a socket of another kind"),
        () if !is_there => Some("a socket of another address"),
        () if !listens()? => Some("a socket that does not listen"),
        () => None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn only_what_a_descriptor_is_said_to_be_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(address).unwrap();
        let (connected, _) = listener.accept().unwrap();
        let udp = UdpSocket::bind(address).unwrap();
        let tcp = [Passed::Socket("streams.tcp".to_owned(), address)];
        check(&tcp, &[listener.try_clone().unwrap().into()]).unwrap();
        let packets = [Passed::Packets("transfer.listen".to_owned(), address)];
        check(&packets, &[udp.try_clone().unwrap().into()]).unwrap();
        udp.connect("127.0.0.1:9").unwrap();
        let refused = check(&packets, &[udp.try_clone().unwrap().into()]).unwrap_err();
        assert!(refused.contains("does not listen as transfer.listen at 127.0.0.1"), "{refused}");
        let tap = [Passed::Tap("pm-edge".to_owned())];
        let refused = check(&tap, &[listener.try_clone().unwrap().into()]).unwrap_err();
        assert!(
            refused.starts_with("it has passed something else as the tap pm-edge"),
            "{refused}"
        );
        let refused = check(&packets, &[listener.try_clone().unwrap().into()]).unwrap_err();
        assert!(refused.contains("another kind"), "{refused}");
        for (descriptor, why) in [
            (OwnedFd::from(other), "another address"),
            (client.into(), "another address"),
            (connected.into(), "does not listen"),
            (udp.into(), "another kind"),
            (File::open("/dev/null").unwrap().into(), "socket operation on non-socket"),
        ] {
            let refused = check(&tcp, &[descriptor]).unwrap_err();
            assert!(refused.contains("streams.tcp at 127.0.0.1"), "{refused}");
            assert!(refused.to_lowercase().contains(why), "{refused}");
        }
    }

    #[test]
    fn a_local_socket_has_its_file_and_its_kind() {
        let folder = std::env::temp_dir().join(format!("pmdns-passed-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let taken = |key: &str, path: PathBuf| {
            let copy = listener.try_clone().unwrap().into();
            check(&[Passed::LocalSocket(key.to_owned(), path)], &[copy])
        };
        taken("control.socket", path.clone()).unwrap();
        assert!(taken("control.socket", folder.join("other")).is_err());
        assert!(taken(SOCKET, path).unwrap_err().contains("another kind"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
