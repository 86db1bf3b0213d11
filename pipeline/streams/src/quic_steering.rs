//! Which of two processes gets a packet of QUIC, while one takes over from the other: each has a socket at the same address.
//!
//! A connection belongs to a process, and its packets bear an id that this process has chosen (RFC 9000 section 5.1). The first
//! bytes of such an id say which of two processes that follow each other it was. A filter of the kernel reads them. So the process
//! before keeps its connections until it ends, and the next one gets everything else.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;

use pmdns_nics::reuseport::{FilterInstruction, choose_by};

/// Bytes of a mark.
pub(crate) const MARK: usize = 2;
/// The first bytes of ids, of every second process. A client's own first choice is random: one in 65,536 looks so.
const MARKS: [[u8; MARK]; 2] = [[0x5a, 0x3c], [0xa7, 0xd1]];
/// Every packet comes to the socket that was bound first.
const FIRST: [FilterInstruction; 1] = [(RETURN, 0, 0, 0)];

/// Codes of instructions (linux/bpf_common.h).
const LOAD_BYTE: u16 = 0x30;
const LOAD_TWO: u16 = 0x28;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_SET: u16 = 0x45;
const RETURN: u16 = 0x06;

/// The place of a process among those that follow each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuicGeneration {
    /// Whether it takes over from another one, which has sockets at the same addresses.
    pub is_beside: bool,
    /// Whether it is every second one.
    pub is_second: bool,
}

/// What decides about the packets of QUIC.
#[derive(Debug)]
pub struct QuicSteering {
    sockets: Vec<UdpSocket>,
    generation: QuicGeneration,
}

impl QuicGeneration {
    /// What ids of its connections begin with.
    #[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "there are no connections then"))]
    pub(crate) fn mark(self) -> [u8; MARK] {
        MARKS[usize::from(self.is_second)]
    }

    fn mark_before(self) -> [u8; MARK] {
        MARKS[usize::from(!self.is_second)]
    }
}

impl QuicSteering {
    pub(crate) fn new(sockets: Vec<UdpSocket>, generation: QuicGeneration) -> Self {
        Self { sockets, generation }
    }

    /// Every packet comes to this process, which is alone or has had its sockets first: though another one opens its own.
    pub fn hold(&self) -> io::Result<()> {
        self.sockets.iter().try_for_each(|socket| choose_by(socket.as_fd(), &FIRST))
    }

    /// Packets of connections of the process before come to it, and everything else to this one. Once the other one has ended,
    /// everything does, because the kernel finds no second socket.
    pub fn take(&self) -> io::Result<()> {
        let filter = marked(self.generation.mark_before());
        self.sockets.iter().try_for_each(|socket| choose_by(socket.as_fd(), &filter))
    }
}

/// Packets to ids with this mark come to the first socket, others to the second one. An id stands behind the first byte, or with a
/// long header behind the version and its length (RFC 9000 section 17). A packet that is shorter comes to the first one.
fn marked(mark: [u8; MARK]) -> [FilterInstruction; 8] {
    let mark = u32::from(u16::from_be_bytes(mark));
    [
        (LOAD_BYTE, 0, 0, 0),
        (JUMP_IF_SET, 0, 2, 0x80),
        (LOAD_TWO, 0, 0, 6),
        (JUMP, 0, 0, 1),
        (LOAD_TWO, 0, 0, 1),
        (JUMP_IF_EQUAL, 0, 1, mark),
        (RETURN, 0, 0, 0),
        (RETURN, 0, 0, 1),
    ]
}

#[cfg(test)]
mod tests {
    use pmdns_config::Streams;

    use super::*;
    use crate::listeners::Listeners;

    /// The sockets of a process at an address.
    fn bind(settings: &Streams, generation: QuicGeneration) -> Listeners {
        Listeners::bind(settings, &mut |_, _| None, generation).unwrap()
    }

    /// The socket that gets a packet, which begins so.
    fn receiver(client: &UdpSocket, packet: &[u8], sockets: &[&Listeners]) -> usize {
        let to = sockets[0].quic[0].local_addr().unwrap();
        client.send_to(packet, to).unwrap();
        let mut found = Vec::new();
        for (number, listeners) in sockets.iter().enumerate() {
            if listeners.quic[0].recv(&mut [0; 64]).is_ok() {
                found.push(number);
            }
        }
        assert_eq!(found.len(), 1, "one gets it: {found:?}");
        found[0]
    }

    #[test]
    fn connections_stay_with_their_process_and_others_come_to_the_one_that_serves() {
        let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let settings = Streams { quic: vec![free], ..Streams::default() };
        let long = |id: &[u8]| [&[0xc0, 0, 0, 0, 1, 10], id, &[7; 20]].concat();
        let short = |id: &[u8]| [&[0x40], id, &[7; 20]].concat();
        let mut serving = bind(&settings, QuicGeneration::default());
        serving.quic_steering().unwrap().hold().unwrap();
        for is_second in [true, false, true] {
            let generation = QuicGeneration { is_beside: true, is_second };
            let next = bind(&settings, generation);
            let steering = next.quic_steering().unwrap();
            let (old, new) = (generation.mark_before(), generation.mark());
            let kinds = [long(&old), short(&old), long(&new), short(&new), long(&[1; 10])];
            let of_all = |sockets: &[&Listeners]| -> Vec<usize> {
                // Each is a flow of its own.
                (0..8)
                    .flat_map(|_| {
                        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
                        let of = |packet: &Vec<u8>| receiver(&client, packet, sockets);
                        kinds.iter().map(of).collect::<Vec<_>>()
                    })
                    .collect()
            };
            assert_eq!(of_all(&[&serving, &next]), [0; 40], "it does not serve yet");
            steering.take().unwrap();
            assert_eq!(of_all(&[&serving, &next]), [0, 0, 1, 1, 1].repeat(8));
            if is_second {
                // It ends, and the process before goes on.
                drop((steering, next));
                assert_eq!(of_all(&[&serving]), [0; 40]);
                serving.quic_steering().unwrap().hold().unwrap();
                let again = bind(&settings, generation);
                assert_eq!(of_all(&[&serving, &again]), [0; 40]);
                again.quic_steering().unwrap().take().unwrap();
                serving = again;
            } else {
                drop(steering);
                serving = next;
            }
            // The process before has ended.
            assert_eq!(of_all(&[&serving]), [0; 40]);
            serving.quic_steering().unwrap().hold().unwrap();
        }
    }

    #[test]
    fn nobody_else_listens_where_clients_over_quic_come_to() {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let settings = Streams { quic: vec![taken.local_addr().unwrap()], ..Streams::default() };
        let alone = QuicGeneration::default();
        assert!(Listeners::bind(&settings, &mut |_, _| None, alone).is_err());
        drop(taken);
        let serving = bind(&settings, alone);
        assert!(Listeners::bind(&settings, &mut |_, _| None, alone).is_err(), "not by chance");
        assert_eq!(Listeners::refused(&settings).len(), 1);
        drop(serving);
    }
}
