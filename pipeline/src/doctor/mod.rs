//! `pmdns doctor`: whether this machine suits pmdns, and a command for each problem.
//!
//! Each check is a function from [`Facts`] to findings. It reads files below a root, so that tests have machines of their own.

mod cpus;
mod devices;
mod drivers;
mod memory;
mod network;
mod system;
mod tree;

#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::path::PathBuf;

use pmdns_config::{Config, ConfigError, PciAddress};
use serde::Serialize;

use crate::machine::Machine;
use drivers::Driver;
use tree::Tree;

/// How good a finding is, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing has to be changed.
    Ok,
    /// pmdns runs, but slower or less safely than it could.
    Warn,
    /// pmdns does not run, or does not answer.
    Fail,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The check, in a word.
    pub check: &'static str,
    /// How good it is.
    pub level: Level,
    /// The finding.
    pub found: String,
    /// The remedy, mostly a command. `None` if nothing has to be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// The DPDK that this program uses.
#[derive(Clone, Debug)]
pub struct Dpdk {
    /// Its version, as it tells.
    pub version: String,
    /// The folder with its drivers.
    pub drivers: PathBuf,
}

/// All that checks look at.
struct Facts<'f> {
    machine: &'f Machine,
    tree: Tree<'f>,
    config: Option<&'f Config>,
    dpdk: Option<Dpdk>,
    /// DPDK's drivers, if there are ports that need one.
    drivers: Vec<Driver>,
}

/// The checks of the machine, in the order they are told in.
const CHECKS: [fn(&Facts<'_>) -> Vec<Finding>; 18] = [
    system::kernel,
    system::clock,
    system::open_files,
    memory::locked,
    memory::huge_pages,
    memory::huge_page_mount,
    cpus::isolated,
    cpus::siblings,
    cpus::governor,
    cpus::idle_states,
    cpus::numa,
    devices::iommu,
    devices::vfio,
    devices::bound,
    drivers::dpdk,
    drivers::of_ports,
    drivers::firmware,
    network::of_config,
];

/// The findings of all checks on this machine. The config, if there is one, may have mistakes.
pub fn examine(
    config: Option<(&Config, Option<&ConfigError>)>,
    dpdk: Option<Dpdk>,
) -> Vec<Finding> {
    let machine = Machine::this();
    let settings = config.map(|(settings, _)| settings);
    let mut findings = mistakes(config.and_then(|(_, error)| error));
    findings.extend(findings_of(&machine, settings, dpdk));
    findings.extend(settings.map_or_else(Vec::new, network::upstreams));
    findings
}

/// The findings of the checks on a machine.
fn findings_of(machine: &Machine, config: Option<&Config>, dpdk: Option<Dpdk>) -> Vec<Finding> {
    let tree = Tree::new(&machine.root);
    let folder = dpdk.as_ref().filter(|_| config.is_some_and(|config| !config.ports.is_empty()));
    let drivers = folder.map_or_else(Vec::new, |dpdk| drivers::in_folder(&tree, &dpdk.drivers));
    let facts = Facts { machine, tree, config, dpdk, drivers };
    CHECKS.iter().flat_map(|check| check(&facts)).collect()
}

/// The worst level of the findings.
pub fn worst(findings: &[Finding]) -> Level {
    findings.iter().map(|one| one.level).max().unwrap_or(Level::Ok)
}

/// Prints the findings: a line each, and below it the remedy.
pub fn print(findings: &[Finding], out: &mut impl Write) -> io::Result<()> {
    for Finding { check, level, found, fix } in findings {
        let level = match level {
            Level::Ok => "ok",
            Level::Warn => "warn",
            Level::Fail => "fail",
        };
        writeln!(out, "{level:<4}  {check:<10}  {found}")?;
        if let Some(fix) = fix {
            writeln!(out, "{:18}fix: {fix}", "")?;
        }
    }
    Ok(())
}

/// The findings as JSON, with their worst level.
pub fn json(findings: &[Finding]) -> serde_json::Value {
    serde_json::json!({ "worst": worst(findings), "findings": findings })
}

/// A config with mistakes: the parts of it that can be read are checked all the same.
fn mistakes(error: Option<&ConfigError>) -> Vec<Finding> {
    let mistakes = error.map_or(&[][..], ConfigError::mistakes).iter();
    mistakes
        .map(|one| {
            Finding::fail("config", one.to_string(), "correct it; `pmdns check` verifies it")
        })
        .collect()
}

impl Finding {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, found: found.into(), fix: None }
    }

    fn warn(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, level: Level::Warn, found: found.into(), fix: Some(fix.into()) }
    }

    fn fail(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level: Level::Fail, ..Self::warn(check, found, fix) }
    }

    /// A failure if this configuration cannot do without, a warning if no configuration tells.
    fn lacks(
        is_needed: Option<bool>,
        check: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        match is_needed {
            Some(true) => Self::fail(check, found, fix),
            Some(false) => Self::ok(check, format!("{}; not needed here", found.into())),
            None => Self::warn(check, found, fix),
        }
    }
}

impl Facts<'_> {
    /// The CPUs that poll, sorted.
    fn data_cores(&self) -> Vec<usize> {
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
    fn pci_ports(&self) -> Vec<(&str, PciAddress)> {
        let ports = self.config.map_or(&[][..], |config| &config.ports).iter();
        ports.filter_map(|port| Some((port.name.as_str(), PciAddress::of(&port.device)?))).collect()
    }

    /// Whether there are PCI ports. `None`: no configuration tells.
    fn has_pci(&self) -> Option<bool> {
        self.config.map(|_| !self.pci_ports().is_empty())
    }

    /// Whether the EAL is given this argument. `None`: no configuration tells.
    fn has_argument(&self, argument: &str) -> Option<bool> {
        self.config.map(|config| config.eal.args.iter().any(|one| one == argument))
    }
}
