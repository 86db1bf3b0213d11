//! The XDP program of an AF_XDP port that is shared with the kernel (`share_with_kernel`).
//!
//! `filter.c` is compiled when this crate is. A copy of it with the port's settings is kept in memory, and the `xdp_prog`
//! option of `net_af_xdp` names that copy. The driver has libbpf load it, puts its sockets into the map `xsks_map`, and
//! takes the program off the interface when the port closes. A process that takes over finds it there.
//!
//! | to | frames | for us |
//! |---|---|---|
//! | a service address | UDP to `dns_port`, whole datagrams | yes |
//! | | echo requests, ARP requests, neighbour solicitations | yes |
//! | | all else: TCP, fragments, ARP replies, ICMP errors | the kernel's |
//! | a query source | everything | yes |
//! | another address | everything | the kernel's |
//!
//! Frames of other VLANs are the kernel's, and so are unreadable ones.

pub(crate) mod bpf;
mod leftover;
#[cfg(test)]
mod run;
mod settings;
mod steering;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{MemfdFlags, memfd_create};

use pmdns_config::PortSettings;

pub(crate) use self::steering::Descriptors;
pub use self::steering::XdpSteering;
use crate::groups;

/// The driver that takes the program.
const DRIVER: &str = "net_af_xdp";
/// The program as compiled, an ELF object.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/filter.o"));

/// The interface of a port over AF_XDP.
#[derive(Debug)]
pub(crate) struct Interface {
    name: String,
    /// The number of the first queue.
    first_queue: u32,
    /// Whether the kernel gets what is not ours.
    is_shared: bool,
    /// The program of a port that is shared, in a file without a name. The driver reads it when the port starts. `None`: there is
    /// none, or it is on the interface already.
    program: Option<File>,
}

impl Interface {
    /// The interface of `port`, without a program of ours, or with that of the process that runs, if this one is `beside` it.
    /// `None`: the port is not over AF_XDP.
    pub(crate) fn of(port: &PortSettings, beside: bool) -> io::Result<Option<Self>> {
        let Some(name) = interface(&port.device) else { return Ok(None) };
        let is_shared = port.share_with_kernel;
        let program = if beside {
            check_settings(leftover::settings(name)?, port)?;
            None
        } else {
            let is_left = || matches!(leftover::settings(name), Ok(Some(_)));
            match leftover::remove(name) {
                Err(error) if is_shared || is_left() => return Err(error),
                // The driver loads a program of its own, and says what keeps it from that.
                _ => {}
            }
            is_shared.then(|| program(port)).transpose()?
        };
        let first_queue = first_queue(&port.device);
        Ok(Some(Self { name: name.to_owned(), first_queue, is_shared, program }))
    }

    /// Whether the program of `port` is on the interface yet. Without it the driver would load its own, which leaves the kernel
    /// nothing.
    pub(crate) fn check(&self, port: &PortSettings) -> io::Result<()> {
        check_settings(leftover::settings(&self.name)?, port)
    }

    /// The options that the device text needs.
    pub(crate) fn options(&self) -> String {
        let option = |file: &File| format!(",xdp_prog=/proc/self/fd/{}", file.as_raw_fd());
        self.program.as_ref().map(option).unwrap_or_default()
    }

    /// Has the kernel join the groups of `port`: the driver has no list of groups. It lasts as long as what this gives.
    pub(crate) fn join_groups(&self, port: &PortSettings) -> io::Result<Vec<OwnedFd>> {
        groups::join(&self.name, &groups::of(port))
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The number that the interface has for a queue of the port.
    pub(crate) fn queue(&self, of_port: u16) -> u32 {
        self.first_queue + u32::from(of_port)
    }

    /// Whether the kernel gets what is not ours.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }
}

/// The name of somebody else's XDP program on `interface`, which would keep a port of ours from it.
pub fn program_of_others(interface: &str) -> Option<String> {
    leftover::of_others(interface)
}

/// The interface that the text of an AF_XDP device names.
fn interface(device: &str) -> Option<&str> {
    let mut words = device.split(',');
    words.next().filter(|name| name.starts_with(DRIVER))?;
    words.find_map(|option| option.strip_prefix("iface="))
}

/// The queue that the text of an AF_XDP device names as the first one.
fn first_queue(device: &str) -> u32 {
    let mut options = device.split(',');
    let number = options.find_map(|option| option.trim().strip_prefix("start_queue="));
    number.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// Whether the program that is on the interface is the one of this port: it stays while one process takes over from another.
fn check_settings(there: Option<Vec<u8>>, port: &PortSettings) -> io::Result<()> {
    let wanted = port.share_with_kernel.then(|| settings::bytes(port));
    let is_same = match (there, wanted) {
        (Some(there), Some(wanted)) => there.starts_with(&wanted),
        (there, wanted) => there.is_none() && wanted.is_none(),
    };
    let keys = "`share_with_kernel`, `addresses`, `query_sources`, `dns_port` and `vlans`";
    let why = || format!("its XDP program stays in a hand-over, so {keys} have to be the same");
    if is_same { Ok(()) } else { Err(io::Error::other(why())) }
}

fn program(port: &PortSettings) -> io::Result<File> {
    let mut file = File::from(memfd_create("pmdns-filter", MemfdFlags::CLOEXEC)?);
    file.write_all(&object(port))?;
    Ok(file)
}

/// The object with the settings of `port` in it.
fn object(port: &PortSettings) -> Vec<u8> {
    let mut object = OBJECT.to_vec();
    let settings = settings::bytes(port);
    let place = place_of_settings(&object);
    object[place..place + settings.len()].copy_from_slice(&settings);
    object
}

/// Where the settings begin: they have a name in front, which stands there once.
fn place_of_settings(object: &[u8]) -> usize {
    let mut windows = object.windows(settings::NAME.len());
    windows.position(|bytes| bytes == settings::NAME).expect("the program has settings")
}
