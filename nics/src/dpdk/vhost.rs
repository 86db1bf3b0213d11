//! An interface of the kernel over vhost-net: a TAP whose other end is a DPDK port in this process (virtio-user, DPDK's
//! "Virtio_user as Exception Path"). A thread of the kernel copies frames between the two, so none has a system call of its own.

use std::fs::{self, File};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::thread::sleep;
use std::time::Duration;

use pmdns_config::PortSettings;

use super::{DpdkNic, Eal, Mempool, PortError};
use crate::tap::{name_in, request_of};
use crate::{
    Burst, FramePool, KERNEL_DESCRIPTORS, KernelEnd, PortPlan, Rss, RxQueue, TUN, Tap, TxQueue,
};

/// The file of the kernel's vhost-net.
pub const VHOST_NET: &str = "/dev/vhost-net";

/// Why there is no interface over vhost-net.
#[derive(Debug, thiserror::Error)]
pub enum VhostError {
    /// The kernel has no vhost-net, or not for this process.
    #[error("{VHOST_NET}: {0}")]
    Vhost(io::Error),
    /// The port did not come up.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The driver made no interface that the kernel knows.
    #[error("its driver made no interface: {0}")]
    Interface(#[from] io::Error),
}

/// One interface. It lasts as long as this value.
pub struct VhostTap {
    rx: Box<dyn RxQueue>,
    tx: Box<dyn TxQueue>,
    nic: DpdkNic,
    /// Frames that the port counted as too long, as far as told.
    too_long: u64,
    /// The driver's own TAP, for what it has no call for.
    tap: Tap,
}

impl Eal {
    /// Makes an interface of the kernel of this name, over vhost-net. Frames it receives come from `pool`.
    ///
    /// # Errors
    ///
    /// The kernel has no vhost-net, or does not give it to this process; the driver is not installed.
    pub fn open_vhost(&self, name: &str, pool: &Mempool) -> Result<VhostTap, VhostError> {
        // The driver would take a path that is not there for a socket to be made.
        File::options().read(true).write(true).open(VHOST_NET).map_err(VhostError::Vhost)?;
        let plan = PortPlan { rx_queues: 1, tx_queues: 1, rss: Rss::None, interrupts: false };
        let (nic, queues) = self.open(&settings(name), 0)?.start(&plan, pool)?;
        let (rx, tx) = (queues.rx.into_iter().next(), queues.tx.into_iter().next());
        let (rx, tx) = rx.zip(tx).expect("the plan has one of each");
        Ok(VhostTap { rx, tx, nic, too_long: 0, tap: opened(name)? })
    }
}

/// The port behind the interface `name`. The kernel gets and gives whole checksums, as by a TAP without vhost-net.
fn settings(name: &str) -> PortSettings {
    let options = format!("path={VHOST_NET},iface={name},queues=1,queue_size={KERNEL_DESCRIPTORS}");
    PortSettings {
        tap: Some(name.to_owned()),
        rx_descriptors: KERNEL_DESCRIPTORS,
        tx_descriptors: KERNEL_DESCRIPTORS,
        checksum_offload: false,
        link_wait_ms: 0,
        ..PortSettings::new(name, &format!("net_virtio_user_{name},{options}"))
    }
}

impl VhostTap {
    /// Faults of the start that do not keep it from working.
    pub fn warnings(&self) -> &[String] {
        self.nic.warnings()
    }
}

impl KernelEnd for VhostTap {
    fn receive(&mut self, _pool: &FramePool, burst: &mut Burst, limit: usize) -> io::Result<usize> {
        if self.rx.receive(burst, limit) == 0 {
            // The queues say nothing of an interface that was deleted.
            request_of(&self.tap.file)?;
        }
        let before = std::mem::replace(&mut self.too_long, self.nic.unfit());
        Ok(usize::try_from(self.too_long - before).unwrap_or(usize::MAX))
    }

    fn transmit(&mut self, burst: &mut Burst) -> io::Result<()> {
        self.tx.transmit(burst);
        if burst.is_empty() { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    fn set_link(&mut self, is_up: bool) -> io::Result<()> {
        self.tap.set_link(is_up)
    }

    fn wait(&self, most: Duration) {
        sleep(most);
    }
}

/// The TAP of this name that the driver has open. It has no call that gives it.
fn opened(name: &str) -> io::Result<Tap> {
    for entry in fs::read_dir("/proc/self/fd")?.flatten() {
        let is_one = fs::read_link(entry.path()).is_ok_and(|path| path.as_os_str() == TUN);
        let number: Option<RawFd> = entry.file_name().to_str().and_then(|fd| fd.parse().ok());
        let Some(number) = number.filter(|_| is_one) else { continue };
        // SAFETY: the kernel just listed it. If another thread closes it, the copy fails, or it is one of another file,
        // which then does not have the name.
        let file = unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned()?;
        let tap = Tap { file: file.into() };
        if request_of(&tap.file).is_ok_and(|own| name_in(&own) == name) {
            return Ok(tap);
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_has_the_interface_of_the_tap_and_no_offloads() {
        let port = settings("pm-edge");
        let device =
            "net_virtio_user_pm-edge,path=/dev/vhost-net,iface=pm-edge,queues=1,queue_size=256";
        assert_eq!(port.device, device);
        assert!(!port.checksum_offload && port.tap.is_some(), "the kernel may be in any group");
    }
}
