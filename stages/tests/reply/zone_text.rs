//! Replies from lines of text.

use pmdns_stages::testing::name_of;

/// A record: `data` is the name in it, if there is one; before an RRSIG's signer stands the type that is signed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) section: usize,
    pub(crate) owner: &'a str,
    pub(crate) rtype: u16,
    pub(crate) data: &'a str,
    pub(crate) class: u16,
}

/// What an upstream would say: names are not compressed, TTLs are 300 seconds.
pub(crate) fn reply(name: &[u8], qtype: u16, rcode: u8, records: &[Line<'_>]) -> Vec<u8> {
    let mut message = vec![0, 0, 0x81, 0x80 | rcode, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(name);
    message.extend([qtype.to_be_bytes(), [0, 1]].concat());
    for section in 0..3 {
        let mut count = 0_u16;
        for line in records.iter().filter(|line| line.section == section) {
            message.extend(name_of(line.owner));
            message.extend([line.rtype, line.class].map(u16::to_be_bytes).concat());
            message.extend(300_u32.to_be_bytes());
            let data = data(line);
            message.extend((data.len() as u16).to_be_bytes());
            message.extend(data);
            count += 1;
        }
        message[6 + 2 * section..][..2].copy_from_slice(&count.to_be_bytes());
    }
    message
}

fn data(line: &Line<'_>) -> Vec<u8> {
    match line.rtype {
        1 => vec![192, 0, 2, 1],
        2 | 5 | 12 | 39 => name_of(line.data),
        6 => [&name_of(line.data)[..], b"\0", &[0, 0, 1, 44].repeat(5)].concat(),
        15 => [b"\0\x0a", &name_of(line.data)[..]].concat(),
        46 => {
            let (signed, signer) = line.data.split_once(' ').expect("a type and a signer");
            let signed = match signed {
                "A" => 1,
                "SOA" => 6,
                "MX" => 15,
                _ => 47,
            };
            [&[0, signed, 13, 2], &[0; 14][..], &name_of(signer), b"signature"].concat()
        }
        47 => [&name_of(line.data)[..], b"\0\x01\x40"].concat(),
        _ => line.data.as_bytes().to_vec(),
    }
}
