//! Which of the sockets at one address gets a packet (`SO_REUSEPORT`, socket(7)).

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use pmdns_config::narrow::{to_u16, to_u32};

/// An instruction of a filter (Documentation/networking/filter.rst): its code, how many to pass over if a condition holds and if
/// not, and its number.
pub type FilterInstruction = (u16, u8, u8, u32);

/// Has a filter choose among the sockets at the address of `socket`, which is one of them. It returns the place of one, in the
/// order in which they were bound. If no socket has that place, the kernel chooses.
pub fn choose_by(socket: BorrowedFd<'_>, filter: &[FilterInstruction]) -> io::Result<()> {
    let of = |&(code, jt, jf, k): &FilterInstruction| libc::sock_filter { code, jt, jf, k };
    let mut filter: Vec<_> = filter.iter().map(of).collect();
    let program = libc::sock_fprog { len: to_u16(filter.len()), filter: filter.as_mut_ptr() };
    let length = to_u32(size_of_val(&program));
    // SAFETY: the program and its instructions are read, and outlive the call.
    let code = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            length,
        )
    };
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};
    use std::os::fd::AsFd as _;

    use rustix::net::sockopt::set_socket_reuseport;
    use rustix::net::{AddressFamily, SocketType, bind, socket};

    use super::*;

    const RETURN: u16 = 0x06;

    fn shared(address: SocketAddr) -> UdpSocket {
        let shared = socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
        set_socket_reuseport(&shared, true).unwrap();
        bind(&shared, &address).unwrap();
        let shared = UdpSocket::from(shared);
        shared.set_nonblocking(true).unwrap();
        shared
    }

    #[test]
    fn a_filter_names_a_socket_by_its_place() {
        let first = shared("127.0.0.1:0".parse().unwrap());
        let address = first.local_addr().unwrap();
        let sockets = [first, shared(address)];
        for place in [1, 0, 1] {
            let filter = [(RETURN, 0, 0, place)];
            choose_by(sockets[0].as_fd(), &filter).unwrap();
            for _ in 0..8 {
                let client = UdpSocket::bind("127.0.0.1:0").unwrap();
                client.send_to(b"packet", address).unwrap();
                let came = sockets.each_ref().map(|one| one.recv(&mut [0; 9]).is_ok());
                assert_eq!(came, [place == 0, place == 1]);
            }
        }
        let alone = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(choose_by(alone.as_fd(), &[(RETURN, 0, 0, 0)]).is_err(), "it is not shared");
    }
}
