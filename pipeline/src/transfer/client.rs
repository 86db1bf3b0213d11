//! Queries to a primary over TCP, for its SOA record and for the zone. They are signed if there is a key (RFC 8945).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use domain::base::iana::{Class, Opcode, Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name, ParsedName, Serial, Ttl};
use domain::rdata::tsig::Time48;
use domain::rdata::{AllRecordData, Soa as SoaData};
use domain::tsig::{ClientSequence, Key, ValidationError};
use pmdns_config::LocalRecord;
use pmdns_config::files::received_record;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::limits::TransferLimits;
use super::share::Share;
use super::version::{Assembly, Soa, Transferred, VersionError, size_in_memory};

/// Why a primary's answer cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    /// The connection could not be opened, or ended.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Nothing came for too long.
    #[error("nothing was received for {0:?}")]
    Silent(Duration),
    /// The signature is wrong or missing.
    #[error("the answer's signature is refused: {problem} (rcode {rcode})")]
    Tsig {
        /// What is wrong with it.
        problem: ValidationError,
        /// Its rcode.
        rcode: Rcode,
    },
    /// The primary refuses.
    #[error("the primary answers {0}; does it serve the zone, and may this address transfer it?")]
    Rcode(Rcode),
    /// It does not answer the query.
    #[error("the answer does not match the query")]
    Mismatched,
    /// It cannot be read.
    #[error("the answer cannot be read: {0}")]
    Malformed(String),
    /// Its records form no zone.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// The zone is larger than the limits.
    #[error("the zone has more than {0}; split it at the primary")]
    TooLarge(String),
    /// Other transfers use up the shared limit.
    #[error(
        "all transfers under way have more than {0} bytes together; the zone is asked for again"
    )]
    Crowded(usize),
}

impl From<domain::base::wire::ParseError> for ClientError {
    fn from(error: domain::base::wire::ParseError) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// A connection to a primary.
#[derive(Debug)]
pub(super) struct PrimaryConnection {
    stream: TcpStream,
    zone: Name<Vec<u8>>,
    key: Option<Arc<Key>>,
    limits: TransferLimits,
}

/// A question under way.
struct SentQuery {
    query: Message<Vec<u8>>,
    sequence: Option<ClientSequence<Arc<Key>>>,
    is_first: bool,
}

impl PrimaryConnection {
    /// Connects to a primary of `zone`.
    pub(super) async fn open(
        primary: SocketAddr,
        zone: Name<Vec<u8>>,
        key: Option<Arc<Key>>,
        limits: TransferLimits,
    ) -> Result<Self, ClientError> {
        let stream = within(limits.silence, TcpStream::connect(primary)).await??;
        Ok(Self { stream, zone, key, limits })
    }

    /// The SOA record of the primary's version.
    pub(super) async fn soa(&mut self) -> Result<Soa, ClientError> {
        let mut asked = self.ask(Rtype::SOA, None).await?;
        let bytes = self.receive().await?;
        let message = asked.verify(bytes)?;
        let found = records(&message)?.find_map(|record| match record {
            Ok(record) => Soa::of(&record, self.zone.as_slice()).map(Ok),
            Err(error) => Some(Err(error)),
        });
        asked.end()?;
        found.unwrap_or_else(|| Err(VersionError::NoSoa.into()))
    }

    /// The zone, or the differences from the version `from`.
    pub(super) async fn transfer(
        &mut self,
        from: Option<Serial>,
        share: &mut Share,
    ) -> Result<Transferred, ClientError> {
        let rtype = if from.is_some() { Rtype::IXFR } else { Rtype::AXFR };
        let mut asked = self.ask(rtype, from).await?;
        let mut assembly = Assembly::new(self.zone.as_slice(), from);
        let (mut bytes, mut count) = (0, 0);
        while !assembly.is_over() {
            let received = self.receive().await?;
            self.take(received.len(), &mut bytes, share)?;
            let message = asked.verify(received)?;
            for record in records(&message)? {
                count += 1;
                if count > self.limits.records {
                    return Err(ClientError::TooLarge(format!("{} records", self.limits.records)));
                }
                let record = record?;
                self.take(size_in_memory(&record), &mut bytes, share)?;
                assembly.take(record)?;
            }
        }
        asked.end()?;
        Ok(assembly.end()?)
    }

