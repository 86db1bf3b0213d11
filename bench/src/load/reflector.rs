//! A partner that sends every query back as an empty response: what is measured against it is the
//! generator's own ceiling, and the link's.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};

use pmdns_nics::{Burst, Frame, FramePool, MAX_BURST, Queues, release};
use pmdns_stages::wire::dns::{flag, header};
use pmdns_stages::wire::ip::{
    ETHERNET_LEN, ETHERTYPE, IPV4_MIN_LEN, PROTOCOL_UDP, TYPE_IPV4, UDP_LEN, swap_halves,
    turn_round, udp, v4,
};
use pmdns_stages::wire::{be16, put16};

use super::arp::{self, Arp, Host};
use super::send::send_frame;

const L4: usize = ETHERNET_LEN + IPV4_MIN_LEN;
const FLAGS: usize = L4 + UDP_LEN + header::FLAGS;

/// What was reflected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reflected {
    /// Frames sent back.
    pub sent: u64,
    /// Frames the port did not take back.
    pub refused: u64,
    /// Frames that were no queries.
    pub ignored: u64,
}

/// Reflects until told to stop. Answers at `ours`.
pub fn reflect(queues: &mut Queues, pool: &FramePool, ours: Host, stop: &AtomicBool) -> Reflected {
    let mut reflected = Reflected::default();
    let (Some(rx), Some(tx)) = (queues.rx.first_mut(), queues.tx.first_mut()) else {
        return reflected;
    };
    let (mut received, mut answers) = (Burst::new(), Burst::new());
    while !stop.load(Ordering::Relaxed) {
        if rx.receive(&mut received, MAX_BURST) == 0 {
            std::hint::spin_loop();
            continue;
        }
        received.iter().for_each(Frame::prefetch);
        for mut frame in received.drain(..) {
            if turn(frame.bytes_mut(), ours.address) {
                answers.push(frame);
                continue;
            }
            reflected.ignored += 1;
            if let Some(Arp::Request(asker, wanted)) = Arp::read(frame.bytes())
                && wanted == ours.address
            {
                send_frame(pool, tx.as_mut(), &arp::reply(ours, asker));
            }
        }
        reflected.sent += tx.transmit(&mut answers) as u64;
        reflected.refused += answers.len() as u64;
        release(&mut answers);
    }
    reflected
}

/// Makes a query to `ours` its own empty response; `false` if the frame is no such query.
#[inline]
fn turn(frame: &mut [u8], ours: Ipv4Addr) -> bool {
    let to = ETHERNET_LEN + v4::DESTINATION;
    let flags = be16(frame, FLAGS);
    let is_query = be16(frame, ETHERTYPE) == Some(TYPE_IPV4)
        && frame.get(ETHERNET_LEN + v4::PROTOCOL) == Some(&PROTOCOL_UDP)
        && frame.get(to..to + 4) == Some(&ours.octets());
    let Some(flags) = flags.filter(|flags| is_query && flags & flag::QR == 0) else {
        return false;
    };
    turn_round(frame, ETHERNET_LEN, false);
    swap_halves::<4>(&mut frame[L4..]);
    put16(frame, FLAGS, flags | flag::QR);
    // RFC 1624 equation 3, for one word that grew by the QR bit. The swaps change no sum.
    let at = L4 + udp::CHECKSUM;
    if let Some(old) = be16(frame, at).filter(|old| *old != 0) {
        let sum = u32::from(!old) + u32::from(!flags) + u32::from(flags | flag::QR);
        let folded = (sum & 0xffff) + (sum >> 16);
        let checksum = (!((folded & 0xffff) + (folded >> 16)) & 0xffff) as u16;
        put16(frame, at, if checksum == 0 { 0xffff } else { checksum });
    }
    true
}

#[cfg(test)]
mod tests {
    use pmdns_stages::testing::{OUR_IPV4, query};

    use super::*;
    use crate::load::path::has_right_checksums;

    #[test]
    fn a_query_comes_back_as_a_response_with_a_right_checksum() {
        for id in 0..2000_u16 {
            let asked =
                pmdns_stages::testing::QueryFrame { id: id * 31, ..query("www.example. A") };
            let before = asked.frame_bytes();
            let mut frame = before.clone();
            assert!(turn(&mut frame, OUR_IPV4.into()));
            assert!(has_right_checksums(&frame), "id {id}");
            assert_eq!(frame[FLAGS] & 0x80, 0x80);
            assert_eq!(frame[26..30], before[30..34]);
            assert_eq!(frame[34..36], before[36..38]);
            assert!(!turn(&mut frame, OUR_IPV4.into()), "not twice");
        }
    }

    #[test]
    fn what_is_no_query_to_us_stays() {
        let mut other = query("www.example. A").frame_bytes();
        assert!(!turn(&mut other, Ipv4Addr::new(10, 77, 0, 99)));
        assert!(!turn(&mut other[..43], OUR_IPV4.into()));
        let mut ipv6 = query("www.example. A").over_ipv6().frame_bytes();
        assert!(!turn(&mut ipv6, OUR_IPV4.into()));
    }
}
