//! Port events: links that come up, devices that are removed from the machine, and ports that are closed and opened again. The main
//! thread watches for them and tells the data cores.

use std::time::{Duration, Instant};

use pmdns_nics::{Nic, Queues};

use crate::news::{NewsBoard, PortNews};

/// How often the links are checked. Each check asks the device.
const LINK_LOOK: Duration = Duration::from_millis(250);
/// A port that was opened again has so many looks to find its link. Meanwhile it counts as up: it was so before.
const PATIENT_LOOKS: u32 = 8;

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
    /// It was opened again, and its link is not up yet. So often is it looked at before it is down.
    looks_left: u32,
    state: PortState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PortState {
    #[default]
    Serving,
    /// The device is being removed, and the data cores are giving up its queues.
    Leaving,
    Gone,
    /// Another process is to have the device, and the data cores are giving up its queues.
    Closing,
    Closed,
}

impl PortWatch {
    /// A watch over ports that have just started, or are closed. Those whose link is up are announced. One that is closed counts as
    /// up, because another process has it that serves.
    pub fn new(nics: &[Box<dyn Nic>], news: &NewsBoard, now: Instant) -> Self {
        let mut ports = Vec::new();
        for (nic, news) in nics.iter().zip(news.iter()) {
            let is_up = nic.link_up();
            if is_up {
                news.link_came_up();
            }
            let state = if nic.is_open() { PortState::Serving } else { PortState::Closed };
            if state == PortState::Closed {
                news.link_counts_as_up();
            }
            ports.push(Watched { is_up, state, ..Watched::default() });
        }
        Self { ports, next_look: now + LINK_LOOK }
    }

    /// Checks every port; never waits.
    pub fn turn(&mut self, nics: &mut [Box<dyn Nic>], news: &NewsBoard, now: Instant) {
        let looks = now >= self.next_look;
        if looks {
            self.next_look = now + LINK_LOOK;
        }
        for (port, (watched, nic)) in self.ports.iter_mut().zip(nics).enumerate() {
            watched.let_go(nic.as_mut(), port, news);
            match watched.state {
                PortState::Serving if watched.looks_left > 0 => {
                    watched.await_link(nic.as_ref(), &news[port], looks);
                }
                PortState::Serving if looks => watched.poll(nic.as_ref(), &news[port]),
                _ => {}
            }
        }
    }

    /// Closes a port that serves, once the data cores have left its queues for others, which are not of its device.
    pub fn close(&mut self, port: usize, others: Queues, news: &NewsBoard) {
        let watched = &mut self.ports[port];
        if watched.state == PortState::Serving {
            watched.state = PortState::Closing;
            news.bring(port, others);
        }
    }

    /// Whether a port is closed, and may be opened.
    pub fn is_closed(&self, port: usize) -> bool {
        self.ports[port].state == PortState::Closed
    }

    /// Whether a port is about to be closed.
    pub fn is_closing(&self, port: usize) -> bool {
        self.ports[port].state == PortState::Closing
    }

    /// Whether this process has the device of a port yet.
    pub fn has_device(&self, port: usize) -> bool {
        !matches!(self.ports[port].state, PortState::Closed | PortState::Gone)
    }

    /// Whether a port serves.
    pub fn serves(&self, port: usize) -> bool {
        self.ports[port].state == PortState::Serving
    }

    /// Whether a port was opened again and looks for its link, so that nothing leaves by it yet.
    pub fn awaits_link(&self, port: usize) -> bool {
        self.serves(port) && self.ports[port].looks_left > 0
    }

    /// A port that was closed has these queues now.
    pub fn opened(&mut self, port: usize, nic: &dyn Nic, queues: Queues, news: &NewsBoard) {
        let watched = &mut self.ports[port];
        (watched.state, watched.is_up, watched.looks_left) =
            (PortState::Serving, true, PATIENT_LOOKS);
        news.bring(port, queues);
        watched.await_link(nic, &news[port], false);
    }

    /// How often the link of a port went up or down.
    pub fn link_changes(&self, port: usize) -> u64 {
        self.ports.get(port).map_or(0, |port| port.changes)
    }

    /// Whether the device of a port was taken out of the machine.
    pub fn is_removed(&self, port: usize) -> bool {
        let is_removed =
            |port: &Watched| matches!(port.state, PortState::Leaving | PortState::Gone);
        self.ports.get(port).is_some_and(is_removed)
    }

    /// Whether no port is left to serve on.
    pub fn all_are_gone(&self) -> bool {
        self.ports.iter().all(|port| port.state == PortState::Gone)
    }
}

impl Watched {
    /// Announces the addresses of a port that was opened again as soon as its link is up.
    fn await_link(&mut self, nic: &dyn Nic, news: &PortNews, looks: bool) {
        if nic.link_up() {
            self.looks_left = 0;
            news.link_came_up();
        } else if looks {
            self.looks_left -= 1;
            if self.looks_left == 0 {
                self.poll(nic, news);
            }
        }
    }

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

