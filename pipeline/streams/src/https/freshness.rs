//! For how long an HTTP cache may keep an answer (RFC 8484 section 5.1).

use domain::base::{Message, ParsedName, Ttl};
use domain::rdata::Soa;

/// Seconds: the smallest TTL of the answer section. Without one, what the SOA record of a negative answer allows
/// (RFC 2308 section 5). Otherwise 0, as for errors.
pub(super) fn max_age(answer: &[u8]) -> u32 {
    let ttl = Message::from_octets(answer)
        .ok()
        .and_then(|message| positive(&message).or_else(|| negative(&message)));
    ttl.map_or(0, |ttl| ttl.as_secs())
}

fn positive(message: &Message<&[u8]>) -> Option<Ttl> {
    message.answer().ok()?.flatten().map(|record| record.ttl()).min()
}

fn negative(message: &Message<&[u8]>) -> Option<Ttl> {
    let records = message.authority().ok()?.limit_to::<Soa<ParsedName<&[u8]>>>();
    records.flatten().map(|record| record.ttl().min(record.data().minimum())).min()
}

#[cfg(test)]
mod tests {
    use domain::base::iana::{Class, Rcode};
    use domain::base::{MessageBuilder, Name};
    use domain::rdata::A;

    use super::*;
    use crate::stub::{QUERY, answer};

    fn name() -> Name<Vec<u8>> {
        "example".parse().unwrap()
    }

    fn negative(ttl: u32, minimum: u32) -> Vec<u8> {
        let query = Message::from_octets(QUERY).unwrap();
        let message = MessageBuilder::new_vec().start_answer(&query, Rcode::NXDOMAIN).unwrap();
        let mut message = message.authority();
        let [other, low] = [9, minimum].map(Ttl::from_secs);
        let soa = Soa::new(name(), name(), 1.into(), other, other, other, low);
        message.push((name(), Class::IN, Ttl::from_secs(ttl), soa)).unwrap();
        message.finish()
    }

    #[test]
    fn the_smallest_ttl_of_the_answer_counts() {
        let query = Message::from_octets(QUERY).unwrap();
        let mut message = MessageBuilder::new_vec().start_answer(&query, Rcode::NOERROR).unwrap();
        for ttl in [300, 17, 60] {
            message
                .push((name(), Class::IN, Ttl::from_secs(ttl), A::from_octets(192, 0, 2, 1)))
                .unwrap();
        }
        let mut message = message.additional();
        message.push((name(), Class::IN, Ttl::from_secs(1), A::from_octets(192, 0, 2, 1))).unwrap();
        assert_eq!(max_age(&message.finish()), 17);
    }

    #[test]
    fn of_a_negative_answer_the_soa_record_says_it() {
        assert_eq!(max_age(&negative(60, 30)), 30);
        assert_eq!(max_age(&negative(20, 30)), 20);
    }

    #[test]
    fn errors_and_what_cannot_be_read_are_not_kept() {
        assert_eq!(max_age(QUERY), 0, "no record");
        assert_eq!(max_age(b""), 0);
        let whole = answer(QUERY, 300);
        for len in 0..whole.len() {
            assert_eq!(max_age(&whole[..len]), 0, "cut off at {len}");
        }
    }
}
