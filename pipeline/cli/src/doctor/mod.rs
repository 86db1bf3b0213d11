//! `pmdns doctor`: whether this machine suits pmdns, and a command for each problem.
//!
//! Each check is a function from [`Facts`] to findings. It reads files below a root, so that tests have machines of their own.

mod cpus;
mod devices;
mod drivers;
mod facts;
mod finding;
mod memory;
mod network;
mod system;
mod tree;

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use pmdns_config::{Config, ConfigError, ConfigText, WrittenConfig};
use pmdns_nics::machine::{Machine, UnmetCondition};

use crate::program::{Dpdk, Program};
use facts::Facts;
pub(crate) use finding::{Finding, Level};
use tree::Tree;

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
pub(crate) fn examine(config: Option<&ConfigText>, program: &impl Program) -> Vec<Finding> {
    let machine = Machine::this();
    let settings = config.map(|text| &text.config);
    let mut findings = mistakes(config.and_then(|text| text.error.as_ref()));
    let written = config.map(ConfigText::written);
    let unmet = settings.map_or_else(Vec::new, |config| program.unmet(&machine, config));
    findings.extend(findings_of(&machine, settings, written, unmet, program.dpdk()));
    findings.extend(settings.map_or_else(Vec::new, network::upstreams));
    findings
}

/// The findings of the checks on a machine.
fn findings_of(
    machine: &Machine,
    config: Option<&Config>,
    written: Option<WrittenConfig>,
    unmet: Vec<UnmetCondition>,
    dpdk: Option<Dpdk>,
) -> Vec<Finding> {
    let tree = Tree::new(&machine.root);
    let folder = dpdk.as_ref().filter(|_| config.is_some_and(|config| !config.ports.is_empty()));
    let drivers = folder.map_or_else(Vec::new, |dpdk| drivers::in_folder(&tree, &dpdk.drivers));
    let facts = Facts { machine, tree, config, written, dpdk, unmet, drivers };
    CHECKS.iter().flat_map(|check| check(&facts)).collect()
}

/// The worst level of the findings.
pub(crate) fn worst(findings: &[Finding]) -> Level {
    findings.iter().map(|one| one.level).max().unwrap_or(Level::Ok)
}

/// Prints the findings: a line each, and below it the remedy.
pub(crate) fn print(findings: &[Finding], out: &mut impl Write) -> io::Result<()> {
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
pub(crate) fn json(findings: &[Finding]) -> serde_json::Value {
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
