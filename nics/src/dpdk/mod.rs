//! The DPDK driver: the environment (EAL), frame pools, and ports whose queues the cores poll.
//!
//! In the order a program uses it:
//!
//! ```no_run
//! # use pmdns_nics::{Nic, PortPlan, Rss, adopt_data_thread, dpdk::{self, Eal, Mempool}};
//! # fn run(config: &pmdns_config::Config) -> Result<(), Box<dyn std::error::Error>> {
//! let eal = Eal::init("pmdns", &dpdk::arguments(&config.eal, &config.ports))?; // once per process
//! let pool = Mempool::new("frames", 16_383, None)?;
//! let port = eal.open(&config.ports[0], 0)?; // a device, found or plugged in
//! println!("{:?}", port.facts()); // what the topology is planned from
//! let (nic, queues) = port.start(&PortPlan { rx_queues: 2, tx_queues: 2, rss: Rss::Clients, interrupts: false }, &pool)?;
//! // Each worker, once it has pinned itself to its core:
//! let adopted = adopt_data_thread()?;
//! // At the end, in any order:
//! drop((adopted, queues, pool));
//! Box::new(nic).close();
//! eal.close()?; // nothing is left on disk
//! # Ok(()) }
//! ```
//!
//! # A reading order
//!
//! A port's start, from top to bottom. Read [`crate::Frame`] and the traits of the crate's root first.
//!
//! 1. `eal.rs`, [`Eal::init`]: the arguments, then `rte_eal_init`. The calling thread keeps its
//!    CPUs. [`arguments`] adds an `-a` for each of our PCI devices, so that DPDK takes no other.
//!    `log.rs` catches what DPDK logs, and `advice.rs` turns it into an error that says what to
//!    change. `trial.rs` asks DPDK about arguments without a start.
//! 2. `mempool.rs`, [`Mempool::new`]: the frames. They exist before any port that receives into
//!    them.
//! 3. `port.rs`, [`Eal::open`]: `find_or_plug` finds the device, or plugs it in (`rte_dev_probe`).
//!    `facts` asks what it can do: queues, descriptors, offloads, NUMA node. The topology is
//!    planned from these facts, so nothing is configured yet.
//! 4. `start.rs`, [`ClosedPort::start`]: `check_queues`, then `bring_up`. That is
//!    `configuration` (RSS, checksums, VLAN filter), `rte_eth_dev_configure`,
//!    `set_up_queues`, `rte_eth_dev_start`. Then it is `hear` (multicast, promiscuous,
//!    VLANs), or the rules of a port that is shared with the kernel (`isolation.rs`). Then
//!    it watches for the removal of the device (`removal.rs`), makes the queues, and waits for the
//!    link.
//! 5. `queue.rs`: `Rx::receive` and `Tx::transmit`, the only code here that a data core runs for
//!    each burst.
//! 6. `interrupts.rs`: how packets wake a core that sleeps. `start.rs` asks once whether they can.
//! 7. `thread.rs`, [`adopt_thread`]: registers a worker's thread, so that it has a cache of free
//!    frames.
//! 8. `vhost.rs`, [`Eal::open_vhost`]: one more port, whose other end is an interface of the kernel.
//! 9. [`DpdkNic`] in `start.rs`: counters, link, removal. `Device` in `port.rs`: its drop stops
//!    the port and unplugs the device.
//!
//! # Ownership
//!
//! Everything made here keeps the environment alive, and a port keeps its pool alive. So they may be dropped in any
//! order, with one exception: frames. A frame that is still held when its pool goes makes the pool and the
//! environment stay until the process ends.
//!
//! After `close` no hugepage files and no runtime files are left. A process that was killed leaves both. They do no
//! harm: the next DPDK process that starts removes them.

mod advice;
mod eal;
mod events;
mod exchange;
mod hear;
mod interrupts;
mod isolation;
mod left_socket;
mod log;
mod mbuf;
mod mempool;
mod passing;
mod port;
mod queue;
mod queue_setup;
mod removal;
#[cfg(feature = "rte-ring")]
mod ring;
mod rss;
mod runtime_files;
mod start;
mod started;
mod tap_steering;
mod thread;
mod trial;
mod vhost;

use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;
use std::path::PathBuf;

use dpdk_sys::rte_mbuf;
use pmdns_config::narrow::to_u32;

pub use advice::EalError;
pub use eal::{Eal, arguments, without_devices};
pub(crate) use events::acknowledge;
pub(crate) use mbuf::free;
pub use mempool::{Mempool, PoolError};
pub use passing::{PassingNic, PassingPort};
pub use port::{ClosedPort, PortError, are_devices_shared, share_devices};
#[cfg(feature = "rte-ring")]
pub use ring::{RingError, ValueReceiver, ValueSender, value_ring};
pub use runtime_files::{FilesBeside, beside_another};
pub use start::DpdkNic;
pub use tap_steering::{TapQueues, TapSteering};
pub use thread::{DataThread, ThreadError, adopt_thread};
pub use trial::refusal;
pub use vhost::{VHOST_NET, VhostError, VhostTap};

use crate::frame::{Burst, MAX_BURST};

/// The version of the DPDK that is loaded.
pub fn version() -> String {
    // SAFETY: returns a constant string.
    owned_text(unsafe { dpdk_sys::rte_version() })
}

/// The folder that the EAL loads drivers from.
pub fn driver_folder() -> PathBuf {
    let path = dpdk_sys::RTE_EAL_PMD_PATH;
    PathBuf::from(
        CStr::from_bytes_until_nul(path).unwrap_or_default().to_string_lossy().into_owned(),
    )
}

/// Gives back all mbufs among the frames of a burst at once, and the other frames too.
#[inline]
pub(crate) fn free_bulk(burst: &mut Burst) {
    let mut mbufs = [const { MaybeUninit::<*mut rte_mbuf>::uninit() }; MAX_BURST];
    let mut count = 0;
    for frame in burst.drain(..) {
        if frame.is_dpdk() {
            mbufs[count].write(frame.into_handle().cast().as_ptr());
            count += 1;
        }
    }
    // SAFETY: the first `count` entries are mbufs that the burst owned and has given up.
    unsafe { dpdk_sys::rte_pktmbuf_free_bulk(mbufs.as_mut_ptr().cast(), to_u32(count)) };
}

/// DPDK's text for an error number, negative or not.
fn error_text(code: c_int) -> String {
    // SAFETY: the function takes any number.
    let text = unsafe { dpdk_sys::rte_strerror(code.saturating_abs()) };
    owned_text(text)
}

/// A copy of a C string; empty for a null pointer.
fn owned_text(text: *const std::ffi::c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: DPDK's strings end in a zero byte, and are not changed while this copies.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The `rte_errno` of this thread.
fn last_error() -> c_int {
    // SAFETY: reads a thread-local variable.
    unsafe { dpdk_sys::shim_errno() }
}
