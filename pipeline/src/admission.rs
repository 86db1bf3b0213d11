//! Which connections are served when there are more than a listener has places for.
//!
//! A connection holds a place. When all places, or all places of one peer, are taken, a new connection takes that of
//! the oldest one without a request. If there is none, it takes that of one that has been reading its answer for too
//! long. So neither silent nor slow peers keep others out, however many they are.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use pmdns_nics::counters;
use pmdns_nics::counters::count;

counters! {
    /// The counters of a listener's connections.
    ConnectionCounters,
    /// The counters of a listener's connections, read at one time.
    ConnectionSnapshot {
        /// Connections that were served.
        accepted: counter,
        /// Of these, connections that lost their place to another: they sent no request, or did not read.
        evicted: counter,
        /// Connections that were closed at once: no place, or no right to connect.
        refused: counter,
    }
}

/// The report of a listener's connections.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ConnectionReport {
    /// The service: `control`, `metrics`, `api` or `notify`.
    pub service: String,
    /// The counters.
    #[serde(flatten)]
    pub counters: ConnectionSnapshot,
}

/// The peer that an address belongs to. An IPv6 peer has a whole network of addresses.
pub(crate) fn peer_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// How many connections a listener has.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// In all.
    pub places: usize,
    /// Of one peer.
    pub per_peer: usize,
    /// How long a connection may read its answer before it can lose its place.
    pub grace: Duration,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has not sent its request.
    Asking,
    /// It waits for its answer.
    Waiting,
    /// It has been reading its answer since this time.
    Reading(Instant),
}

#[derive(Debug)]
struct HeldPlace<P, H> {
    number: u64,
    peer: P,
    state: State,
    /// Dropping this ends the connection.
    _hold: H,
}

/// The places of a listener. Pure: it is told the time.
#[derive(Debug)]
struct Admission<P, H> {
    bounds: Bounds,
    /// In order of arrival.
    places: Vec<HeldPlace<P, H>>,
    next: u64,
}

/// The result for a new connection.
#[derive(Debug, PartialEq, Eq)]
enum Admitted {
    /// It gets the free place of this number.
    Free(u64),
    /// It gets this place, and another connection has lost its own.
    Instead(u64),
    /// There is no place for it.
    Refused,
}

impl<P: PartialEq, H> Admission<P, H> {
    fn new(bounds: Bounds) -> Self {
        Self { bounds, places: Vec::new(), next: 0 }
    }

    /// Gives a connection of `peer` a place, if necessary that of another connection.
    fn admit(&mut self, peer: P, hold: H, now: Instant) -> Admitted {
        let own = self.places.iter().filter(|place| place.peer == peer).count();
        let is_over = own >= self.bounds.per_peer;
        let is_full = self.places.len() >= self.bounds.places;
        if is_over || is_full {
            let among = |place: &HeldPlace<P, H>| !is_over || place.peer == peer;
            let Some(index) = self.dispensable(now, among) else { return Admitted::Refused };
            self.places.remove(index);
        }
        let number = self.next;
        self.next += 1;
        self.places.push(HeldPlace { number, peer, state: State::Asking, _hold: hold });
        if is_over || is_full { Admitted::Instead(number) } else { Admitted::Free(number) }
    }

    /// The connection that loses its place first.
    fn dispensable(&self, now: Instant, among: impl Fn(&HeldPlace<P, H>) -> bool) -> Option<usize> {
        let first = |is_due: &dyn Fn(State) -> bool| {
            self.places.iter().position(|place| among(place) && is_due(place.state))
        };
        let grace = self.bounds.grace;
        first(&|state| state == State::Asking).or_else(|| {
            first(&|state| matches!(state, State::Reading(since) if now >= since + grace))
        })
    }

    fn note(&mut self, number: u64, state: State) {
        if let Some(place) = self.places.iter_mut().find(|place| place.number == number) {
            place.state = state;
        }
    }

    fn leave(&mut self, number: u64) {
        self.places.retain(|place| place.number != number);
    }
}

/// The places of a listener, for its tasks.
#[derive(Debug)]
pub(crate) struct Gate<P> {
    admission: Arc<Mutex<Admission<P, oneshot::Sender<()>>>>,
    counters: Arc<ConnectionCounters>,
}

impl<P> Clone for Gate<P> {
    fn clone(&self) -> Self {
        Self { admission: Arc::clone(&self.admission), counters: Arc::clone(&self.counters) }
    }
}

impl<P: PartialEq> Gate<P> {
    pub(crate) fn new(bounds: Bounds, counters: Arc<ConnectionCounters>) -> Self {
        Self { admission: Arc::new(Mutex::new(Admission::new(bounds))), counters }
    }

