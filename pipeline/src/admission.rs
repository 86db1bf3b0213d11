//! Which connections are served when there are more than a listener has places for.
//!
//! A connection holds a place, and places are shared by peer ([`pmdns_config::shares`]). When all are taken, the peer with most
//! of them loses one to a peer with fewer: the oldest one without a request, or else one that has its answer. So no two
//! peers keep a third out, however often they ask. If no peer has more than another, a new connection
//! takes the place of the oldest one without a request, else of one that is answered, else of one that waits. So many strangers
//! with a connection each keep nobody out either.
//!
//! A connection whose client has shown that it may ask, by a token or as a user of this machine, is *known*. It loses its place
//! to a stranger only when it has been reading its answer for too long, or when its peer has most of all and no stranger has more
//! than one.

use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pmdns_config::shares::{ShareTable, Ticket};
use tokio::sync::oneshot;

use pmdns_counters::{count, counters};

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
enum RequestPhase {
    /// It has not sent its request.
    Asking,
    /// It waits for its answer.
    Waiting,
    /// It has been reading its answer since this time.
    Reading(Instant),
}

#[derive(Debug)]
struct HeldPlace<H> {
    /// In order of arrival.
    number: u64,
    state: RequestPhase,
    /// Its client may ask here.
    is_known: bool,
    /// Dropping this ends the connection.
    _hold: H,
}

/// The places of a listener. Pure: it is told the time.
#[derive(Debug)]
struct Admission<P, H> {
    bounds: Bounds,
    places: ShareTable<P, HeldPlace<H>>,
    next: u64,
}

/// The result for a new connection.
#[derive(Debug, PartialEq, Eq)]
enum Admitted {
    /// It gets a free place.
    Free(Ticket),
    /// It gets this place, and another connection has lost its own.
    Instead(Ticket),
    /// There is no place for it.
    Refused,
}

impl<P: Copy + Eq + Hash, H> Admission<P, H> {
    fn new(bounds: Bounds) -> Self {
        Self { bounds, places: ShareTable::new(bounds.places), next: 0 }
    }

    /// Gives a connection of `peer` a place, if necessary that of another connection.
    fn admit(&mut self, peer: P, hold: H, now: Instant) -> Admitted {
        let own = self.places.shares().held_by(peer);
        let lost = if own >= self.bounds.per_peer {
            let least = |place: &HeldPlace<H>| self.rank_among_own(place, now);
            Some(first(self.places.of(peer), least))
        } else if self.places.shares().is_full() {
            let least = |place: &HeldPlace<H>| self.rank(place, now);
            let of_strangers = self.of_heaviest(peer, |place| !place.is_known);
            let lost = of_strangers.or_else(|| first(self.places.iter(), least));
            Some(lost.or_else(|| self.of_heaviest(peer, |_| true)))
        } else {
            None
        };
        match lost {
            None => {}
            Some(None) => return Admitted::Refused,
            Some(Some(loser)) => drop(self.places.leave(loser)),
        }
        let place = HeldPlace {
            number: self.next,
            state: RequestPhase::Asking,
            is_known: false,
            _hold: hold,
        };
        self.next += 1;
        match (self.places.enter(peer, place).result, lost) {
            (Ok(ticket), None) => Admitted::Free(ticket),
            (Ok(ticket), Some(_)) => Admitted::Instead(ticket),
            (Err(_), _) => Admitted::Refused,
        }
    }

    /// The connection that the peer with most places loses to `peer`, if it has more than that, and more than one. It is the
    /// oldest one without a request, else of those that have an answer, else of all that it may lose.
    fn of_heaviest(&self, peer: P, may_lose: impl Fn(&HeldPlace<H>) -> bool) -> Option<Ticket> {
        if self.places.shares().heavier_than(peer)?.held < 2 {
            return None;
        }
        first(self.places.of_heavier(peer), |place| may_lose(place).then(|| stage(place)))
    }

    /// How soon a connection loses its place to that of another peer, if it does.
    fn rank(&self, place: &HeldPlace<H>, now: Instant) -> Option<u8> {
        match self.rank_among_own(place, now) {
            Some(_) if place.is_known => Some(u8::MAX),
            _ => (!place.is_known).then(|| stage(place)),
        }
    }

    /// How soon a connection loses its place to another one of its peer, if it does.
    fn rank_among_own(&self, place: &HeldPlace<H>, now: Instant) -> Option<u8> {
        match place.state {
            RequestPhase::Reading(since) if now < since + self.bounds.grace => None,
            RequestPhase::Waiting => None,
            RequestPhase::Asking | RequestPhase::Reading(_) => Some(stage(place)),
        }
    }

