//! NOTIFY (RFC 1996): a primary says that there may be a new version. It is accepted only from the zone's primaries. If
//! the zone has a key, it must be signed with it. The only effect is that a primary is asked.

use std::net::IpAddr;
use std::sync::Arc;

use domain::base::iana::{Class, Opcode, Rcode, Rtype};
use domain::base::{Message, MessageBuilder};
use domain::rdata::tsig::Time48;
use domain::tsig::{Key, ServerTransaction};

use super::secondary::Settings;

/// The kind of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotifyMessage {
    /// A notification of the zone of this number, and the answer to it.
    News(usize, Vec<u8>),
    /// A message about the zone of this number that is not accepted.
    Disbelieved(usize),
    /// Nothing that concerns us.
    Nothing,
}

/// Checks a message that came from `source`. A message that is not accepted gets no answer, because the address may be
/// forged.
pub(super) fn receive<'a>(
    zones: impl IntoIterator<Item = &'a Settings>,
    source: IpAddr,
    bytes: &[u8],
) -> NotifyMessage {
    let Ok(mut message) = Message::from_octets(bytes.to_vec()) else {
        return NotifyMessage::Nothing;
    };
    let header = message.header();
    if header.qr() || header.opcode() != Opcode::NOTIFY {
        return NotifyMessage::Nothing;
    }
    let found = {
        let Ok(question) = message.sole_question() else { return NotifyMessage::Nothing };
        if question.qtype() != Rtype::SOA || question.qclass() != Class::IN {
            return NotifyMessage::Nothing;
        }
        zones.into_iter().enumerate().find(|(_, zone)| zone.name == *question.qname())
    };
    let Some((number, zone)) = found else { return NotifyMessage::Nothing };
    if !zone.has_primary(source) {
        return NotifyMessage::Disbelieved(number);
    }
    let transaction = match &zone.key {
        None => None,
        Some(key) => match ServerTransaction::request(key, &mut message, Time48::now()) {
            Ok(Some(transaction)) => Some(transaction),
            Ok(None) | Err(_) => return NotifyMessage::Disbelieved(number),
        },
    };
    match answer(&message, transaction) {
        Some(answer) => NotifyMessage::News(number, answer),
        None => NotifyMessage::Nothing,
    }
}

fn answer(
    message: &Message<Vec<u8>>,
    transaction: Option<ServerTransaction<Arc<Key>>>,
) -> Option<Vec<u8>> {
    let mut builder = MessageBuilder::new_vec().start_answer(message, Rcode::NOERROR).ok()?;
    builder.header_mut().set_aa(true);
    let mut builder = builder.additional();
    if let Some(transaction) = transaction {
        transaction.answer(&mut builder, Time48::now()).ok()?;
    }
    Some(builder.finish())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use domain::base::Name;
    use domain::tsig::Algorithm;

    use super::*;

    const PRIMARY: [u8; 4] = [192, 0, 2, 1];

    fn key(secret: &[u8]) -> Arc<Key> {
        let name = "key".parse().unwrap();
        Arc::new(Key::new(Algorithm::Sha256, secret, name, None, None).unwrap())
    }

    fn zone(name: &str, key: Option<Arc<Key>>) -> Settings {
        Settings {
            name: name.parse().unwrap(),
            file: "file".into(),
            primaries: vec![SocketAddr::from((PRIMARY, 53))],
            key,
            strict: false,
        }
    }

    /// A notification of `name`, signed if there is a key.
    fn notify(name: &str, rtype: Rtype, key: Option<Arc<Key>>) -> Vec<u8> {
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_opcode(Opcode::NOTIFY);
        let mut builder = builder.question();
        builder.push((name.parse::<Name<Vec<u8>>>().unwrap(), rtype, Class::IN)).unwrap();
        let mut builder = builder.additional();
        if let Some(key) = key {
            domain::tsig::ClientTransaction::request(key, &mut builder, Time48::now()).unwrap();
        }
        builder.finish()
    }

    #[test]
    fn a_primary_is_believed_and_answered() {
        let zones = [zone("a.rpz", None), zone("b.rpz", None)];
        let news = notify("B.rpz", Rtype::SOA, None);
        let NotifyMessage::News(1, answer) = receive(&zones, PRIMARY.into(), &news) else {
            panic!("it is not believed");
        };
        let answer = Message::from_octets(answer).unwrap();
        assert!(answer.is_answer(&Message::from_octets(news.clone()).unwrap()));
        assert!(answer.header().aa());
        // RFC 4291 section 2.5.5.2: the form of an IPv4 address on an IPv6 socket.
        let mapped = "::ffff:192.0.2.1".parse().unwrap();
        assert!(matches!(receive(&zones, mapped, &news), NotifyMessage::News(1, _)));
    }

    #[test]
    fn strangers_and_other_messages_are_not() {
        let zones = [zone("a.rpz", None)];
        let news = notify("a.rpz", Rtype::SOA, None);
        assert_eq!(receive(&zones, [192, 0, 2, 2].into(), &news), NotifyMessage::Disbelieved(0));
        for nothing in [notify("c.rpz", Rtype::SOA, None), notify("a.rpz", Rtype::A, None)] {
            assert_eq!(receive(&zones, PRIMARY.into(), &nothing), NotifyMessage::Nothing);
        }
        let mut response = news.clone();
        response[2] |= 0x80;
        assert_eq!(receive(&zones, PRIMARY.into(), &response), NotifyMessage::Nothing);
        for cut in 0..news.len() {
            assert_eq!(
                receive(&zones, PRIMARY.into(), &news[..cut]),
                NotifyMessage::Nothing,
                "{cut}"
            );
        }
    }

    /// A notification only names a zone to ask for. It never purges the cache.
    #[test]
    fn cve_2025_59030_a_notification_of_what_is_no_zone_of_ours_is_nothing() {
        let zones = [zone("a.rpz", None)];
        for name in ["example", "rpz", "x.a.rpz", "."] {
            let news = notify(name, Rtype::SOA, None);
            assert_eq!(receive(&zones, PRIMARY.into(), &news), NotifyMessage::Nothing, "{name}");
        }
        let stranger = notify("a.rpz", Rtype::SOA, None);
        assert_eq!(
            receive(&zones, [198, 51, 100, 9].into(), &stranger),
            NotifyMessage::Disbelieved(0)
        );
    }

    #[test]
    fn a_zone_with_a_key_takes_what_is_signed_with_it() {
        let zones = [zone("a.rpz", Some(key(b"the right secret")))];
        let signed = |secret| notify("a.rpz", Rtype::SOA, Some(key(secret)));
        let right = signed(b"the right secret");
        assert!(matches!(receive(&zones, PRIMARY.into(), &right), NotifyMessage::News(0, _)));
        for wrong in [signed(b"another secret!!"), notify("a.rpz", Rtype::SOA, None)] {
            assert_eq!(receive(&zones, PRIMARY.into(), &wrong), NotifyMessage::Disbelieved(0));
        }
        for place in 0..right.len() {
            // A damaged message never panics, and is not accepted.
            let mut damaged = right.clone();
            damaged[place] ^= 0x55;
            let received = receive(&zones, PRIMARY.into(), &damaged);
            // The header's id is not signed, because the TSIG record has the original one. Its class and TTL are
            // constants (RFC 8945 section 4.3).
            let is_signed = !matches!(place, 0..2 | 30..36);
            assert!(
                !is_signed || !matches!(received, NotifyMessage::News(..)),
                "{place}: {received:?}"
            );
        }
    }
}