    /// A place for a connection of `peer`, and a receiver that ends when the connection loses its place.
    pub(crate) fn enter(&self, peer: P) -> Option<(Pass<P>, oneshot::Receiver<()>)> {
        let (hold, held) = oneshot::channel();
        let admitted = self.lock().admit(peer, hold, Instant::now());
        let number = match admitted {
            Admitted::Refused => {
                self.refuse();
                return None;
            }
            Admitted::Instead(number) => {
                count(&self.counters.evicted);
                number
            }
            Admitted::Free(number) => number,
        };
        count(&self.counters.accepted);
        Some((Pass { gate: self.clone(), number }, held))
    }

    /// Counts a connection that is not served.
    pub(crate) fn refuse(&self) {
        count(&self.counters.refused);
    }

    fn lock(&self) -> MutexGuard<'_, Admission<P, oneshot::Sender<()>>> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Pass<P: PartialEq> {
    gate: Gate<P>,
    number: u64,
}

impl<P: PartialEq> Pass<P> {
    /// It has sent its request, and waits.
    pub(crate) fn waits(&self) {
        self.gate.lock().note(self.number, State::Waiting);
    }

    /// It begins to read its answer.
    pub(crate) fn reads(&self) {
        self.gate.lock().note(self.number, State::Reading(Instant::now()));
    }
}

impl<P: PartialEq> Drop for Pass<P> {
    fn drop(&mut self) {
        self.gate.lock().leave(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { places: 4, per_peer: 2, grace: Duration::from_secs(1) };

    fn full(now: Instant) -> Admission<char, ()> {
        let mut admission = Admission::new(BOUNDS);
        for peer in ['a', 'a', 'b', 'c'] {
            assert!(matches!(admission.admit(peer, (), now), Admitted::Free(_)));
        }
        admission
    }

    fn numbers(admission: &Admission<char, ()>) -> Vec<u64> {
        admission.places.iter().map(|place| place.number).collect()
    }

    #[test]
    fn audit_low_the_oldest_silent_connection_makes_place() {
        let now = Instant::now();
        let mut admission = full(now);
        admission.note(0, State::Waiting);
        assert_eq!(admission.admit('d', (), now), Admitted::Instead(4));
        assert_eq!(numbers(&admission), [0, 2, 3, 4], "who waits for us stays");
        for number in 5..10_000 {
            assert_eq!(admission.admit('e', (), now), Admitted::Instead(number));
            assert_eq!(numbers(&admission).len(), 4);
        }
    }

    #[test]
    fn audit_low_a_peer_has_its_own_bound() {
        let now = Instant::now();
        let mut admission = full(now);
        admission.leave(3);
        assert_eq!(admission.admit('a', (), now), Admitted::Instead(4));
        assert_eq!(numbers(&admission), [1, 2, 4], "it makes place for itself");
        [1, 4].into_iter().for_each(|number| admission.note(number, State::Waiting));
        assert_eq!(admission.admit('a', (), now), Admitted::Refused, "though there is a place");
        assert_eq!(admission.admit('d', (), now), Admitted::Free(5));
    }

    #[test]
    fn audit_low_who_does_not_read_makes_place_after_a_while() {
        let now = Instant::now();
        let mut admission = full(now);
        (0..4).for_each(|number| admission.note(number, State::Reading(now)));
        admission.note(0, State::Waiting);
        assert_eq!(admission.admit('d', (), now), Admitted::Refused);
        assert_eq!(admission.admit('d', (), now + BOUNDS.grace), Admitted::Instead(4));
        assert_eq!(numbers(&admission), [0, 2, 3, 4]);
    }

    #[test]
    fn a_network_of_ipv6_addresses_is_one_peer() {
        let peer = |text: &str| peer_of(text.parse().unwrap()).to_string();
        assert_eq!(peer("2001:db8::1:2:3:4"), "2001:db8::");
        assert_eq!(peer("2001:db8:0:1:2::"), "2001:db8:0:1::");
        assert_eq!(peer("::ffff:192.0.2.1"), "192.0.2.1");
    }

    #[test]
    fn a_place_is_free_when_its_pass_is_dropped() {
        let counters = Arc::<ConnectionCounters>::default();
        let gate = Gate::new(Bounds { places: 1, ..BOUNDS }, Arc::clone(&counters));
        let (pass, mut held) = gate.enter('a').unwrap();
        pass.waits();
        assert!(gate.enter('b').is_none(), "it is waited for");
        pass.reads();
        drop(pass);
        let (_second, _) = gate.enter('b').unwrap();
        assert!(held.try_recv().is_err());
        let ConnectionSnapshot { accepted, evicted, refused } = counters.snapshot();
        assert_eq!((accepted, evicted, refused), (2, 0, 1));
    }
}
