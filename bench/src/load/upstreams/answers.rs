//! What an upstream answers: what the checker takes for right, from the same zone.

use domain::base::iana::Rtype;
use pmdns_config::narrow::to_u16;
use pmdns_stages::wire::dns::{
    CLASS_IN, HEADER_LEN, PLAIN_UDP_SIZE, QUESTION_FIXED_LEN, Rcode, flag, header, rtype,
};
use pmdns_stages::wire::edns::{OPT_DO, OPT_LEN, opt};
use pmdns_stages::wire::name::{self, MAX_NAME};
use pmdns_stages::wire::{be16, be32, put16};

use crate::load::zone::{Found, Zone};

/// Seconds that records are kept: nothing expires within a run.
const TTL: u32 = 86_400;
/// The UDP size that answers announce.
const UDP_SIZE: u16 = 1232;
/// Two bytes that stand for the name at this offset (RFC 1035 section 4.1.4).
const POINTER: u16 = 0xc000;

/// The question of a query, and how its answer may look.
struct Asked {
    /// Name in lower case.
    name: [u8; MAX_NAME],
    name_len: usize,
    qtype: u16,
    qclass: u16,
    flags: u16,
    /// UDP size and DO bit, if the query has an OPT record.
    edns: Option<(u16, bool)>,
}

/// Makes the query in the first `len` bytes of `message` its own answer, and says how long that is. `None`: it is no
/// query, or the answer has no room.
pub(super) fn answer(message: &mut [u8], len: usize, zone: &Zone) -> Option<usize> {
    let asked = Asked::read(message.get(..len)?)?;
    let question_end = HEADER_LEN + asked.name_len + QUESTION_FIXED_LEN;
    let most = asked.edns.map_or(PLAIN_UDP_SIZE, |(size, _)| size.max(PLAIN_UDP_SIZE));
    let opt_len = if asked.edns.is_some() { OPT_LEN } else { 0 };
    let room = message.len().min(most.into()).checked_sub(opt_len)?;
    let mut writer = Writer { message, at: question_end, room };
    let written = writer.write(&asked, zone);
    let (rcode, answers, authorities, truncated) = match written {
        Some((rcode, answers, authorities)) => (rcode, answers, authorities, 0),
        None => {
            writer.at = question_end;
            (Rcode::NOERROR, 0, 0, flag::TC)
        }
    };
    let mut end = writer.at;
    if let Some((_, dnssec_ok)) = asked.edns {
        let opt = opt(UDP_SIZE, Rcode::NOERROR, dnssec_ok);
        message.get_mut(end..end + OPT_LEN)?.copy_from_slice(&opt);
        end += OPT_LEN;
    }
    let kept = asked.flags & (flag::RD | flag::CD);
    put16(message, header::FLAGS, flag::QR | flag::RA | kept | truncated | u16::from(rcode.0));
    put16(message, header::ANCOUNT, answers);
    put16(message, header::NSCOUNT, authorities);
    put16(message, header::ARCOUNT, u16::from(asked.edns.is_some()));
    Some(end)
}

impl Asked {
    fn read(message: &[u8]) -> Option<Self> {
        let flags = be16(message, header::FLAGS)?;
        let counts = [header::QDCOUNT, header::ANCOUNT, header::NSCOUNT];
        let is_query = flags & (flag::QR | flag::OPCODE) == 0
            && counts.map(|at| be16(message, at)) == [Some(1), Some(0), Some(0)];
        let question = message.get(HEADER_LEN..).filter(|_| is_query)?;
        let name_len = name::length(question)?;
        let mut name = [0; MAX_NAME];
        name[..name_len].copy_from_slice(&question[..name_len]);
        name.make_ascii_lowercase();
        let behind = question.get(name_len + QUESTION_FIXED_LEN..)?;
        let edns = match be16(message, header::ARCOUNT)? {
            0 => None,
            // The root's name, then the type: OPT stands alone in queries of resolvers.
            1 if behind.len() >= OPT_LEN && behind[0] == 0 && be16(behind, 1)? == rtype::OPT => {
                Some((be16(behind, 3)?, be16(behind, 7)? & OPT_DO != 0))
            }
            _ => return None,
        };
        let (qtype, qclass) = (be16(question, name_len)?, be16(question, name_len + 2)?);
        Some(Self { name, name_len, qtype, qclass, flags, edns })
    }

