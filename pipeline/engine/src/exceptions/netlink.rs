//! Three messages to the kernel's routing (rtnetlink(7)): a link's settings, an address, a default route.
//!
//! They are written by hand, as few bytes of a fixed form that only the kernel reads. The crates for netlink bring a
//! description of all of it, and mostly an async runtime.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use pmdns_config::narrow::{to_u16, to_u32};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// Bytes of the header of each message, and of an answer to it: a header, an error, and the message again.
const HEADER: usize = 16;
const ANSWER: usize = HEADER + 4;
const ROOM: usize = 1024;
/// Attributes begin at multiples of this.
const ALIGNMENT: usize = 4;
/// What the number of a message means is the same for all of them.
const SEQUENCE: u32 = 1;

const REQUEST: u16 = 1 << 0;
const ACKNOWLEDGE: u16 = 1 << 2;
const EXCLUSIVE: u16 = 1 << 9;
const CREATE: u16 = 1 << 10;

/// A message, ready to be sent.
pub(super) struct Message(Vec<u8>);

/// The kind of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    /// The link is up, and has this MAC address and this MTU.
    Link { index: u32, mac: [u8; 6], mtu: u32 },
    /// The link has this address, which is usable at once (no duplicate address detection).
    Address { index: u32, address: IpAddr, prefix: u8 },
    /// What has no other route leaves by the link, to this router.
    DefaultRoute { index: u32, gateway: IpAddr },
}

impl Request {
    pub(super) fn message(self) -> Message {
        match self {
            Self::Link { index, mac, mtu } => {
                let up = u32::from_ne_bytes((libc::IFF_UP).to_ne_bytes());
                // ifinfomsg: family, type, index, flags, and which of them change.
                let mut message = Message::new(libc::RTM_NEWLINK, 0);
                message.put(&[0; 4]).put(&index.to_ne_bytes());
                message.put(&up.to_ne_bytes()).put(&up.to_ne_bytes());
                message.attribute(libc::IFLA_ADDRESS, &mac);
                message.attribute(libc::IFLA_MTU, &mtu.to_ne_bytes());
                message.done()
            }
            Self::Address { index, address, prefix } => {
                // ifaddrmsg: family, prefix length, flags, scope, index.
                let mut message = Message::new(libc::RTM_NEWADDR, CREATE | EXCLUSIVE);
                message.put(&[family(address), prefix, 0, 0]).put(&index.to_ne_bytes());
                message.attribute(libc::IFA_LOCAL, &octets(address));
                message.attribute(libc::IFA_ADDRESS, &octets(address));
                if address.is_ipv6() {
                    message.attribute(libc::IFA_FLAGS, &libc::IFA_F_NODAD.to_ne_bytes());
                }
                message.done()
            }
            Self::DefaultRoute { index, gateway } => {
                // rtmsg: family, lengths of destination and source, TOS, table, protocol, scope, type, flags.
                let (table, protocol, unicast) =
                    (libc::RT_TABLE_MAIN, libc::RTPROT_STATIC, libc::RTN_UNICAST);
                let mut message = Message::new(libc::RTM_NEWROUTE, CREATE | EXCLUSIVE);
                message.put(&[family(gateway), 0, 0, 0, table, protocol, 0, unicast]).put(&[0; 4]);
                message.attribute(libc::RTA_GATEWAY, &octets(gateway));
                message.attribute(libc::RTA_OIF, &index.to_ne_bytes());
                message.done()
            }
        }
    }
}

impl Message {
    fn new(kind: u16, flags: u16) -> Self {
        let mut message = Self(Vec::with_capacity(ROOM));
        let flags = flags | REQUEST | ACKNOWLEDGE;
        // nlmsghdr: length (written at the end), type, flags, sequence number, port.
        message.put(&[0; 4]).put(&kind.to_ne_bytes()).put(&flags.to_ne_bytes());
        message.put(&SEQUENCE.to_ne_bytes()).put(&[0; 4]);
        message
    }

    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        let len = to_u16(2 * size_of::<u16>() + value.len());
        self.put(&len.to_ne_bytes()).put(&kind.to_ne_bytes()).put(value);
        self.0.resize(self.0.len().next_multiple_of(ALIGNMENT), 0);
    }

    fn done(mut self) -> Self {
        let len = to_u32(self.0.len()).to_ne_bytes();
        self.0[..len.len()].copy_from_slice(&len);
        self
    }
}

/// A socket to the kernel's routing.
pub(super) struct Netlink(OwnedFd);

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        let (kind, flags) = (SocketType::RAW, SocketFlags::CLOEXEC);
        // Protocol 0, the default, is NETLINK_ROUTE.
        Ok(Self(socket_with(AddressFamily::NETLINK, kind, flags, None)?))
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.0
    }

    /// Sends a message, and waits for the kernel's answer, which comes at once.
    pub(super) fn ask(&mut self, message: &Message) -> io::Result<()> {
        send(&self.0, &message.0, SendFlags::empty())?;
        let mut answer = [0; ROOM];
        let (_, len) = recv(&self.0, &mut answer[..], RecvFlags::empty())?;
        let code = answer[..len].get(HEADER..ANSWER).and_then(<[u8]>::first_chunk);
        match code.map(|code| i32::from_ne_bytes(*code)) {
            Some(0) => Ok(()),
            Some(code) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

fn family(address: IpAddr) -> u8 {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    u8::try_from(family).unwrap_or_default()
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
