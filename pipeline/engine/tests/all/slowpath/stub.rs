//! An upstream of a test: a script that says what it replies, and faults that can be turned on and off meanwhile. Those of a
//! test's thread are found by their addresses, as on a loopback interface.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::{Rc, Weak};
use std::time::Duration;

use pmdns_config::{Pin, Upstream};

pub(crate) use super::rig::Asked;
use super::rig::upstream;

/// The port of a test's first stub.
const FIRST_PORT: u16 = 5300;
/// How much later than the second the first of two datagrams arrives, where they are reordered.
const PASSED: Duration = Duration::from_millis(1);

/// What a stub sends.
#[derive(Clone, Debug)]
pub(crate) enum Send {
    /// From the port the query went to.
    Reply(Vec<u8>),
    /// From another port, as a forger would who does not know better.
    FromElsewhere(Vec<u8>),
}

/// What is wrong with a stub, or with the way to it; nothing at first.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// It takes queries and does not reply.
    pub(crate) dead: Cell<bool>,
    /// It lets queries wait, and replies when this is over.
    pub(crate) busy: Cell<bool>,
    /// How long a datagram takes, in milliseconds.
    pub(crate) delay_ms: Cell<u64>,
    /// Of so many datagrams one is lost; 0: none.
    pub(crate) lose_one_of: Cell<u64>,
    /// Of two datagrams the later one arrives first; so do replies to queries that came over TCP together.
    pub(crate) reorder: Cell<bool>,
    /// Datagrams say TC=1 and nothing else.
    pub(crate) truncate: Cell<bool>,
    /// Before each datagram comes one that is not true.
    pub(crate) lie: Cell<bool>,
    /// TCP connections from this port are not served any more.
    pub(crate) deaf_to: Cell<u16>,
    /// After so many replies a TCP connection is closed; 0: never.
    pub(crate) close_after: Cell<u64>,
}

/// What a stub does about a query.
type Script = dyn Fn(&Asked) -> Vec<Send>;

/// A stub. Nobody listens at its address any more when it is dropped.
pub(crate) struct Stub {
    pub(crate) address: SocketAddr,
    pub(crate) faults: Rc<Faults>,
    server: Rc<Server>,
}

/// A stub as the network sees it.
pub(crate) struct Server {
    pub(crate) faults: Rc<Faults>,
    /// Whether it takes connections.
    pub(crate) has_tcp: bool,
    script: Box<Script>,
    asked: RefCell<Vec<Asked>>,
    /// Datagrams so far.
    sent: Cell<u64>,
}

thread_local! {
    /// Who listens where, in this test.
    static SERVERS: RefCell<HashMap<SocketAddr, Weak<Server>>> = RefCell::default();
    /// How many there have been.
    static COUNT: Cell<u16> = const { Cell::new(0) };
}

/// Who listens at an address.
pub(crate) fn server_at(address: SocketAddr) -> Option<Rc<Server>> {
    SERVERS.with_borrow(|servers| servers.get(&address).and_then(Weak::upgrade))
}

/// An address at which nobody listens.
pub(crate) fn unused(address: IpAddr) -> SocketAddr {
    // Nothing comes from a loopback address over a link.
    let address = match address {
        IpAddr::V4(_) if super::BY_PORT => IpAddr::from([10, 9, 0, 53]),
        IpAddr::V6(_) if super::BY_PORT => "fd09::53".parse().unwrap(),
        address => address,
    };
    let number = COUNT.get();
    COUNT.set(number + 1);
    (address, FIRST_PORT + number).into()
}

impl Stub {
    /// A stub that replies to every query with what `script` says.
    pub(crate) fn replying(script: impl Fn(&Asked) -> Vec<u8> + 'static) -> Self {
        Self::start(Ipv4Addr::LOCALHOST.into(), move |asked| vec![Send::Reply(script(asked))])
    }

    /// The same, but it refuses connections.
    pub(crate) fn without_tcp(script: impl Fn(&Asked) -> Vec<u8> + 'static) -> Self {
        let script = move |asked: &Asked| vec![Send::Reply(script(asked))];
        Self::serving(Ipv4Addr::LOCALHOST.into(), false, script)
    }

    /// A stub that receives and never replies.
    pub(crate) fn silent() -> Self {
        Self::start(Ipv4Addr::LOCALHOST.into(), |_| Vec::new())
    }

    /// A stub at a port of this address that does what `script` says.
    pub(crate) fn start(address: IpAddr, script: impl Fn(&Asked) -> Vec<Send> + 'static) -> Self {
        Self::serving(address, true, script)
    }

    fn serving(
        address: IpAddr,
        has_tcp: bool,
        script: impl Fn(&Asked) -> Vec<Send> + 'static,
    ) -> Self {
        let (address, faults) = (unused(address), Rc::<Faults>::default());
        let server = Rc::new(Server {
            faults: Rc::clone(&faults),
            has_tcp,
            script: Box::new(script),
            asked: RefCell::default(),
            sent: Cell::default(),
        });
        SERVERS.with_borrow_mut(|servers| servers.insert(address, Rc::downgrade(&server)));
        Self { address, faults, server }
    }

    /// Every query so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.server.asked.borrow().clone()
    }

    /// The stub as an upstream that is asked over encrypted connections: `tls`, `https` or `quic`.
    pub(crate) fn encrypted(&self, scheme: &str) -> Upstream {
        let address = format!("{scheme}://{}", self.address).parse().unwrap();
        // Nobody looks at its key.
        Upstream { pin: vec![Pin([0; 32])], ..upstream(address) }
    }
}

impl Server {
    /// What it does about a query.
    pub(crate) fn receive(&self, asked: &Asked) -> Vec<Send> {
        self.asked.borrow_mut().push(asked.clone());
        (self.script)(asked)
    }

    /// What arrives of these datagrams, and how long each takes, as the faults have it.
    pub(crate) fn arriving(&self, asked: &Asked, sends: Vec<Send>) -> Vec<(Duration, Send)> {
        let Faults { dead, lie, truncate, .. } = &*self.faults;
        if dead.get() {
            return Vec::new();
        }
        let mut all = Vec::new();
        for send in sends {
            if lie.get() {
                let mut lie = asked.addresses(7, 300);
                lie[13] ^= 1;
                all.push(Send::Reply(lie));
            }
            all.push(if truncate.get() { Send::Reply(asked.truncated()) } else { send });
        }
        all.into_iter().filter_map(|send| Some((self.trip()?, send))).collect()
    }

    /// How long the next datagram takes; nothing if it is lost.
    fn trip(&self) -> Option<Duration> {
        let Faults { delay_ms, lose_one_of, reorder, .. } = &*self.faults;
        let number = self.sent.get() + 1;
        self.sent.set(number);
        if lose_one_of.get() > 0 && number.is_multiple_of(lose_one_of.get()) {
            return None;
        }
        let is_passed = reorder.get() && number % 2 == 1;
        let delay = Duration::from_millis(delay_ms.get());
        Some(if is_passed { delay + PASSED } else { delay })
    }
}