    fn note(&mut self, ticket: Ticket, state: RequestPhase) {
        if let Some(place) = self.places.get(ticket) {
            place.state = state;
        }
    }

    fn vouch(&mut self, ticket: Ticket) {
        if let Some(place) = self.places.get(ticket) {
            place.is_known = true;
        }
    }

    fn leave(&mut self, ticket: Ticket) {
        drop(self.places.leave(ticket));
    }
}

/// How far a connection has come: who waits for us is disturbed last.
fn stage<H>(place: &HeldPlace<H>) -> u8 {
    match place.state {
        RequestPhase::Asking => 0,
        RequestPhase::Reading(_) => 1,
        RequestPhase::Waiting => 2,
    }
}

/// The connection with the lowest rank, the oldest of several. Those without a rank stay.
fn first<'p, H: 'p>(
    among: impl Iterator<Item = (Ticket, &'p HeldPlace<H>)>,
    rank: impl Fn(&HeldPlace<H>) -> Option<u8>,
) -> Option<Ticket> {
    let ranked = among.filter_map(|(ticket, place)| Some(((rank(place)?, place.number), ticket)));
    ranked.min_by_key(|(order, _)| *order).map(|(_, ticket)| ticket)
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

impl<P: Copy + Eq + Hash> Gate<P> {
    pub(crate) fn new(bounds: Bounds, counters: Arc<ConnectionCounters>) -> Self {
        Self { admission: Arc::new(Mutex::new(Admission::new(bounds))), counters }
    }

    /// A place for a connection of `peer`, and a receiver that ends when the connection loses its place.
    pub(crate) fn enter(&self, peer: P) -> Option<(Pass<P>, oneshot::Receiver<()>)> {
        let (hold, held) = oneshot::channel();
        let admitted = self.lock().admit(peer, hold, Instant::now());
        let ticket = match admitted {
            Admitted::Refused => {
                self.refuse();
                return None;
            }
            Admitted::Instead(ticket) => {
                count(&self.counters.evicted);
                ticket
            }
            Admitted::Free(ticket) => ticket,
        };
        count(&self.counters.accepted);
        Some((Pass { gate: self.clone(), ticket }, held))
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
pub(crate) struct Pass<P: Copy + Eq + Hash> {
    gate: Gate<P>,
    ticket: Ticket,
}

impl<P: Copy + Eq + Hash> Pass<P> {
    /// Its client may ask here, as far as is known now.
    pub(crate) fn vouch(&self) {
        self.gate.lock().vouch(self.ticket);
    }

    /// What says so later. It holds no place.
    pub(crate) fn voucher(&self) -> impl Fn() + Send + Sync + 'static
    where
        P: Send + Sync + 'static,
    {
        let (gate, ticket) = (self.gate.clone(), self.ticket);
        move || gate.lock().vouch(ticket)
    }

    /// It has sent its request, and waits.
    pub(crate) fn waits(&self) {
        self.gate.lock().note(self.ticket, RequestPhase::Waiting);
    }

    /// It begins to read its answer.
    pub(crate) fn reads(&self) {
        self.gate.lock().note(self.ticket, RequestPhase::Reading(Instant::now()));
    }
}

impl<P: Copy + Eq + Hash> Drop for Pass<P> {
    fn drop(&mut self) {
        self.gate.lock().leave(self.ticket);
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

    /// The connections that have places, by the order in which they came.
    fn numbers(admission: &Admission<char, ()>) -> Vec<u64> {
        let mut numbers: Vec<u64> =
            admission.places.iter().map(|(_, place)| place.number).collect();
        numbers.sort_unstable();
        numbers
    }

    fn ticket(admission: &Admission<char, ()>, number: u64) -> Ticket {
        let mut places = admission.places.iter();
        places.find(|(_, place)| place.number == number).unwrap().0
    }

    fn note(admission: &mut Admission<char, ()>, number: u64, state: RequestPhase) {
        admission.note(ticket(admission, number), state);
    }

    fn vouch(admission: &mut Admission<char, ()>, number: u64) {
        let known = admission.places.iter().find(|(_, place)| place.number == number);
        let known = known.map(|(ticket, _)| ticket);
        known.into_iter().for_each(|ticket| admission.vouch(ticket));
    }

    fn gets_anothers(admission: &mut Admission<char, ()>, peer: char, now: Instant) -> bool {
        matches!(admission.admit(peer, (), now), Admitted::Instead(_))
    }

    #[test]
    fn audit_low_the_oldest_silent_connection_makes_place() {
        let now = Instant::now();
        let mut admission = full(now);
        note(&mut admission, 0, RequestPhase::Waiting);
        assert!(gets_anothers(&mut admission, 'd', now));
        assert_eq!(numbers(&admission), [0, 2, 3, 4], "who waits for us stays");
        for _ in 5..10_000 {
            assert!(gets_anothers(&mut admission, 'e', now));
            assert_eq!(numbers(&admission).len(), 4);
        }
    }

    #[test]
    fn audit_low_a_peer_has_its_own_bound() {
        let now = Instant::now();
        let mut admission = full(now);
        admission.leave(ticket(&admission, 3));
        assert!(gets_anothers(&mut admission, 'a', now));
        assert_eq!(numbers(&admission), [1, 2, 4], "it makes place for itself");
        [1, 4].into_iter().for_each(|number| note(&mut admission, number, RequestPhase::Waiting));
        assert_eq!(admission.admit('a', (), now), Admitted::Refused, "though there is a place");
        assert!(matches!(admission.admit('d', (), now), Admitted::Free(_)));
    }

    #[test]
    fn audit_low_who_does_not_read_makes_place_after_a_while() {
        let now = Instant::now();
        let mut admission = full(now);
        admission.leave(ticket(&admission, 1));
        assert!(matches!(admission.admit('d', (), now), Admitted::Free(_)));
        for number in [0, 2, 3, 4] {
            note(&mut admission, number, RequestPhase::Reading(now));
        }
        note(&mut admission, 0, RequestPhase::Waiting);
        (0..5).for_each(|number| vouch(&mut admission, number));
        assert_eq!(admission.admit('e', (), now), Admitted::Refused, "all are known, with one");
        assert!(gets_anothers(&mut admission, 'e', now + BOUNDS.grace));
        assert_eq!(numbers(&admission), [0, 3, 4, 5]);
    }

    #[test]
    fn attack_d_strangers_with_a_place_each_keep_nobody_out() {
        let now = Instant::now();
        for state in [RequestPhase::Reading(now), RequestPhase::Waiting, RequestPhase::Asking] {
            let mut admission = Admission::new(BOUNDS);
            for peer in ['a', 'b', 'c', 'd'] {
                assert!(matches!(admission.admit(peer, (), now), Admitted::Free(_)));
            }
            (0..4).for_each(|number| note(&mut admission, number, state));
            // An operator with two connections, which strangers do not take away.
            for number in [4, 5] {
                assert!(gets_anothers(&mut admission, 'o', now));
                note(&mut admission, number, RequestPhase::Waiting);
                vouch(&mut admission, number);
            }
            for stranger in ('A'..='Z').cycle().take(1000) {
                assert!(gets_anothers(&mut admission, stranger, now));
                let newest = *numbers(&admission).last().unwrap();
                note(&mut admission, newest, state);
            }
            assert_eq!(numbers(&admission)[..2], [4, 5]);
        }
    }

    #[test]
    fn attack_d_two_peers_that_ask_again_and_again_leave_places_for_a_third() {
        let now = Instant::now();
        for state in [RequestPhase::Reading(now), RequestPhase::Waiting, RequestPhase::Asking] {
            let mut admission = Admission::new(BOUNDS);
            for peer in ['a', 'a', 'b', 'b'] {
                assert!(matches!(admission.admit(peer, (), now), Admitted::Free(_)));
            }
            (0..4).for_each(|number| note(&mut admission, number, state));
            assert!(gets_anothers(&mut admission, 'c', now), "a newcomer always gets in");
            assert_eq!(numbers(&admission), [1, 2, 3, 4]);
            assert!(gets_anothers(&mut admission, 'd', now));
            assert_eq!(numbers(&admission), [1, 3, 4, 5], "the other peer is the heaviest now");
        }
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
        pass.vouch();
        assert!(gate.enter('b').is_none(), "it is known, and waited for");
        pass.reads();
        drop(pass);
        let (_second, _) = gate.enter('b').unwrap();
        assert!(held.try_recv().is_err());
        let ConnectionSnapshot { accepted, evicted, refused } = counters.snapshot();
        assert_eq!((accepted, evicted, refused), (2, 0, 1));
    }
}
