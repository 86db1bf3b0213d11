//! A port before it runs: found or plugged in, and asked for its capabilities.

use std::ffi::{CStr, CString, c_int};
use std::io;
use std::mem;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use dpdk_sys::{
    DPDK_MAX_PORTS, DPDK_NO_OWNER, DPDK_TX_OFFLOAD_IPV4_CKSUM, DPDK_TX_OFFLOAD_UDP_CKSUM,
    rte_device, rte_eth_dev_info, rte_ether_addr,
};

use pmdns_config::{PciAddress, device_text};

use super::eal::{Eal, Environment};
use super::removal::Removal;
use super::{advice, error_text, left_socket, log, owned_text, rss};
use crate::device::interface_mtu;
use crate::xdp::Interface;
use crate::{MTU, PortFacts};

/// The offloads that a port must have before checksums are left to it. With one alone the software does both.
pub(super) const CHECKSUMS: u64 = DPDK_TX_OFFLOAD_IPV4_CKSUM | DPDK_TX_OFFLOAD_UDP_CKSUM;

/// Drivers over a kernel interface that do not pass on what the kernel knows of a checksum.
const FLAGLESS: [&str; 3] = ["net_af_xdp", "net_af_packet", "net_pcap"];

/// Devices are plugged in and out one at a time: the EAL's lists of them have no lock.
static PLUGGING: Mutex<()> = Mutex::new(());
/// Whether another process has the same devices.
static SHARED: AtomicBool = AtomicBool::new(false);

/// Why a port does not work.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The device text cannot be passed to C.
    #[error("port {port}: the device {device:?} contains a zero byte: remove it")]
    ZeroByte {
        /// The port's name in the config.
        port: String,
        /// Its device text.
        device: String,
    },

    /// DPDK has no such device.
    #[error("port {port}: DPDK found no device {device:?} ({detail}): {advice}")]
    NoDevice {
        /// The port's name in the config.
        port: String,
        /// Its device text.
        device: String,
        /// DPDK's own words.
        detail: String,
        /// What to do.
        advice: &'static str,
    },

    /// Fewer queues than the placement needs.
    #[error(
        "port {port}: {driver} has {has} {direction} queues and the placement needs {asked}. \
         Place parse and encode on at most {has} cores, or use a port with more queues"
    )]
    TooFewQueues {
        /// The port's name in the config.
        port: String,
        /// The driver's name.
        driver: String,
        /// Queues it has.
        has: u16,
        /// Queues asked for.
        asked: u16,
        /// RX or TX.
        direction: &'static str,
    },

    /// It is not what the process before has said of it.
    #[error(
        "port {port}: the device has changed since it was closed: {detail}. Stop the running process, then start this one"
    )]
    Changed {
        /// The port's name in the config.
        port: String,
        /// What it is, and what it was.
        detail: String,
    },

    /// A step of the start failed.
    #[error("port {port}: cannot {step}: {reason} ({detail}){advice}")]
    Refused {
        /// The port's name in the config.
        port: String,
        /// What was tried.
        step: &'static str,
        /// The meaning of the error number.
        reason: String,
        /// DPDK's own words.
        detail: String,
        /// What to do, if one can say.
        advice: &'static str,
    },
}

/// A port that has not started. Dropping it gives the device back.
#[derive(Debug)]
pub struct ClosedPort {
    pub(super) device: Device,
    pub(super) settings: pmdns_config::PortSettings,
    pub(super) number: u8,
    pub(super) facts: PortFacts,
    pub(super) messages: Vec<String>,
    /// What is special about the interface of an AF_XDP port.
    pub(super) interface: Option<Interface>,
}

