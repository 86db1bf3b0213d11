//! The records of an answer as text, as zone files have them.

use domain::base::iana::Rtype;
use domain::base::{Message, ParsedName, ToName as _};
use domain::rdata::AllRecordData;
use pmdns_stages::cache::{Entry, Key, ttl_offset};

/// Records that are told of one answer.
const MAX_SHOWN: usize = 100;

type Data<'m> = AllRecordData<&'m [u8], ParsedName<&'m [u8]>>;

/// The records of an entry that answers `key`, after `elapsed` seconds.
pub(crate) fn texts(entry: &Entry, key: Key<'_>, elapsed: u32) -> Vec<String> {
    let message = message(entry, key, elapsed);
    let Ok(message) = Message::from_slice(&message) else { return Vec::new() };
    let records = message.iter().map_while(Result::ok).map(|(record, _)| record);
    let text = |record: domain::base::record::ParsedRecord<'_, [u8]>| {
        let (name, ttl, class) = (record.owner(), record.ttl().as_secs(), record.class());
        let (owner, rtype): (_, Rtype) = (name.fmt_with_dot().to_string(), record.rtype());
        match record.to_any_record::<Data<'_>>() {
            Ok(record) => format!("{owner} {ttl} {class} {rtype} {}", record.data()),
            Err(_) => format!("{owner} {ttl} {class} {rtype} (not readable)"),
        }
    };
    records.map(text).take(MAX_SHOWN).collect()
}

/// The answer as a message. Names in the records point into its question.
fn message(entry: &Entry, key: Key<'_>, elapsed: u32) -> Vec<u8> {
    let (head, words) = (entry.head(), entry.words());
    let mut body: Vec<u8> =
        words.iter().skip(head.body_at).flat_map(|word| word.to_le_bytes()).collect();
    body.truncate(head.body_len.into());
    for index in 0..usize::from(head.ttl_count) {
        let at = ttl_offset(&words, &head, index);
        if let Some(ttl) = body.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) {
            *ttl = u32::from_be_bytes(*ttl).saturating_sub(elapsed).to_be_bytes();
        }
    }
    let [answers, authorities, additionals] = head.counts();
    let counts = [0, 0, 1, answers, authorities, additionals].map(u16::to_be_bytes);
    let question = [key.qtype, key.qclass].map(u16::to_be_bytes);
    [&counts.concat(), key.name, &question.concat(), &body].concat()
}
