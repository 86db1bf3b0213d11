//! A primary on loopback: it serves the versions of one policy zone, signed or not, and has faults to order.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use domain::base::iana::{Class, Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name, Serial, Ttl};
use domain::rdata::tsig::Time48;
use domain::rdata::{AllRecordData, Cname, Soa};
use domain::tsig::{Algorithm, Key, ServerSequence};

/// The zone that is served.
pub(crate) const ZONE: &str = "rpz.example";
/// The key's name.
pub(crate) const KEY: &str = "transfer-key";
/// Its secret, and how it is written.
pub(crate) const SECRET: (&[u8], &str) = (b"sixteen letters!", "c2l4dGVlbiBsZXR0ZXJzIQ==");

/// How differences are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Differences {
    /// As differences.
    #[default]
    Sent,
    /// With the whole zone (RFC 1995 section 4).
    Whole,
    /// With NOTIMP.
    Refused,
    /// Of another zone.
    Wrong,
}

/// What is wrong with the primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    #[default]
    None,
    /// Transfers end in the middle of a message.
    Truncated,
    /// Transfers never end.
    Endless,
    /// Nothing is answered.
    Silent,
    /// Nothing is signed.
    Unsigned,
    /// One message of a transfer, not the first, is signed with something else.
    Forged,
}

/// A version: its serial, and the names that are blocked.
pub(crate) type Version = (u32, BTreeSet<String>);

/// What the primary serves, and how.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) versions: Vec<Version>,
    pub(crate) differences: Differences,
    pub(crate) fault: Fault,
    /// Seconds until a version expires.
    pub(crate) expire: u32,
    /// Where the rules lead to.
    pub(crate) action: String,
    /// Queries by type.
    pub(crate) asked: Vec<Rtype>,
    key: Option<Arc<Key>>,
}

pub(crate) struct Primary {
    pub(crate) address: SocketAddr,
    pub(crate) state: Arc<Mutex<State>>,
}

pub(crate) fn key(secret: &[u8]) -> Arc<Key> {
    let name = KEY.parse().unwrap();
    Arc::new(Key::new(Algorithm::Sha256, secret, name, None, None).unwrap())
}

impl Primary {
    /// A primary with one version, serial 1, that blocks `a` and `b`.
    pub(crate) fn start(key: Option<Arc<Key>>) -> Self {
        Self::start_at(TcpListener::bind(("127.0.0.1", 0)).unwrap(), key)
    }

    pub(crate) fn start_at(listener: TcpListener, key: Option<Arc<Key>>) -> Self {
        let state = State { expire: 3600, action: ".".into(), key, ..State::default() };
        let primary =
            Self { address: listener.local_addr().unwrap(), state: Arc::new(Mutex::new(state)) };
        primary.publish(1, &["a", "b"]);
        let state = Arc::clone(&primary.state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                // Who hangs up has had enough.
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        primary
    }

    /// Adds a version.
    pub(crate) fn publish(&self, serial: u32, blocked: &[&str]) {
        let blocked = blocked.iter().map(|name| (*name).to_owned()).collect();
        self.change(|state| state.versions.push((serial, blocked)));
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
    }

    /// How often a type was asked for.
    pub(crate) fn asked(&self, rtype: Rtype) -> usize {
        self.state.lock().unwrap().asked.iter().filter(|one| **one == rtype).count()
    }
}

type Data = AllRecordData<Vec<u8>, Name<Vec<u8>>>;
type Record = (Name<Vec<u8>>, Data);

fn name(text: &str) -> Name<Vec<u8>> {
    text.parse().unwrap()
}

impl State {
    fn soa(&self, serial: u32) -> Record {
        let seconds = Ttl::from_secs;
        let (refresh, retry, expire) = (seconds(3600), seconds(1), seconds(self.expire));
        let admin = name("admin.rpz.example");
        let soa = Soa::new(
            name("ns.rpz.example"),
            admin,
            Serial(serial),
            refresh,
            retry,
            expire,
            Ttl::ZERO,
        );
        (name(ZONE), soa.into())
    }

    fn rule(&self, blocked: &str) -> Record {
        (name(&format!("{blocked}.{ZONE}")), Cname::new(name(&self.action)).into())
    }

    fn newest(&self) -> &Version {
        self.versions.last().unwrap()
    }

    fn whole(&self) -> Vec<Record> {
        let (serial, blocked) = self.newest();
        let rules = blocked.iter().map(|one| self.rule(one));
        let soa = || std::iter::once(self.soa(*serial));
        soa().chain(rules).chain(soa()).collect()
    }