    fn name(&self) -> &[u8] {
        &self.name[..self.name_len]
    }
}

/// Writes records behind the question.
struct Writer<'m> {
    message: &'m mut [u8],
    at: usize,
    room: usize,
}

impl Writer<'_> {
    /// The response code, and how many records there are in the answer and in the authority section. `None`: there is
    /// no room for them.
    fn write(&mut self, asked: &Asked, zone: &Zone) -> Option<(Rcode, u16, u16)> {
        let qtype = Rtype::from_int(asked.qtype);
        let found = zone.find(asked.name(), qtype).filter(|_| asked.qclass == CLASS_IN);
        match found {
            None => Some((Rcode::REFUSED, 0, 0)),
            Some(Found::Records(records)) => {
                let mut count = 0;
                let owner = POINTER | to_u16(HEADER_LEN);
                for record in records.iter().filter(|record| record.rtype == qtype) {
                    self.put(&owner.to_be_bytes(), asked.qtype, TTL, &record.data)?;
                    count += 1;
                }
                Some((Rcode::NOERROR, count, 0))
            }
            Some(Found::Alias) => self.write_aliases(asked, zone),
            Some(Found::NoData) => self.write_soa(asked, zone, Rcode::NOERROR),
            Some(Found::NoName) => self.write_soa(asked, zone, Rcode::NXDOMAIN),
        }
    }

    #[cold]
    fn write_aliases(&mut self, asked: &Asked, zone: &Zone) -> Option<(Rcode, u16, u16)> {
        let Some(expected) = zone.answer(asked.name(), Rtype::from_int(asked.qtype)) else {
            return Some((Rcode::REFUSED, 0, 0));
        };
        for record in &expected.answer {
            self.put(&record.owner, record.rtype.to_int(), TTL, &record.data)?;
        }
        let rcode = Rcode(expected.rcode.to_int());
        Some((rcode, to_u16(expected.answer.len()), 0))
    }

    /// RFC 2308 section 3: the SOA record says how long there is nothing.
    fn write_soa(&mut self, asked: &Asked, zone: &Zone, rcode: Rcode) -> Option<(Rcode, u16, u16)> {
        let (apex, soa) = zone.start_of_authority();
        let owner = POINTER | to_u16(HEADER_LEN + asked.name_len - apex.len());
        let minimum = be32(soa, soa.len().checked_sub(4)?)?;
        self.put(&owner.to_be_bytes(), rtype::SOA, TTL.min(minimum), soa)?;
        Some((rcode, 0, 1))
    }

    fn put(&mut self, owner: &[u8], rtype: u16, ttl: u32, data: &[u8]) -> Option<()> {
        let len = u16::try_from(data.len()).ok()?.to_be_bytes();
        let (rtype, class, ttl) = (rtype.to_be_bytes(), CLASS_IN.to_be_bytes(), ttl.to_be_bytes());
        for part in [owner, &rtype, &class, &ttl, &len, data] {
            let end = self.at + part.len();
            if end > self.room {
                return None;
            }
            self.message[self.at..end].copy_from_slice(part);
            self.at = end;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use pmdns_stages::testing::query;
    use proptest::prelude::*;

    use super::*;
    use crate::load::check::{AnswerClass, Authority, Checker};
    use crate::load::mix::Kind;
    use crate::load::templates::{Edns, Templates};

    const ZONE: &str = "$ORIGIN example.\n$TTL 60\n@ SOA ns host 1 2 3 4 5\n@ NS ns\nns A 192.0.2.53\n\
        www A 192.0.2.1\nwww A 192.0.2.2\nalias CNAME middle\nmiddle CNAME www\n*.wild A 192.0.2.3\n\
        sub NS ns.sub\n";

    fn zone() -> Zone {
        Zone::parse(ZONE).unwrap()
    }

    /// The answer to a query, with so much room behind it.
    fn answered(mut message: Vec<u8>, room: usize) -> Option<Vec<u8>> {
        let len = message.len();
        message.resize(len + room, 0xaa);
        let end = answer(&mut message, len, &zone())?;
        message.truncate(end);
        Some(message)
    }

    fn rcode(message: &[u8]) -> u16 {
        be16(message, header::FLAGS).unwrap() & flag::RCODE
    }

    #[test]
    fn the_checker_finds_every_answer_right() {
        for edns in [None, Some(Edns { udp_size: 1232, dnssec_ok: true })] {
            let mut templates = Templates::default();
            let questions = ["WWW.example. A", "x.wild.example. A", "alias.example. A"];
            let none = ["www.example. AAAA", "no.example. A", "wild.example. A", "example. SOA"];
            for text in questions.iter().chain(&none) {
                let asked = query(text);
                templates.add_query(Kind::Hit, &asked.name, asked.qtype, edns);
            }
            let count = u32::try_from(templates.len()).unwrap();
            let mut checker = Checker::new(templates, Authority::Zone(Box::new(zone())));
            for number in 0..count {
                let template = checker.templates.get(number);
                let asked = checker.templates.payload(template).to_vec();
                let message = answered(asked, 400).unwrap();
                assert_eq!(checker.judge(&message, number, number), AnswerClass::Good, "{number}");
            }
        }
    }

    #[test]
    fn negative_answers_have_the_soa_record() {
        for (text, expected) in [("no.example. A", 3), ("www.example. TXT", 0)] {
            let message = answered(query(text).message(), 200).unwrap();
            assert_eq!((rcode(&message), be16(&message, header::NSCOUNT)), (expected, Some(1)));
            let soa = HEADER_LEN + query(text).name.len() + QUESTION_FIXED_LEN;
            let apex = be16(&message, soa).unwrap() & !POINTER;
            assert_eq!(message[usize::from(apex)..][..9], *b"\x07example\0");
            assert_eq!(be32(&message, soa + 6), Some(5), "the minimum");
        }
    }

    #[test]
    fn what_the_zone_cannot_tell_is_refused() {
        for text in ["www.other. A", "x.sub.example. A", "www.example. ANY"] {
            assert_eq!(rcode(&answered(query(text).message(), 50).unwrap()), 5, "{text}");
        }
        let chaos = pmdns_stages::testing::QueryFrame { qclass: 3, ..query("www.example. A") };
        assert_eq!(rcode(&answered(chaos.message(), 50).unwrap()), 5);
    }

    #[test]
    fn what_does_not_fit_is_truncated() {
        let message = answered(query("www.example. A").message(), 20).unwrap();
        assert_eq!(be16(&message, header::FLAGS).unwrap() & flag::TC, flag::TC);
        assert_eq!((message.len(), be16(&message, header::ANCOUNT)), (29, Some(0)));
    }

    #[test]
    fn what_is_no_query_gets_no_answer() {
        let good = query("www.example. A").edns(1232, false).message();
        for (at, value, what) in [
            (2, 0x80, "a response"),
            (2, 0x28, "an update"),
            (5, 2, "two questions"),
            (7, 1, "an answer"),
            (11, 2, "two additional records"),
            (HEADER_LEN, 0xc0, "a compressed name"),
        ] {
            let mut bad = good.clone();
            bad[at] = value;
            assert!(answered(bad, 100).is_none(), "{what}");
        }
        for len in 0..good.len() {
            assert!(answered(good[..len].to_vec(), 100).is_none(), "{len} bytes");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..120), room in 0usize..200,
            name in "[a-z*]{0,9}", counts: bool,
        ) {
            let mut message = bytes;
            answered(message.clone(), room);
            let text = if name.is_empty() { ". A".to_owned() } else { format!("{name}.example. A") };
            if counts {
                let whole = query(&text).edns(1232, true).message();
                let kept = message.len().min(whole.len());
                message[..kept].copy_from_slice(&whole[..kept]);
                answered(message, room);
            }
        }
    }
}
