//! The machine: DPDK, ports, and the cores of each stage.

use std::net::IpAddr;

use serde::Deserialize;

use crate::placement::Stretch;
use crate::prefix::InterfaceAddress;
use crate::vlan::Vlan;

/// `[eal]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EalSettings {
    /// Passed to `rte_eal_init` as they are; what the ports need (`-a` for PCI devices) is added.
    pub args: Vec<String>,
}

impl EalSettings {
    /// The value of an option, behind it or in the next argument, with the place of the option.
    pub fn option(&self, name: &str) -> Option<(usize, &str)> {
        self.options(name).next()
    }

    /// The same for an option that may be there several times.
    pub fn options(&self, name: &str) -> impl Iterator<Item = (usize, &str)> {
        let args = self.args.iter().enumerate();
        args.filter_map(move |(index, argument)| {
            let rest = argument.strip_prefix(name)?;
            match rest.strip_prefix('=') {
                Some(value) => Some((index, value)),
                None if rest.is_empty() => Some((index, self.args.get(index + 1)?)),
                None => (!name.starts_with("--")).then_some((index, rest)),
            }
        })
    }

    /// The memory that it asks for, in MiB.
    pub fn mebibytes(&self) -> Option<u64> {
        self.option("-m")?.1.parse().ok()
    }
}

impl Default for EalSettings {
    fn default() -> Self {
        Self { args: vec!["--no-pci".into()] }
    }
}

/// `[[port]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortSettings {
    /// A short name of your choice, used in placements, counters and logs.
    pub name: String,
    /// A PCI address (`0000:01:00.0`), a vdev string (`net_tap0,iface=pm0`) or `replay`.
    pub device: String,
    /// Our own addresses on this port, with prefix lengths. Queries to other addresses are not ours.
    pub addresses: Vec<InterfaceAddress>,
    /// The VLANs this port is on. Frames of others are dropped.
    #[serde(default = "untagged")]
    pub vlans: Vec<Vlan>,
    /// UDP port that queries come to.
    #[serde(default = "dns_port")]
    pub dns_port: u16,
    /// Addresses of ours that upstreams are asked from over this port. They are used for nothing else.
    #[serde(default)]
    pub query_sources: Vec<IpAddr>,
    /// Routers on the link, the preferred one first. They forward queries to upstreams outside our networks.
    #[serde(default)]
    pub gateways: Vec<IpAddr>,
    /// The interface of the kernel that stands for this port, as in `pm-edge`; absent: none.
    pub tap: Option<String>,
    /// The kernel sends by that interface, to the first gateway of each family, what it has no other route for.
    #[serde(default)]
    pub tap_default_route: bool,
    /// The kernel keeps its own interface of the device, and gets what is not ours.
    #[serde(default)]
    pub share_with_kernel: bool,
    /// Descriptors per RX queue.
    #[serde(default = "descriptors")]
    pub rx_descriptors: u16,
    /// Descriptors per TX queue.
    #[serde(default = "descriptors")]
    pub tx_descriptors: u16,
    /// Use the port's checksum offloads where it has them.
    #[serde(default = "yes")]
    pub checksum_offload: bool,
    /// Receive frames for every MAC address.
    #[serde(default)]
    pub promiscuous: bool,
    /// How long to wait at start for the link to come up; 0 does not wait.
    #[serde(default = "link_wait_ms")]
    pub link_wait_ms: u64,
}

impl PortSettings {
    /// A port without addresses, with the default of everything else.
    pub fn new(name: &str, device: &str) -> Self {
        Self {
            name: name.into(),
            device: device.into(),
            addresses: Vec::new(),
            vlans: untagged(),
            dns_port: dns_port(),
            query_sources: Vec::new(),
            gateways: Vec::new(),
            tap: None,
            tap_default_route: false,
            share_with_kernel: false,
            rx_descriptors: descriptors(),
            tx_descriptors: descriptors(),
            checksum_offload: yes(),
            promiscuous: false,
            link_wait_ms: link_wait_ms(),
        }
    }

    /// Whether a frame can be sent to `address` without a gateway: it is in the network of one of our addresses.
    /// Link-local IPv6 addresses always are (RFC 4861 section 5.1).
    pub fn is_on_link(&self, address: IpAddr) -> bool {
        let is_link_local = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        is_link_local || self.addresses.iter().any(|ours| ours.is_on_link(address))
    }

    /// Whether a gateway has the family of `address`.
    pub fn has_gateway_for(&self, address: IpAddr) -> bool {
        self.gateways.iter().any(|gateway| gateway.is_ipv4() == address.is_ipv4())
    }
}

/// `[[placement]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// A stretch of the line: `"parse..encode"`, `"parse..ratelimit"`, `"lookup"`.
    #[serde(default = "whole_line")]
    pub stages: Stretch,
    /// The CPUs that run it, one worker each.
    pub cores: Vec<usize>,
    /// The behaviour of a worker when its queues are empty.
    #[serde(default)]
    pub idle: Idle,
    /// Each of its cores resolves misses too, instead of a slow path thread.
    #[serde(default)]
    pub resolver: bool,
}

/// The behaviour of a worker when its queues are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Idle {
    /// Poll again at once: lowest latency, the core always shows 100 %.
    Spin,
    /// Spin a little, then pause, then sleep up to 200 us.
    #[default]
    Adaptive,
}

/// `[frames]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Frames {
    /// Packet buffers in the pool; 0 computes them from descriptors, rings and batches.
    pub count: u32,
    /// Frames taken from a queue at a time, 1 to 64.
    pub batch: u16,
    /// Slots in each ring between two cores; a power of two.
    pub ring: u32,
}

impl Default for Frames {
    fn default() -> Self {
        Self { count: 0, batch: 32, ring: 1024 }
    }
}

/// `[exceptions]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Exceptions {
    /// ARP, neighbour discovery and BFD over one hop that one core passes from one port to its TAP in a second; 0: no limit.
    pub link_per_second: u32,
    /// The same of BGP except new connections, and BFD over several hops, of known routers.
    pub control_per_second: u32,
    /// The same of DNS over streams: TCP to the ports 53, 443 and 853, UDP to 443 and 853.
    pub streams_per_second: u32,
    /// The same of everything else.
    pub rest_per_second: u32,
}

impl Default for Exceptions {
    fn default() -> Self {
        Self {
            link_per_second: 10_000,
            control_per_second: 10_000,
            streams_per_second: 50_000,
            rest_per_second: 10_000,
        }
    }
}

fn untagged() -> Vec<Vlan> {
    vec![Vlan::Untagged]
}

fn dns_port() -> u16 {
    53
}

fn descriptors() -> u16 {
    1024
}

fn link_wait_ms() -> u64 {
    3000
}

fn whole_line() -> Stretch {
    Stretch::ALL
}

fn yes() -> bool {
    true
}
