//! The headers of nearly every query, read on a path of their own: it says what the general code says.

use super::*;
use crate::wire::layout::Layout;

/// What both ways of reading made of a frame; `None`: it is not for the plain one.
fn both(parse: &Parse, bytes: &[u8], verified: Verified) -> Option<[(String, Layout); 2]> {
    let mut packets = [(); 2].map(|()| {
        let mut frame = frame_of(bytes);
        frame.set_verified(verified);
        Packet::arrived(frame, 0)
    });
    let plain = parse.read_plain(&mut packets[0])?;
    let general = parse.read(&mut packets[1]);
    let mut read = [plain, general].into_iter().zip(&packets).map(|(step, packet)| {
        let Packet { key, answer, question_sum, layout, .. } = packet;
        // What is dropped is not read any more.
        let layout = if step.is_ok() { *layout } else { Layout::default() };
        (format!("{step:?} {key:x} {answer:?} {question_sum:x}"), layout)
    });
    Some(std::array::from_fn(|_| read.next().unwrap()))
}

#[test]
fn plain_queries_are_read_on_the_plain_path() {
    let lawful = query("www.example. A");
    let is_plain =
        |query: &QueryFrame| both(&parse(), &query.frame_bytes(), Verified::NOTHING).is_some();
    assert!(is_plain(&lawful));
    assert!(is_plain(&lawful.clone().edns(1232, true)));
    assert!(!is_plain(&lawful.clone().over_ipv6()));
    assert!(!is_plain(&QueryFrame { vlans: vec![7], ..lawful.clone() }));
    assert!(!is_plain(&QueryFrame { ipv4_options: vec![1; 4], ..lawful.clone() }));
    assert!(!is_plain(&QueryFrame { padding: 1, ..lawful }));
}

proptest! {
    #[test]
    fn the_plain_path_reads_what_the_general_one_reads(
        name in "([a-zA-Z0-9-]{1,20}\\.){1,6}",
        edns: Option<(u16, bool)>,
        changes in proptest::collection::vec((0_usize..90, any::<u8>()), 0..4),
        cut in 0_usize..4,
        seals: bool,
        ip: bool,
        udp: bool,
        partial_checksums: bool,
    ) {
        let mut asked = query(&format!("{name} A"));
        if let Some((size, dnssec_ok)) = edns {
            asked = asked.edns(size, dnssec_ok);
        }
        let mut bytes = asked.frame_bytes();
        for (at, byte) in changes {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        if cut == 1 {
            bytes.pop();
        }
        if seals {
            seal_ipv4(&mut bytes[14..34]);
            // No checksum is right over IPv4.
            put16(&mut bytes, 40, 0);
        }
        let mut parse = parse();
        parse.ports = parse.ports.iter().map(|port| Port { partial_checksums, ..port.clone() }).collect();
        if let Some([plain, general]) = both(&parse, &bytes, Verified { ip, udp }) {
            prop_assert_eq!(plain, general);
        }
    }
}
