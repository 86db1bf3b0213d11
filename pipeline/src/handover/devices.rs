//! Ports whose device one process at a time can have: the peer at its other end knows one. The process before closes it, and then
//! the next one opens it. Until then the next one plans with what the process before knows of it.

use std::collections::BTreeSet;
use std::path::Path;

use pmdns_config::{PortSettings, device_name};
use pmdns_handover::PassedDevice;
use pmdns_nics::PortFacts;
use pmdns_nics::device::{ROOT, is_on_vfio};
use pmdns_nics::dpdk::VHOST_NET;
use serde::Deserialize as _;

use super::process::{HandoverError, cannot_pass};

/// Drivers whose devices have a peer that connects again. They make up a hardware address at each start, if none is written.
const WITH_PEER: [&str; 2] = ["net_memif", "net_virtio_user"];

/// Whether one process at a time can have the device of a port. Some devices cannot be closed for a moment. The peer of a vhost
/// port may not come back. The interface of a port over vhost-net would go, and its addresses with it. The kernel would answer what
/// comes to a device that it shares. A device that is not on vfio could not be opened again without the rights of the start.
pub(crate) fn is_exclusive(port: &PortSettings) -> bool {
    let is_pci = is_on_vfio(Path::new(ROOT), &port.device) && !port.share_with_kernel;
    is_pci || has_peer(port) && !port.device.contains(VHOST_NET)
}

/// Whether the device of a port has a peer that connects again.
pub(super) fn has_peer(port: &PortSettings) -> bool {
    peers_driver(&port.device).is_some()
}

fn peers_driver(device: &str) -> Option<&'static str> {
    WITH_PEER.into_iter().find(|driver| device.trim_start().starts_with(driver))
}

/// What is said of a device to the next process.
pub(crate) fn passed(port: &PortSettings, facts: &PortFacts) -> PassedDevice {
    let device = port.device.clone();
    // Numbers and texts always have a form in JSON.
    PassedDevice { device, facts: serde_json::to_value(facts).unwrap_or_default() }
}

/// What the port will be that the process before has yet. `None`: it has no such device. If it has the same one with other
/// options, nobody knows what the port will be, and to open it beside the other process would disturb that.
pub(crate) fn planned(
    port: &PortSettings,
    before: &[PassedDevice],
) -> Result<Option<PortFacts>, HandoverError> {
    let name = &port.name;
    let refused = |what| HandoverError::Refused(cannot_pass(format!("port `{name}`: {what}")));
    let Some(passed) = before.iter().find(|passed| passed.device == port.device) else {
        let is_taken = is_exclusive(port)
            && before.iter().any(|passed| end(&passed.device) == end(&port.device));
        return if is_taken { Err(refused("other options of its device")) } else { Ok(None) };
    };
    let facts = PortFacts::deserialize(&passed.facts).map_err(|_| refused("its device"))?;
    Ok(Some(PortFacts {
        name: name.clone(),
        // A driver has a least number.
        rx_descriptors: port.rx_descriptors.max(facts.rx_descriptors),
        tx_descriptors: port.tx_descriptors.max(facts.tx_descriptors),
        checksum_offload: facts.checksum_offload && port.checksum_offload,
        ..facts
    }))
}

/// What leads to the peer of a device, in any order: the address, or the driver and the options that name the other end.
fn end(device: &str) -> (String, BTreeSet<&str>) {
    let Some(driver) = peers_driver(device) else { return (device_name(device), BTreeSet::new()) };
    let is_default = |option: &&str| ["id=0", "socket=/run/memif.sock"].contains(option);
    let names_it = |option: &&str| {
        ["path=", "iface=", "socket=", "id="].iter().any(|name| option.starts_with(name))
    };
    let options = device.split(',').map(str::trim).filter(names_it);
    (driver.to_owned(), options.filter(|option| !is_default(option)).collect())
}

#[cfg(test)]
mod tests {
    use pmdns_nics::Nic as _;

    use super::*;

    fn facts() -> PortFacts {
        pmdns_nics::memory::link("before", 0, 1, 1).0.facts().clone()
    }

    fn plan(device: &str) -> Result<Option<PortFacts>, HandoverError> {
        let before =
            PortSettings::new("before", "net_memif0,socket=/run/a,id=1,mac=02:00:00:00:00:aa");
        planned(&PortSettings::new("after", device), &[passed(&before, &facts())])
    }

    #[test]
    fn a_port_is_planned_with_what_the_process_before_knows_of_its_device() {
        let planned = plan("net_memif0,socket=/run/a,id=1,mac=02:00:00:00:00:aa").unwrap();
        assert_eq!(planned, Some(PortFacts { name: "after".to_owned(), ..facts() }));
    }

    #[test]
    fn another_device_is_opened_at_once_and_the_same_one_with_other_options_is_refused() {
        for other in [
            "net_memif0,socket=/run/a,id=2",
            "net_memif0,socket=/run/b,id=1",
            "net_vhost0,iface=/run/a",
        ] {
            assert_eq!(plan(other).unwrap(), None, "{other}");
        }
        assert_eq!(plan("0000:01:00.0").unwrap(), None);
        let default = |device| end(device) == end("net_memif0");
        assert!(default("net_memif1,id=0,socket=/run/memif.sock") && !default("net_memif1,id=1"));
        let refused = plan("net_memif7,id=1,socket=/run/a,bsize=9000").unwrap_err().to_string();
        assert!(refused.contains("port `after`: other options of its device"), "{refused}");
    }
}