    /// Takes memory for a part of a transfer that has `bytes` so far. Names are compressed on the wire, so a small message may have
    /// many times its size in records.
    fn take(&self, part: usize, bytes: &mut usize, share: &mut Share) -> Result<(), ClientError> {
        *bytes += part;
        if *bytes > self.limits.bytes {
            return Err(ClientError::TooLarge(format!("{} bytes", self.limits.bytes)));
        }
        match share.take(part) {
            true => Ok(()),
            false => Err(ClientError::Crowded(self.limits.bytes_together)),
        }
    }

    async fn ask(&mut self, rtype: Rtype, from: Option<Serial>) -> Result<SentQuery, ClientError> {
        let mut builder = MessageBuilder::new_vec();
        let mut id = [0; 2];
        getrandom::fill(&mut id).map_err(io::Error::other)?;
        builder.header_mut().set_id(u16::from_be_bytes(id));
        let mut builder = builder.question();
        let room = |_| io::Error::other("the query has no room for the zone's name");
        builder.push((&self.zone, rtype, Class::IN)).map_err(room)?;
        let mut builder = builder.authority();
        if let Some(serial) = from {
            // RFC 1995 section 3: our version's SOA record. Only its serial is used.
            let zero = Ttl::ZERO;
            let soa =
                SoaData::new(Name::root_ref(), Name::root_ref(), serial, zero, zero, zero, zero);
            builder.push((&self.zone, Class::IN, zero, soa)).map_err(room)?;
        }
        let query = Message::from_octets(builder.as_slice().to_vec()).map_err(io::Error::other)?;
        let mut builder = builder.additional();
        let sign = |key: &Arc<Key>| {
            ClientSequence::request(Arc::clone(key), &mut builder, Time48::now()).map_err(room)
        };
        let sequence = self.key.as_ref().map(sign).transpose()?;
        let message = builder.finish();
        let len = u16::try_from(message.len()).map_err(io::Error::other)?;
        let framed = [&len.to_be_bytes(), &*message].concat();
        let silence = self.limits.silence;
        within(silence, self.stream.write_all(&framed)).await??;
        Ok(SentQuery { query, sequence, is_first: true })
    }

    /// The next message (RFC 1035 section 4.2.2).
    async fn receive(&mut self) -> Result<Vec<u8>, ClientError> {
        let silence = self.limits.silence;
        let len = within(silence, self.stream.read_u16()).await??;
        let mut message = vec![0; usize::from(len)];
        within(silence, self.stream.read_exact(&mut message)).await??;
        Ok(message)
    }
}

async fn within<T>(patience: Duration, work: impl Future<Output = T>) -> Result<T, ClientError> {
    timeout(patience, work).await.map_err(|_| ClientError::Silent(patience))
}

impl SentQuery {
    /// A message that belongs to the answer.
    fn verify(&mut self, bytes: Vec<u8>) -> Result<Message<Vec<u8>>, ClientError> {
        let short = |_| ClientError::Malformed("it is shorter than a header".to_owned());
        let mut message = Message::from_octets(bytes).map_err(short)?;
        let header = message.header();
        let rcode = header.rcode();
        if header.id() != self.query.header().id()
            || !header.qr()
            || header.opcode() != Opcode::QUERY
        {
            return Err(ClientError::Mismatched);
        }
        if let Some(sequence) = &mut self.sequence {
            let verified = sequence.answer(&mut message, Time48::now());
            verified.map_err(|problem| ClientError::Tsig { problem, rcode })?;
        }
        if rcode != Rcode::NOERROR {
            return Err(ClientError::Rcode(rcode));
        }
        // RFC 5936 section 2.2.1: messages after the first may leave the question out.
        let has_question = message.header_counts().qdcount() > 0;
        let is_ours = || matches!((message.sole_question(), self.query.sole_question()), (Ok(one), Ok(ours)) if one == ours);
        if header.tc() || (self.is_first || has_question) && !is_ours() {
            return Err(ClientError::Mismatched);
        }
        self.is_first = false;
        Ok(message)
    }

