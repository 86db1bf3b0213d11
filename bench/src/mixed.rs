//! Traffic as clients send it: names of many lengths, three types, CNAME chains, and OPT records with and without options.
//!
//! Names are made up. Their numbers of labels and the lengths of labels are distributed as on a public list. It has the 100,000
//! names that Cisco Umbrella saw most on 2026-07-24. Those of 2 to 6 labels and 7 to 60 bytes count. Shares of types, aliases and
//! options are chosen, not measured. Each name is asked for one type, so names, questions and answers are equally many. The
//! first names of a long list are those of a short one.

use std::collections::HashSet;
use std::io::{self, Write};

use pmdns_config::narrow::{to_u8, to_u16};
use pmdns_stages::cache::{Entry, Key, Lifetimes};
use pmdns_stages::testing::{QueryFrame, name_of, query};
use pmdns_stages::wire::dns::{CLASS_IN, HEADER_LEN, flag, header, rtype};
use pmdns_stages::wire::edns::option;
use pmdns_stages::wire::name::Seed;
use pmdns_stages::wire::put16;

use crate::load::questions::Question;
use crate::numbered_query;
use crate::traffic::{Random, Spread};

/// Bytes of a name in wire format.
const NAME_BYTES: std::ops::RangeInclusive<usize> = 7..=60;
/// Weights of names with 2 labels and more.
const LABELS: [u16; 5] = [157, 461, 201, 113, 68];
/// Weights of the second-level labels of 2 bytes and more.
const SECOND_LEVEL: [u16; 19] =
    [21, 38, 50, 101, 147, 181, 76, 106, 90, 82, 36, 20, 20, 9, 7, 6, 3, 2, 2];
/// Weights of the labels below of 1 byte and more.
const BELOW: [u16; 24] =
    [40, 140, 245, 74, 58, 75, 56, 47, 43, 28, 24, 26, 18, 20, 14, 12, 29, 13, 6, 5, 3, 3, 4, 2];
const TOP_LEVEL: [&str; 8] = ["com", "net", "io", "org", "de", "co", "info", "dev"];
const TOP_LEVELS: [u16; 8] = [65, 18, 5, 3, 3, 2, 2, 2];
const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

const TYPES: [u16; 3] = [rtype::A, rtype::AAAA, rtype::HTTPS];
const TYPE_WEIGHTS: [u16; 3] = [60, 25, 15];
/// Weights of answers with 0 aliases and more, and with 1 address and more.
const ALIASES: [u16; 3] = [60, 25, 15];
const ADDRESSES: [u16; 4] = [60, 25, 5, 10];
/// Records of an answer, at most.
const MAX_RECORDS: usize = 4;
const TTL: u32 = 86_400;
/// Service 1 at this very name, by HTTP/3 or HTTP/2.
const HTTPS_DATA: [u8; 13] = *b"\0\x01\0\0\x01\0\x06\x02h3\x02h2";

/// Weights of queries without an OPT record, with one, with a client cookie, and with a cookie and padding.
const EDNS: [u16; 4] = [40, 40, 15, 5];
const UDP_SIZES: [u16; 4] = [1232, 4096, 512, 1400];

/// So many questions with their answers.
pub struct Mixed {
    questions: Vec<Question>,
}

/// A record of an answer. Its owner is the name asked for, or the target of the alias before it.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    rtype: u16,
    data: Vec<u8>,
}

impl Mixed {
    /// The first `names` names, each with its type.
    pub fn new(names: usize) -> Self {
        let mut random = Random::new(0);
        let mut known = HashSet::with_capacity(names);
        let mut questions = Vec::with_capacity(names);
        while questions.len() < names {
            let name = draw_name(&mut random);
            if NAME_BYTES.contains(&name.len()) && known.insert(name.clone()) {
                let qtype = TYPES[weighted(&mut random, &TYPE_WEIGHTS)];
                questions.push(Question { name, qtype });
            }
        }
        Self { questions }
    }

    /// The questions.
    pub fn questions(&self) -> &[Question] {
        &self.questions
    }

    /// Query number `index`, for name number `number`, from one of 200 clients.
    pub fn query(&self, index: usize, number: usize) -> QueryFrame {
        let Question { name, qtype } = &self.questions[number];
        let asked = QueryFrame { name: name.to_vec(), qtype: *qtype, ..numbered_query(index, 1) };
        let mut random = Random::new(index as u64);
        let kind = weighted(&mut random, &EDNS);
        if kind == 0 {
            return asked;
        }
        let asked = asked.edns(UDP_SIZES[random.below(UDP_SIZES.len())], false);
        let cookie = random.number().to_be_bytes();
        match kind {
            1 => asked,
            2 => asked.option(option::COOKIE, &cookie),
            _ => asked.option(option::COOKIE, &cookie).option(option::PADDING, &[0; 24]),
        }
    }

    /// Frames of so many queries, all names alike.
    pub fn frames(&self, queries: usize) -> Vec<Vec<u8>> {
        let draws = Spread::Uniform.draw(self.questions.len(), queries);
        let frame = |(index, number): (usize, &usize)| self.query(index, *number).frame_bytes();
        draws.iter().enumerate().map(frame).collect()
    }

