//! Port events: links that come up, and devices that are removed from the machine. The main thread watches for them and
//! tells the data cores.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pmdns_nics::Nic;

/// How often the links are checked. Each check asks the device.
const LINK_LOOK: Duration = Duration::from_millis(250);

/// The news of a port for the data cores, which read it from time to time.
#[derive(Debug, Default)]
pub struct PortNews {
    /// How often the link came up.
    ups: AtomicU32,
    /// Whether it is up.
    is_up: AtomicBool,
    /// Whether the port is to be given up.
    leaves: AtomicBool,
}

/// The news of every port, by number.
pub type AllPortNews = Arc<[PortNews]>;

impl PortNews {
    /// How often the link came up so far.
    pub fn ups(&self) -> u32 {
        self.ups.load(Ordering::Relaxed)
    }

    /// Whether the data cores must give up its queues.
    pub fn leaves(&self) -> bool {
        self.leaves.load(Ordering::Relaxed)
    }

    /// Whether the link is up, as far as is known.
    pub fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    /// Notes that the link came up, so that addresses are announced.
    pub fn link_came_up(&self) {
        self.is_up.store(true, Ordering::Relaxed);
        self.ups.fetch_add(1, Ordering::Relaxed);
    }

    /// Has addresses announced if the link is up; else they are as soon as it comes up.
    pub fn announce_again(&self) {
        if self.is_up() {
            self.link_came_up();
        }
    }

    /// Notes that the link went down.
    pub fn link_went_down(&self) {
        self.is_up.store(false, Ordering::Relaxed);
    }

    /// Notes that the port is to be given up.
    pub fn leave(&self) {
        self.link_went_down();
        self.leaves.store(true, Ordering::Relaxed);
    }
}

/// The main thread's watch over the ports.
pub struct PortWatch {
    ports: Vec<Watched>,
    next_look: Instant,
}

#[derive(Default)]
struct Watched {
    is_up: bool,
    /// How often the link went up or down since the start.
    changes: u64,
    state: PortState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PortState {
    #[default]
    Serving,
    /// The data cores are giving up its queues.
    Leaving,
    Gone,
}

impl PortWatch {
    /// A watch over ports that have just started. Those whose link is up are announced.
    pub fn new(nics: &[Box<dyn Nic>], news: &[PortNews], now: Instant) -> Self {
        let mut ports = Vec::new();
        for (nic, news) in nics.iter().zip(news) {
            let is_up = nic.link_up();
            if is_up {
                news.link_came_up();
            }
            ports.push(Watched { is_up, ..Watched::default() });
        }
        Self { ports, next_look: now + LINK_LOOK }
    }

    /// Checks every port; never waits.
    pub fn turn(&mut self, nics: &mut [Box<dyn Nic>], news: &[PortNews], now: Instant) {
        let looks = now >= self.next_look;
        if looks {
            self.next_look = now + LINK_LOOK;
        }
        for ((watched, nic), news) in self.ports.iter_mut().zip(nics).zip(news) {
            watched.let_go(nic.as_mut(), news);
            if looks && watched.state == PortState::Serving {
                watched.poll(nic.as_ref(), news);
            }
        }
    }

    /// How often the link of a port went up or down.
    pub fn link_changes(&self, port: usize) -> u64 {
        self.ports.get(port).map_or(0, |port| port.changes)
    }

    /// Whether the device of a port was taken out of the machine.
    pub fn is_removed(&self, port: usize) -> bool {
        self.ports.get(port).is_some_and(|port| port.state != PortState::Serving)
    }

    /// Whether no port is left to serve on.
    pub fn all_are_gone(&self) -> bool {
        self.ports.iter().all(|port| port.state == PortState::Gone)
    }
}

impl Watched {
    fn poll(&mut self, nic: &dyn Nic, news: &PortNews) {
        let is_up = nic.link_up();
        if is_up == self.is_up {
            return;
        }
        self.is_up = is_up;
        self.changes += 1;
        let name = &nic.facts().name;
        if is_up {
            news.link_came_up();
            tracing::info!("port {name}: the link is up");
        } else {
            news.link_went_down();
            tracing::warn!("port {name}: the link is down");
        }
    }

