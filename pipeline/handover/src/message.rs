//! What the two processes say, and how long they wait for each other. A message is one packet of a local socket, in JSON.
//! Descriptors come beside an offer.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::keeper::ProcessId;

/// The version of these messages, of what passes with them, and of the order in which they are said.
pub const PROTOCOL: u32 = 8;

/// The longest message, in bytes.
pub const MAX_MESSAGE: usize = 64 << 10;
/// The most descriptors of an offer: as many as one packet of a local socket carries (`SCM_MAX_FD`, unix(7)).
pub const MAX_PASSED: usize = 253;
/// The most next hops of an offer.
pub const MAX_PASSED_HOPS: usize = 192;

/// The bounds of a hand-over. After them the process that waits goes on without the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandoverLimits {
    /// From the connection to the greeting.
    pub greeting: Duration,
    /// The incoming process reads lists, opens ports and starts threads.
    pub preparing: Duration,
    /// The incoming process takes the cache and the ports. Answers are not kept meanwhile.
    pub taking: Duration,
    /// From `Serving` to `Opened`: the outgoing process closes its devices, and the incoming one opens them.
    pub passing: Duration,
    /// The outgoing process answers who waits, and its connections end.
    pub draining: Duration,
    /// More than that, until it has ended.
    pub ending: Duration,
}

impl Default for HandoverLimits {
    fn default() -> Self {
        Self {
            greeting: Duration::from_secs(10),
            preparing: Duration::from_secs(600),
            taking: Duration::from_secs(10),
            // Eight ports of a NIC whose firmware takes seconds for each.
            passing: Duration::from_secs(60),
            draining: Duration::from_secs(30),
            ending: Duration::from_secs(10),
        }
    }
}

/// From the incoming process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromIncoming {
    /// It wants to take over.
    Hello(Hello),
    /// It can take over at once. These devices it opens once they are closed.
    Prepared(Vec<String>),
    /// It writes to the cache, and answers what comes.
    Serving,
    /// It has opened the devices of the offer. Only after that may the outgoing process end.
    Opened,
}

/// From the outgoing process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromOutgoing {
    /// What passes.
    Offer(Offer),
    /// Nothing passes, and why.
    Refused(String),
    /// It writes no more to the cache, and operators have said this of the node meanwhile.
    Frozen(NodeRole),
    /// Its devices are closed, and the incoming process can open them.
    Closed,
}

/// The greeting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Its [`PROTOCOL`].
    pub protocol: u32,
    /// Its version, for the log.
    pub version: String,
    /// The keeper that has started it, if it has one.
    #[serde(default)]
    pub keeper: Option<ProcessId>,
}

/// What the outgoing process has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Its version, for the log.
    pub version: String,
    /// What each descriptor is that comes with the offer, in their order.
    pub passed: Vec<Passed>,
    /// Whether its DPDK has the second name for its files, so that the next one has the first.
    #[serde(default)]
    pub is_second: bool,
    /// What operators have said of the node.
    #[serde(default)]
    pub role: NodeRole,
    /// The devices that one process at a time can have. It closes them when the next one serves.
    #[serde(default)]
    pub devices: Vec<PassedDevice>,
    /// Where next hops are. The next process uses these at once, and asks for them.
    #[serde(default)]
    pub hops: Vec<PassedHop>,
    /// Where its queues of TAPs are.
    #[serde(default)]
    pub taps: Vec<PassedTap>,
}

/// A device that the outgoing process closes, and the incoming one opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedDevice {
    /// Its text in the configuration.
    pub device: String,
    /// What the next process plans with before it has the device.
    pub facts: serde_json::Value,
}

/// A TAP that both processes have queues of for a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedTap {
    /// The name of the interface.
    pub interface: String,
    /// The number of the outgoing process's first queue.
    pub first: u32,
    /// How many queues it has.
    pub count: u32,
}

/// A next hop that has answered the outgoing process not long ago.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedHop {
    /// The port's name in the configuration.
    pub port: String,
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address.
    pub mac: [u8; 6],
}

/// What a node is to clients and to the nodes beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRole {
    /// Clients shall come to it no more.
    pub is_drained: bool,
    /// Another node has its addresses.
    pub is_standby: bool,
}

