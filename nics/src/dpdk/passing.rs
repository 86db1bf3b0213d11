//! A port over AF_XDP whose interface another process has yet.
//!
//! The kernel takes one socket for a queue of an interface. So the port begins with a packet socket (`net_af_packet`), which gets
//! what no socket of AF_XDP takes. Its own sockets are opened when the other process has ended, and cores exchange their queues.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pmdns_config::PortSettings;
use rustix::net::sockopt::{set_ip_freebind, set_ipv6_freebind};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use super::eal::Eal;
use super::exchange::{Exchange, Exchanged};
use super::mempool::Mempool;
use super::port::{ClosedPort, PortError, refused};
use super::start::DpdkNic;
use crate::frame::Burst;
use crate::xdp::{Interface, XdpSteering};
use crate::{Nic, PortFacts, PortPlan, PortStats, Queues, RxQueue, TxQueue};

/// Frames that the ring of a packet socket holds.
const PACKET_FRAMES: u32 = 2048;

/// Such a port, for reports.
pub struct PassingNic {
    facts: PortFacts,
    nics: Arc<Mutex<Nics>>,
}

#[derive(Default)]
struct Nics {
    packets: Option<DpdkNic>,
    xdp: Option<DpdkNic>,
    /// What the packet socket had counted when it was closed.
    before: PortStats,
}

/// Such a port, for the one who exchanges its queues.
pub struct PassingPort {
    /// `None`: it is open.
    closed: Option<Box<ClosedPort>>,
    plan: PortPlan,
    pool: Mempool,
    nics: Arc<Mutex<Nics>>,
    steering: Option<XdpSteering>,
    rx: Vec<Arc<Exchange<dyn RxQueue>>>,
    tx: Vec<Arc<Exchange<dyn TxQueue>>>,
    /// What the kernel needs as long as it gets the frames too.
    meanwhile: Vec<OwnedFd>,
}

impl ClosedPort {
    /// Whether it is a port over AF_XDP.
    pub fn is_over_af_xdp(&self) -> bool {
        self.interface.is_some()
    }

    /// Starts it by a packet socket on the same interface.
    pub fn start_by_packets(
        self,
        eal: &Eal,
        plan: &PortPlan,
        pool: &Mempool,
    ) -> Result<(PassingNic, Queues, PassingPort), PortError> {
        let interface = self.interface.as_ref();
        let meanwhile = meanwhile(interface, &self.settings).map_err(|error| {
            let advice = ": another program of this host answers at an address of the port. Stop it, or the running process";
            refused(&self.settings, "keep queries from the kernel", &error, advice)
        })?;
        let name = interface.map_or("", |one| one.name());
        let pairs = plan.rx_queues.max(plan.tx_queues);
        let device = format!(
            "net_af_packet{},iface={name},qpairs={pairs},framecnt={PACKET_FRAMES}",
            self.number
        );
        let settings = PortSettings { device, ..self.settings.clone() };
        let packets = eal.open(&settings, self.number)?;
        let both = PortPlan { rx_queues: pairs, tx_queues: pairs, ..*plan };
        let (nic, first) = packets.start(&both, pool)?;
        let nics = Arc::new(Mutex::new(Nics { packets: Some(nic), ..Nics::default() }));
        let passing_nic = PassingNic { facts: self.facts.clone(), nics: Arc::clone(&nics) };
        let (mut queues, mut rx, mut tx) = (Queues::default(), Vec::new(), Vec::new());
        for one in Several::dealt(first.rx, plan.rx_queues) {
            let (queue, exchange) = Exchanged::receiving(Box::new(one));
            queues.rx.push(Box::new(queue));
            rx.push(exchange);
        }
        for one in first.tx.into_iter().take(plan.tx_queues.into()) {
            let (queue, exchange) = Exchanged::transmitting(one);
            queues.tx.push(Box::new(queue));
            tx.push(exchange);
        }
        let port = PassingPort {
            closed: Some(Box::new(self)),
            plan: *plan,
            pool: pool.clone(),
            nics,
            steering: None,
            rx,
            tx,
            meanwhile,
        };
        Ok((passing_nic, queues, port))
    }
}

/// The groups that IPv6 neighbours ask in. Besides, sockets that take in queries to addresses that the kernel has as well, or gets
/// meanwhile: it would answer them by ICMP, that nobody listens.
fn meanwhile(interface: Option<&Interface>, settings: &PortSettings) -> io::Result<Vec<OwnedFd>> {
    let groups = interface.and_then(|one| one.join_groups(settings).ok());
    let mut held: Vec<_> = groups.into_iter().flatten().collect();
    for one in &settings.addresses {
        match listen(one.address, settings.dns_port) {
            Ok(socket) => held.push(socket),
            // A program that has the port gets each query too, and would answer beside us.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
            Err(_) => {}
        }
    }
    Ok(held)
}