impl Eal {
    /// Finds the port's device, plugging it in if DPDK does not have it yet, and asks what it can do.
    /// Frames it receives will say they come from `port`.
    pub fn open(
        &self,
        settings: &pmdns_config::PortSettings,
        port: u8,
    ) -> Result<ClosedPort, PortError> {
        let is_beside = are_devices_shared();
        let interface = Interface::of(settings, is_beside).map_err(|error| {
            let advice = match is_beside {
                true => ": stop the running process, then start this one as root",
                false => ": take another program off (`ip link set dev IFACE xdp off`), and start as root",
            };
            refused(settings, "prepare the interface for an XDP program", &error, advice)
        })?;
        // If that fails, the driver says that the address is in use.
        let _best_effort = left_socket::remove(&settings.device);
        let options = interface.as_ref().map(Interface::options).unwrap_or_default();
        let (id, messages) = find_or_plug(settings, &options, self.messages())?;
        let environment = Arc::clone(self.environment());
        let (started, is_alone) = (false, false);
        let device = Device { id, started, is_alone, removal: None, _environment: environment };
        let facts = facts(&device, settings)?;
        Ok(ClosedPort {
            device,
            settings: settings.clone(),
            number: port,
            facts,
            messages,
            interface,
        })
    }
}

/// A step that the kernel refuses.
pub(super) fn refused(
    settings: &pmdns_config::PortSettings,
    step: &'static str,
    error: &io::Error,
    advice: &'static str,
) -> PortError {
    let (port, detail) = (settings.name.clone(), device_text(&settings.device));
    PortError::Refused { port, step, reason: error.to_string(), detail, advice }
}

impl ClosedPort {
    /// The properties and abilities of the port.
    pub fn facts(&self) -> &PortFacts {
        &self.facts
    }

    /// The same port, whose device no other process has.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.device.is_alone = true;
        self
    }

    /// Whether it serves those who have planned with these facts. Frames are made by them: another address would be none of ours.
    pub fn serves_as(&self, planned: &PortFacts) -> Result<(), PortError> {
        let of = |facts: &PortFacts| {
            let PortFacts { driver, mac, mtu, checksum_offload, partial_checksums, .. } = facts;
            (driver.clone(), *mac, *mtu, *checksum_offload, *partial_checksums)
        };
        let (is, was) = (of(&self.facts), of(planned));
        let (port, detail) = (self.settings.name.clone(), format!("{is:?}, and not {was:?}"));
        if is == was { Ok(()) } else { Err(PortError::Changed { port, detail }) }
    }

    /// The driver's log while the port was opened: warnings that an operator may want to see.
    pub fn messages(&self) -> &[String] {
        &self.messages
    }
}

/// A port number of DPDK's that is ours; dropping it stops the port and unplugs the device, so that
/// its interface or socket vanishes.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) id: u16,
    pub(super) started: bool,
    /// No other process has it, so that it is closed here, though another process has others as well.
    pub(super) is_alone: bool,
    removal: Option<Removal>,
    _environment: Arc<Environment>,
}

impl Device {
    /// What the driver says of the device.
    pub(super) fn info(&self) -> Result<rte_eth_dev_info, c_int> {
        info(self.id)
    }

    /// Listens for the removal of the device.
    pub(super) fn watch_removal(&mut self) {
        let device = self.info().map_or(std::ptr::null_mut(), |info| info.device);
        let name = CString::new(device_name(device)).ok();
        self.removal = name.and_then(|name| Removal::watch(self.id, &name));
    }

    pub(super) fn is_being_removed(&self) -> bool {
        self.removal.as_ref().is_some_and(Removal::is_under_way)
    }

