//! The sockets for notifications, over UDP and over TCP.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use super::TransferError;
use crate::sockets::OpenSockets;

/// The key of their address.
const KEY: &str = "transfer.listen";

/// The sockets for notifications.
#[derive(Debug)]
pub struct NotifySockets {
    pub(super) udp: UdpSocket,
    pub(super) tcp: TcpListener,
}

impl NotifySockets {
    /// Opens those at this address that are not open already.
    pub fn open(address: SocketAddr, sockets: &mut OpenSockets) -> Result<Self, TransferError> {
        let (udp, tcp) = (sockets.take_packets(KEY, address), sockets.take(KEY, address));
        let open = || {
            let udp = udp.map_or_else(|| UdpSocket::bind(address), |socket| Ok(socket.into()))?;
            let tcp = tcp.map_or_else(|| TcpListener::bind(address), |socket| Ok(socket.into()))?;
            udp.set_nonblocking(true)?;
            tcp.set_nonblocking(true)?;
            Ok(Self { udp, tcp })
        };
        open().map_err(|source| TransferError::Listen { address, source })
    }

    /// Adds copies of them.
    #[cfg_attr(
        not(feature = "dpdk"),
        allow(dead_code, reason = "without ports nothing is handed over")
    )]
    pub(crate) fn copy(&self, address: SocketAddr, copies: &mut OpenSockets) -> io::Result<()> {
        let Self { udp, tcp } = self.try_clone()?;
        copies.add_packets(KEY, address, udp.into());
        copies.add(KEY, address, tcp.into());
        Ok(())
    }

    /// Other descriptors of the same sockets.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { udp: self.udp.try_clone()?, tcp: self.tcp.try_clone()? })
    }
}
