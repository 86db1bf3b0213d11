//! Facts for the checks.

use pmdns_config::{Config, PciAddress, WrittenConfig};
use pmdns_nics::machine::{Machine, UnmetCondition};

use super::drivers::Driver;
use super::tree::Tree;
use crate::program::Dpdk;

/// All that checks look at.
pub(super) struct Facts<'f> {
    pub(super) machine: &'f Machine,
    pub(super) tree: Tree<'f>,
    pub(super) config: Option<&'f Config>,
    /// The same as it was written.
    pub(super) written: Option<WrittenConfig>,
    pub(super) dpdk: Option<Dpdk>,
    /// The conditions of the configuration that the machine does not meet.
    pub(super) unmet: Vec<UnmetCondition>,
    /// DPDK's drivers, if there are ports that need one.
    pub(super) drivers: Vec<Driver>,
}

impl Facts<'_> {
    /// The CPUs that poll, sorted.
    pub(super) fn data_cores(&self) -> Vec<usize> {
        // As in the plan of `run`.
        let last = self.machine.cores.last().copied();
        let Some(config) = self.config else { return last.into_iter().collect() };
        let groups = config.placements_or_default(last.unwrap_or(0));
        let mut cores: Vec<usize> = groups.iter().flat_map(|group| group.cores.clone()).collect();
        cores.sort_unstable();
        cores.dedup();
        cores
    }

    /// The PCI addresses of ports, with the ports' names.
    pub(super) fn pci_ports(&self) -> Vec<(&str, PciAddress)> {
        let ports = self.config.map_or(&[][..], |config| &config.ports).iter();
        ports.filter_map(|port| Some((port.name.as_str(), PciAddress::of(&port.device)?))).collect()
    }

    /// Whether there are PCI ports. `None`: no configuration tells.
    pub(super) fn has_pci(&self) -> Option<bool> {
        self.config.map(|_| !self.pci_ports().is_empty())
    }

    /// Whether the EAL is given this argument. `None`: no configuration tells.
    pub(super) fn has_argument(&self, argument: &str) -> Option<bool> {
        self.config.map(|config| config.eal.args.iter().any(|one| one == argument))
    }
}