/// A descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Passed {
    /// A socket that takes in connections: the key of its configuration, and its address.
    Socket(String, SocketAddr),
    /// A socket that receives packets of UDP: the same.
    Packets(String, SocketAddr),
    /// A local socket that takes in connections: the key of its configuration, and its file.
    LocalSocket(String, PathBuf),
    /// The memory of the cache.
    Cache(PassedCache),
    /// The memory that a crash is written into.
    Crashes,
    /// The kernel's end of a port: the name of the interface.
    Tap(String),
    /// One end of the way for frames between both processes: the names of the outgoing one's ports, by number.
    Relay(Vec<String>),
    /// Where the answers of the cache come from, for a process that asks for them: it cannot go on with the memory. With it comes
    /// a digest of the settings that their truth depends on.
    Answers(u64),
    /// The changes of operators that hold, as lines in memory.
    Changes {
        /// Whether those of clients are among them, and hold in the place of those that files have.
        has_clients: bool,
    },
}

/// What has to be known of a cache's memory.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedCache {
    /// The number of its layout.
    pub layout: u32,
    /// The seed of its hashes.
    pub seed: [u64; 2],
    /// The clock of its seconds.
    pub clock: [u64; 3],
    /// A digest of the settings that its answers depend on.
    pub settings: u64,
}

impl fmt::Debug for PassedCache {
    /// The log has no seed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassedCache").field("layout", &self.layout).finish_non_exhaustive()
    }
}

/// A packet that is no message.
#[derive(Debug, thiserror::Error)]
pub enum BadMessage {
    /// It is too long.
    #[error("a message of {0} bytes, where {MAX_MESSAGE} are the most")]
    TooLong(usize),
    /// It is not in the form of this version.
    #[error("a message that this version does not know: {0}")]
    Unknown(#[from] serde_json::Error),
    /// It does not say what came with it.
    #[error("{came} descriptors came with a message that names {named}; {MAX_PASSED} are the most")]
    Descriptors {
        /// Descriptors.
        came: usize,
        /// Of them are named.
        named: usize,
    },
    /// It has too many next hops.
    #[error("an offer with {0} next hops, where {MAX_PASSED_HOPS} are the most")]
    Hops(usize),
}

impl FromIncoming {
    /// A packet's bytes as a message.
    pub fn read(packet: &[u8]) -> Result<Self, BadMessage> {
        Ok(serde_json::from_slice(fitting(packet)?)?)
    }

    /// The bytes of its packet.
    pub fn written(&self) -> Result<Vec<u8>, BadMessage> {
        written(self)
    }
}

impl FromOutgoing {
    /// A packet's bytes as a message. So many descriptors came with it.
    pub fn read(packet: &[u8], descriptors: usize) -> Result<Self, BadMessage> {
        let message = serde_json::from_slice(fitting(packet)?)?;
        let named = match &message {
            Self::Offer(offer) => fitting_offer(offer)?.passed.len(),
            _ => 0,
        };
        match named == descriptors && named <= MAX_PASSED {
            true => Ok(message),
            false => Err(BadMessage::Descriptors { came: descriptors, named }),
        }
    }

