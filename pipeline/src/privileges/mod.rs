//! Privileges that the process gives up when everything is open. These are capabilities, new privileges, files that it
//! does not use, and system calls that only an intruder needs. docs/adr/0030-privileges-after-start.md gives the
//! reasons.
//!
//! Every thread gives them up, including those of DPDK. Threads share memory, so one thread that kept its privileges
//! would give them to all.

mod capabilities;
mod landlock;
mod obstacles;
mod places;
mod seccomp;
mod status;
mod threads;

use std::path::PathBuf;

use pmdns_config::{Config, Privileges};
use pmdns_control::report::PrivilegeReport;
use rustix::process::{Resource, Rlimit, setrlimit};

use capabilities::Needs;
pub use places::GrantedPaths;
use status::Status;
use threads::Restriction;

/// Gives up the privileges that are not needed from now on, as far as the kernel and the configuration allow, and logs
/// the result. Everything that `config` names is already open or is in `places`.
pub fn restrict(config: &Config, places: &GrantedPaths) -> PrivilegeReport {
    if config.process.privileges == Privileges::Keep {
        tracing::warn!("privileges are kept, as set by `process.privileges`");
        return of_this_process();
    }
    if !places.devices.is_empty() {
        // A device that is opened again locks memory, and the right to lock any amount goes.
        let any = Rlimit { current: None, maximum: None };
        let _best_effort = setrlimit(Resource::Memlock, any);
    }
    let needs = Needs::of(config);
    let ruleset = landlock::ruleset(places);
    let ruleset = ruleset
        .map_err(|problem| tracing::warn!("no Landlock: {problem}; every file can be used"))
        .ok();
    let restriction = Restriction { capabilities: needs.capabilities, ruleset };
    let is_confined = match threads::restrict_all(&restriction) {
        Ok(count) => {
            tracing::debug!("{count} threads have given up their privileges");
            restriction.ruleset.is_some()
        }
        Err(problem) => {
            tracing::error!("not every thread has given up its privileges: {problem}");
            false
        }
    };
    let filtered = seccomp::filter(needs.bpf);
    if let Err(problem) = &filtered {
        tracing::warn!("no seccomp: {problem}; this process filters no system call");
    }
    let report = report(status::of_process(), is_confined, filtered.is_ok());
    let report = PrivilegeReport { obstacles: obstacles::find(places), ..report };
    announce(&report, places);
    report
}

/// The rights of a process that has not given up any yet.
pub fn of_this_process() -> PrivilegeReport {
    report(status::of_process(), false, false)
}

/// The report of these rights. The kernel shows that there is a filter, not whose: a service manager's does not count for ours.
fn report(status: Status, landlock: bool, is_filtered: bool) -> PrivilegeReport {
    PrivilegeReport {
        capabilities: capabilities::names(status.capabilities),
        no_new_privileges: status.no_new_privileges,
        landlock,
        seccomp: status.seccomp && is_filtered,
        obstacles: Vec::new(),
    }
}

fn announce(report: &PrivilegeReport, places: &GrantedPaths) {
    for obstacle in &report.obstacles {
        tracing::warn!("{obstacle} (docs/operations.md, Privileges)");
    }
    let capabilities = match &report.capabilities[..] {
        [] => "no capabilities".to_owned(),
        some => format!("capabilities {}", some.join(", ")),
    };
    let has = |is: bool, what: &str| format!("{}{what}", if is { "" } else { "NO " });
    tracing::info!(
        "privileges: {capabilities}, {}, {}, {}",
        has(report.no_new_privileges, "no-new-privs"),
        has(report.landlock, "Landlock"),
        has(report.seccomp, "seccomp"),
    );
    if report.landlock {
        let list = |paths: &[PathBuf]| {
            let texts: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            if texts.is_empty() { "nothing".to_owned() } else { texts.join(", ") }
        };
        tracing::info!("reads {}; writes {}", list(&places.read), list(&places.write));
        let devices: Vec<_> = places.devices.iter().chain(&places.pages).cloned().collect();
        let (sockets, devices) = (list(&places.sockets), list(&devices));
        tracing::info!("to open ports again: makes sockets in {sockets}; uses {devices}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_of_the_service_manager_is_not_ours() {
        let filtered = Status { seccomp: true, ..Status::default() };
        assert!(report(filtered, true, true).seccomp);
        assert!(!report(filtered, true, false).seccomp, "ours could not be set");
        assert!(!report(Status::default(), true, true).seccomp, "a thread has none");
    }
}