    /// What a cache keeps of the answers.
    ///
    /// # Panics
    ///
    /// If an answer cannot be kept: it would be a fault of this module.
    pub fn entries(&self, seed: Seed) -> impl Iterator<Item = Entry> {
        let lifetimes =
            Lifetimes { min_ttl: 0, max_ttl: TTL, max_negative_ttl: 300, max_body: 1232 };
        self.questions.iter().enumerate().map(move |(number, Question { name, qtype })| {
            let key = Key { name, qtype: *qtype, qclass: CLASS_IN, flags: 0 };
            let hash = key.hash(seed, seed.hash(name));
            let message = self.reply(number);
            Entry::from_reply(&message, key, hash, 0, &lifetimes).expect("a well-formed reply")
        })
    }

    /// The records of answer number `number`: aliases, then what was asked for.
    fn parts(&self, number: usize) -> Vec<Part> {
        let Question { name, qtype } = &self.questions[number];
        let mut random = Random::new(!(number as u64));
        let aliases = weighted(&mut random, &ALIASES);
        let most = if *qtype == rtype::HTTPS { 1 } else { MAX_RECORDS - aliases };
        let wanted = 1 + weighted(&mut random, &ADDRESSES[..most]);
        let alias = |link: usize| Part {
            rtype: rtype::CNAME,
            data: [&name[..name.len() - 1], &name_of(&format!("edge{link}.cdn.net"))].concat(),
        };
        let address = random.number().to_be_bytes();
        let own = |last: usize| match *qtype {
            rtype::A => vec![198, 18, address[0], to_u8(last)],
            rtype::AAAA => [&[0x20, 1, 0xd, 0xb8, 0, 0, 0], &address[..], &[to_u8(last)]].concat(),
            _ => HTTPS_DATA.to_vec(),
        };
        let own = |last| Part { rtype: *qtype, data: own(last) };
        (0..aliases).map(alias).chain((0..wanted).map(own)).collect()
    }

    /// What an upstream replies to question number `number`.
    fn reply(&self, number: usize) -> Vec<u8> {
        let Question { name, qtype } = &self.questions[number];
        let asked = QueryFrame { name: name.to_vec(), qtype: *qtype, ..query("x. A") };
        let (mut message, parts) = (asked.message(), self.parts(number));
        put16(&mut message, header::FLAGS, flag::QR | flag::RD | flag::RA);
        put16(&mut message, header::ANCOUNT, to_u16(parts.len()));
        let mut owner = HEADER_LEN;
        for Part { rtype, data } in parts {
            let (pointer, len) = (0xc000 | to_u16(owner), to_u16(data.len()));
            [pointer, rtype, CLASS_IN].iter().for_each(|word| message.extend(word.to_be_bytes()));
            message.extend(TTL.to_be_bytes());
            message.extend(len.to_be_bytes());
            if rtype == rtype::CNAME {
                owner = message.len();
            }
            message.extend(data);
        }
        message
    }

    /// Writes the zone `.` with all answers.
    pub fn write_zone(&self, mut zone: impl Write) -> io::Result<()> {
        writeln!(
            zone,
            "$TTL {TTL}\n. SOA ns. host. 1 3600 900 604800 60\n. NS ns.\nns. A 127.0.0.1"
        )?;
        for (number, question) in self.questions.iter().enumerate() {
            let mut owner = text_of(&question.name);
            for Part { rtype, data } in self.parts(number) {
                // The form for data of any type (RFC 3597 section 5).
                write!(zone, "{owner} TYPE{rtype} \\# {} ", data.len())?;
                data.iter().try_for_each(|byte| write!(zone, "{byte:02x}"))?;
                writeln!(zone)?;
                if rtype == rtype::CNAME {
                    owner = text_of(&data);
                }
            }
        }
        Ok(())
    }

    /// Writes the questions as dnsperf reads them: a name and a type on each line.
    pub fn write_list(&self, mut list: impl Write) -> io::Result<()> {
        for Question { name, qtype } in &self.questions {
            let qtype = match *qtype {
                rtype::A => "A",
                rtype::AAAA => "AAAA",
                _ => "HTTPS",
            };
            writeln!(list, "{} {qtype}", text_of(name))?;
        }
        Ok(())
    }
}

/// A name in wire format. It may be too long or known.
fn draw_name(random: &mut Random) -> Box<[u8]> {
    let below = weighted(random, &LABELS);
    let mut name = Vec::new();
    for _ in 0..below {
        let len = 1 + weighted(random, &BELOW);
        push_label(&mut name, random, len);
    }
    let len = 2 + weighted(random, &SECOND_LEVEL);
    push_label(&mut name, random, len);
    name.extend(name_of(TOP_LEVEL[weighted(random, &TOP_LEVELS)]));
    name.into()
}

fn push_label(name: &mut Vec<u8>, random: &mut Random, len: usize) {
    name.push(to_u8(len));
    name.extend((0..len).map(|_| LETTERS[random.below(LETTERS.len())]));
}

/// An index into `weights`, drawn by them.
fn weighted(random: &mut Random, weights: &[u16]) -> usize {
    let mut at = random.below(weights.iter().map(|weight| usize::from(*weight)).sum());
    for (index, weight) in weights.iter().enumerate() {
        match at.checked_sub(usize::from(*weight)) {
            Some(rest) => at = rest,
            None => return index,
        }
    }
    weights.len() - 1
}

/// A name of letters and digits as text, with the dot at its end.
fn text_of(name: &[u8]) -> String {
    let (mut text, mut rest) = (String::new(), name);
    while let Some((len, labels)) = rest.split_first().filter(|(len, _)| **len > 0) {
        let (label, more) = labels.split_at(usize::from(*len));
        text.push_str(&String::from_utf8_lossy(label));
        text.push('.');
        rest = more;
    }
    text
}

#[cfg(test)]
mod tests;