/// A socket for UDP at an address that the kernel need not have yet.
fn listen(address: IpAddr, port: u16) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    match address {
        IpAddr::V4(_) => set_ip_freebind(&socket, true)?,
        IpAddr::V6(_) => set_ipv6_freebind(&socket, true)?,
    }
    bind(&socket, &SocketAddr::new(address, port))?;
    Ok(socket)
}

/// Queues that one core polls. Each packet socket gets a part of what comes, and there is one for each queue to either side.
#[derive(Default)]
struct Several(Vec<Box<dyn RxQueue>>);

impl Several {
    /// Deals queues to so many cores.
    fn dealt(queues: Vec<Box<dyn RxQueue>>, cores: u16) -> Vec<Self> {
        let mut dealt: Vec<Self> = (0..cores).map(|_| Self::default()).collect();
        let count = dealt.len().max(1);
        for (number, queue) in queues.into_iter().enumerate() {
            dealt[number % count].0.push(queue);
        }
        dealt
    }
}

impl RxQueue for Several {
    fn receive(&mut self, burst: &mut Burst, limit: usize) -> usize {
        let mut count = 0;
        for queue in &mut self.0 {
            count += queue.receive(burst, limit - count);
        }
        count
    }
}

impl PassingPort {
    /// Opens its own sockets, and gives their queues to the cores. If that fails, the cores go on by the packet socket.
    pub fn open(&mut self) -> Result<(), PortError> {
        if let Some(closed) = &self.closed
            && let Some(interface) = closed.interface.as_ref().filter(|one| one.is_shared())
        {
            interface.check(&closed.settings).map_err(|error| {
                refused(&closed.settings, "find the XDP program", &error, ": start pmdns again")
            })?;
        }
        let Some(closed) = self.closed.take() else { return Ok(()) };
        let (mut nic, queues) = closed.start_or_stay(&self.plan, &self.pool).map_err(|failed| {
            let (closed, error) = *failed;
            self.closed = Some(Box::new(closed));
            error
        })?;
        self.steering = nic.take_steering();
        lock(&self.nics).xdp = Some(nic);
        self.rx.iter().zip(queues.rx).for_each(|(exchange, queue)| exchange.bring(queue));
        self.tx.iter().zip(queues.tx).for_each(|(exchange, queue)| exchange.bring(queue));
        Ok(())
    }

    /// What leads frames to its sockets, if these are open and were found.
    pub fn take_steering(&mut self) -> Option<XdpSteering> {
        self.steering.take()
    }

    /// Closes the packet socket, if each core has read what it had. Says whether that is done.
    pub fn close_packets(&mut self) -> bool {
        // Each of them is asked.
        let waiting = self.rx.iter().filter(|one| !one.recall()).count()
            + self.tx.iter().filter(|one| !one.recall()).count();
        if waiting > 0 {
            return false;
        }
        self.rx.iter().for_each(|one| drop(one.take()));
        self.tx.iter().for_each(|one| drop(one.take()));
        self.meanwhile.clear();
        let mut nics = lock(&self.nics);
        nics.before = nics.packets.take().map(|nic| nic.stats()).unwrap_or_default();
        true
    }
}

fn lock(nics: &Mutex<Nics>) -> MutexGuard<'_, Nics> {
    nics.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Nics {
    fn each(&self) -> impl Iterator<Item = &DpdkNic> {
        self.packets.iter().chain(&self.xdp)
    }
}

impl Nic for PassingNic {
    fn facts(&self) -> &PortFacts {
        &self.facts
    }

    fn stats(&self) -> PortStats {
        let nics = lock(&self.nics);
        nics.each().map(Nic::stats).fold(nics.before, PortStats::after)
    }

    fn xstats(&self) -> Vec<(String, u64)> {
        lock(&self.nics).xdp.as_ref().map(Nic::xstats).unwrap_or_default()
    }

    fn link_up(&self) -> bool {
        lock(&self.nics).each().any(Nic::link_up)
    }

    fn close(self: Box<Self>) {
        *lock(&self.nics) = Nics::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_taken_in_at_addresses_that_the_kernel_does_not_have_yet() {
        for address in ["192.0.2.53", "2001:db8::53"] {
            let address: IpAddr = address.parse().unwrap();
            let outcome = listen(address, 0);
            // Not every kernel has IPv6.
            assert!(outcome.is_ok() || address.is_ipv6(), "{address}: {outcome:?}");
        }
    }
}