    fn close(&self, device: *mut rte_device) {
        if self.started {
            // SAFETY: the port is ours and its queues are gone: each holds the port.
            unsafe { dpdk_sys::rte_eth_dev_stop(self.id) };
        }
        // SAFETY: the port is ours and stopped.
        unsafe { dpdk_sys::rte_eth_dev_close(self.id) };
        let shared = ports().any(|id| info(id).is_ok_and(|info| info.device == device));
        if !device.is_null() && !shared {
            // SAFETY: the device has no open port any more; it exists until this removes it.
            unsafe { dpdk_sys::rte_dev_remove(device) };
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if are_devices_shared() && !self.is_alone {
            return;
        }
        let _alone = PLUGGING.lock().unwrap_or_else(PoisonError::into_inner);
        let device = self.info().map_or(std::ptr::null_mut(), |info| info.device);
        self.removal = None;
        // There is nobody to tell if a step fails, nor what the driver says of it, and nothing better to do than the
        // next.
        log::capture(|| self.close(device));
    }
}

/// Says whether another process has the same devices. Then nothing is stopped or cleaned up: drivers would take down interfaces
/// that the other process uses, and the kernel closes what this one had when it ends.
pub fn share_devices(are_shared: bool) {
    SHARED.store(are_shared, Ordering::Release);
}

/// Whether another process has the same devices.
pub fn are_devices_shared() -> bool {
    SHARED.load(Ordering::Acquire)
}

/// The port number of a device with some more options, and what was logged in finding it. `before` was logged when the
/// environment started, which tries PCI devices first.
fn find_or_plug(
    settings: &pmdns_config::PortSettings,
    options: &str,
    before: &[String],
) -> Result<(u16, Vec<String>), PortError> {
    let (port, device) = (settings.name.clone(), device_text(&settings.device) + options);
    let name = device.split(',').next().unwrap_or_default();
    let (Ok(c_name), Ok(c_device)) = (CString::new(name), CString::new(device.as_str())) else {
        return Err(PortError::ZeroByte { port, device });
    };
    let _alone = PLUGGING.lock().unwrap_or_else(PoisonError::into_inner);
    // One that is there already has other options.
    if let Some(id) = find(&c_name).filter(|_| options.is_empty()) {
        return Ok((id, Vec::new()));
    }
    // SAFETY: the text outlives the call.
    let (code, messages) = log::capture(|| unsafe { dpdk_sys::rte_dev_probe(c_device.as_ptr()) });
    match find(&c_name) {
        Some(id) if code == 0 => Ok((id, messages)),
        _ => {
            let detail = match advice::detail(&messages) {
                detail if code != 0 => format!("{}: {detail}", error_text(code)),
                detail => detail,
            };
            let known = || advice::device(messages.iter().chain(before));
            let advice = match PciAddress::of(&device).and_then(|_| known()) {
                Some(advice) => advice,
                None => device_advice(&device, &detail),
            };
            Err(PortError::NoDevice { port, device, detail, advice })
        }
    }
}

/// The remedy. What DPDK says comes before what is only likely.
fn device_advice(device: &str, detail: &str) -> &'static str {
    let says = |words: &[&str]| words.iter().any(|word| detail.contains(word));
    let is_over_kernel = device.starts_with("net_tap") || device.starts_with("net_af_");
    if is_over_kernel && says(&["not permitted", "ermission denied"]) {
        "run pmdns as root or with CAP_NET_ADMIN"
    } else if device.starts_with("net_af_xdp") && says(&["queue count", "queue_count"]) {
        "the interface has fewer queues: write a smaller queue_count, or give it more with \
         `ethtool -L IFACE combined N`"
    } else if device.starts_with("net_tap") && says(&["busy", "File exists"]) {
        "another interface has this name, or another program this interface: write another name after iface="
    } else if PciAddress::of(device).is_some() {
        "check the address with `dpdk-devbind.py --status`, bind the device with \
         `dpdk-devbind.py -b vfio-pci ADDRESS`, and see that eal.args does not have --no-pci"
    } else if is_over_kernel {
        "check the spelling of the driver and its options. Check that the driver is installed \
         (apt-get install dpdk), and that the interface name is free. Run pmdns as root or with \
         CAP_NET_ADMIN"
    } else {
        "check the spelling of the driver and its options (net_tap0, net_af_xdp0, net_memif0, ...), \
         and that the driver is installed (apt-get install dpdk)"
    }
}