    /// Gives up a port whose device is being removed. First the data cores leave its queues, then it is closed.
    fn let_go(&mut self, nic: &mut dyn Nic, news: &PortNews) {
        let name = |nic: &dyn Nic| nic.facts().name.clone();
        if self.state == PortState::Serving && nic.is_being_removed() {
            self.state = PortState::Leaving;
            self.is_up = false;
            news.leave();
            let name = name(nic);
            tracing::warn!("port {name}: the device is being removed; the port is given up");
        }
        if self.state == PortState::Leaving && nic.release() {
            self.state = PortState::Gone;
            let name = name(nic);
            tracing::warn!("port {name}: the device was released; a restart would take it again");
        }
    }
}

/// A hardware address as it is usually written.
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {

    use pmdns_nics::{PortFacts, PortStats, memory};

    use super::*;

    #[test]
    fn hardware_addresses_are_written_as_ip_link_does() {
        assert_eq!(mac_text([2, 0, 0, 0, 0x0a, 0xff]), "02:00:00:00:0a:ff");
    }

    /// A port whose link, device and queues a test controls.
    #[derive(Clone, Default)]
    struct Hands(Arc<[AtomicBool; 3]>);

    const LINK: usize = 0;
    const REMOVAL: usize = 1;
    const QUEUES_ARE_GONE: usize = 2;

    impl Hands {
        fn set(&self, which: usize, value: bool) {
            self.0[which].store(value, Ordering::Relaxed);
        }

        fn is(&self, which: usize) -> bool {
            self.0[which].load(Ordering::Relaxed)
        }
    }

    struct Fake {
        facts: PortFacts,
        hands: Hands,
    }

    impl Nic for Fake {
        fn facts(&self) -> &PortFacts {
            &self.facts
        }

        fn stats(&self) -> PortStats {
            PortStats::default()
        }

        fn link_up(&self) -> bool {
            self.hands.is(LINK)
        }

        fn is_being_removed(&self) -> bool {
            self.hands.is(REMOVAL)
        }

        fn release(&mut self) -> bool {
            self.hands.is(QUEUES_ARE_GONE)
        }

        fn close(self: Box<Self>) {}
    }

    struct Lab {
        watch: PortWatch,
        nics: Vec<Box<dyn Nic>>,
        news: Vec<PortNews>,
        hands: Vec<Hands>,
        now: Instant,
    }

    impl Lab {
        fn new(links: &[bool]) -> Self {
            let hands: Vec<Hands> = links.iter().map(|_| Hands::default()).collect();
            hands.iter().zip(links).for_each(|(hands, up)| hands.set(LINK, *up));
            let fake = |hands: &Hands| -> Box<dyn Nic> {
                let facts = memory::link("p0", 0, 1, 1).0.facts().clone();
                Box::new(Fake { facts, hands: hands.clone() })
            };
            let nics: Vec<_> = hands.iter().map(fake).collect();
            let news: Vec<_> = links.iter().map(|_| PortNews::default()).collect();
            let now = Instant::now();
            Self { watch: PortWatch::new(&nics, &news, now), nics, news, hands, now }
        }

        fn turn(&mut self) {
            self.now += LINK_LOOK;
            self.watch.turn(&mut self.nics, &self.news, self.now);
        }
    }

    #[test]
    fn bound_b2_addresses_are_announced_whenever_a_link_comes_up() {
        let mut lab = Lab::new(&[true, false]);
        let ups = |lab: &Lab| [lab.news[0].ups(), lab.news[1].ups()];
        assert_eq!(ups(&lab), [1, 0], "what is up at the start is announced");
        lab.turn();
        assert_eq!(ups(&lab), [1, 0]);
        for (link, up, expected) in
            [(1, true, [1, 1]), (0, false, [1, 1]), (0, true, [2, 1]), (0, true, [2, 1])]
        {
            lab.hands[link].set(LINK, up);
            lab.turn();
            assert_eq!(ups(&lab), expected);
        }
        assert_eq!((lab.watch.link_changes(0), lab.watch.link_changes(1)), (2, 1));
    }

    #[test]
    fn addresses_that_are_claimed_are_announced_where_there_is_a_link() {
        let mut lab = Lab::new(&[true, false]);
        lab.news.iter().for_each(PortNews::announce_again);
        let ups = |lab: &Lab| [lab.news[0].ups(), lab.news[1].ups()];
        assert_eq!(ups(&lab), [2, 0]);
        lab.hands[1].set(LINK, true);
        lab.turn();
        assert_eq!(ups(&lab), [2, 1], "as soon as there is one");
    }

    #[test]
    fn bound_medium_a_removed_device_is_given_up_when_its_queues_are() {
        let mut lab = Lab::new(&[true, true]);
        lab.hands[1].set(REMOVAL, true);
        lab.turn();
        assert!(lab.news[1].leaves() && lab.watch.is_removed(1), "the data cores are told");
        assert!(!lab.news[0].leaves() && !lab.watch.is_removed(0));
        lab.hands[1].set(LINK, false);
        lab.turn();
        assert_eq!(lab.watch.link_changes(1), 0, "its link is nobody's business any more");
        lab.hands[1].set(QUEUES_ARE_GONE, true);
        lab.turn();
        assert!(!lab.watch.all_are_gone(), "the other port serves on");
        lab.hands[0].set(REMOVAL, true);
        lab.hands[0].set(QUEUES_ARE_GONE, true);
        lab.turn();
        assert!(lab.watch.all_are_gone());
    }
}
