//! DNS messages that are wrong, in frames that are right.

use crate::malformed::{Kind, good_query, v4_path};
use crate::messages::wire_name;

/// Messages whose frame is right.
pub(crate) fn kinds(kinds: &mut Vec<Kind>) {
    let path = v4_path(&[]);
    let good = good_query();
    let mut add = |name: String, message: &[u8]| {
        kinds.push((format!("DNS {name}"), path.frame(message)));
    };
    for length in 12..good.len() {
        add(format!("cut after {length} bytes"), &good[..length]);
    }
    for opcode in 1..16 {
        let mut message = good.clone();
        message[2] |= opcode << 3;
        add(format!("opcode {opcode}"), &message);
    }
    for bits in [0x80, 0x84, 0x02, 0x04] {
        let mut message = good.clone();
        message[2] |= bits;
        add(format!("first flags {bits:#04x}"), &message);
    }
    for rcode in 1..16 {
        let mut message = good.clone();
        message[3] |= rcode;
        add(format!("rcode {rcode} in a query"), &message);
    }
    for (section, at) in [("questions", 4), ("answers", 6), ("authorities", 8), ("additionals", 10)]
    {
        for count in [0_u16, 2, 3, 255, 0xffff] {
            let mut message = good.clone();
            message[at..at + 2].copy_from_slice(&count.to_be_bytes());
            add(format!("{count} {section} said to be there"), &message);
        }
    }
    for (name, wire) in names() {
        let mut message = good[..12].to_vec();
        message[11] = 0;
        message.extend(wire);
        message.extend([0, 1, 0, 1]);
        add(format!("name {name}"), &message);
    }
    for class in [0_u8, 2, 3, 4, 254, 255] {
        let mut message = good.clone();
        let at = 12 + wire_name("local.test").len() + 3;
        message[at] = class;
        add(format!("class {class}"), &message);
    }
    for qtype in [0_u8, 41, 249, 250, 251, 252, 253, 254, 255] {
        let mut message = good.clone();
        let at = 12 + wire_name("local.test").len() + 1;
        message[at] = qtype;
        add(format!("type {qtype}"), &message);
    }
    opt_records(&mut add, &good);
}

/// EDNS gone wrong (RFC 6891).
fn opt_records(add: &mut impl FnMut(String, &[u8]), good: &[u8]) {
    let opt = good.len() - 11;
    for version in [1, 2, 255] {
        let mut message = good.to_vec();
        message[opt + 6] = version;
        add(format!("EDNS version {version}"), &message);
    }
    for size in [0_u16, 1, 511, 0xffff] {
        let mut message = good.to_vec();
        message[opt + 3..opt + 5].copy_from_slice(&size.to_be_bytes());
        add(format!("EDNS size {size}"), &message);
    }
    let mut twice = good.to_vec();
    twice[11] = 2;
    twice.extend_from_slice(&good[opt..]);
    add("OPT twice".into(), &twice);
    let mut owned = good[..opt].to_vec();
    owned.extend([1, b'x']);
    owned.extend(&good[opt..]);
    add("OPT of another name".into(), &owned);
    for length in [1_u8, 3, 4, 255] {
        let mut message = good.to_vec();
        message[opt + 10] = length;
        add(format!("OPT data of {length} bytes that is not there"), &message);
    }
    let mut option = good.to_vec();
    option[opt + 10] = 4;
    option.extend([0, 10, 0, 99]);
    add("an EDNS option longer than its record".into(), &option);
}

/// Names that are none.
fn names() -> Vec<(String, Vec<u8>)> {
    let mut names: Vec<(String, Vec<u8>)> = Vec::new();
    let mut add = |name: &str, wire: Vec<u8>| names.push((name.to_owned(), wire));
    add("that points to itself", vec![0xc0, 12]);
    add("that points ahead", vec![0xc0, 14, 0]);
    add("that points into the header", vec![0xc0, 0]);
    add("that points behind the end", vec![0xff, 0xff]);
    add("that loops", vec![1, b'a', 0xc0, 12]);
    add("with a pointer cut in two", vec![0xc0]);
    add("without an end", vec![63]);
    add("of a label type long gone", vec![0x41, 1, 0]);
    add("of a reserved label type", vec![0x80, 1, 0]);
    let label = |length: u8| {
        let mut label = vec![length];
        label.resize(usize::from(length) + 1, b'a');
        label
    };
    for (length, last) in [(255, 61), (256, 62), (257, 63)] {
        let mut wire: Vec<u8> = (0..3).flat_map(|_| label(63)).collect();
        wire.extend(label(last));
        wire.push(0);
        assert_eq!(wire.len(), length, "three labels of 64 bytes and one that fits");
        add(&format!("of {length} bytes"), wire);
    }
    add("of 200 labels", [[1, b'a']; 200].concat());
    add("of 127 labels and its end", [[1, b'a'].repeat(127), vec![0]].concat());
    add("with zero bytes and dots", vec![3, 0, b'.', 0, 0]);
    names
}
