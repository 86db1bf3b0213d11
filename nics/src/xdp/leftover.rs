//! The program of a pmdns that was killed stays on the interface. It is taken off before the next start, which could not
//! put its own there. The programs of others stay.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netdevice::name_to_index;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

use pmdns_config::narrow::{to_u16, to_u32};

use super::{bpf, settings};

/// The program in `filter.c`, and that of libxdp.
const PROGRAM: &str = "xsk_def_prog";
/// Programs of libxdp: one that calls others, and that of a socket.
const OF_THE_LIBRARY: [&str; 2] = ["xdp_dispatcher", PROGRAM];

/// Attributes of a link (linux/if_link.h), and those within `IFLA_XDP`.
const IFLA_XDP: u16 = 43;
const XDP_FD: u16 = 1;
const XDP_PROGRAM_ID: u16 = 4;
const NESTED: u16 = 1 << 15;

/// Bytes of a message's header (netlink(7)), of `struct ifinfomsg`, and of an attribute's header.
const HEADER: usize = 16;
const LINK: usize = 16;
const ATTRIBUTE: usize = 4;
/// Room for the description of a link.
const ROOM: usize = 32 << 10;

const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const ERROR: u16 = 2;

/// Takes our own program off `interface`. An error: another's is there, and the driver would take that off at its end.
pub(super) fn remove(interface: &str) -> io::Result<()> {
    let (socket, index, id) = link(interface)?;
    let Some(id) = id else { return Ok(()) };
    if settings_of(id)?.is_none() {
        let name = bpf::name_of_program(id)?;
        return Err(io::Error::other(format!(
            "the XDP program `{name}` is on {interface} already"
        )));
    }
    let none = attribute(IFLA_XDP | NESTED, &attribute(XDP_FD, &(-1_i32).to_ne_bytes()));
    ask(&socket, &message(libc::RTM_SETLINK, REQUEST | ACKNOWLEDGE, index, &none))?;
    Ok(())
}

/// The name of the XDP program on `interface` that is neither ours nor of the library that loads ours. `None`: there is none,
/// or the kernel does not tell.
pub(super) fn of_others(interface: &str) -> Option<String> {
    let (.., id) = link(interface).ok()?;
    let name = bpf::name_of_program(id?).ok()?;
    let is_known = OF_THE_LIBRARY.contains(&&*name) || settings_of(id?).ok()?.is_some();
    (!is_known).then_some(name)
}

/// The settings of the program of ours on `interface`, and what may stand behind them. `None`: none is there that libxdp takes for
/// its own.
pub(super) fn settings(interface: &str) -> io::Result<Option<Vec<u8>>> {
    let (.., id) = link(interface)?;
    let Some(id) = id else { return Ok(None) };
    let is_joined = bpf::name_of_program(id)? == PROGRAM;
    if is_joined { settings_of(id) } else { Ok(None) }
}

fn settings_of(id: u32) -> io::Result<Option<Vec<u8>>> {
    let values = bpf::values_of_program(id)?;
    Ok(values.into_iter().find(|value| value.starts_with(&settings::NAME)))
}

/// A socket to ask about links, the number of `interface`, and the id of its program.
fn link(interface: &str) -> io::Result<(OwnedFd, u32, Option<u32>)> {
    let (kind, flags) = (SocketType::RAW, SocketFlags::CLOEXEC);
    // Protocol 0 is NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, kind, flags, None)?;
    let index = name_to_index(&socket, interface)?;
    let answer = ask(&socket, &message(libc::RTM_GETLINK, REQUEST, index, &[]))?;
    Ok((socket, index, program(&answer)))
}

/// The id of the XDP program of the link that `message` describes.
fn program(message: &[u8]) -> Option<u32> {
    let xdp = find(message.get(HEADER + LINK..)?, IFLA_XDP)?;
    let id = find(xdp, XDP_PROGRAM_ID)?;
    id.first_chunk().map(|id| u32::from_ne_bytes(*id)).filter(|id| *id != 0)
}

/// The value of the first attribute of this kind.
fn find(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    while let Some((head, _)) = attributes.split_first_chunk::<ATTRIBUTE>() {
        let [a, b, c, d] = *head;
        let (len, its_kind) = (usize::from(u16::from_ne_bytes([a, b])), u16::from_ne_bytes([c, d]));
        let value = attributes.get(ATTRIBUTE..len)?;
        if its_kind & !NESTED == kind {
            return Some(value);
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
    None
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = to_u16(ATTRIBUTE + value.len()).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn message(kind: u16, flags: u16, index: u32, attributes: &[u8]) -> Vec<u8> {
    let mut bytes = to_u32(HEADER + LINK + attributes.len()).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    // Sequence number and sender, then `struct ifinfomsg`: family and type, index, flags and which of them change.
    bytes.extend([0; 8 + 4]);
    bytes.extend(index.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend(attributes);
    bytes
}

/// Sends a message. The answer, which comes at once, is a description or an acknowledgement.
fn ask(socket: &OwnedFd, message: &[u8]) -> io::Result<Vec<u8>> {
    send(socket, message, SendFlags::empty())?;
    let mut answer = vec![0; ROOM];
    let (_, len) = recv(socket, &mut answer[..], RecvFlags::empty())?;
    answer.truncate(len.min(ROOM));
    let kind = answer.get(4..6).and_then(<[u8]>::first_chunk).map(|kind| u16::from_ne_bytes(*kind));
    let code =
        answer.get(HEADER..).and_then(<[u8]>::first_chunk).map(|code| i32::from_ne_bytes(*code));
    match (kind, code) {
        (None, _) | (Some(ERROR), None) => Err(io::ErrorKind::UnexpectedEof.into()),
        (Some(ERROR), Some(code)) if code != 0 => {
            Err(io::Error::from_raw_os_error(code.saturating_neg()))
        }
        _ => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_a_link_is_read() {
        let link = |xdp: &[u8]| {
            let name = attribute(3, b"eth0\0");
            message(libc::RTM_NEWLINK, 0, 7, &[name, attribute(IFLA_XDP | NESTED, xdp)].concat())
        };
        let attached = attribute(2, &[2]);
        let id = attribute(XDP_PROGRAM_ID, &77_u32.to_ne_bytes());
        assert_eq!(program(&link(&[attached.clone(), id].concat())), Some(77));
        assert_eq!(program(&link(&attached)), None);
    }

    #[test]
    fn no_answer_makes_it_stumble() {
        let whole = message(
            libc::RTM_NEWLINK,
            0,
            7,
            &attribute(IFLA_XDP, &attribute(XDP_PROGRAM_ID, &[1; 4])),
        );
        for len in 0..whole.len() {
            assert_eq!(program(&whole[..len]), None);
        }
        let mut zero = whole.clone();
        zero[HEADER + LINK..].fill(0);
        assert_eq!(program(&zero), None, "an attribute of no length ends the search");
        assert_eq!(program(&whole), Some(0x0101_0101));
    }

    #[test]
    fn an_interface_without_a_program_has_none_to_remove() {
        remove("lo").unwrap();
        assert!(remove("no-such-if").is_err());
    }
}
