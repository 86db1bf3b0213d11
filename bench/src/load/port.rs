//! The DPDK port, and who is at its other end.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use core_affinity::CoreId;
use pmdns_nics::dpdk::{self, DpdkNic, Eal, Mempool};
use pmdns_nics::{Burst, FramePool, MAX_BURST, Nic as _, PortPlan, Queues, Rss, release};

use super::arp::{self, Arp, Host};
use super::options::Link;
use super::send::send_frame;
use super::upstreams::Upstreams;

/// Frames of the pool, besides what the queues hold.
const FRAMES: u32 = 8191;
/// How often the link is looked at and an ARP request repeated.
const REPEAT: Duration = Duration::from_millis(100);
/// Drivers whose other end is a program's ring, with no wire between: a frame that the port refuses has found
/// that ring full.
const RINGS: [&str; 4] = ["net_vhost", "net_virtio_user", "net_memif", "net_ring"];

/// vhost tells of every message of the handshake otherwise.
const QUIET: &str = "--log-level=lib.vhost*:warning";

/// A port that runs.
pub struct Port {
    /// The environment; closed last.
    eal: Eal,
    /// The port.
    pub nic: DpdkNic,
    /// Its queues, one for each direction.
    pub queues: Queues,
    /// Frames.
    pub pool: FramePool,
}

/// Why there is no port to use.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The CPU.
    #[error("cannot run on CPU {0}; choose one of this machine with --core")]
    Core(usize),
    /// DPDK's environment.
    #[error(transparent)]
    Eal(#[from] dpdk::EalError),
    /// The frames.
    #[error(transparent)]
    Pool(#[from] dpdk::PoolError),
    /// The port.
    #[error(transparent)]
    Port(#[from] dpdk::PortError),
    /// Nobody is there.
    #[error(
        "the link of {0} did not come up in {1} s; start the other end, or give it more time with --patience-seconds"
    )]
    LinkDown(String, u64),
    /// The server does not say where it is.
    #[error(
        "nobody answers ARP requests for {0}; check --server, start the server, or give its --server-mac"
    )]
    NoServer(Ipv4Addr),
    /// A signal.
    #[error("stopped by a signal")]
    Stopped,
}

impl Port {
    /// Starts DPDK and the port, with so many frames beyond those that every run needs.
    pub fn open(link: &Link, more_frames: u32) -> Result<Self, LinkError> {
        if let Some(id) = link.core
            && !core_affinity::set_for_current(CoreId { id })
        {
            return Err(LinkError::Core(id));
        }
        let settings = pmdns_config::PortSettings {
            rx_descriptors: link.descriptors,
            tx_descriptors: link.descriptors,
            checksum_offload: false,
            link_wait_ms: 0,
            ..pmdns_config::PortSettings::new("load", &link.device)
        };
        let mut args: Vec<String> = link.eal.split_whitespace().map(str::to_owned).collect();
        if !link.eal.contains("--log-level") {
            args.push(QUIET.to_owned());
        }
        let arguments = pmdns_config::EalSettings { args };
        let ports = [settings];
        let eal = Eal::init("pmdns-load", &dpdk::arguments(&arguments, &ports))?;
        let closed = eal.open(&ports[0], 0)?;
        let frames = FRAMES + 2 * u32::from(link.descriptors) + more_frames;
        let pool = Mempool::new("frames", frames, closed.facts().numa_node)?;
        let (nic, queues) = closed.start(
            &PortPlan { rx_queues: 1, tx_queues: 1, rss: Rss::None, interrupts: false },
            &pool,
        )?;
        Ok(Self { eal, nic, queues, pool: FramePool::Dpdk(pool) })
    }

    /// Whether a frame that this port refuses was lost at its peer.
    pub fn is_ring(&self) -> bool {
        RINGS.contains(&self.nic.facts().driver.as_str())
    }

    /// Waits for the link.
    pub fn await_link(&self, link: &Link, stop: &AtomicBool) -> Result<(), LinkError> {
        let start = Instant::now();
        while !self.nic.link_up() {
            if stop.load(Ordering::Relaxed) {
                return Err(LinkError::Stopped);
            }
            if start.elapsed().as_secs() >= link.patience_seconds {
                return Err(LinkError::LinkDown(link.device.clone(), link.patience_seconds));
            }
            std::thread::sleep(REPEAT);
        }
        Ok(())
    }

    /// Asks where the server is until it says so. Meanwhile the server is told where its upstreams are.
    pub fn resolve(
        &mut self,
        client: Ipv4Addr,
        server: Ipv4Addr,
        patience: Duration,
        upstreams: Option<&Upstreams>,
        stop: &AtomicBool,
    ) -> Result<[u8; 6], LinkError> {
        let request = arp::request(Host { mac: self.nic.facts().mac, address: client }, server);
        let start = Instant::now();
        let mut burst = Burst::new();
        while start.elapsed() < patience && !stop.load(Ordering::Relaxed) {
            send_frame(&self.pool, self.queues.tx[0].as_mut(), &request);
            let asked = Instant::now();
            while asked.elapsed() < REPEAT {
                self.queues.rx[0].receive(&mut burst, MAX_BURST);
                for frame in &burst {
                    if let Some(upstreams) = upstreams {
                        let tx = self.queues.tx[0].as_mut();
                        upstreams.tell_where(frame.bytes(), &self.pool, tx);
                    }
                    match Arp::read(frame.bytes()) {
                        Some(Arp::Reply(host)) if host.address == server => return Ok(host.mac),
                        _ => {}
                    }
                }
                release(&mut burst);
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let stopped = stop.load(Ordering::Relaxed);
        Err(if stopped { LinkError::Stopped } else { LinkError::NoServer(server) })
    }

    /// Stops the port and cleans up. A frame that a driver never gave back keeps its memory until the process
    /// ends, which is now.
    pub fn close(self) -> Result<(), LinkError> {
        let Self { eal, nic, queues, pool } = self;
        drop(queues);
        Box::new(nic).close();
        drop(pool);
        match eal.close() {
            Err(dpdk::EalError::InUse) => Ok(()),
            closed => Ok(closed?),
        }
    }
}