    /// Gives up a port whose device is being removed, or that is to be closed. First the data cores leave its queues, then it is
    /// closed.
    fn let_go(&mut self, nic: &mut dyn Nic, port: usize, news: &NewsBoard) {
        let name = |nic: &dyn Nic| nic.facts().name.clone();
        if self.state == PortState::Serving && nic.is_being_removed() {
            self.state = PortState::Leaving;
            self.is_up = false;
            news[port].link_went_down();
            news.leave(port);
            let name = name(nic);
            tracing::warn!("port {name}: the device is being removed; the port is given up");
        }
        if !matches!(self.state, PortState::Leaving | PortState::Closing) || !nic.release() {
            return;
        }
        if self.state == PortState::Closing {
            self.state = PortState::Closed;
            return;
        }
        self.state = PortState::Gone;
        let name = name(nic);
        tracing::warn!("port {name}: the device was released; a restart would take it again");
    }
}

/// A hardware address as it is usually written.
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {

    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use pmdns_nics::{PortFacts, PortStats, memory};

    use super::*;

    #[test]
    fn hardware_addresses_are_written_as_ip_link_does() {
        assert_eq!(mac_text([2, 0, 0, 0, 0x0a, 0xff]), "02:00:00:00:0a:ff");
    }

    /// A port whose link, device and queues a test controls.
    #[derive(Clone, Default)]
    struct Hands(Arc<[AtomicBool; 4]>);

    const LINK: usize = 0;
    const REMOVAL: usize = 1;
    const QUEUES_ARE_GONE: usize = 2;
    const IS_CLOSED: usize = 3;

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

        fn is_open(&self) -> bool {
            !self.hands.is(IS_CLOSED)
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
        news: NewsBoard,
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
            let news = NewsBoard::new(links.len());
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

    #[test]
    fn a_port_is_closed_when_its_queues_are_left_and_serves_with_those_that_are_brought() {
        let mut lab = Lab::new(&[true]);
        lab.watch.close(0, Queues::none(1, 1), &lab.news);
        lab.turn();
        assert!(lab.news[0].is_up(), "the next process has its link");
        assert!(lab.news[0].take_rx().is_some() && lab.news[0].take_tx().is_some());
        assert!(!lab.watch.is_closed(0) && lab.watch.has_device(0), "a data core has a queue yet");
        assert!(!lab.watch.serves(0));
        lab.hands[0].set(QUEUES_ARE_GONE, true);
        lab.turn();
        assert!(lab.watch.is_closed(0) && !lab.watch.has_device(0));
        assert!(!lab.watch.is_removed(0) && !lab.watch.all_are_gone(), "it may come back");
        let before = (lab.news.changes(), lab.news[0].ups());
        lab.watch.opened(0, lab.nics[0].as_ref(), Queues::none(1, 1), &lab.news);
        assert_eq!((lab.news.changes(), lab.news[0].ups()), (before.0 + 1, before.1 + 1));
        assert!(lab.watch.serves(0));
        assert!(lab.news[0].take_rx().is_some() && lab.news[0].take_rx().is_none());
        lab.watch.close(0, Queues::default(), &lab.news);
        assert!(lab.news[0].take_tx().is_none(), "what nobody has taken goes too");
    }

    #[test]
    fn a_port_that_is_opened_again_has_a_while_to_find_its_link() {
        for comes in [true, false] {
            let mut lab = Lab::new(&[true]);
            lab.watch.close(0, Queues::default(), &lab.news);
            lab.hands[0].set(QUEUES_ARE_GONE, true);
            lab.hands[0].set(LINK, false);
            lab.turn();
            let ups = lab.news[0].ups();
            lab.watch.opened(0, lab.nics[0].as_ref(), Queues::none(1, 1), &lab.news);
            for _ in 1..PATIENT_LOOKS {
                lab.turn();
                assert!(lab.news[0].is_up() && lab.news[0].ups() == ups);
                assert!(lab.watch.awaits_link(0));
            }
            lab.hands[0].set(LINK, comes);
            lab.turn();
            assert!(!lab.watch.awaits_link(0));
            let expected = if comes { (true, ups + 1, 0) } else { (false, ups, 1) };
            let is = (lab.news[0].is_up(), lab.news[0].ups(), lab.watch.link_changes(0));
            assert_eq!(is, expected);
        }
    }

    #[test]
    fn a_port_may_begin_closed() {
        let mut lab = Lab::new(&[false]);
        lab.hands[0].set(IS_CLOSED, true);
        lab.watch = PortWatch::new(&lab.nics, &lab.news, lab.now);
        lab.hands[0].set(LINK, true);
        lab.turn();
        assert!(lab.watch.is_closed(0) && lab.news[0].ups() == 0 && !lab.news[0].leaves());
        lab.watch.opened(0, lab.nics[0].as_ref(), Queues::none(1, 1), &lab.news);
        assert!(!lab.watch.is_closed(0) && lab.news[0].ups() == 1);
    }
}