    /// The bytes of its packet.
    pub fn written(&self) -> Result<Vec<u8>, BadMessage> {
        match self {
            Self::Offer(Offer { passed, .. }) if passed.len() > MAX_PASSED => {
                Err(BadMessage::Descriptors { came: passed.len(), named: passed.len() })
            }
            Self::Offer(offer) => fitting_offer(offer).and_then(|_| written(self)),
            _ => written(self),
        }
    }
}

fn fitting_offer(offer: &Offer) -> Result<&Offer, BadMessage> {
    match offer.hops.len() <= MAX_PASSED_HOPS {
        true => Ok(offer),
        false => Err(BadMessage::Hops(offer.hops.len())),
    }
}

fn written(message: &impl Serialize) -> Result<Vec<u8>, BadMessage> {
    let bytes = serde_json::to_vec(message)?;
    fitting(&bytes)?;
    Ok(bytes)
}

fn fitting(packet: &[u8]) -> Result<&[u8], BadMessage> {
    match packet.len() <= MAX_MESSAGE {
        true => Ok(packet),
        false => Err(BadMessage::TooLong(packet.len())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hop() -> PassedHop {
        let address = "fd00:1234:5678:9abc:def0:1234:5678:9abc".parse().unwrap();
        PassedHop { port: "the port to our upstreams".to_owned(), address, mac: [0xfe; 6] }
    }

    fn offer(sockets: usize) -> FromOutgoing {
        let socket = Passed::Socket("streams.tcp".to_owned(), "[::1]:53".parse().unwrap());
        let mut passed = vec![socket; sockets];
        if let Some(first) = passed.first_mut() {
            *first = Passed::Changes { has_clients: true };
        }
        if let Some(last) = passed.last_mut() {
            let numbers = (u64::MAX, u64::MAX - 1);
            *last = Passed::Cache(PassedCache {
                layout: u32::MAX,
                seed: numbers.into(),
                clock: [0, numbers.0, numbers.1],
                settings: numbers.0,
            });
        }
        FromOutgoing::Offer(Offer {
            version: "1".to_owned(),
            passed,
            is_second: true,
            role: NodeRole { is_drained: true, is_standby: false },
            devices: vec![PassedDevice {
                device: "net_memif0,mac=02:00:00:00:00:01".to_owned(),
                facts: serde_json::json!({ "queues": [2, 4], "offloads": { "rx": u64::MAX } }),
            }],
            hops: vec![hop(); MAX_PASSED_HOPS],
            taps: vec![PassedTap { interface: "pm0".to_owned(), first: 16, count: 16 }],
        })
    }

    #[test]
    fn what_is_written_is_read() {
        let hello = Hello { protocol: PROTOCOL, version: "0.2.0".to_owned(), keeper: None };
        let prepared = FromIncoming::Prepared(vec!["net_memif0".to_owned()]);
        let steps = [prepared, FromIncoming::Serving, FromIncoming::Opened];
        for message in steps.into_iter().chain([FromIncoming::Hello(hello)]) {
            assert_eq!(FromIncoming::read(&message.written().unwrap()).unwrap(), message);
        }
        let refused = FromOutgoing::Refused("no".to_owned());
        let others = [FromOutgoing::Frozen(NodeRole::default()), FromOutgoing::Closed, refused];
        for message in others.into_iter().chain([offer(0)]) {
            assert_eq!(FromOutgoing::read(&message.written().unwrap(), 0).unwrap(), message);
        }
        let full = offer(MAX_PASSED);
        assert_eq!(FromOutgoing::read(&full.written().unwrap(), MAX_PASSED).unwrap(), full);
    }

    #[test]
    fn an_offer_names_every_descriptor() {
        let packet = offer(2).written().unwrap();
        for count in [0, 1, 3] {
            let refused = FromOutgoing::read(&packet, count).unwrap_err();
            assert!(matches!(refused, BadMessage::Descriptors { .. }), "{refused}");
        }
        assert!(offer(MAX_PASSED + 1).written().is_err());
        let frozen = FromOutgoing::Frozen(NodeRole::default()).written().unwrap();
        assert!(FromOutgoing::read(&frozen, 1).is_err(), "nothing comes with it");
    }

    #[test]
    fn an_offer_with_too_many_next_hops_is_neither_written_nor_read() {
        let hops = vec![hop(); MAX_PASSED_HOPS + 1];
        let offer = FromOutgoing::Offer(Offer { hops, ..Offer::default() });
        let errors =
            [offer.written(), FromOutgoing::read(&written(&offer).unwrap(), 0).map(|_| Vec::new())];
        assert!(errors.iter().all(|error| matches!(error, Err(BadMessage::Hops(_)))), "{errors:?}");
    }

    #[test]
    fn an_offer_need_not_have_devices_or_next_hops() {
        let packet = br#"{"offer":{"version":"1","passed":[]}}"#;
        let FromOutgoing::Offer(offer) = FromOutgoing::read(packet, 0).unwrap() else {
            panic!("it is an offer");
        };
        assert_eq!(offer, Offer { version: "1".to_owned(), ..Offer::default() });
    }

    #[test]
    fn what_another_version_says_is_refused_by_a_sentence() {
        let error = FromIncoming::read(br#"{"goodbye":{}}"#).unwrap_err().to_string();
        assert!(error.contains("does not know") && error.contains("goodbye"), "{error}");
        let long = vec![b' '; MAX_MESSAGE + 1];
        assert!(matches!(FromIncoming::read(&long), Err(BadMessage::TooLong(_))));
    }

    proptest! {
        #[test]
        fn no_bytes_stop_the_reader(bytes: Vec<u8>, at in 0usize..200, descriptors in 0usize..4) {
            let _ = FromIncoming::read(&bytes);
            let _ = FromOutgoing::read(&bytes, descriptors);
            // Nearly a message.
            let mut packet = offer(2).written().unwrap();
            let at = at % packet.len();
            packet.splice(at..at, bytes);
            if let Ok(FromOutgoing::Offer(offer)) = FromOutgoing::read(&packet, descriptors) {
                prop_assert_eq!(offer.passed.len(), descriptors);
            }
        }
    }
}