/// The port of a device by name: its own port's name, or that of a device with another port name.
fn find(name: &CStr) -> Option<u16> {
    let mut id = 0;
    // SAFETY: the name is a C string and `id` can be written.
    let code = unsafe { dpdk_sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &raw mut id) };
    if code == 0 {
        return Some(id);
    }
    ports()
        .find(|&id| info(id).is_ok_and(|info| device_name(info.device) == name.to_string_lossy()))
}

fn device_name(device: *const rte_device) -> String {
    if device.is_null() {
        return String::new();
    }
    // SAFETY: the device belongs to a port that exists.
    owned_text(unsafe { dpdk_sys::rte_dev_name(device) })
}

/// Every port DPDK has and nobody has claimed.
fn ports() -> impl Iterator<Item = u16> {
    let next = |from: u16| {
        // SAFETY: takes any number.
        let id = unsafe { dpdk_sys::rte_eth_find_next_owned_by(from, DPDK_NO_OWNER) };
        u16::try_from(id).ok().filter(|&id| id < DPDK_MAX_PORTS)
    };
    std::iter::successors(next(0), move |&id| next(id + 1))
}

fn info(id: u16) -> Result<rte_eth_dev_info, c_int> {
    // SAFETY: the struct is numbers and nullable pointers; zero is valid for all of them.
    let mut info: rte_eth_dev_info = unsafe { mem::zeroed() };
    // SAFETY: `info` can be written; a port number that does not exist is an error.
    let code = unsafe { dpdk_sys::rte_eth_dev_info_get(id, &raw mut info) };
    if code == 0 { Ok(info) } else { Err(code) }
}

/// The MTU of a port that DPDK configures: that of Ethernet, or a smaller one of the device or of the interface behind it.
fn mtu(of_device: u16, of_interface: Option<u16>) -> u16 {
    // A driver that does not know says 0.
    let most = Some(of_device).filter(|most| *most > 0);
    most.into_iter().chain(of_interface).fold(MTU, u16::min)
}

fn facts(device: &Device, settings: &pmdns_config::PortSettings) -> Result<PortFacts, PortError> {
    let name = &settings.name;
    let refused = |step, code| PortError::Refused {
        port: name.clone(),
        step,
        reason: error_text(code),
        detail: "the device may have been unplugged".to_owned(),
        advice: "",
    };
    let info = device.info().map_err(|code| refused("ask what the port can do", code))?;
    let mut mac = rte_ether_addr { addr_bytes: [0; 6] };
    // SAFETY: `mac` can be written.
    let code = unsafe { dpdk_sys::rte_eth_macaddr_get(device.id, &raw mut mac) };
    if code != 0 {
        return Err(refused("read the port's MAC address", code));
    }
    let (mut rx, mut tx) = (settings.rx_descriptors, settings.tx_descriptors);
    // SAFETY: both numbers can be written.
    let code =
        unsafe { dpdk_sys::rte_eth_dev_adjust_nb_rx_tx_desc(device.id, &raw mut rx, &raw mut tx) };
    if code != 0 {
        return Err(refused("find a number of descriptors that suits the port", code));
    }
    // SAFETY: takes any number; -1 means the node is unknown.
    let node = unsafe { dpdk_sys::rte_eth_dev_socket_id(device.id) };
    let driver = owned_text(info.driver_name);
    Ok(PortFacts {
        name: name.clone(),
        mac: mac.addr_bytes,
        max_rx_queues: info.max_rx_queues,
        max_tx_queues: info.max_tx_queues,
        rx_descriptors: rx,
        tx_descriptors: tx,
        mtu: mtu(info.max_mtu, interface_mtu(Path::new("/"), &settings.device)),
        checksum_offload: settings.checksum_offload
            && info.tx_offload_capa & CHECKSUMS == CHECKSUMS,
        keeps_clients: rss::keeps_clients(info.flow_type_rss_offloads, &driver),
        spreads_flows: rss::spreads_flows(info.flow_type_rss_offloads),
        partial_checksums: FLAGLESS.contains(&driver.as_str()),
        driver,
        numa_node: u32::try_from(node).ok(),
    })
}