    /// Whether the last message was signed as well (RFC 8945 section 5.3.1).
    fn end(self) -> Result<(), ClientError> {
        let ended = self.sequence.map_or(Ok(()), ClientSequence::done);
        ended.map_err(|problem| ClientError::Tsig { problem, rcode: Rcode::NOERROR })
    }
}

/// The records of the answer section.
fn records(
    message: &Message<Vec<u8>>,
) -> Result<impl Iterator<Item = Result<LocalRecord, ClientError>>, ClientError> {
    type Data<'a> = AllRecordData<&'a [u8], ParsedName<&'a [u8]>>;
    let section = message.for_slice().answer()?;
    Ok(section
        .limit_to::<Data<'_>>()
        .map(|record| received_record(&record?).map_err(ClientError::Malformed)))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use domain::rdata::Cname;
    use domain::tsig::{Algorithm, ServerSequence};

    use super::*;
    use crate::transfer::share::Pool;

    fn key() -> Arc<Key> {
        let name = "key".parse().unwrap();
        Arc::new(Key::new(Algorithm::Sha256, b"sixteen letters!", name, None, None).unwrap())
    }

    fn name(text: &str) -> Name<Vec<u8>> {
        text.parse().unwrap()
    }

    /// A question, and an answer of two records to it, signed if there is a key.
    fn exchange(key: Option<Arc<Key>>) -> (SentQuery, Vec<u8>) {
        let mut builder = MessageBuilder::new_vec().question();
        builder.push((name("rpz"), Rtype::AXFR, Class::IN)).unwrap();
        let query = Message::from_octets(builder.as_slice().to_vec()).unwrap();
        let mut builder = builder.additional();
        let sequence = key
            .clone()
            .map(|key| ClientSequence::request(key, &mut builder, Time48::now()).unwrap());
        let mut sent = Message::from_octets(builder.finish()).unwrap();
        let mut answer = MessageBuilder::new_vec().start_answer(&query, Rcode::NOERROR).unwrap();
        for owner in ["a.rpz", "b.rpz"] {
            let data = Cname::new(name("target.rpz"));
            answer.push((name(owner), Class::IN, Ttl::from_secs(60), data)).unwrap();
        }
        let mut answer = answer.additional();
        if let Some(key) = key {
            let sequence = ServerSequence::request(&key, &mut sent, Time48::now());
            let mut sequence = sequence.ok().flatten().unwrap();
            sequence.answer(&mut answer, Time48::now()).unwrap();
        }
        (SentQuery { query, sequence, is_first: true }, answer.finish())
    }

    fn read(mut asked: SentQuery, answer: Vec<u8>) -> Result<usize, ClientError> {
        let message = asked.verify(answer)?;
        let count = records(&message)?.collect::<Result<Vec<_>, _>>()?.len();
        asked.end().map(|()| count)
    }

    /// A zone in one message: owners of 200 letters each, all but one of them a label and a pointer (RFC 1035 section 4.1.4).
    fn packed(query: &[u8]) -> Vec<u8> {
        const ZONE: [u8; 2] = [0xc0, 12];
        const RECORDS: u16 = 200;
        let soa =
            [&ZONE[..], &[0, 6, 0, 1, 0, 0, 0, 0, 0, 22, 0, 0, 0, 0, 0, 1], &[0; 16]].concat();
        let address = [0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 192, 0, 2, 1];
        let question = &query[12..21];
        let count = (RECORDS + 2).to_be_bytes();
        let head = [&query[..2], &[0x84, 0, 0, 1], &count, &[0; 4]].concat();
        let mut message = [&head[..], question, &soa].concat();
        let long = 0xc000 | u16::try_from(message.len()).unwrap();
        (0..4).for_each(|_| message.extend([&[49][..], &[b'x'; 49]].concat()));
        message.extend([&ZONE[..], &address].concat());
        for number in 1..RECORDS {
            message.extend([&[3][..], format!("{number:03}").as_bytes()].concat());
            message.extend([&long.to_be_bytes()[..], &address].concat());
        }
        [message, soa].concat()
    }

    #[test]
    fn a_small_message_of_large_records_is_as_large_as_they_are() {
        const WIRE: usize = 8_000;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let primary = listener.local_addr().unwrap();
        let primary_thread = std::thread::spawn(move || {
            for (mut stream, _) in (0..2).map(|_| listener.accept().unwrap()) {
                let mut len = [0; 2];
                stream.read_exact(&mut len).unwrap();
                let mut query = vec![0; u16::from_be_bytes(len).into()];
                stream.read_exact(&mut query).unwrap();
                let answer = packed(&query);
                assert!(answer.len() < WIRE, "{} bytes", answer.len());
                let len = u16::try_from(answer.len()).unwrap().to_be_bytes();
                stream.write_all(&[&len[..], &answer].concat()).unwrap();
            }
        });
        let transfer = async |bytes, bytes_together| {
            let limits = TransferLimits { bytes, bytes_together, ..TransferLimits::default() };
            let mut share = Pool::new(1, bytes_together).share().await;
            let opened = PrimaryConnection::open(primary, name("rpz"), None, limits).await;
            opened.unwrap().transfer(None, &mut share).await
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let one = runtime.block_on(transfer(5 * WIRE, 1 << 30));
        assert!(matches!(one, Err(ClientError::TooLarge(_))), "{one:?}");
        let all = runtime.block_on(transfer(1 << 30, 5 * WIRE));
        assert!(matches!(all, Err(ClientError::Crowded(_))), "{all:?}");
        primary_thread.join().unwrap();
    }

    #[test]
    fn an_answer_is_read_if_it_is_one() {
        for key in [None, Some(key())] {
            let (asked, answer) = exchange(key);
            assert_eq!(read(asked, answer).unwrap(), 2);
        }
        let (asked, _) = exchange(Some(key()));
        let (_, unsigned) = exchange(None);
        assert!(matches!(read(asked, unsigned), Err(ClientError::Tsig { .. })));
    }

    #[test]
    fn however_an_answer_is_damaged_nothing_panics_and_no_signature_is_right() {
        let (_, answer) = exchange(None);
        for place in 0..answer.len() {
            for damage in 1..=255 {
                let (asked, _) = exchange(None);
                let mut damaged = answer.clone();
                damaged[place] ^= damage;
                let _ = read(asked, damaged);
            }
            let (asked, _) = exchange(None);
            assert!(read(asked, answer[..place].to_vec()).is_err(), "cut off at {place}");
        }
        let (asked, answer) = exchange(Some(key()));
        let (query, sequence) = (asked.query, asked.sequence);
        // The class and TTL of the TSIG record are constants, which are not signed (RFC 8945 section 4.3).
        let record = answer.windows(6).position(|bytes| bytes == b"\x03key\0\0").unwrap();
        let is_unsigned = |place: usize| (record + 7..record + 13).contains(&place);
        for place in (0..answer.len()).filter(|place| !is_unsigned(*place)) {
            let mut damaged = answer.clone();
            damaged[place] ^= 0x55;
            let (query, sequence) = (query.clone(), sequence.clone());
            assert!(
                read(SentQuery { query, sequence, is_first: true }, damaged).is_err(),
                "{place}"
            );
        }
    }
}
