//! The ways that datagrams take: loopback, and a veth pair, in network namespaces of this process alone.

use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::process::Command;
use std::time::Duration;

const NEAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// As long as a query with a cookie, and a short answer.
pub(crate) const QUERY: [u8; 72] = [0; 72];
pub(crate) const ANSWER: [u8; 88] = [0; 88];

/// A way to the far end.
pub(crate) struct Path {
    pub(crate) name: &'static str,
    pub(crate) near: Ipv4Addr,
    pub(crate) far: UdpSocket,
    pub(crate) far_address: SocketAddrV4,
}

/// Loopback, and a veth pair whose far end is in another namespace. Both are this process's alone.
pub(crate) fn paths() -> Result<[Path; 2], Box<dyn Error>> {
    own_network()?;
    ip("link set lo up")?;
    let far = std::thread::spawn(|| -> io::Result<UdpSocket> {
        own_network()?;
        let near = std::process::id();
        ip(&format!("link add far0 type veth peer name near0 netns {near}"))?;
        ip(&format!("addr add {FAR}/24 dev far0"))?;
        ip("link set far0 up")?;
        UdpSocket::bind((FAR, 0))
    });
    // The socket keeps its namespace when the thread has ended.
    let far = far.join().map_err(|_| "the thread of the far end ended")??;
    ip(&format!("addr add {NEAR}/24 dev near0"))?;
    ip("link set near0 up")?;
    let local = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok([
        Path::new("loopback", Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, local)?,
        Path::new("veth", NEAR, FAR, far)?,
    ])
}

impl Path {
    fn new(
        name: &'static str,
        near: Ipv4Addr,
        far: Ipv4Addr,
        socket: UdpSocket,
    ) -> io::Result<Self> {
        // A datagram that was lost is an error, not a wait.
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        let far_address = SocketAddrV4::new(far, socket.local_addr()?.port());
        Ok(Self { name, near, far: socket, far_address })
    }
}

/// Moves the calling thread into a network namespace of its own.
fn own_network() -> io::Result<()> {
    // SAFETY: changes only which network this thread is in.
    match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::other("only root can make network namespaces")),
    }
}

fn ip(arguments: &str) -> io::Result<()> {
    let status = Command::new("ip").args(arguments.split(' ')).status()?;
    let error = || io::Error::other(format!("ip {arguments}: {status}"));
    status.success().then_some(()).ok_or_else(error)
}