    fn differences(&self, from: u32) -> Vec<Record> {
        let serial = self.newest().0;
        let Some(at) = self.versions.iter().position(|one| one.0 == from) else {
            return self.whole();
        };
        if from == serial {
            return vec![self.soa(serial)];
        }
        let mut records = vec![self.soa(serial)];
        for pair in self.versions[at..].windows(2) {
            let ((old, before), (new, after)) = (&pair[0], &pair[1]);
            records.push(self.soa(*old));
            if self.differences == Differences::Wrong {
                records.push(self.rule("never.there"));
            }
            records.extend(before.difference(after).map(|one| self.rule(one)));
            records.push(self.soa(*new));
            records.extend(after.difference(before).map(|one| self.rule(one)));
        }
        records.push(self.soa(serial));
        records
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) -> io::Result<()> {
    loop {
        let mut len = [0; 2];
        stream.read_exact(&mut len)?;
        let mut bytes = vec![0; u16::from_be_bytes(len).into()];
        stream.read_exact(&mut bytes)?;
        let mut query = Message::from_octets(bytes).unwrap();
        let mut state = state.lock().unwrap();
        let rtype = query.sole_question().unwrap().qtype();
        state.asked.push(rtype);
        let mut sequence = match &state.key {
            Some(key) => {
                match ServerSequence::request(&Arc::clone(key), &mut query, Time48::now()) {
                    Ok(Some(sequence)) => Some(sequence),
                    _ => {
                        send(&mut stream, &query, Rcode::NOTAUTH, &[], None)?;
                        continue;
                    }
                }
            }
            None => None,
        };
        let from = query.authority().unwrap().limit_to::<Soa<_>>().flatten().next();
        let from = from.map_or(0, |soa| soa.data().serial().into_int());
        let records = match (rtype, state.differences) {
            (Rtype::SOA, _) => vec![state.soa(state.newest().0)],
            (Rtype::IXFR, Differences::Refused) => {
                send(&mut stream, &query, Rcode::NOTIMP, &[], sequence.as_mut())?;
                continue;
            }
            (Rtype::IXFR, Differences::Sent | Differences::Wrong) => state.differences(from),
            _ => state.whole(),
        };
        let fault = state.fault;
        drop(state);
        let is_transfer = rtype != Rtype::SOA;
        let mut forger =
            ServerSequence::request(&key(b"another secret!!"), &mut forged(), Time48::now())
                .ok()
                .flatten();
        // One record a message: RFC 5936 section 2.2 allows any number.
        for (number, record) in records.iter().enumerate() {
            let signing = match fault {
                Fault::Silent => return stream.read_exact(&mut [0]),
                Fault::Truncated if is_transfer && number == 1 => {
                    return stream.write_all(&[1, 0, 0]);
                }
                Fault::Endless if is_transfer && number == 1 => loop {
                    let record = std::slice::from_ref(record);
                    send(&mut stream, &query, Rcode::NOERROR, record, sequence.as_mut())?;
                },
                Fault::Forged if is_transfer && number == 1 => forger.as_mut(),
                Fault::Unsigned => None,
                _ => sequence.as_mut(),
            };
            let record = std::slice::from_ref(record);
            send(&mut stream, &query, Rcode::NOERROR, record, signing)?;
        }
    }
}

/// A query that the forger would have got.
fn forged() -> Message<Vec<u8>> {
    let mut builder = MessageBuilder::new_vec().additional();
    domain::tsig::ClientTransaction::request(key(b"another secret!!"), &mut builder, Time48::now())
        .unwrap();
    Message::from_octets(builder.finish()).unwrap()
}

fn send(
    stream: &mut TcpStream,
    query: &Message<Vec<u8>>,
    rcode: Rcode,
    records: &[Record],
    sequence: Option<&mut ServerSequence<Arc<Key>>>,
) -> io::Result<()> {
    let mut answer = MessageBuilder::new_vec().start_answer(query, rcode).unwrap();
    for (owner, data) in records {
        answer.push((owner, Class::IN, Ttl::from_secs(60), data)).unwrap();
    }
    let mut answer = answer.additional();
    if let Some(sequence) = sequence {
        sequence.answer(&mut answer, Time48::now()).unwrap();
    }
    let answer = answer.finish();
    stream.write_all(&(answer.len() as u16).to_be_bytes())?;
    stream.write_all(&answer)
}
